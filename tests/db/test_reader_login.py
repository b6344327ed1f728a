"""Whoever queries by SQL sees of a private session what every command shows them: nothing."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.core.event import Event
from turntree.core.ids import RunId, TurnId
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.run import RunEvent
from turntree.core.session import Spawn
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage
from turntree.core.viewer import Sight
from turntree.db.database import Database
from turntree.db.migrate import SQL, migrate
from turntree.db.sql import load_files
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.testing.fakes import FakeClock

TAKE_PLACE = """
SELECT set_config('turntree.workspace', %s, false),
  set_config('turntree.viewer', 'human:ana', false)
"""
pytestmark = pytest.mark.anyio

WORD = "xylophone"
"""Said in the private session alone, or the name of what belongs to it."""
TABLES = (
    "session_queues", "events", "queued_messages", "message_files", "model_calls", "program_grants",
    "program_versions", "programs", "run_payloads", "runs", "search_documents", "session_history",
    "session_names", "session_reach", "sessions", "spawns", "tags", "tool_calls", "turn_bodies",
    "turns",
)  # fmt: skip
OPEN = {
    "members", "resource_liveness", "search_progress", "shard", "workers", "workspaces",
}  # fmt: skip
"""The tables that hold nothing of what was said, and no name of anything but of members."""
ROWS = sql.SQL("SELECT to_jsonb(t)::text FROM turntree.{table} t")

Connection = psycopg.Connection[tuple[Any, ...]]


@contextmanager
def looking(conninfo: str, database: Database, sight: str) -> Generator[Connection, None, None]:
    """Query as somebody who is let in by the reader's role."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET ROLE turntree_reader")
        for name, value in (("workspace", str(database.workspace)), ("viewer", sight)):
            connection.execute("SELECT set_config(%s, %s, false)", (f"turntree.{name}", value))
        yield connection


def read(connection: Connection, table: str) -> set[str]:
    """Return the rows of a table, each as a text."""
    query = ROWS.format(table=sql.Identifier(table))
    return {text for (text,) in connection.execute(query).fetchall()}


@pytest.fixture
async def closed(tree: Tree, world: FakeClock, database: Database) -> TurnId:
    """The head of a private session of ana's that has rows in every table of the list."""
    await tree.turns.record("main", [user("hello")], [assistant("hi")])
    files: dict[str, Json] = {"files": [TouchedFile("read", f"{WORD}.py").to_json()]}
    use = [assistant(ToolUse("c1", WORD, {})), tool(ToolResult("c1", "ok", 1)), assistant("yes")]
    made = await tree.turns.record(
        WORD, [replace(user(WORD), context=files)], use, calls=[ModelCall(WORD, Usage(1, 2))]
    )
    await tree.turns.tag(WORD, WORD)
    await tree.programs.create("session", WORD, {}, visibility="private")
    await tree.programs.grant(WORD, "carl", "read")
    session = await tree.sessions.get(WORD)
    await tree.sessions.create(f"{WORD}-worker", spawn=Spawn(session.id, made.turn.id, "c1"))
    run = RunId(world.new_id())
    fact = RunEvent.of(Event(run, 0, "run.started", world.now(), {}), user(WORD))
    await tree.ledger.start(run, session.id, fact)
    inbox = InboxStore(database, InlineEngine(database.lend))
    await inbox.post(session.id, user(WORD), by="human:ana", at=world.now())
    await tree.search.fill()
    return made.turn.id


@pytest.mark.parametrize("table", TABLES)
async def test_no_row_of_it_is_seen(
    tree: Tree, closed: TurnId, database: Database, conninfo: str, table: str
) -> None:
    """Nobody and bob see the rows of what is open, ana and whoever was let in all of them."""
    del tree, closed
    with looking(conninfo, database, "human:ana") as connection:
        hers = read(connection, table)
    with looking(conninfo, database, "human:carl") as connection:
        assert read(connection, table) == hers
    for sight in ("", "human:bob"):
        with looking(conninfo, database, sight) as connection:
            seen = read(connection, table)
        assert seen < hers
        assert WORD not in repr(seen)


