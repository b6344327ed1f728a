"""The walls: facts refuse change, and nobody sees or writes into another workspace.

Everything here is tried in plain SQL, past every check that Python would make first.
"""

import os
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from proofs.fsck_story import tell_approvals, tell_resources
from turntree.api import Tree
from turntree.auth.identities.identity import ProvenAccount
from turntree.auth.webhook_signature import sign
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json, digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.event import Event, record
from turntree.core.ids import RunId, Timestamp, TurnId, WorkspaceId, unix_ms
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
from turntree.core.session import Spawn
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage
from turntree.core.viewer import EVERYTHING, Sight
from turntree.db.database import Database, open_database, prepare_database
from turntree.integrity.fsck import SQL as FSCK_SQL
from turntree.ledger.raw_codec import RawRecord
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.turn_rows import TurnSource
from turntree.notifications.delivery import DeliveryAttempt
from turntree.notifications.store import DeliveryStore
from turntree.policy.local import shipped_policy
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import SQL as WORKER_SQL
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder
from turntree.transcripts.handoff_store import HandoffStore
from turntree.transcripts.incoming import Handoff, ImportCursor, ImportedTurn
from turntree.transcripts.store import ImportStore

pytestmark = pytest.mark.anyio

FACTS = {
    "bound_sessions", "compactions", "event_links", "events", "handles", "handoffs",
    "idempotency_keys",
    "message_files", "model_calls", "object_writers", "objects", "post_decisions",
    "post_deliveries", "posts", "program_refs",
    "program_versions", "raw_blocks", "resources", "segments", "session_history",
    "session_plans", "snapshots", "spawns", "tool_calls", "transcripts", "trigger_firings",
    "turn_bodies",
    "turn_snapshots", "turn_sources", "turns",
}  # fmt: skip
DERIVED = {"search_documents", "embeddings", "search_progress"}
MOVING = {
    "api_keys", "approvals",
    "conversations", "delivered_notices", "identities", "import_cursors", "invitations",
    "login_sessions", "login_states", "members", "notice_deliveries", "notices", "object_holders",
    "participants", "passwords", "plans", "policies", "program_grants", "programs",
    "queued_messages", "resource_attachments", "resource_leases", "resource_liveness",
    "run_payloads", "runs", "session_names", "session_queues", "session_reach", "sessions",
    "tags", "triggers", "webhook_secrets", "webhooks", "workers",
}  # fmt: skip
UNCHANGED = {"delivered_notices", "identities", "login_states"}
"""Of those, what is made and deleted, and not even the application may change."""
WITHOUT_WORKSPACE = {"shard", "workspaces", "console_bindings", "shared_workers"}
TABLES = sorted(FACTS | MOVING | DERIVED)
SECRET = {
    "api_keys", "approvals",
    "delivered_notices", "identities", "invitations", "login_sessions", "login_states",
    "notice_deliveries", "notices", "passwords", "policies", "post_deliveries",
    "trigger_firings", "triggers", "webhook_secrets", "webhooks",
}  # fmt: skip
"""The tables that people who query with SQL cannot read at all."""

