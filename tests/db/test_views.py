"""The ledger by SQL: every table and column people know, and the look-ups they ask for."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from turntree.api import Tree
from turntree.core.canonical import Json, canonical
from turntree.core.compaction import Compaction
from turntree.core.event import Event
from turntree.core.ids import RunId, Timestamp, TurnId
from turntree.core.manifest import Manifest, ManifestEntry
from turntree.core.message import Message, Text, ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.core.run import RunEvent
from turntree.core.session import Spawn
from turntree.core.usage import ModelCall, Usage
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

TAKE_PLACE = """
SELECT set_config('turntree.workspace', %s, false),
  set_config('turntree.viewer', 'human:ana', false)
"""
pytestmark = pytest.mark.anyio

COLUMNS = {
    "turns": "id parent_turn_id turn_type status started_at completed_at model provider role "
    "toolset_name tools_available permissions_granted permissions_used input_tokens output_tokens "
    "cached_input_tokens cache_write_tokens reasoning_tokens total_tokens query_message_ids "
    "response_message_id has_children tool_call_count source_event_id workspace_path",
    "threads": "turn_id ancestry total_tokens depth persona_id system_prompt_hash thread_key",
    "sessions": "label thread_id persona_id is_subagent parent_session_label parent_turn_id "
    "spawn_tool_call_id task_description task_status routing_key origin origin_session_id "
    "created_at updated_at status",
    "messages": "id turn_id role content source sequence created_at thinking context_json "
    "metadata_json",
    "tool_calls": "id turn_id message_id tool_name tool_number params_json result_json error "
    "status spawned_session_label started_at completed_at sequence",
    "compactions": "turn_id summary summarized_through_turn_id first_kept_turn_id "
    "turns_summarized compaction_type model provider tokens_before tokens_after summary_tokens "
    "summarization_input_tokens summarization_output_tokens duration_ms trigger metadata_json",
    "session_history": "id session_label thread_id changed_at",
    "session_aliases": "alias session_label created_at reason",
    "message_files": "id message_id kind file_path line_start line_end",
    "message_lints": "id message_id file_path message lint_source start_line start_col end_line "
    "end_col severity",
    "message_codeblocks": "id message_id idx language content file_path line_start line_end",
}

CODE = "Try this:\n```python src/a.py\nprint(1)\n```\nand that:\n```\nx\n```"


@pytest.fixture
async def turns(tree: Tree, world: FakeClock) -> list[TurnId]:
    """A small history with one of everything, and a body that holds a NUL."""
    context: dict[str, Json] = {
        "files": [TouchedFile("read", "src/a.py", 3, 9).to_json()],
        "lints": [{"path": "src/a.py", "message": "unused", "line_start": 4, "severity": "error"}],
    }
    asked = Message("user", (Text("why \x00 \\u0000?"),), "human", context=context)
    reply = [
        assistant(ToolUse("c1", "fs.read", {"path": "src/a.py"})),
        tool(ToolResult("c1", "ok", "text")),
        assistant(ToolUse("c2", "exec", {})),
        tool(ToolResult("c2", "error", "no such program")),
        assistant(CODE),
    ]
    calls = [ModelCall("m", Usage(10, 5, 20, 3, 2), "p", "q1")]
    one = await tree.turns.record("main", [asked], reply, calls=calls)
    two = await tree.turns.record("main", [user("go on")], [assistant("done")])
    details = Compaction(one.turn.id, two.turn.id, 1)
    three = await tree.turns.record("main", [], [assistant("in short")], compaction=details)
    main = await tree.sessions.get("main")
    spawn = Spawn(main.id, one.turn.id, "c1", "fresh", "look around")
    await tree.sessions.create("worker", spawn=spawn)
    await tree.sessions.fork(one.turn.id, "side")
    await tree.sessions.alias("main", "entity:ana")
    run = RunId(world.new_id())
    started = Event(run, 0, "run.started", world.now(), {"parent": three.turn.id, "model": "m"})
    await tree.ledger.start(run, main.id, RunEvent(started))
    return [one.turn.id, two.turn.id, three.turn.id]


@pytest.fixture
def ask(turns: list[TurnId], conninfo: str, database: Database) -> Generator["Ask", None, None]:
    """A person with the reader's role, inside the workspace."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET ROLE turntree_reader")
        connection.execute(TAKE_PLACE, (str(database.workspace),))
        yield Ask(connection)