async def test_every_table_that_can_be_read_is_closed_or_holds_nothing_private(
    database: Database, conninfo: str
) -> None:
    """Whoever adds a table says which of both it is."""
    with looking(conninfo, database, "human:bob") as connection:
        found = connection.execute(
            """SELECT c.relname, EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid
              AND p.polname = 'visible_to_reader' AND NOT p.polpermissive)
            FROM pg_class c WHERE c.relnamespace = 'turntree'::regnamespace
              AND c.relkind IN ('r', 'p') AND NOT c.relispartition
              AND has_table_privilege(c.oid, 'SELECT')"""
        ).fetchall()
    assert {table for table, is_closed in found if not is_closed} == OPEN
    assert {"import_cursors", "session_plans", "turns"} < {
        table for table, is_closed in found if is_closed
    }


async def test_imports_are_seen_by_whom_nothing_is_closed_to(
    closed: TurnId, database: Database, conninfo: str
) -> None:
    """What an import found is kept with the titles of all of its sessions."""
    del closed
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute(TAKE_PLACE, (str(database.workspace),))
        owner.execute(
            """INSERT INTO turntree.import_cursors VALUES
              (%s, %s, %s, '', 1, 1, 0, 0, sha256(''), '{}', %s, '{}', now())""",
            (database.workspace, "claude-code", f"{WORD}.jsonl", f'{{"title": "{WORD}"}}'),
        )
    for sight, count in (("human:ana", 1), ("human:carl", 1), ("human:bob", 0), ("", 0)):
        with looking(conninfo, database, sight) as connection:
            assert len(read(connection, "import_cursors")) == count


async def test_what_a_canceled_run_left_is_seen_no_more_than_the_run(
    tree: Tree, closed: TurnId, database: Database, conninfo: str, world: FakeClock
) -> None:
    """A reader who does not see the run must not take its turn for an open one's."""
    parent = (await tree.turns.get("main")).turn
    (run,) = await tree.runs.workers.list_open()
    at = world.now()
    header = Header(
        TurnId(run.run), parent.digest, Principal("human", "ana"), at, at, outcome="canceled"
    )
    left = seal(header, [user(f"no {WORD}")], [])
    await tree.ledger.seal(left, parent.id, by="human:ana", at=at, session=None)
    del closed
    for table in ("turns", "turn_bodies", "events"):
        with looking(conninfo, database, "human:bob") as connection:
            assert run.run not in repr(read(connection, table))
        with looking(conninfo, database, "human:ana") as connection:
            assert run.run in repr(read(connection, table))


async def test_a_policy_whose_words_changed_is_made_anew(database: Database, conninfo: str) -> None:
    """Others are left alone: making one locks its table."""
    marks = b"SELECT oid, polname, polrelid::regclass::text FROM pg_policy ORDER BY 3, 2"
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as owner:
        before = await (await owner.execute(marks)).fetchall()
        await owner.execute("COMMENT ON POLICY visible ON turntree.turns IS 'other words'")
        await owner.execute(SQL["delete_function_versions"])
        await migrate(owner)
        after = await (await owner.execute(marks)).fetchall()
    assert [row[1:] for row in after] == [row[1:] for row in before]
    assert [new[1:] for old, new in zip(before, after, strict=True) if old != new] == [
        ("visible", "turntree.turns")
    ]


def test_the_policies_are_made_after_every_view() -> None:
    """Whoever reads locks a view before its tables, and an upgrade does it in the same order."""
    names = [name for name, _ in load_files("functions")]
    makers = [name for name, text in load_files("functions") if "CREATE POLICY" in text]
    assert makers == names[-1:]


@pytest.mark.parametrize(
    "table",
    ["events", "message_files", "session_history", "session_names", "sessions", "spawns", "tags"],
)
async def test_each_table_hides_it_from_processes_by_itself(
    closed: TurnId, database: Database, table: str
) -> None:
    """Most queries join several tables: one that is open would not be noticed."""
    del closed
    rows = dict[str, set[str]]()
    for by in ("human:ana", "human:bob"):
        async with database.seen_by(Sight(by)).connection() as connection:
            found = await connection.execute(ROWS.format(table=sql.Identifier(table)))
            rows[by] = {str(text) for (text,) in await found.fetchall()}
    assert rows["human:bob"] < rows["human:ana"]
    assert WORD not in repr(rows["human:bob"])