CHANGES = {
    "update": sql.SQL("UPDATE turntree.{table} SET workspace_id = workspace_id"),
    "delete": sql.SQL("DELETE FROM turntree.{table}"),
    "truncate": sql.SQL("TRUNCATE turntree.{table} CASCADE"),
}
COUNT = sql.SQL("SELECT count(*) FROM turntree.{table}")
ONE_ROW = sql.SQL("SELECT to_jsonb(t)::text FROM turntree.{table} t LIMIT 1")
INSERT_ROW = sql.SQL(
    "INSERT INTO turntree.{table} OVERRIDING SYSTEM VALUE"
    " SELECT * FROM jsonb_populate_record(NULL::turntree.{table}, %s::jsonb)"
)
DENIED = "42501"
REFUSED = "TT003"
NO_PARENT = "23503"

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def told(tree: Tree, world: FakeClock, database: Database) -> Tree:
    """A tree that has at least one row in every table."""
    use = [assistant(ToolUse("c", "read", {})), tool(ToolResult("c", "ok", 1)), assistant("1")]
    calls = [ModelCall("m", Usage(1, 2))]
    files: dict[str, Json] = {"files": [TouchedFile("read", "a.py").to_json()]}
    query = [replace(user("one"), context=files)]
    one = await tree.turns.record("main", query, use, calls=calls, key="k")
    large = [user("x" * 2 * PART_INLINE_MAX_BYTES)]
    two = await tree.turns.record("main", large, [assistant("2")])
    summary = Compaction(one.turn.id, two.turn.id, 1)
    await tree.turns.record("main", [user("sum")], [assistant("s")], compaction=summary)
    await tree.turns.tag("main", "good")
    session = await tree.sessions.get("main")
    await tree.sessions.create("helper", spawn=Spawn(session.id, one.turn.id, "c"))
    run = RunId(world.new_id())
    first = Event(run, 0, "run.started", world.now(), {})
    await tree.ledger.start(run, session.id, RunEvent.of(first, user("go on")))
    await bring(ImportStore(database), world)
    await tree.policies.propose(shipped_policy().source)
    await tree.programs.create("provider", "gate", {"provider_type": "toy"})
    await tree.programs.create("model", "fast", {"model_id": "toy", "provider": "@(gate)"})
    await tree.programs.invite("fast", "bob")
    updated = Event(world.new_id(), 0, "mcp.resource_updated", world.now(), {"uri": "file:///a"})
    await tree.ledger.append(record(updated))
    await replace(tree.search, embedder=HashingEmbedder()).fill_meanings()
    await tree.search.fill()
    await tell_resources(tree, "main", 1)
    await tell_approvals(tree, "judged")
    inbox = InboxStore(database, InlineEngine(database.lend))
    await inbox.post(session.id, user("next"), by="human:ana", at=world.now())
    await database.run(WORKER_SQL["register_worker"], worker="w1")
    await Ledger(replace(database, sight=Sight("human:ana"))).put_object(b"hers")
    await tree.members.add("bob")
    later = Timestamp("2099-01-01T00:00:00.000Z")
    await tree.invitations.create("carl", expires_at=later)
    await tree.keys.create("ci", expires_at=later)
    await tree.passwords.set("correct horse battery")
    ana = Principal("human", "ana")
    _, code = await tree.login_sessions.begin(ana, method="invitation", verified_at=later)
    login = await tree.login_sessions.verify(code)
    await tree.identities.link(ProvenAccount("https://id.example.net", "s-ana"), login)
    await tree.identities.use_state(b"s" * 32, expires_at=later)
    await tree.programs.create("agent", "bot", {})
    talk = replace(tree.conversations, engine=InlineEngine(database.lend))
    await talk.create("talk", triage=True)
    await talk.post("talk", "@[Bot](agent:bot) hello")
    await talk.post("talk", "good morning")
    reached: dict[str, Json] = {"notification_channel": "email", "email": "ana@example.net"}
    await tree.programs.create("human", "ana", {"preferences": reached})
    await tree.programs.invoke("ana", {"message": "lunch is ready"})
    await tree.webhooks.create("https://example.net/hook", events=["*"])
    made, secret = await tree.triggers.create("builds", "main")
    headers = sign([secret], "msg_1", unix_ms(world.now()) // 1000, b"{}")
    incoming = await tree.triggers.accept(made.id, headers, b"{}")
    taking = replace(tree.triggers, runs=replace(tree.runs, inbox=inbox))
    await taking.fire(incoming)
    await mail(DeliveryStore(database.seen_by(EVERYTHING), ("email",)), later)
    return tree


async def mail(store: DeliveryStore, at: Timestamp) -> None:
    """Deliver what waits, as if a mail server had taken it."""
    (waiting,) = await store.list_waiting()
    assert await store.begin(waiting, "d" * 32, at=at)
    (delivery,) = await store.list_due(limit=2, at=at)
    claim = await store.claim(delivery, at=at)
    assert claim is not None
    taken = DeliveryAttempt("delivered")
    await store.record(delivery, claim.attempt, taken, next_at=None, at=at)


async def bring(imports: ImportStore, world: FakeClock) -> None:
    """Import a turn."""
    now = world.now()
    header = Header(TurnId(world.new_id()), None, Principal("agent", "toy"), now, now)
    sealed = seal(header, [user("said elsewhere")], [assistant("yes")])
    blocks = imports.packing.pack("toy", "one", 0, [RawRecord("one.jsonl", 0, b"{}")])
    await imports.keep(blocks)
    source = TurnSource("toy", "one", "1", 0, 0, 1)
    await imports.store_turns([ImportedTurn(sealed, None, source=source)])
    cursor = ImportCursor("toy", "one", "", 1, 1, 1, 2, digest_bytes(b"{}"), (blocks[0].digest,))
    await imports.mark([cursor], now)
    made = Handoff("toy", "two", sealed.turn.id, "two.jsonl", 2)
    await HandoffStore(imports.database).note(made, by="human:ana", at=now)


@pytest.fixture
async def elsewhere(conninfo: str, told: Tree) -> WorkspaceId:
    """Another workspace of the same database."""
    return await prepare_database(conninfo, "elsewhere", FakeClock(99).new_id())


@contextmanager
def acting(
    conninfo: str, role: str, workspace: object = None, sight: str = "human:ana"
) -> Generator[Connection, None, None]:
    """Act as a role in a workspace, or in none."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SELECT set_config('role', %s, false)", (role,))
        if workspace is not None:
            connection.execute(
                "SELECT set_config('turntree.workspace', %s, false),"
                " set_config('turntree.viewer', %s, false)",
                (str(workspace), sight),
            )
        yield connection


def attempt(connection: Connection, statement: sql.SQL, table: str, *params: object) -> str | None:
    """Try a statement on a table; the state it was refused with, or None."""
    try:
        connection.execute(statement.format(table=sql.Identifier(table)), params)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def count(connection: Connection, table: str) -> int:
    row = connection.execute(COUNT.format(table=sql.Identifier(table))).fetchone()
    assert row is not None
    return int(row[0])


def readable(role: str) -> set[str]:
    """The tables that a role may read."""
    # What logs people in is for the system alone, and these look as a person.
    for_the_system = {"login_states", "passwords", "webhook_secrets"}
    return set(TABLES) - (for_the_system if role == "turntree_app" else SECRET)


def some_rows(conninfo: str) -> dict[str, object]:
    """One row of every table, as its owner sees it."""
    rows: dict[str, object] = {}
    with acting(conninfo, "none") as owner:
        for table in TABLES:
            row = owner.execute(ONE_ROW.format(table=sql.Identifier(table))).fetchone()
            assert row is not None, f"the story leaves no row in {table}"
            rows[table] = row[0]
    return rows


@pytest.mark.parametrize(("role", "state"), [("turntree_app", DENIED), ("none", REFUSED)])
async def test_facts_refuse_change(
    told: Tree, database: Database, conninfo: str, role: str, state: str
) -> None:
    with acting(conninfo, role, database.workspace) as connection:
        states = {
            (table, verb): attempt(connection, change, table)
            for table in sorted(FACTS)
            for verb, change in CHANGES.items()
        }
    assert {place: found for place, found in states.items() if found != state} == {}


@pytest.mark.parametrize("role", ["turntree_app", "turntree_reader"])
async def test_no_workspace_shows_nothing(
    told: Tree, database: Database, conninfo: str, role: str
) -> None:
    with acting(conninfo, role) as connection:
        assert {table for table in readable(role) if count(connection, table)} == set()
    with acting(conninfo, role, database.workspace) as connection:
        assert {table for table in readable(role) if not count(connection, table)} == set()
        # A connection that was in a workspace leaves an empty word behind instead of none.
        connection.execute("RESET turntree.workspace")
        assert {table for table in readable(role) if count(connection, table)} == set()


async def test_no_workspace_takes_nothing(told: Tree, conninfo: str) -> None:
    rows = some_rows(conninfo)
    with acting(conninfo, "turntree_app") as connection:
        states = {table: attempt(connection, INSERT_ROW, table, rows[table]) for table in TABLES}
    assert states == dict.fromkeys(TABLES, DENIED)


@pytest.mark.parametrize("role", ["turntree_app", "turntree_reader"])
async def test_a_connection_that_was_not_told_who_looks_sees_nothing(
    told: Tree, database: Database, conninfo: str, role: str
) -> None:
    for sight in ("", "human:ana"):
        with acting(conninfo, role, database.workspace, sight) as connection:
            shown = {table for table in readable(role) if count(connection, table)}
            assert shown == (readable(role) if sight else set())
            assert bool(count(connection, "workspaces")) is bool(sight)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SELECT set_config('role', %s, false)", (role,))
        assert {table for table in readable(role) if count(connection, table)} == set()
        assert count(connection, "workspaces") == 0


async def test_a_connection_that_was_not_told_who_looks_takes_nothing(
    told: Tree, database: Database, conninfo: str
) -> None:
    rows = some_rows(conninfo)
    with acting(conninfo, "turntree_app", database.workspace, sight="") as connection:
        states = {table: attempt(connection, INSERT_ROW, table, rows[table]) for table in TABLES}
    assert states == dict.fromkeys(TABLES, DENIED)


async def test_other_workspaces_are_told_of_to_the_system_alone(
    elsewhere: WorkspaceId, database: Database, conninfo: str
) -> None:
    for sight, shown in (("human:ana", 1), ("system:turntree", 2)):
        with acting(conninfo, "turntree_app", database.workspace, sight) as connection:
            assert count(connection, "workspaces") == shown


async def test_whoever_opens_a_database_and_names_nobody_sees_nothing(
    told: Tree, database: Database, conninfo: str
) -> None:
    async with open_database(conninfo, WorkspaceId(str(database.workspace))) as forgotten:
        assert await SessionStore(forgotten).list_page(limit=9) == []
        assert await SessionStore(forgotten.seen_by(EVERYTHING)).list_page(limit=9) != []


@pytest.mark.parametrize("role", ["turntree_app", "turntree_reader"])
async def test_another_workspace_sees_nothing(
    elsewhere: WorkspaceId, conninfo: str, role: str
) -> None:
    with acting(conninfo, role, elsewhere) as connection:
        assert {table for table in readable(role) if count(connection, table)} == set()


async def test_another_workspace_cannot_write_here(elsewhere: WorkspaceId, conninfo: str) -> None:
    rows = some_rows(conninfo)
    with acting(conninfo, "turntree_app", elsewhere) as connection:
        states = {table: attempt(connection, INSERT_ROW, table, rows[table]) for table in TABLES}
        changed = {
            table: connection.execute(
                CHANGES["delete" if table in UNCHANGED else "update"].format(
                    table=sql.Identifier(table)
                )
            )
            for table in MOVING | DERIVED
        }
        refused = {table: attempt(connection, CHANGES["update"], table) for table in UNCHANGED}
    assert states == dict.fromkeys(TABLES, DENIED)
    assert refused == dict.fromkeys(UNCHANGED, DENIED)
    assert {table: cursor.rowcount for table, cursor in changed.items()} == dict.fromkeys(
        MOVING | DERIVED, 0
    )


@pytest.mark.parametrize("role", ["turntree_app", "none"])
async def test_a_turn_has_no_parent_in_another_workspace(
    told: Tree, elsewhere: WorkspaceId, conninfo: str, role: str
) -> None:
    parent = await told.turns.get("main~2")
    with acting(conninfo, role, elsewhere) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(
            "WITH s AS (INSERT INTO turntree.segments (workspace_id, id, fork_depth, ordinal)"
            " VALUES (%(ws)s, %(id)s, 0, 0))"
            "INSERT INTO turntree.turns (workspace_id, id, parent_id, segment_id, started_at,"
            " sealed_at, depth, digest, kind, outcome, agent_role, by) VALUES (%(ws)s, %(id)s,"
            " %(parent)s, %(id)s, now(), now(), 2, sha256('x'), 'normal', 'completed', 'unified',"
            " 'human:eve')",
            {"ws": elsewhere, "id": FakeClock(5).new_id(), "parent": parent.turn.id},
        )
    assert caught.value.sqlstate == NO_PARENT


async def test_a_foreign_turn_looks_as_if_there_were_none(
    told: Tree, elsewhere: WorkspaceId, conninfo: str, place: Path
) -> None:
    world = FakeClock(6)
    parent = (await told.turns.get("main")).turn
    async with open_database(conninfo, elsewhere, sight=EVERYTHING) as database:
        there = tree_on(database, Settings(place, user="eve", session="main"), world)
        with pytest.raises(NotFound):
            await there.turns.get(parent.id)
        with pytest.raises(NotFound):
            await there.sessions.get("main")
        header = Header(parent.id, parent.digest, parent.header.by, world.now(), world.now())
        sealed = seal(header, [user("mine")], [assistant("now")])
        with pytest.raises(NotFound):
            await there.ledger.seal(sealed, parent.id, by="human:eve", at=world.now())
        # Not even the same id is a hint: it is free here.
        root = seal(Header(parent.id, None, *_by_when(header)), [user("a")], [assistant("b")])
        assert not (await there.ledger.seal(root, None, by="human:eve", at=world.now())).repeated


def _by_when(header: Header) -> tuple[Any, Any, Any]:
    return header.by, header.started_at, header.sealed_at


async def test_a_reader_only_reads(told: Tree, database: Database, conninfo: str) -> None:
    rows = some_rows(conninfo)
    with acting(conninfo, "turntree_reader", database.workspace) as connection:
        states = [attempt(connection, INSERT_ROW, table, rows[table]) for table in TABLES]
        states += [
            attempt(connection, change, table) for table in TABLES for change in CHANGES.values()
        ]
    assert set(states) == {DENIED}


async def test_an_eraser_replaces_bodies_and_leaves_receipts(conninfo: str) -> None:
    assert granted(conninfo, "turntree_eraser") == {
        ("approvals", "SELECT"),
        ("turn_bodies", "SELECT"),
        ("events", "SELECT"),
        ("events", "INSERT"),
        ("objects", "SELECT"),
        ("objects", "DELETE"),
        ("raw_blocks", "SELECT"),
        ("transcripts", "SELECT"),
        ("turn_sources", "SELECT"),
        ("import_cursors", "SELECT"),
        ("turns", "SELECT"),
        ("segments", "SELECT"),
        ("message_files", "SELECT"),
        ("object_holders", "SELECT"),
        ("object_holders", "DELETE"),
        ("object_writers", "SELECT"),
        ("object_writers", "DELETE"),
        ("posts", "SELECT"),
        ("post_deliveries", "SELECT"),
        ("programs", "SELECT"),
        ("queued_messages", "SELECT"),
    }
    with acting(conninfo, "none") as owner:
        columns = owner.execute(
            "SELECT table_name, column_name FROM information_schema.column_privileges"
            " WHERE grantee = 'turntree_eraser' AND privilege_type = 'UPDATE' ORDER BY 1, 2"
        ).fetchall()
    changed = ("current_digest", "data", "needs_bodies", "object_digests")
    records = [("raw_blocks", name) for name in changed]
    assert columns == [
        *(("approvals", name) for name in ("answer", "args", "question")),
        ("import_cursors", "heads"),
        ("message_files", "path"),
        ("posts", "body"),
        ("programs", "event_seq"),
        *records,
        ("turn_bodies", "body"),
    ]


async def test_an_eraser_can_write_nothing_but_stubs(
    told: Tree, database: Database, conninfo: str
) -> None:
    with acting(conninfo, "turntree_eraser", database.workspace) as connection:
        for forged in (
            "UPDATE turntree.turn_bodies SET body = replace(body, 'a', 'b')",
            "UPDATE turntree.turn_bodies SET body = body || E'\\n{}'",
            "UPDATE turntree.turn_bodies SET body = '{}'",
            "UPDATE turntree.raw_blocks SET data = ''",
            "UPDATE turntree.message_files SET path = 'b.py'",
        ):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(forged)
            assert refused.value.sqlstate == REFUSED


async def test_an_eraser_stays_in_its_workspace(elsewhere: WorkspaceId, conninfo: str) -> None:
    with acting(conninfo, "turntree_eraser", elsewhere) as connection:
        assert connection.execute("UPDATE turntree.turn_bodies SET body = ''").rowcount == 0
        assert attempt(connection, CHANGES["delete"], "turn_bodies") == DENIED


async def test_an_importer_adds_to_its_own_workspace_only(
    told: Tree, database: Database, elsewhere: WorkspaceId, conninfo: str
) -> None:
    rows = some_rows(conninfo)
    for workspace in (elsewhere, None):
        with acting(conninfo, "turntree_importer", workspace) as connection:
            assert count(connection, "turns") == 4, "COPY needs a role that bypasses the policy"
            states = {
                table: attempt(connection, INSERT_ROW, table, rows[table]) for table in TABLES
            }
        assert states == dict.fromkeys(TABLES, DENIED)
    with acting(conninfo, "turntree_importer", database.workspace) as connection:
        row = {"workspace_id": str(database.workspace), "id": FakeClock(5).new_id()}
        with connection.cursor().copy(
            "COPY turntree.segments (workspace_id, id, fork_depth, ordinal) FROM STDIN"
        ) as copy:
            copy.write_row((*row.values(), 0, 0))


async def test_an_importer_moves_no_session_of_another_workspace(
    elsewhere: WorkspaceId, conninfo: str
) -> None:
    # It bypasses the policy, so here too a trigger has to check what the policy would have.
    for workspace in (elsewhere, None):
        with acting(conninfo, "turntree_importer", workspace) as connection:
            assert {
                attempt(connection, change, table)
                for table in MOVING | DERIVED
                for change in (*CHANGES.values(), STEAL)
            } == {DENIED}


STEAL = sql.SQL(
    "UPDATE turntree.{table}"
    " SET workspace_id = nullif(current_setting('turntree.workspace', true), '')::uuid"
)


async def test_an_importer_changes_no_fact(told: Tree, database: Database, conninfo: str) -> None:
    with acting(conninfo, "turntree_importer", database.workspace) as connection:
        states = {
            attempt(connection, change, table) for table in FACTS for change in CHANGES.values()
        }
    assert states == {DENIED}


async def test_every_table_is_behind_the_walls(conninfo: str) -> None:
    # A catalogue query, so that a table that somebody adds tomorrow is asked too.
    with acting(conninfo, "none") as owner:
        rows = owner.execute(
            "SELECT c.relname, a.attnum IS NOT NULL, c.relrowsecurity, c.relforcerowsecurity,"
            # The searcher's functions compare the workspace themselves: see test_search.py.
            " (SELECT bool_and(pg_get_expr(p.polqual, c.oid) LIKE '%turntree.workspace%'"
            "   AND p.polcmd = '*' OR p.polroles = ARRAY['turntree_searcher'::regrole::oid])"
            # A restrictive policy only ever takes away: see test_closed.py.
            "   FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive),"
            " (SELECT k.conkey[1] = a.attnum FROM pg_constraint k"
            "   WHERE k.conrelid = c.oid AND k.contype = 'p')"
            " FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid"
            "   AND a.attname = 'workspace_id' AND a.attnotnull"
            " WHERE c.relnamespace = 'turntree'::regnamespace AND c.relkind IN ('r', 'p')"
        ).fetchall()
    assert {name for name, has_workspace, *_ in rows if not has_workspace} == WITHOUT_WORKSPACE
    assert {name for name, has_workspace, *_ in rows if has_workspace} == set(TABLES)
    assert {name for name, *walls in rows if not all(walls)} == WITHOUT_WORKSPACE


async def test_no_key_refers_across_workspaces(conninfo: str) -> None:
    with acting(conninfo, "none") as owner:
        rows = owner.execute(
            "SELECT k.conrelid::regclass::text || '.' || k.conname,"
            "   a.attname = 'workspace_id' AND b.attname = 'workspace_id'"
            " FROM pg_constraint k"
            " JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]"
            " JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]"
            " WHERE k.contype = 'f' AND k.connamespace = 'turntree'::regnamespace"
        ).fetchall()
        unique = owner.execute(
            "SELECT i.indexrelid::regclass::text FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indrelid"
            " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
            " WHERE c.relnamespace = 'turntree'::regnamespace AND i.indisunique"
            "   AND a.attname <> 'workspace_id' AND c.relname <> ALL (%s)",
            ([*WITHOUT_WORKSPACE],),
        ).fetchall()
    assert rows
    assert [name for name, is_inside in rows if not is_inside] == []
    # A unique key over all workspaces would tell one whether another holds the same thing.
    assert unique == []


async def test_what_the_application_cannot_change_is_a_fact_with_triggers(conninfo: str) -> None:
    changing = granted(conninfo, "turntree_app")
    movable = {table for table, right in changing if right in ("UPDATE", "DELETE", "TRUNCATE")}
    assert movable == MOVING | DERIVED
    with acting(conninfo, "none") as owner:
        rows = owner.execute(
            "SELECT tgrelid::regclass::text, array_agg(tgname::text ORDER BY tgname)"
            " FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid"
            " WHERE proname IN ('forbid_change', 'check_erasure', 'check_object_deletion',"
            " 'check_record_erasure', 'check_file_erasure', 'check_post_erasure')"
            " AND tgenabled IN ('O', 'A') GROUP BY 1"
        ).fetchall()
    refusals = ["refuse_delete", "refuse_truncate", "refuse_update"]
    assert dict(rows) == {f"turntree.{table}": refusals for table in FACTS}
    # What fsck demands of the triggers has to name the same tables.
    assert all(f"'{table}'".encode() in FSCK_SQL["fsck_i12_triggers"] for table in FACTS)


async def test_nothing_lends_its_makers_rights(conninfo: str) -> None:
    with acting(conninfo, "none") as owner:
        functions = owner.execute(
            "SELECT proname FROM pg_proc"
            " WHERE pronamespace = 'turntree'::regnamespace AND prosecdef"
            "   AND proowner <> 'turntree_searcher'::regrole"
        ).fetchall()
        views = owner.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'turntree'::regnamespace"
            " AND relkind IN ('v', 'm')"
            " AND NOT coalesce(reloptions @> '{security_invoker=true}', false)"
        ).fetchall()
    assert (functions, views) == ([], [])


@pytest.fixture
def plain_conninfo(conninfo: str) -> Generator[str, None, None]:
    """How to log in as somebody who may do what the application may, and nothing else."""
    name = f"plain_{os.urandom(4).hex()}"
    role = sql.Identifier(name)
    with psycopg.connect(conninfo, autocommit=True) as owner:
        made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE turntree_app")
        owner.execute(made.format(role, sql.Literal(name)))
        yield make_conninfo(conninfo, user=name, password=name)
        owner.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
async def plain(database: Database, plain_conninfo: str) -> AsyncGenerator[Database, None]:
    """The same database, reached without any right to bring it up to date."""
    async with open_database(
        plain_conninfo, WorkspaceId(str(database.workspace)), sight=EVERYTHING
    ) as opened:
        yield opened


async def test_the_happy_path_needs_the_applications_rights_only(
    plain: Database, place: Path, world: FakeClock
) -> None:
    tree = tree_on(plain, Settings(place, user="ana", session="main"), world)
    one = await tree.turns.record("main", [user("one")], [assistant("1")], key="k")
    await tree.turns.record("main", [user("y" * 2 * PART_INLINE_MAX_BYTES)], [assistant("2")])
    await tree.sessions.fork(one.turn.id, "fork")
    await tree.turns.record("fork", [user("three")], [assistant("3")])
    await tree.sessions.rewind("main", "main~1")
    await tree.sessions.undo("main")
    await tree.sessions.rename("main", "trunk")
    await tree.sessions.merge("trunk", "fork")
    await tree.turns.tag("trunk", "good")
    await tree.turns.untag("trunk", "good")
    assert len(await tree.threads.read("trunk")) == 2
    assert await tree.feed.read(limit=1)
    async with plain.connection() as connection:
        cursor = await connection.execute(
            "SELECT current_user, session_user LIKE 'plain%', rolsuper, rolbypassrls"
            " FROM pg_roles WHERE rolname = current_user"
        )
        assert await cursor.fetchall() == [("turntree_app", True, False, False)]


async def test_only_an_eraser_erases(plain: Database, place: Path, world: FakeClock) -> None:
    tree = tree_on(plain, Settings(place, user="ana", session="main"), world)
    await tree.turns.record("main", [user("one")], [assistant("1")])
    with pytest.raises(InvalidOperation):
        await tree.turns.erase("main", 0, reason="asked")


def granted(conninfo: str, role: str) -> set[tuple[str, str]]:
    """The rights a role has on tables of a workspace, but for reading and adding by the app."""
    with acting(conninfo, "none") as owner:
        rows = owner.execute(
            "SELECT c.relname, r FROM pg_class c,"
            " unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) r"
            " WHERE c.relnamespace = 'turntree'::regnamespace AND c.relname = ANY (%s)"
            " AND has_table_privilege(%s, c.oid, r)",
            (TABLES, role),
        ).fetchall()
    return {(table, right) for table, right in rows}