class Ask:
    """Asks one thing at a time."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def __call__(self, query: LiteralString, *params: object) -> list[Any]:
        """Return the rows, or the values if a row has one."""
        rows = self._connection.execute(query, params).fetchall()
        return [row[0] if len(row) == 1 else row for row in rows]

    def run(self, statement: sql.SQL | sql.Composed) -> list[Any]:
        """Return the rows of a statement that was put together safely."""
        return self._connection.execute(statement).fetchall()


@pytest.mark.parametrize("table", COLUMNS)
async def test_every_table_and_column_is_there(ask: Ask, table: str) -> None:
    found = ask(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = 'ledger' AND table_name = %s",
        table,
    )
    assert set(COLUMNS[table].split()) <= set(found)


async def test_a_turn_and_an_open_run_stand_side_by_side(ask: Ask, turns: list[TurnId]) -> None:
    assert ask("SELECT status, count(*) FROM ledger.turns GROUP BY 1 ORDER BY 1") == [
        ("completed", 3),
        ("pending", 1),
    ]
    ((kind, total, calls, children, query, reply),) = ask(
        "SELECT turn_type, total_tokens, tool_call_count, has_children, query_message_ids,"
        " response_message_id FROM ledger.turns WHERE id = %s",
        turns[0],
    )
    assert (kind, total, calls, children) == ("normal", 38, 2, True)
    assert (query, reply) == ([f"{turns[0]}/0"], f"{turns[0]}/5")


async def test_a_thread_has_its_ancestry_and_its_key(ask: Ask, turns: list[TurnId]) -> None:
    ((ancestry, depth, key, total),) = ask(
        "SELECT ancestry, depth, thread_key, total_tokens FROM ledger.threads WHERE turn_id = %s",
        turns[2],
    )
    assert (ancestry, depth, key, total) == (turns, 3, f"turn:{turns[2]}", 38)
    assert ask("SELECT turn_id::text FROM ledger.thread(%s) ORDER BY depth", turns[2]) == turns


async def test_the_children_of_a_turn_follow_it(ask: Ask, turns: list[TurnId]) -> None:
    found = "SELECT turn_id::text FROM ledger.children(%s)"
    assert [ask(found, turn) for turn in turns] == [[turns[1]], [turns[2]], []]


async def test_a_zero_character_does_not_stop_a_scan(ask: Ask, turns: list[TurnId]) -> None:
    said = "SELECT content FROM ledger.messages WHERE turn_id = %s AND sequence = 0"
    assert ask(said, turns[0]) == ["why � \\u0000?"]
    assert ask("SELECT count(*) FROM ledger.messages WHERE role = 'user'") == [2]
    assert ask("SELECT role FROM ledger.message(%s)", f"{turns[1]}/1") == ["assistant"]


async def test_calls_are_found_by_tool_and_by_what_they_spawned(
    ask: Ask, turns: list[TurnId]
) -> None:
    assert ask(
        "SELECT id, status, error, sequence FROM ledger.tool_calls WHERE turn_id = %s ORDER BY 4",
        turns[0],
    ) == [("c1", "completed", None, 0), ("c2", "failed", "no such program", 1)]
    assert ask(
        "SELECT params_json, result_json, message_id, spawned_session_label"
        " FROM ledger.tool_calls WHERE tool_name = 'fs.read'"
    ) == [({"path": "src/a.py"}, "text", f"{turns[0]}/1", "worker")]


async def test_a_compaction_tells_what_it_stands_for(ask: Ask, turns: list[TurnId]) -> None:
    assert ask(
        "SELECT summary, summarized_through_turn_id::text, first_kept_turn_id::text,"
        " turns_summarized FROM ledger.compactions"
    ) == [("in short", turns[0], turns[1], 1)]


async def test_where_a_session_stood_and_which_sessions_held_a_turn(
    ask: Ask, turns: list[TurnId]
) -> None:
    assert ask(
        "SELECT thread_id::text FROM ledger.session_history WHERE session_label = 'main'"
        " AND changed_at <= (SELECT completed_at FROM ledger.turns WHERE id = %s)"
        " ORDER BY changed_at DESC, version DESC LIMIT 1",
        turns[1],
    ) == [turns[1]]
    held = "SELECT session_label FROM ledger.sessions_holding(%s) ORDER BY 1"
    assert ask(held, turns[0]) == ["main", "side"]
    assert ask(held, turns[1]) == ["main"]


async def test_sessions_know_their_parents_and_their_other_names(
    ask: Ask, turns: list[TurnId]
) -> None:
    assert ask(
        "SELECT label, is_subagent, parent_session_label, parent_turn_id::text,"
        " spawn_tool_call_id, task_description, task_status, routing_key"
        " FROM ledger.sessions ORDER BY label"
    ) == [
        ("main", False, None, None, None, None, None, "entity:ana"),
        ("side", False, None, None, None, None, None, None),
        ("worker", True, "main", turns[0], "c1", "look around", "pending", None),
    ]
    assert ask("SELECT alias, session_label, reason FROM ledger.session_aliases") == [
        ("entity:ana", "main", "manual")
    ]


async def test_files_lints_and_code_are_found(ask: Ask, turns: list[TurnId]) -> None:
    assert ask(
        "SELECT message_id, kind, line_start, line_end FROM ledger.message_files"
        " WHERE file_path = 'src/a.py'"
    ) == [(f"{turns[0]}/0", "read", 3, 9)]
    assert ask("SELECT message, start_line, severity FROM ledger.message_lints") == [
        ("unused", 4, "error")
    ]
    assert ask(
        "SELECT idx, language, file_path, content FROM ledger.message_codeblocks ORDER BY idx"
    ) == [(0, "python", "src/a.py", "print(1)"), (1, None, None, "x")]


async def test_a_tool_that_was_not_offered_is_told_by_the_manifest(ask: Ask, tree: Tree) -> None:
    put = tree.ledger.put_object
    rules = await put(canonical({"deny": ["exec"]}))
    prompt = await put(b"be kind")
    offered = Manifest(
        (
            ManifestEntry("prompt", "base", prompt),
            ManifestEntry("persona", "atlas", prompt),
            ManifestEntry("toolset", "reading", prompt),
            ManifestEntry("tool", "fs.read", prompt),
            ManifestEntry("permissions", "strict", rules),
        )
    )
    manifest = await put(canonical(offered.to_json()))
    reply = [assistant(ToolUse("c9", "exec", {})), tool(ToolResult("c9", "ok", ""))]
    placed = await tree.turns.record(
        "audit", [user("look")], [*reply, assistant("done")], manifest=manifest
    )
    assert ask(
        "SELECT id::text, toolset_name, tools_available, permissions_granted, permissions_used"
        " FROM ledger.turns WHERE EXISTS (SELECT FROM jsonb_array_elements_text(permissions_used) u"
        " WHERE u LIKE 'tool:%%' AND NOT tools_available ? substr(u, 6))"
    ) == [(placed.turn.id, "reading", ["fs.read"], {"deny": ["exec"]}, ["tool:exec"])]
    assert ask(
        "SELECT persona_id, system_prompt_hash FROM ledger.threads WHERE turn_id = %s",
        placed.turn.id,
    ) == [("atlas", prompt)]
    assert ask("SELECT persona_id FROM ledger.sessions WHERE label = 'audit'") == ["atlas"]


@pytest.mark.parametrize("said", ["no moment", "infinity", "2026-02-30T00:00:00.000Z", ""])
async def test_a_message_with_a_wrong_time_stops_no_query(ask: Ask, tree: Tree, said: str) -> None:
    asked = replace(user("look"), at=Timestamp(said))
    called = replace(assistant(ToolUse("c9", "exec", {})), at=Timestamp(said))
    result = replace(tool(ToolResult("c9", "ok", "")), at=Timestamp(said))
    placed = await tree.turns.record("late", [asked], [called, result, assistant("done")])
    times = "SELECT said_at = created_at FROM ledger.messages WHERE turn_id = %s"
    assert ask(times, placed.turn.id) == [True] * 4
    calls = "SELECT started_at IS NULL OR completed_at IS NULL FROM ledger.tool_calls"
    assert set(ask(calls)) == {False}


async def test_another_workspace_sees_nothing(ask: Ask) -> None:
    ask("SELECT set_config('turntree.workspace', '', false)")
    counted = ask(
        "SELECT count(*) FROM ledger.turns UNION ALL SELECT count(*) FROM ledger.messages"
    )
    assert counted == [0, 0]
    assert ask("SELECT count(*) FROM ledger.sessions") == [0]
