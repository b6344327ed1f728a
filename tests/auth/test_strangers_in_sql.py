"""Every table, as a stranger reads it: nothing of a private session stands in any of them."""

import hashlib
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.db.test_row_security import SECRET, TABLES, WITHOUT_WORKSPACE, acting
from turntree.api import Tree
from turntree.auth.webhook_signature import sign
from turntree.boot.open import Settings, stats_on, tree_on
from turntree.core.canonical import Json, digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.errors import NotFound
from turntree.core.event import Event
from turntree.core.ids import Label, ProgramId, RunId, SessionId, Timestamp, TurnId, unix_ms
from turntree.core.message import (
    PART_INLINE_MAX_BYTES,
    ToolResult,
    ToolUse,
    assistant,
    tool,
    user,
)
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.run import RunEvent
from turntree.core.session import Origin, Spawn
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage
from turntree.core.viewer import Sight
from turntree.db.database import Database
from turntree.ledger.raw_codec import RawRecord
from turntree.ledger.session_store import SessionStore
from turntree.ledger.turn_rows import TurnSource
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder
from turntree.transcripts.handoff_store import HandoffStore
from turntree.transcripts.incoming import Handoff, ImportCursor, ImportedTurn
from turntree.transcripts.store import ImportStore

pytestmark = pytest.mark.anyio

WORD = "xylophone"
LARGE = WORD * PART_INLINE_MAX_BYTES
SIGNING = "whsec_" + "QUJDRA" * 8

