"""Bringing a database up to date: from anywhere, once, by anybody, to one and the same schema."""

import os
import subprocess
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from tests.conftest import WORKSPACE
from tests.databases import as_owner, as_superuser, forget_roles
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import InvalidOperation
from turntree.core.event import BEGINNING
from turntree.core.ids import WorkspaceId
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db import database as databases
from turntree.db import health, schema
from turntree.db import migrate as migrates
from turntree.db.database import Database, open_database, prepare_database
from turntree.db.embedded.account import LENT_ID, find_account, is_root, lent_account
from turntree.db.embedded.installation import find_installation
from turntree.db.embedded.server import EmbeddedServer
from turntree.db.migrate import SQL, begin_epoch_if_moved, list_migrations, migrate
from turntree.db.sql import load_files
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
CATALOGUE = {
    "columns": "SELECT table_schema, table_name, column_name, data_type, is_nullable,"
    " column_default, identity_generation FROM information_schema.columns"
    " WHERE table_schema = 'turntree' OR table_name = 'turntree_migrations'",
    "tables": "SELECT relname, relkind, reloptions, relrowsecurity, relforcerowsecurity"
    " FROM pg_class WHERE relnamespace = 'turntree'::regnamespace",
    "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
    " FROM pg_constraint WHERE connamespace = 'turntree'::regnamespace",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'turntree'",
    "policies": "SELECT * FROM pg_policies WHERE schemaname = 'turntree'",
    "triggers": "SELECT pg_get_triggerdef(g.oid), tgenabled FROM pg_trigger g"
    " JOIN pg_class c ON c.oid = g.tgrelid"
    " WHERE c.relnamespace = 'turntree'::regnamespace AND NOT tgisinternal",
    "functions": "SELECT pg_get_functiondef(oid) FROM pg_proc"
    " WHERE pronamespace = 'turntree'::regnamespace",
    "rights": "SELECT relname, relacl::text FROM pg_class"
    " WHERE relnamespace = 'turntree'::regnamespace",
    "rights to columns": "SELECT attrelid::regclass::text, attname, attacl::text FROM pg_attribute"
    " WHERE attacl IS NOT NULL AND attrelid >= 16384",
    "migrations": "SELECT name FROM public.turntree_migrations",
}


@pytest.fixture
def empty(server: str) -> Generator[str, None, None]:
    """How to reach a database in which nothing was ever set up."""
    name = f"empty_{os.urandom(6).hex()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER turntree")
        yield as_owner(make_conninfo(server, dbname=name))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def climb(conninfo: str, *, upto: int | None = None) -> list[str]:
    async with await AsyncConnection.connect(conninfo, autocommit=True) as connection:
        return await migrate(connection, upto=upto)


