"""A server over a test's own database, without a socket."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from proofs.http_world import Team, a_team, serving_here
from tests.databases import as_owner
from tests.server.asgi import PORT, ask, post_headers
from tests.server.network import SOON_S, Client
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.cli.hints import command_for
from turntree.db.database import Database
from turntree.server.app import make_door
from turntree.server.context import ServerContext
from turntree.server.keys import AccessKeys
from turntree.server.security import Door
from turntree.testing.fakes import FakeClock

NOW_S = 1_790_000_000.0


class StoppedTime:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = NOW_S

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> StoppedTime:
    """A clock that stands still."""
    return StoppedTime()


@pytest.fixture
def keys(time: StoppedTime) -> AccessKeys:
    """The keys of the server."""
    return AccessKeys(b"k" * 32, "launch", PORT, time)


@pytest.fixture
def context(
    tree: Tree, database: Database, world: FakeClock, place: Path, keys: AccessKeys
) -> ServerContext:
    """What handlers work with."""
    settings = Settings(place, user="ana", session="main")
    return ServerContext(tree, database, settings, world, command_for, keys)


@pytest.fixture
def door(context: ServerContext) -> Door:
    """The whole application."""
    return make_door(context, PORT)


@pytest.fixture
async def cookie(door: Door, keys: AccessKeys) -> str:
    """The Cookie header of a browser that was let in."""
    body = f'{{"key": "{keys.issue_key()}"}}'.encode()
    answer = await ask(
        door, "/api/v1/session-key", method="POST", headers=post_headers(), chunks=[body]
    )
    assert answer.status == 204
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.fixture
async def team(conninfo: str, place: Path) -> AsyncGenerator[Team, None]:
    """A workspace with people of every role."""
    async with a_team(as_owner(conninfo), place / "served") as opened:
        yield opened


@pytest.fixture
async def client(team: Team) -> AsyncGenerator[Client, None]:
    """A client of a server on a free port."""
    async with (
        serving_here(team) as url,
        httpx2.AsyncClient(base_url=url, timeout=SOON_S) as http,
    ):
        yield Client(http, team)