JUDGED_BY = "the policies of all others are judged by it"
MEMBERS = "members know each other"
MEMBERS_JUDGED = "members know what judges their calls"
NO_SESSION = "it belongs to no session"
ONLY_IDS = "it holds ids, and people who query are kept out"
IMPORTED = "it holds ids of other tools, and numbers; people who query are kept out"
OPEN_TO_PROCESSES = {
    "bound_sessions": JUDGED_BY,
    "conversations": JUDGED_BY,
    "participants": JUDGED_BY,
    "post_deliveries": ONLY_IDS,
    "program_grants": JUDGED_BY,
    "programs": JUDGED_BY,
    "members": MEMBERS,
    "runs": JUDGED_BY,
    "segments": JUDGED_BY,
    "session_reach": JUDGED_BY,
    "transcripts": IMPORTED,
    "turn_sources": IMPORTED,
    "handles": NO_SESSION,
    "resource_leases": NO_SESSION,
    "plans": NO_SESSION,
    "policies": MEMBERS_JUDGED,
    "resource_liveness": NO_SESSION,
    "resources": NO_SESSION,
    "snapshots": NO_SESSION,
    "search_progress": NO_SESSION,
    "workers": NO_SESSION,
}
"""The tables that a process reads whoever looks, each with the reason."""
OPEN_TO_READERS = {
    "members": MEMBERS,
    "resource_liveness": NO_SESSION,
    "search_progress": NO_SESSION,
    "workers": NO_SESSION,
}
WITHOUT_ROWS = {
    "approvals", "delivered_notices", "event_links", "handles", "identities", "import_cursors",
    "login_sessions", "login_states", "members", "notice_deliveries", "object_writers",
    "passwords", "plans", "policies", "program_refs", "raw_blocks", "resource_attachments",
    "resource_leases", "resource_liveness", "resources", "search_progress", "session_plans",
    "snapshots", "transcripts", "turn_snapshots", "turn_sources", "webhook_secrets", "workers",
}  # fmt: skip
"""The tables in which the story leaves no trace that ana is shown; their policies are looked at
all the same."""
ROWS = sql.SQL("SELECT to_jsonb(t)::text FROM turntree.{table} t")
POLICIES = """
SELECT p.polrelid::regclass::text FROM pg_policy p
  JOIN pg_class c ON c.oid = p.polrelid AND c.relrowsecurity AND c.relforcerowsecurity
  WHERE p.polname LIKE 'visible%%' AND NOT p.polpermissive
    AND EXISTS (SELECT FROM unnest(p.polroles) r
      WHERE r = (SELECT oid FROM pg_roles WHERE rolname = %s))
"""


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The tree as a stranger sees it."""
    return tree_on(database, Settings(place, user="bob"), world, embedder=HashingEmbedder())


@pytest.fixture
async def closed(tree: Tree, world: FakeClock, database: Database) -> TurnId:
    """A turn of a private session of ana's that has left a row wherever one can be left."""
    await tree.turns.record("main", [user("hello")], [assistant("hi")])
    files: dict[str, Json] = {"files": [TouchedFile("read", f"{WORD}.py").to_json()]}
    use = [assistant(ToolUse("c1", WORD, {})), tool(ToolResult("c1", "ok", 1)), assistant(LARGE)]
    calls = [ModelCall(WORD, Usage(1, 2))]
    query = [replace(user(WORD), context=files)]
    made = await tree.turns.record(WORD, query, use, calls=calls, key=WORD)
    summary = Compaction(made.turn.id, None, 1)
    await tree.turns.record(WORD, [user("sum")], [assistant("s")], compaction=summary)
    await tree.turns.tag(made.turn.id, WORD)
    await tree.programs.create("session", WORD, {}, visibility="private")
    await tree.programs.grant(WORD, "carl", "read")
    session = await tree.sessions.get(WORD)
    await tree.sessions.create(f"{WORD}-worker", spawn=Spawn(session.id, made.turn.id, "c1"))
    run = RunId(world.new_id())
    fact = RunEvent.of(Event(run, 0, "run.started", world.now(), {}), user(WORD))
    await tree.ledger.start(run, session.id, fact)
    inbox = InboxStore(database, InlineEngine(database.lend))
    called = Event(run, 1, "tool_call.started", world.now(), {"call_id": WORD, "tool": WORD})
    await inbox.append_facts([RunEvent.of(called)], epoch=1)
    await inbox.post(session.id, user(WORD), by="human:ana", at=world.now())
    checkout = Handoff("toy", WORD, made.turn.id, f"{WORD}.jsonl", 2)
    await HandoffStore(database).note(checkout, by="human:ana", at=world.now())
    later = Timestamp("2099-01-01T00:00:00.000Z")
    await tree.invitations.create(WORD, expires_at=later)
    await tree.keys.create(WORD, expires_at=later)
    await tree.programs.create("agent", f"{WORD}-agent", {}, visibility="private")
    conversations = replace(tree.conversations, engine=inbox.engine)
    await conversations.create(f"{WORD}-talk", title=WORD, triage=True)
    await conversations.post(f"{WORD}-talk", f"@[{WORD}](agent:{WORD}-agent) {WORD}")
    await conversations.post(f"{WORD}-talk", f"{WORD}-agent, {WORD}?")
    await tree.webhooks.create(f"https://example.net/{WORD}", events=["*"])
    trigger, _ = await tree.triggers.create(WORD, WORD, prompt=WORD, secret=SIGNING)
    headers = sign([SIGNING], "msg_1", unix_ms(world.now()) // 1000, WORD.encode())
    incoming = await tree.triggers.accept(trigger.id, headers, WORD.encode())
    await replace(tree.triggers, runs=replace(tree.runs, inbox=inbox)).fire(incoming)
    await tree.programs.create("human", "ana", {})
    await tree.programs.invoke("ana", {"message": WORD})
    await tree.search.fill()
    await replace(tree.search, embedder=HashingEmbedder()).fill_meanings()
    return made.turn.id


async def trace_of(tree: Tree, closed: TurnId) -> set[str]:
    """What can be recognized in a row as the private session's."""
    session = await tree.sessions.get(WORD)
    (run,) = [one for one in await tree.runs.workers.list_open() if one.session == session.id]
    assert session.head is not None
    conversation = await tree.conversations.get(f"{WORD}-talk")
    # Bytes are shown by their numbers.
    return {
        WORD, WORD.encode().hex(), session.id, closed, session.head, run.run, conversation.id,
        SIGNING, hashlib.sha256(WORD.encode()).hexdigest(),
    }  # fmt: skip


def read(connection: psycopg.Connection[tuple[object, ...]], table: str) -> list[str]:
    query = ROWS.format(table=sql.Identifier(table))
    return [str(text) for (text,) in connection.execute(query).fetchall()]


@pytest.mark.parametrize(
    ("role", "is_open"),
    [("turntree_app", OPEN_TO_PROCESSES), ("turntree_reader", OPEN_TO_READERS)],
)
async def test_a_stranger_finds_nothing_private_in_any_table(
    tree: Tree,
    closed: TurnId,
    database: Database,
    conninfo: str,
    role: str,
    is_open: dict[str, str],
) -> None:
    trace = await trace_of(tree, closed)
    tables = set(TABLES) - WITHOUT_WORKSPACE
    if role == "turntree_reader":
        tables -= SECRET
        for table in SECRET:
            with (
                acting(conninfo, role, database.workspace, "human:ana") as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                read(connection, table)
    told: dict[str, set[str]] = {}
    for who in ("ana", "bob"):
        with acting(conninfo, role, database.workspace, f"human:{who}") as connection:
            rows = {table: "\n".join(read(connection, table)) for table in tables}
        told[who] = {table for table, text in rows.items() if any(one in text for one in trace)}
    assert tables - WITHOUT_ROWS - told["ana"] == set(), "nothing would be compared"
    assert told["bob"] - set(is_open) == set()
    with psycopg.connect(conninfo) as connection:
        walled = {
            str(table).removeprefix("turntree.")
            for (table,) in connection.execute(POLICIES, (role,))
        }
    assert tables - walled == set(is_open), "whoever adds a table says why it needs no policy"


async def test_a_stranger_finds_no_part_of_it_by_an_id_they_know(
    tree: Tree, bob: Tree, closed: TurnId
) -> None:
    session = await tree.sessions.get(WORD)
    embedder = HashingEmbedder().id
    assert await tree.turns.list_calls([closed]) != {}
    assert await bob.turns.list_calls([closed]) == {}
    assert await tree.meanings.store.find(closed, embedder) is not None
    assert await bob.meanings.store.find(closed, embedder) is None
    program = ProgramId(session.id)
    assert await tree.programs.store.list_versions(program) != []
    assert await bob.programs.store.list_versions(program) == []
    with pytest.raises(NotFound):
        await bob.programs.store.get_version(program, 1, by=str(bob.programs.by))
    with pytest.raises(NotFound):
        await bob.verify(closed)


async def test_erase_of_hidden_turn_is_refused(
    tree: Tree, bob: Tree, closed: TurnId, world: FakeClock
) -> None:
    for turn in (closed, TurnId(world.new_id())):
        with pytest.raises(NotFound, match="there is no turn"):
            await bob.turns.marks.erase(turn, 0, reason="spite", by="human:bob", at=world.now())
    said = (await tree.turns.get(closed)).turn
    assert WORD in repr(said.messages[0])


async def test_figures_tell_a_stranger_of_what_they_see(
    tree: Tree, database: Database, world: FakeClock
) -> None:
    """What is private is not counted for whoever it is closed to."""
    now = world.now()
    header = Header(TurnId(world.new_id()), None, Principal("human", "ana"), now, now)
    sealed = seal(header, [user(WORD)], [assistant("yes")])
    source = TurnSource("toy", "one", "1", 0, 0, 1)
    await ImportStore(database).store_turns([ImportedTurn(sealed, None, source=source)])
    await tree.sessions.fork(sealed.turn.id, WORD)
    await tree.programs.create("session", WORD, {}, visibility="private")
    for who, turns in (("ana", 1), ("bob", 0)):
        seen = database.seen_by(Sight(f"human:{who}"))
        assert (await stats_on(seen).count_imported()).turns == turns


async def test_a_stranger_finds_no_title_and_no_record_of_an_import(
    tree: Tree, database: Database, world: FakeClock, conninfo: str
) -> None:
    now = world.now()
    hers = ImportStore(database.seen_by(Sight("human:ana")))
    header = Header(TurnId(world.new_id()), None, Principal("human", "ana"), now, now)
    sealed = seal(header, [user(WORD)], [assistant("yes")])
    incoming = ImportedTurn(sealed, None, source=TurnSource("toy", "one", "1", 0, 0, 1))
    made = hers.packing.prepare(incoming)
    records = [RawRecord("one.jsonl", 0, f'{{"said":"{WORD}"}}'.encode())]
    blocks = hers.packing.pack("toy", "one", 0, records, [(made, [0])])
    await hers.store_turns([made])
    await hers.keep(blocks, [made])
    heads = {"s1": {"turn": str(sealed.turn.id), "title": WORD}}
    cursor = ImportCursor(
        "toy", "one", "", 1, 1, 1, 2, digest_bytes(b""), (blocks[0].digest,), heads
    )
    await hers.mark([cursor], now)
    session = SessionId(world.new_id())
    origin = Origin("toy", "s1")
    await SessionStore(hers.database).create(
        session, Label(WORD), head=sealed.turn.id, origin=origin, by="human:ana", at=now
    )
    await tree.programs.create("session", WORD, {}, visibility="private")
    for who, count in (("ana", 1), ("bob", 0)):
        with acting(conninfo, "turntree_app", database.workspace, f"human:{who}") as connection:
            assert [len(read(connection, table)) for table in ("import_cursors", "raw_blocks")] == [
                count
            ] * 2
    assert await hers.read_records([blocks[0].digest]) == records
    with pytest.raises(NotFound, match="are missing"):
        await ImportStore(database.seen_by(Sight("human:bob"))).read_records([blocks[0].digest])
