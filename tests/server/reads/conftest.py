"""The application over a real database, and a client that calls it without a network."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.principal import Principal
from turntree.core.viewer import sight_of
from turntree.db.database import Database
from turntree.server.app import make_app
from turntree.server.context import ServerContext
from turntree.server.keys import AccessKeys
from turntree.testing.fakes import FakeClock


class Reader:
    """Calls the read routes."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def send(self, *words: str, **query: Any) -> httpx2.Response:
        """Return the response of the route that the words make: each is one piece of its path."""
        path = "/api/v1/" + "/".join(quote(word, safe="~.") for word in words)
        asked = {name: value for name, value in query.items() if value is not None}
        return await self.client.get(f"{path}?{urlencode(asked)}" if asked else path)

    async def get(self, *words: str, **query: Any) -> Any:
        """Return what the route answers, which must be a success."""
        response = await self.send(*words, **query)
        assert response.status_code == 200, response.text
        return response.json()


def app_of(database: Database, tree: Tree, settings: Settings, world: FakeClock) -> Any:
    """Return the application for the viewer of a tree."""
    keys = AccessKeys(b"secret", "launch", 1, lambda: 0.0)
    return make_app(ServerContext(tree, database, settings, world, lambda _: None, keys))


@pytest.fixture
def settings(place: Path) -> Settings:
    """Ana's."""
    return Settings(place, user="ana", session="main")


@pytest.fixture
async def reader(
    database: Database, tree: Tree, settings: Settings, world: FakeClock
) -> AsyncGenerator[Reader, None]:
    """Ana's browser."""
    transport = httpx2.ASGITransport(app_of(database, tree, settings, world))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        yield Reader(client)


@pytest.fixture
async def stranger(
    database: Database, settings: Settings, world: FakeClock
) -> AsyncGenerator[Reader, None]:
    """The browser of a viewer who has access to nothing private."""
    seen = database.seen_by(sight_of(Principal("human", "zoe")))
    tree = tree_on(seen, Settings(settings.home, user="zoe"), world)
    transport = httpx2.ASGITransport(app_of(seen, tree, settings, world))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        yield Reader(client)
