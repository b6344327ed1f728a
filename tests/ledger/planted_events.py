"""A database in which a story was told, and a way to break it that nothing stops."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import psycopg
from psycopg.conninfo import make_conninfo

from proofs import fsck_story
from tests.conftest import WORKSPACE
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database, prepare_database
from turntree.testing.fakes import FakeClock

COPY = 77
LEAF = "(SELECT after_id FROM turntree.session_history WHERE session_id = {last} AND version = 2)"
NAMED = "(SELECT session_id FROM turntree.session_names WHERE name = '{}')"
PLACEHOLDERS = {
    "leaf": LEAF.format(last=NAMED.format("last")),
    "trunk": NAMED.format("trunk"),
    "last": NAMED.format("last"),
    "root": "(SELECT id FROM turntree.turns WHERE depth = 1 ORDER BY id LIMIT 1)",
    "deepest": "(SELECT id FROM turntree.segments ORDER BY ordinal DESC LIMIT 1)",
}


def told_in(server: str, template: str, *more: Callable[[Tree], Awaitable[None]]) -> str:
    """Return the name of a database in which the story was told, and more of it."""
    name = f"told_{os.urandom(4).hex()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    anyio.run(_fill, make_conninfo(server, dbname=name), more)
    return name


async def _fill(conninfo: str, more: tuple[Callable[[Tree], Awaitable[None]], ...]) -> None:
    workspace = await prepare_database(conninfo, WORKSPACE, "")
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        settings = Settings(Path(), user='an"a', session="main")
        tree = tree_on(database, settings, FakeClock(7))
        await fsck_story.tell(tree, COPY)
        for tell in more:
            await tell(tree)


def plant(conninfo: str, statement: str) -> None:
    with planting(conninfo) as connection:
        for one in statement.format(**PLACEHOLDERS).split(";"):
            assert connection.execute(one.encode()).rowcount != 0, one


def planting(conninfo: str) -> "psycopg.Connection[tuple[object, ...]]":
    """A superuser whom no trigger and no foreign key stops."""
    return psycopg.connect(conninfo, autocommit=True, options="-c session_replication_role=replica")
