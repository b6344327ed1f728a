"""A client of a server on a real socket, over a real database."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from proofs.http_world import TEAM, Team, a_team, serving_here
from tests.databases import as_owner
from turntree.client import Client

Connect = Callable[..., Client]


@pytest.fixture
async def team(conninfo: str, place: Path) -> AsyncGenerator[Team, None]:
    """A workspace with people of every role."""
    async with a_team(as_owner(conninfo), place / "served") as opened:
        yield opened


@pytest.fixture
async def url(team: Team) -> AsyncGenerator[str, None]:
    """Where a server listens."""
    async with serving_here(team) as at:
        yield at


@pytest.fixture
async def connect(team: Team, url: str) -> AsyncGenerator[Connect, None]:
    """Makes a client of one caller or another."""
    async with AsyncExitStack() as stack:

        def make(caller: str, at: str = url) -> Client:
            client = Client(f"{at}/w/{TEAM}", team.keys[caller])
            stack.push_async_callback(client.aclose)
            return client

        yield make


@pytest.fixture
def client(connect: Connect) -> Client:
    """A client of a member."""
    return connect("member")
