"""A session that was checked out comes home under the turn it continues, whichever tool it was."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turntree.api import Tree
from turntree.boot.open import load_exporters, load_importers
from turntree.core.canonical import digest_from_raw
from turntree.core.errors import DatabaseUnavailable
from turntree.core.ids import SessionId, Timestamp
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.thread import MoveResult, ThreadTurn
from turntree.core.value import value
from turntree.db.database import Database
from turntree.integrity.fsck import SQL, fsck
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.models.portable_thread import hand_over
from turntree.testing.fakes import FakeClock
from turntree.transcripts.exporter import HandoffFiles, HandoffRequest, NewFile
from turntree.transcripts.exporters.shared import write_new
from turntree.transcripts.handoff_store import HandoffStore
from turntree.transcripts.importer import Importer, ToolPaths
from turntree.transcripts.imports import ImportService, Progress
from turntree.transcripts.incoming import Handoff
from turntree.transcripts.store import ImportStore

pytestmark = pytest.mark.anyio

AT = Timestamp("2026-11-15T09:30:00.000Z")
LATER = "2026-11-15T09:31:00.000Z"
LATER_MS = 1_794_735_060_000
ORDER = HandoffRequest("01a1dda6-59c6-7b3e-924d-de29e937ad11", AT, Path("/home/ana/shop"), "Go on")
OF_GEMINI = "5d0c2a1e-0000-4000-8000-000000000001"
Go = Callable[[HandoffFiles, Path], None]


def add_lines(path: Path, *documents: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(document) + "\n" for document in documents)


def go_on_in_claude_code(plan: HandoffFiles, home: Path) -> None:
    """Append a turn as Claude Code does; sample data, like that of the others."""
    path = plan.files[0].path
    last = [json.loads(line) for line in path.read_text().splitlines()][-2]["uuid"]
    frame = {"sessionId": plan.session, "isSidechain": False, "timestamp": LATER, "version": "2.2"}
    asked = {"role": "user", "content": "And now?"}
    said = [{"type": "text", "text": "Onward."}]
    answer = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": said,
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4},
    }  # fmt: skip
    add_lines(
        path,
        {"type": "mode", "mode": "normal", "sessionId": plan.session},
        {**frame, "type": "user", "uuid": "q-1", "parentUuid": last, "message": asked},
        {**frame, "type": "assistant", "uuid": "a-1", "parentUuid": "q-1", "message": answer},
    )


def go_on_in_codex(plan: HandoffFiles, home: Path) -> None:
    turn = {"turn_id": "01a1dda7-0000-7000-8000-000000000001"}
    question = {"type": "message", "role": "user"}
    reply = {"type": "message", "role": "assistant"}
    payloads: list[tuple[str, dict[str, Any]]] = [
        ("event_msg", {"type": "thread_settings_applied", "thread_settings": {}}),
        ("event_msg", {"type": "task_started", **turn}),
        ("turn_context", {"model": "gpt-6", **turn}),
        ("response_item", {**question, "content": [{"type": "input_text", "text": "And now?"}]}),
        ("response_item", {**reply, "content": [{"type": "output_text", "text": "Onward."}]}),
        ("event_msg", {"type": "task_complete", **turn}),
    ]
    add_lines(
        plan.files[0].path,
        *({"timestamp": LATER, "type": kind, "payload": told} for kind, told in payloads),
    )


def go_on_in_gemini(plan: HandoffFiles, home: Path) -> None:
    """Gemini CLI makes a session of its own, which holds our messages under their ids."""
    source = plan.files[0].path
    meta, *ours = [json.loads(line) for line in source.read_text().splitlines()]
    chats = home / ".gemini/tmp/shop/chats"
    chats.mkdir(parents=True)
    notice = {"type": "info", "content": f"Imported session from {source}", "timestamp": LATER}
    context = [{"text": "<session_context>\nToday is Sunday."}]
    again = [{"id": "c-1", "type": "user", "content": context, "timestamp": LATER}, *ours]
    add_lines(
        chats / "session-1794735060000-5d0c2a1e.jsonl",
        {**meta, "sessionId": OF_GEMINI},
        {"id": "import-1794735060000", **notice},
        *ours,
        {"$set": {"sessionId": OF_GEMINI}},
        {"$set": {"messages": again}},
        {"id": "q-1", "timestamp": LATER, "type": "user", "content": [{"text": "And now?"}]},
        {"id": "a-1", "timestamp": LATER, "type": "gemini", "content": "Onward.", "model": "g"},
    )


def go_on_in_opencode(plan: HandoffFiles, home: Path) -> None:
    """Write what ``opencode import`` and a turn leave, in the files it had before its database."""
    document = json.loads(plan.files[0].text)
    times = {"created": LATER_MS, "completed": LATER_MS}
    frame = {"sessionID": plan.session, "agent": "build"}
    asked = {**frame, "id": "msg_z1", "role": "user", "time": {"created": LATER_MS}}
    answer = {
        **frame, "id": "msg_z2", "role": "assistant", "parentID": "msg_z1", "time": times,
        "modelID": "m", "providerID": "p", "finish": "stop",
    }  # fmt: skip
    said = [("msg_z1", "prt_z1", "And now?"), ("msg_z2", "prt_z2", "Onward.")]
    parts = [
        {"id": id, "messageID": message, "sessionID": plan.session, "type": "text", "text": words}
        for message, id, words in said
    ]
    told = [(one["info"], one["parts"]) for one in document["messages"]]
    files = {f"session/global/{plan.session}.json": document["info"]}
    for info, pieces in [*told, (asked, parts[:1]), (answer, parts[1:])]:
        files[f"message/{plan.session}/{info['id']}.json"] = info
        files |= {f"part/{info['id']}/{piece['id']}.json": piece for piece in pieces}
    for name, content in files.items():
        path = home / ".local/share/opencode/storage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


GO_ON: dict[str, Go] = {
    "claude-code": go_on_in_claude_code,
    "codex": go_on_in_codex,
    "gemini": go_on_in_gemini,
    "opencode": go_on_in_opencode,
}


@pytest.fixture
async def old(tree: Tree) -> ThreadTurn:
    """The turn that is checked out; another one follows it already."""
    use, result = ToolUse("call_1", "look", {"at": "it"}), ToolResult("call_1", "ok", "a thing")
    await tree.turns.record(
        "main", [user("Look.")], [assistant("Well,", use), tool(result), assistant("A thing.")]
    )
    found = await tree.turns.record("main", [user("And?")], [assistant("That is all.")])
    await tree.turns.record("main", [user("Really?")], [assistant("Yes.")])
    return found


async def check_out(
    database: Database, tree: Tree, old: ThreadTurn, name: str, home: Path, *, noting: bool = True
) -> HandoffFiles:
    """Write a session of a tool, as the command does."""
    told = hand_over(await tree.threads.read_visible(old.turn.id), {})
    plan = load_exporters()[name].plan(told, ORDER, ToolPaths(home, {}))
    write_new(plan.files)
    if noting:
        await note(database, old, name, plan)
    return plan


async def note(
    database: Database,
    old: ThreadTurn,
    name: str,
    plan: HandoffFiles,
    continues: SessionId | None = None,
) -> None:
    file: NewFile = plan.files[0]
    made = Handoff(
        name,
        plan.session,
        old.turn.id,
        file.path.name,
        len(file.text.encode()),
        plan.mark,
        plan.last,
        continues,
    )
    await HandoffStore(database).note(made, by="human:ana", at=AT)


def importing(database: Database, seed: int) -> ImportService:
    return ImportService(
        ImportStore(database),
        HandoffStore(database),
        SessionStore(database),
        ReflogStore(database),
        FakeClock(seed),
    )


async def bring(database: Database, name: str, home: Path, seed: int = 99) -> Progress:
    importer = load_importers()[name]
    found = [(importer, bundle) for bundle in importer.discover(ToolPaths(home, {}))]
    return await importing(database, seed).run(found)


def better(importer: Importer) -> Importer:
    """The same importer, one version on."""
    kind = type(f"Better{type(importer).__name__}", (type(importer),), {"version": 2})
    made: Importer = kind()
    return made


@pytest.mark.parametrize("name", sorted(GO_ON))
async def test_what_a_tool_adds_follows_the_turn_that_was_checked_out(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn, name: str
) -> None:
    plan = await check_out(database, tree, old, name, tmp_path)
    GO_ON[name](plan, tmp_path)
    done = await bring(database, name, tmp_path)
    assert (done.failed, done.turns_added, done.sessions_begun) == ({}, 1, 1)
    assert len(await tree.turns.list_children(old.turn.id)) == 2, "a fork"
    (came,) = [one async for one in tree.sessions.list_all() if one.origin is not None]
    thread = await tree.threads.read(came.label)
    assert [one.turn.query[-1].text for one in thread] == ["Look.", "And?", "And now?"]
    assert thread[1].turn == old.turn
    assert (await tree.checks.verify(thread[2].turn.id)).turns == 3
    # Again, and with a better reader: nothing else comes.
    again = await bring(database, name, tmp_path, seed=98)
    assert again.turns_added == 0
    projected = await importing(database, 97).reproject({name: better(load_importers()[name])})
    assert (projected.failed, projected.turns_added, projected.bundles_read) == ({}, 0, 1)
    assert await fsck(database) == []


@pytest.mark.parametrize("name", ["claude-code", "codex"])
async def test_a_handoff_that_no_tool_continued_becomes_no_session(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn, name: str
) -> None:
    plan = await check_out(database, tree, old, name, tmp_path)
    done = await bring(database, name, tmp_path)
    assert (done.failed, done.turns_added, done.sessions_begun) == ({}, 0, 0)
    assert [one async for one in tree.sessions.list_all() if one.origin is not None] == []
    assert (await bring(database, name, tmp_path, seed=97)).bundles_unchanged == 1
    GO_ON[name](plan, tmp_path)
    grown = await bring(database, name, tmp_path, seed=98)
    assert (grown.turns_added, grown.sessions_begun) == (1, 1)
    (came,) = [one async for one in tree.sessions.list_all() if one.origin is not None]
    assert (await tree.turns.get(came.label)).parent == old.turn.id
    (cursor,) = await ImportStore(database).list_cursors()
    records = await ImportStore(database).read_records(cursor.blocks)
    text = b"\n".join(record.data for record in records) + b"\n"
    assert text == plan.files[0].path.read_bytes(), "every record is kept, ours too"
    assert await fsck(database) == []


async def test_a_session_that_nobody_noted_comes_with_all_its_turns(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    plan = await check_out(database, tree, old, "claude-code", tmp_path, noting=False)
    done = await bring(database, "claude-code", tmp_path)
    assert done.turns_added == 2
    # Noted late, what comes then finds its place all the same.
    await note(database, old, "claude-code", plan)
    go_on_in_claude_code(plan, tmp_path)
    late = await bring(database, "claude-code", tmp_path, seed=98)
    assert (late.turns_added, late.sessions_moved) == (1, 1)
    assert len(await tree.turns.list_children(old.turn.id)) == 2
    assert await fsck(database) == []


async def test_an_answer_to_a_question_of_ours_is_not_lost(
    database: Database, tree: Tree, tmp_path: Path
) -> None:
    asked = await tree.turns.record("main", [user("Anybody?")], [], outcome="interrupted")
    plan = await check_out(database, tree, asked, "claude-code", tmp_path)
    path = plan.files[0].path
    last = json.loads(path.read_text().splitlines()[0])["uuid"]
    answer = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "I am here."}]}
    frame = {"sessionId": plan.session, "timestamp": LATER, "type": "assistant"}
    add_lines(path, {**frame, "uuid": "a-1", "parentUuid": last, "message": answer})
    done = await bring(database, "claude-code", tmp_path)
    assert done.turns_added == 1
    (came,) = [one async for one in tree.sessions.list_all() if one.origin is not None]
    (turn,) = await tree.threads.read(came.label)
    assert [said.text for said in turn.turn.messages] == ["Anybody?", "I am here."]


@pytest.mark.parametrize("name", sorted(GO_ON))
async def test_the_session_that_was_checked_out_goes_on_with_the_tool(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn, name: str
) -> None:
    await tree.sessions.fork(old.turn.id, "careful")
    await tree.sessions.fork(old.turn.id, "bystander")
    careful = (await tree.sessions.get("careful")).id
    plan = await check_out(database, tree, old, name, tmp_path, noting=False)
    await note(database, old, name, plan, careful)
    GO_ON[name](plan, tmp_path)
    assert (await bring(database, name, tmp_path)).failed == {}
    thread = await tree.threads.read("careful")
    assert [one.turn.query[-1].text for one in thread] == ["Look.", "And?", "And now?"]
    assert (await tree.sessions.get("bystander")).head == old.turn.id
    assert await fsck(database) == []


async def test_a_session_follows_the_tool_turn_by_turn_until_somebody_moves_it(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    await tree.sessions.fork(old.turn.id, "careful")
    plan = await check_out(database, tree, old, "codex", tmp_path, noting=False)
    await note(database, old, "codex", plan, (await tree.sessions.get("careful")).id)
    for depth in (2, 3, 4):
        await bring(database, "codex", tmp_path)
        assert (await tree.sessions.get("careful")).depth == depth
        go_on_in_codex(plan, tmp_path)
    await tree.sessions.rewind("careful", "careful~1")
    await bring(database, "codex", tmp_path)
    assert (await tree.sessions.get("careful")).depth == 3


@value
class Racing(SessionStore):
    """Sessions in which somebody goes on just before they are moved."""

    tree: Tree

    async def move(self, session: SessionId, *given: Any, **more: Any) -> MoveResult:
        """Move a session, too late."""
        label = (await self.get(session)).label
        await self.tree.turns.record(label, [user("I go on.")], [assistant("So do I.")])
        return await SessionStore.move(self, session, *given, **more)


async def test_a_turn_that_is_sealed_meanwhile_stays_in_its_session(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    await tree.sessions.fork(old.turn.id, "careful")
    plan = await check_out(database, tree, old, "codex", tmp_path, noting=False)
    await note(database, old, "codex", plan, (await tree.sessions.get("careful")).id)
    go_on_in_codex(plan, tmp_path)
    sessions = Racing(database, tree)
    importer = load_importers()["codex"]
    found = [(importer, bundle) for bundle in importer.discover(ToolPaths(tmp_path, {}))]
    done = await replace(importing(database, 99), sessions=sessions).run(found)
    assert (done.failed, done.turns_added, done.sessions_kept) == ({}, 1, 1)
    assert (await tree.threads.read("careful"))[-1].turn.query[-1].text == "I go on."


async def test_a_session_follows_its_tool_after_a_crash_between_its_move_and_the_cursor(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    class Crashing(ImportStore):
        async def mark(self, cursors: Any, at: Timestamp) -> None:  # noqa: ARG002
            raise DatabaseUnavailable("it crashed")

    await tree.sessions.fork(old.turn.id, "careful")
    plan = await check_out(database, tree, old, "codex", tmp_path, noting=False)
    await note(database, old, "codex", plan, (await tree.sessions.get("careful")).id)
    go_on_in_codex(plan, tmp_path)
    importer = load_importers()["codex"]
    found = [(importer, bundle) for bundle in importer.discover(ToolPaths(tmp_path, {}))]
    with pytest.raises(DatabaseUnavailable):
        await replace(importing(database, 99), imports=Crashing(database)).run(found)
    assert (await tree.sessions.get("careful")).depth == 3
    go_on_in_codex(plan, tmp_path)
    await bring(database, "codex", tmp_path)
    assert (await tree.sessions.get("careful")).depth == 4


async def test_a_session_that_went_on_elsewhere_no_longer_follows_its_own_tool(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    own = await check_out(database, tree, old, "codex", tmp_path, noting=False)
    await bring(database, "codex", tmp_path)
    (came,) = [one async for one in tree.sessions.list_all() if one.origin is not None]
    await tree.sessions.rewind(came.label, f"{came.label}~1")
    head = await tree.turns.get(came.label)
    elsewhere = await check_out(database, tree, head, "claude-code", tmp_path, noting=False)
    await note(database, head, "claude-code", elsewhere, came.id)
    go_on_in_claude_code(elsewhere, tmp_path)
    await bring(database, "claude-code", tmp_path)
    went = await tree.turns.get(came.label)
    assert went.parent == head.turn.id
    go_on_in_codex(own, tmp_path)
    done = await bring(database, "codex", tmp_path)
    assert (done.turns_added, done.sessions_kept) == (1, 1)
    assert (await tree.sessions.get(came.label)).head == went.turn.id


async def test_a_checkout_is_a_fact_of_its_turn(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    await check_out(database, tree, old, "codex", tmp_path)
    ((origin, graft),) = await HandoffStore(database).list_all()
    assert (origin, graft.session, graft.mark) == ("codex", ORDER.session, None)
    assert (graft.turn.id, graft.turn.digest, graft.turn.depth) == (old.turn.id, old.turn.digest, 2)
    told = [fact.event for fact in await tree.ledger.facts(old.turn.id)]
    assert [(event.kind, event.data) for event in told] == [
        (
            "transcript.materialized",
            {"tool": "codex", "tool_session_id": ORDER.session, "by": "human:ana"},
        )
    ]


async def test_a_copy_that_ends_before_the_last_turn_is_no_continuation_of_it(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    plan = await check_out(database, tree, old, "claude-code", tmp_path)
    path = plan.files[0].path
    first = [json.loads(line) for line in path.read_text().splitlines()[:4]]
    copy = path.with_name("0f0f0f0f-0000-4000-8000-000000000001.jsonl")
    asked = {"type": "user", "uuid": "q-2", "message": {"role": "user", "content": "Or else?"}}
    frame = {"sessionId": copy.stem, "timestamp": LATER, "parentUuid": first[-1]["uuid"]}
    add_lines(copy, *({**one, "sessionId": copy.stem} for one in first), {**frame, **asked})
    done = await bring(database, "claude-code", tmp_path)
    assert (done.failed, done.turns_added) == ({}, 2)
    assert len(await tree.turns.list_children(old.turn.id)) == 1, "no other turn follows it"
    assert await fsck(database) == []


FORK = "01a1ddb0-0000-7000-8000-000000000001"


@pytest.mark.parametrize("copying", [False, True])
async def test_a_fork_of_a_checked_out_session_brings_only_what_is_new(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn, *, copying: bool
) -> None:
    plan = await check_out(database, tree, old, "codex", tmp_path)
    ours = plan.files[0].path
    lines = [json.loads(line) for line in ours.read_text().splitlines()]
    at = {"thread_id": plan.session, "end_byte_offset": ours.stat().st_size}
    told = {"history_mode": "legacy"} if copying else {"history_base": at}
    meta = {"id": FORK, "forked_from_id": plan.session, "timestamp": LATER, **told}
    fork = ours.with_name(f"rollout-2026-11-15T09-31-00-{FORK}.jsonl")
    add_lines(fork, {"timestamp": LATER, "type": "session_meta", "payload": meta})
    if copying:
        # It gives every item a name, and says that nobody ended the last turn.
        named = [
            {**line, "timestamp": LATER, "payload": {**line["payload"], "id": f"copy_{place}"}}
            if line["type"] == "response_item"
            else {**line, "timestamp": LATER}
            for place, line in enumerate(lines)
        ]
        aborted = {"type": "turn_aborted", "turn_id": None, "reason": "interrupted"}
        add_lines(fork, *named, {"timestamp": LATER, "type": "event_msg", "payload": aborted})
    go_on_in_codex(replace(plan, files=(replace(plan.files[0], path=fork),)), tmp_path)
    done = await bring(database, "codex", tmp_path)
    assert (done.failed, done.turns_added, done.sessions_begun) == ({}, 1, 1)
    came = [one async for one in tree.sessions.list_all() if one.origin is not None]
    depths = {one.origin.session_id: one.depth for one in came if one.origin is not None}
    assert depths == {FORK: 3}, "the handoff itself was not continued"
    (first, _) = await tree.threads.read(old.turn.id)
    await tree.turns.erase(first.turn.id, 0, reason="a name")
    assert b"Look." not in await kept(database)
    assert await fsck(database) == []


async def kept(database: Database) -> bytes:
    """Every record that is kept, whether a cursor still leads to it or not."""
    rows = await database.fetch(SQL["list_block_digests"])
    blocks = [digest_from_raw(bytes(digest)) for (digest,) in rows]
    return b"".join(one.data for one in await ImportStore(database).read_records(blocks))


@pytest.mark.parametrize("name", sorted(GO_ON))
async def test_an_erased_message_takes_our_own_copies_along(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn, name: str
) -> None:
    plan = await check_out(database, tree, old, name, tmp_path)
    GO_ON[name](plan, tmp_path)
    await bring(database, name, tmp_path)
    assert b"Look." in await kept(database)
    (first, _) = await tree.threads.read(old.turn.id)
    assert await tree.turns.erase(first.turn.id, 0, reason="a name")
    left = await kept(database)
    assert b"Look." not in left
    assert b"Onward." in left, "what the tool added is nobody's copy"
    assert await fsck(database) == []
    # A better reader finds the turn where it was, although nothing says any more whom it follows.
    projected = await importing(database, 97).reproject({name: better(load_importers()[name])})
    assert (projected.failed, projected.turns_added, projected.bundles_read) == ({}, 0, 1)
    assert projected.sessions_moved == 0
    # The tool's own files still hold the words, and they do not come back with them.
    again = await bring(database, name, tmp_path, seed=96)
    assert (again.failed, again.turns_added) == ({}, 0)
    assert b"Look." not in await kept(database)
    assert await fsck(database) == []


async def test_what_was_erased_before_it_came_home_does_not_come_with_our_copies(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    plan = await check_out(database, tree, old, "claude-code", tmp_path)
    (first, _) = await tree.threads.read(old.turn.id)
    await tree.turns.erase(first.turn.id, 0, reason="a name")
    go_on_in_claude_code(plan, tmp_path)
    done = await bring(database, "claude-code", tmp_path)
    assert (done.failed, done.turns_added) == ({}, 1)
    assert b"Look." not in await kept(database)
    assert await fsck(database) == []


async def test_erasing_what_a_tool_added_leaves_our_copies(
    database: Database, tree: Tree, tmp_path: Path, old: ThreadTurn
) -> None:
    plan = await check_out(database, tree, old, "claude-code", tmp_path)
    go_on_in_claude_code(plan, tmp_path)
    await bring(database, "claude-code", tmp_path)
    (came,) = [one async for one in tree.sessions.list_all() if one.origin is not None]
    assert came.head is not None
    await tree.turns.erase(came.head, 0, reason="a name")
    left = await kept(database)
    assert b"Look." in left
    assert b"Onward." not in left
    assert await fsck(database) == []
