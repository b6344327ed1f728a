"""A ledger that is spread over two databases, by a file that says which has which slots."""

from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import anyio
import psycopg
import pytest
from anyio.abc import SocketAttribute, SocketStream

import turntree
from tests.databases import Databases, as_owner
from turntree.boot.open import Settings, connect
from turntree.boot.shards import ShardDatabases
from turntree.core.errors import DatabaseUnavailable, InvalidOperation
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.db.shard import slot_of, slot_of_name
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio
SOON_S = 60.0
FIRST, SECOND = "default", "lab"
"""Two names, of which each leads to another half of the slots."""


def write_map(path: Path, one: str, two: str) -> Path:
    path.write_text(
        f'[[shard]]\nslots = ["0-2047"]\ndatabase_url = "{one}"\n'
        f'[[shard]]\nslots = ["2048-4095"]\ndatabase_url = "{two}"\n'
    )
    return path


def empty(url: str) -> None:
    """Take away the workspace "tests" of the template, which leads to the first shard."""
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM turntree.workspaces")


@pytest.fixture
def urls(databases: Databases, template: str) -> Generator[tuple[str, str], None, None]:
    with databases.lend(template) as one, databases.lend(template) as two:
        empty(as_owner(two))
        yield as_owner(one), as_owner(two)


@pytest.fixture
def environment(urls: tuple[str, str], tmp_path: Path) -> dict[str, str]:
    return {
        "TURNTREE_SHARDS": str(write_map(tmp_path / "shards.toml", *urls)),
        "TURNTREE_HOME": str(tmp_path),
        "TURNTREE_USER": "ana",
        "TURNTREE_WORKSPACE": FIRST,
    }


@pytest.fixture
def settings(environment: dict[str, str]) -> Settings:
    return Settings.from_environment(environment)


@pytest.fixture
async def shards(settings: Settings) -> AsyncGenerator[ShardDatabases, None]:
    async with connect(settings, SystemClock()) as own, AsyncExitStack() as stack:
        yield ShardDatabases(own, settings, stack)


async def names_in(database: Database) -> dict[str, str]:
    rows = await database.seen_by(EVERYTHING).list_workspaces()
    return {name: id for id, name in rows if name != "tests"}


async def test_each_workspace_is_created_where_its_name_leads(
    settings: Settings, shards: ShardDatabases
) -> None:
    assert slot_of_name(FIRST) < 2048 <= slot_of_name(SECOND)
    for name in (FIRST, SECOND):
        async with turntree.open(settings.in_workspace(name)) as tree:
            await tree.turns.record("main", [user(name)], [assistant("yes")])
    found = [await names_in(await shards.find_named(name)) for name in (FIRST, SECOND)]
    assert [[*names] for names in found] == [[FIRST], [SECOND]]
    id = found[1][SECOND]
    assert slot_of(id) == slot_of_name(SECOND)
    assert await names_in(await shards.find(id)) == found[1]
    assert shards.holds(id, SECOND)
    # Each database has one pool for all that ask for it.
    assert (await shards.find(id)).pool is (await shards.find_named(SECOND)).pool
    assert (await shards.find_named(FIRST)).pool is shards.own.pool


async def test_workspace_whose_id_leads_elsewhere_is_not_opened(
    settings: Settings, shards: ShardDatabases
) -> None:
    stray = str(UUID(int=0xFFF))
    query = f"INSERT INTO turntree.workspaces (id, name) VALUES ('{stray}', 'atlas')"  # noqa: S608
    assert slot_of_name("atlas") < 2048
    await shards.own.run_as_login(query.encode())
    with pytest.raises(InvalidOperation, match="'atlas' is from before the shard map"):
        async with turntree.open(settings.in_workspace("atlas")):
            pass
    assert settings.shard is not None
    content = await shards.read_content(settings.shard)
    assert "atlas" in content.misplaced
    assert "atlas" not in content.names


async def test_database_that_does_not_answer_fails_its_own_workspaces_only(
    urls: tuple[str, str], environment: dict[str, str], tmp_path: Path
) -> None:
    write_map(tmp_path / "shards.toml", urls[0], "postgresql://x@127.0.0.1:1/nothing")
    settings = Settings.from_environment(environment)
    async with connect(settings, SystemClock()) as own, AsyncExitStack() as stack:
        shards = ShardDatabases(own, settings, stack)
        with pytest.raises(DatabaseUnavailable):
            await shards.find_named(SECOND)
        assert FIRST in await names_in(await shards.find_named(FIRST))
        with anyio.fail_after(SOON_S / 2):
            assert await shards.answers(within_s=SOON_S)


async def test_calls_that_wait_for_a_database_share_its_failure(
    urls: tuple[str, str], environment: dict[str, str], tmp_path: Path
) -> None:
    tries = 0

    async def hang_up(stream: SocketStream) -> None:
        nonlocal tries
        tries += 1
        async with stream:
            await stream.receive()

    async def ask(shards: ShardDatabases) -> None:
        with pytest.raises(DatabaseUnavailable):
            await shards.find_named(SECOND)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django
    write_map(
        tmp_path / "shards.toml", urls[0], f"postgresql://x@127.0.0.1:{port}/x?sslmode=disable"
    )
    settings = Settings.from_environment(environment)
    async with (
        connect(settings, SystemClock()) as own,
        AsyncExitStack() as stack,
        listener,
        anyio.create_task_group() as serving,
    ):
        serving.start_soon(listener.serve, hang_up)
        shards = ShardDatabases(own, settings, stack)
        async with anyio.create_task_group() as asking:
            for _ in range(8):
                asking.start_soon(ask, shards)
        assert tries == 1
        await ask(shards)
        assert tries == 2, "who asks later tries again"
        serving.cancel_scope.cancel()


def test_map_beside_a_database_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidOperation, match="database_url and shards are both set"):
        Settings.from_environment({**environment, "TURNTREE_DATABASE_URL": "postgresql://x/y"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot read the shard map"),
        ("x = ", "is not TOML"),
        ("shard = 1", "has no list of"),
        ("other = 1\n[[shard]]\n", "has no list of"),
        ("[[shard]]\nslots = ['0-4095']\n", "a .* has slots"),
        ("[[shard]]\nslots = [1]\ndatabase_url = 'x'\n", "a .* has slots"),
        ("[[shard]]\nslots = ['0-4095']\ndatabase_url = 'x'\nname = 'y'\n", "a .* has slots"),
        ("[[shard]]\nslots = ['0-4094']\ndatabase_url = 'x'\n", "slot 4095 is in no shard"),
    ],
)
def test_file_that_is_no_map_is_refused(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "shards.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidOperation, match=why):
        Settings.from_environment({"TURNTREE_SHARDS": str(path)})
