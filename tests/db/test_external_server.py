"""Any PostgreSQL will do, owned by anybody who may create roles."""

import os
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.databases import as_superuser, forget_roles
from tests.transcripts.test_bulk_copy import TREE, check, grow
from turntree.boot.open import Settings, connect, open_tree, tree_on
from turntree.core.errors import DatabaseUnavailable
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.embedded.server import EmbeddedServer
from turntree.testing.fakes import FakeClock
from turntree.transcripts.bulk_copy import import_turns

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(params=["WITH ADMIN OPTION", ""], ids=["may let others in", "was let in"])
def ordinary(server: str, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """A database whose owner is no superuser, as on a managed server."""
    name = f"plain_{os.urandom(4).hex()}"
    with psycopg.connect(server, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN CREATEROLE PASSWORD '{name}'")
        # Whoever set the cluster up lets the newcomer into the roles that exist already.
        owner.execute(
            "GRANT turntree_app, turntree_reader, turntree_importer, turntree_eraser, "
            f"turntree_searcher TO {name} {request.param}"
        )
        owner.execute("ALTER ROLE turntree_importer NOBYPASSRLS")
        owner.execute(f"CREATE DATABASE {name} OWNER {name}")
        yield make_conninfo(server, user=name, password=name, dbname=name)
        owner.execute("ALTER ROLE turntree_importer BYPASSRLS")
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
        owner.execute(f"DROP ROLE {name}")


async def test_an_ordinary_owner_can_do_everything(
    template: str, ordinary: str, place: Path, world: FakeClock
) -> None:
    settings = Settings(place, database_url=ordinary, user="ana")
    async with connect(settings, world) as database:
        tree = tree_on(database, settings, world)
        await tree.turns.record("main", [user("one")], [assistant("1")])
        await tree.sessions.fork("main", "side")
        assert len((await tree.search("one", semantic=False)).hits) == 1
        await tree.turns.erase("main", 0, reason="asked for")
        grown = grow(world, TREE)
        assert (await import_turns(database.seen_by(EVERYTHING), grown)).added == len(TREE)
        await check(tree, grown)


async def test_an_ordinary_owner_may_be_the_first_of_a_cluster(
    place: Path, world: FakeClock
) -> None:
    # Since PostgreSQL 16 whoever makes a role is its member, but may not yet act as it.
    embedded = EmbeddedServer(place / "managed", {"fsync": "off"})
    server = as_superuser(embedded.ensure_running())
    try:
        forget_roles(server)
        with psycopg.connect(server, autocommit=True) as owner:
            owner.execute("CREATE ROLE plain LOGIN CREATEROLE PASSWORD 'plain'")
            owner.execute("CREATE DATABASE first OWNER plain")
            owner.execute("CREATE DATABASE second OWNER plain")
        for name in ("first", "second"):
            url = make_conninfo(server, user="plain", password="plain", dbname=name)
            settings = Settings(place, database_url=url, user="ana")
            async with connect(settings, world) as database:
                tree = tree_on(database, settings, world)
                await tree.turns.record("main", [user("one")], [assistant("1")])
                assert len((await tree.search("one", semantic=False)).hits) == 1
                await tree.turns.erase("main", 0, reason="asked for")
    finally:
        embedded.stop(mode="immediate")


async def test_a_database_that_does_not_answer_is_unreachable(place: Path) -> None:
    nowhere = Settings(place, database_url="host=127.0.0.1 port=1 user=nobody connect_timeout=1")
    with pytest.raises(DatabaseUnavailable):
        async with open_tree(nowhere):
            pass