def describe(conninfo: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything the catalogue says of our schema, in an order of its own."""
    with psycopg.connect(conninfo) as connection:
        return {
            what: sorted(connection.execute(query.encode()).fetchall(), key=repr)
            for what, query in CATALOGUE.items()
        }


@pytest.mark.parametrize("done", range(len(list_migrations()) + 1))
async def test_every_earlier_schema_climbs_to_the_same(
    empty: str, conninfo: str, done: int
) -> None:
    names = [migration.name for migration in list_migrations()]
    assert await climb(empty, upto=done) == names[:done]
    *rest, functions = await climb(empty)
    assert rest == names[done:]
    assert functions.startswith("functions ")
    found = describe(empty)
    assert all(found.values()), "an empty answer would compare nothing"
    assert found == describe(conninfo)


async def test_a_second_time_changes_nothing(conninfo: str) -> None:
    before = describe(conninfo)
    assert await climb(conninfo) == []
    assert describe(conninfo) == before


async def test_several_processes_may_begin_at_once(empty: str) -> None:
    done: list[list[str]] = []

    async def one() -> None:
        done.append(await climb(empty))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    assert [len(names) for names in sorted(done)] == [0, 0, 0, len(list_migrations()) + 1]


async def test_several_databases_of_a_cluster_may_begin_at_once(place: Path) -> None:
    # Roles belong to the cluster, so here the databases meet although each has a lock of its own:
    # the first four find no roles yet, the others find them.
    embedded = EmbeddedServer(place / "fresh", {"fsync": "off"})
    conninfo = as_superuser(embedded.ensure_running())
    try:
        forget_roles(conninfo)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for n in range(8):
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(f"d{n}")))
        for some in (range(4), range(4, 8)):
            async with anyio.create_task_group() as group:
                for n in some:
                    group.start_soon(climb, make_conninfo(conninfo, dbname=f"d{n}"))
        with psycopg.connect(conninfo) as connection:
            roles = connection.execute(
                "SELECT rolname, rolbypassrls FROM pg_roles"
                " WHERE rolname LIKE 'turntree%' ORDER BY 1"
            ).fetchall()
    finally:
        embedded.stop(mode="immediate")
    assert roles == [
        ("turntree_app", False),
        ("turntree_eraser", False),
        ("turntree_importer", True),
        ("turntree_reader", False),
        ("turntree_searcher", False),
    ]


OTHER_FUNCTIONS = """
CREATE OR REPLACE FUNCTION turntree.canonical_text(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'other' $$
"""


async def test_a_higher_number_replaces_what_is_in_force(conninfo: str) -> None:
    before = describe(conninfo)
    with another_release(schema.NUMBER + 1):
        (theirs,) = await climb(conninfo)
    assert theirs.startswith(f"functions {schema.NUMBER + 1} ")
    assert describe(conninfo)["functions"] != before["functions"]


async def test_a_newer_schema_stands_and_the_older_release_says_upgrade(conninfo: str) -> None:
    with another_release(schema.NUMBER + 1):
        await climb(conninfo)
    newer = describe(conninfo)
    with pytest.raises(
        InvalidOperation, match=r"upgrade turntree to [0-9.]+ or newer \(pip install"
    ):
        await prepare_database(conninfo, "another", FakeClock().new_id())
    with psycopg.connect(conninfo) as connection:
        # Functions that a restore gave away are no invitation either.
        connection.execute("ALTER FUNCTION turntree.reader_can_see OWNER TO CURRENT_USER")
    with pytest.raises(InvalidOperation, match="upgrade"):
        await climb(conninfo)
    with psycopg.connect(conninfo) as connection:
        connection.execute("ALTER FUNCTION turntree.reader_can_see OWNER TO turntree_searcher")
    assert describe(conninfo) == newer


async def test_of_two_texts_with_one_number_the_first_stands(conninfo: str) -> None:
    before = describe(conninfo)
    with another_release(schema.NUMBER), pytest.raises(InvalidOperation, match="raise its number"):
        await climb(conninfo)
    assert describe(conninfo) == before


async def test_functions_from_before_there_were_numbers_are_replaced(conninfo: str) -> None:
    before = describe(conninfo)
    with psycopg.connect(conninfo) as connection:
        connection.execute(OTHER_FUNCTIONS)
        connection.execute(
            "UPDATE public.turntree_migrations SET name = 'functions 0123456789abcdef'"
            " WHERE name LIKE 'functions %%'"
        )
    await climb(conninfo)
    assert describe(conninfo) == before


async def test_a_schema_from_before_the_first_release_is_refused_and_unchanged(
    conninfo: str,
) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute(
            "UPDATE public.turntree_migrations SET name = '0001_pre_roles'"
            " WHERE name = '0001_pre_ledger'"
        )
    before = describe(conninfo)
    with pytest.raises(InvalidOperation, match=r"before 0\.1\.0, which cannot be upgraded: import"):
        await prepare_database(conninfo, "another", FakeClock().new_id())
    assert describe(conninfo) == before


@contextmanager
def another_release(number: int) -> Generator[None, None, None]:
    with pytest.MonkeyPatch.context() as other:
        other.setattr(schema, "NUMBER", number)
        for module in (schema, migrates):
            other.setattr(module, "load_files", files_of_another_release)
        yield


def files_of_another_release(folder: str) -> Iterator[tuple[str, str]]:
    return iter([("10_other", OTHER_FUNCTIONS)]) if folder == "functions" else load_files(folder)


async def test_an_old_server_is_refused_politely(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "POSTGRES_MAJOR_MIN", 99)
    with pytest.raises(InvalidOperation, match="too old: Turntree needs 99 or newer"):
        await prepare_database(empty, "any", FakeClock().new_id())
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT to_regnamespace('turntree')").fetchone() == (None,)


async def test_a_database_that_stayed_where_it_was_keeps_its_epoch(conninfo: str) -> None:
    async with await AsyncConnection.connect(conninfo, autocommit=True) as connection:
        assert not await begin_epoch_if_moved(connection)


async def test_a_restored_database_begins_an_epoch(
    conninfo: str, database: Database, tree: Tree
) -> None:
    await tree.turns.record("main", [user("before")], [assistant("1")])
    move_to_another_cluster(conninfo)
    async with await AsyncConnection.connect(conninfo, autocommit=True) as connection:
        assert await begin_epoch_if_moved(connection)
        assert not await begin_epoch_if_moved(connection)
    await tree.turns.record("main", [user("after")], [assistant("2")])
    feed = await tree.feed.read(BEGINNING)
    assert [event.kind for _, event in feed] == ["session.created", *["session.head_moved"] * 2]
    assert [position.epoch for position, _ in feed] == [1, 1, 2]
    assert feed[1][0].transaction > feed[2][0].transaction, "the numbers alone would mislead"
    # A reader that had seen everything before the move continues with what came after it.
    assert await tree.feed.read(feed[1][0]) == feed[2:]
    assert await fsck(database) == []


async def test_opening_a_restored_database_begins_its_epoch(conninfo: str) -> None:
    move_to_another_cluster(conninfo)
    await prepare_database(conninfo, "tests", "")
    with psycopg.connect(conninfo) as connection:
        assert connection.execute("SELECT epoch FROM turntree.shard").fetchone() == (2,)


async def test_functions_that_a_restore_gave_away_come_home(
    conninfo: str, server: str, empty: str, database: Database, tree: Tree, place: Path
) -> None:
    await tree.turns.record("main", [user("a remembered word")], [assistant("1")])
    await tree.search.fill()
    restore_without_owners(conninfo, empty, place / "given-away.dump")
    strayed = (
        "bind_console", "console_viewer", "console_workspace", "nearest_nodes",
        "notice_preferences", "permissions_of",
        "reader_can_see", "reader_can_see_all", "reader_can_see_object", "reader_can_see_segment",
        "reader_can_see_turn", "route_words", "search_embeddings", "search_names", "search_places",
        "search_words", "unindex_turn",
    )  # fmt: skip
    assert (await health.examine(empty)).strayed_functions == strayed
    workspace = WorkspaceId(str(database.workspace))
    async with open_database(empty, workspace, sight=EVERYTHING) as restored:
        named = [found.subject.split("(")[0] for found in await fsck(restored)]
        assert named == [f"turntree.{name}" for name in strayed]
        assert await prepare_database(empty, WORKSPACE, "") == workspace
        assert (await health.examine(empty)).strayed_functions == ()
        assert await fsck(restored) == []
        there = tree_on(restored, Settings(place, user="ana"), FakeClock(3))
        assert len((await there.search("remembered", semantic=False)).hits) == 1
    assert describe(empty) == describe(conninfo)
    assert await climb(empty) == []


def restore_without_owners(source: str, target: str, dump: Path) -> None:
    program = find_installation().program
    subprocess.run([program("pg_dump"), "-Fc", "-f", dump, source], check=True)
    # The extension is the superuser's, and so is its comment.
    words = ["--no-owner", "--no-comments", "--exit-on-error", "-d", target]
    subprocess.run([program("pg_restore"), *words, dump], check=True)


def move_to_another_cluster(conninfo: str) -> None:
    """As if this were a copy: another cluster's name, and numbers from its longer life."""
    with psycopg.connect(conninfo, options="-c session_replication_role=replica") as connection:
        connection.execute("UPDATE turntree.shard SET system_identifier = 1")
        connection.execute("UPDATE turntree.events SET xid = '999999999'")


@pytest.fixture
def debian_15(place: Path) -> Generator[str, None, None]:
    """The oldest PostgreSQL that is promised, if this machine has it."""
    if not DEBIAN_15.is_dir():
        pytest.skip("PostgreSQL 15 is not installed")
    # initdb asks for a name, which the uid of a home has not.
    account = lent_account(LENT_ID) if is_root() else find_account(place)
    home = place / "fifteen"
    home.mkdir()
    account.give(home)
    words: list[str | Path] = [
        "-D",
        home / "data",
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
    ]
    made = account.run([DEBIAN_15 / "initdb", *words, "--no-sync"], cwd=home)
    assert made.code == 0, made.output
    options = f"-c listen_addresses='' -c unix_socket_directories='{home}' -c fsync=off"
    control: list[str | Path] = [DEBIAN_15 / "pg_ctl", "-D", home / "data", "-w"]
    started = account.run([*control, "-l", home / "log", "-o", options, "start"], cwd=home)
    assert started.code == 0, (home / "log").read_text()
    yield make_conninfo(host=str(home), user="postgres", dbname="postgres")
    account.run([*control, "-m", "immediate", "stop"], cwd=home)


@asynccontextmanager
async def opened(conninfo: str, world: FakeClock) -> AsyncGenerator[Database, None]:
    workspace = await prepare_database(conninfo, "old", world.new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        yield database


async def test_everything_works_on_the_oldest_postgresql(
    debian_15: str, world: FakeClock, place: Path
) -> None:
    async with opened(debian_15, world) as database:
        tree = tree_on(database, Settings(place, user="ana", session="main"), world)
        one = await tree.turns.record("main", [user("one")], [assistant("1")], key="k")
        two = await tree.turns.record("main", [user("two")], [assistant("2")])
        await tree.sessions.fork(one.turn.id, "fork")
        other = await tree.turns.record("fork", [user("other")], [assistant("3")])
        await tree.sessions.rewind("main", one.turn.id)
        await tree.sessions.undo("main")
        assert [hit.placed for hit in (await tree.search("two")).hits] == [two]
        await tree.turns.erase("fork", 0, reason="asked")
        comparison = await tree.threads.compare("main", "fork")
        assert (comparison.base, comparison.left) == (one, (two,))
        assert [placed.turn.id for placed in comparison.right] == [other.turn.id]
        assert [placed.turn.title for placed in await tree.threads.read("main")] == ["one", "two"]
        assert len(await tree.feed.read(BEGINNING)) == 8
        assert await fsck(database) == []


async def test_an_upgrade_waits_for_whoever_is_writing(empty: str) -> None:
    """A writer that holds one table and wants the next gets it; then the upgrade goes on."""
    await climb(empty)
    with psycopg.connect(empty) as connection:
        # Policies of another text, so that the upgrade has to lock their tables.
        for table in ("sessions", "turns", "events"):
            connection.execute(f"COMMENT ON POLICY visible ON turntree.{table} IS 'other'".encode())
        connection.execute(SQL["delete_function_versions"])
    async with (
        await AsyncConnection.connect(empty) as writer,
        anyio.create_task_group() as group,
    ):
        await writer.execute("UPDATE turntree.sessions SET version = version")
        group.start_soon(climb, empty)
        await anyio.sleep(0.5)
        await writer.execute("UPDATE turntree.turns SET depth = depth")
        await writer.execute("UPDATE turntree.events SET seq = seq")
        await anyio.sleep(0.5)
        await writer.commit()
    assert await climb(empty) == []
