"""What no honest client sends, and what a stranger must not be told."""

import time
from pathlib import Path
from typing import Final

import httpx2
import pytest
from starlette.requests import Request

from proofs.http_world import TEAM, a_team, serving_here
from tests.databases import as_owner
from turntree.core.errors import DatabaseUnavailable
from turntree.server.access.caller import ApiCaller
from turntree.server.context import ServerContext
from turntree.server.dispatch import Dispatcher
from turntree.server.routes import NETWORK_ROUTES

pytestmark = pytest.mark.anyio
ENDLESS = "9" * 5000
"""More digits than Python reads as a number."""
DOTS: Final = 10_000
"""Dots of a path, in each of which two names could be told apart at any place."""
WORK_S_MAX: Final = 1.0
"""Processor time of client and server for one refusal."""


async def test_value_that_cannot_be_read_is_refused(conninfo: str, place: Path) -> None:
    async with (
        a_team(as_owner(conninfo), place / "served") as team,
        serving_here(team) as url,
        httpx2.AsyncClient(base_url=f"{url}/w/{TEAM}/api/v1") as http,
    ):
        run = (await team.tree.sessions.get("lobby")).head
        for path in (
            f"/search?q=hello&cursor={ENDLESS}",
            f"/rows?at={ENDLESS}.1-2",
            f"/rows?at=1.1-{ENDLESS}",
            f"/runs/{run}/events?after={ENDLESS}.0.0",
            "/costs?until=0000-00-00",
            "/costs?since=2026-02-30",
            "/costs?until=9999-12-31",
        ):
            answer = await http.get(path, headers=team.headers("member"))
            assert answer.status_code == 422, (path[:40], answer.status_code)
            assert len(answer.text) < 1000, path[:40]
        far = f"/runs/{run}/events?after=9999999999.0.0"
        assert (await http.get(far, headers=team.headers("member"))).status_code < 500


async def test_path_of_dots_is_refused_at_once(conninfo: str, place: Path) -> None:
    async with (
        a_team(as_owner(conninfo), place / "served") as team,
        serving_here(team) as url,
        httpx2.AsyncClient(base_url=f"{url}/w/{TEAM}/api/v1", timeout=60) as http,
    ):
        for path in ("/compare/{}/x", "/compare/{}/diff/x"):
            began = time.process_time()
            answer = await http.get(path.format("." * DOTS))
            assert (answer.status_code, "www-authenticate" in answer.headers) == (404, False)
            assert time.process_time() - began < WORK_S_MAX, path


class _Unreachable:
    """Callers of a server whose database cannot be reached."""

    async def identify(self, request: Request) -> ApiCaller:
        del request
        raise DatabaseUnavailable("wrong password for the user 'keeper' at 10.0.0.3:5432")

    def welcome(self, request: Request) -> ServerContext:
        raise NotImplementedError


async def test_stranger_does_not_learn_where_the_database_is() -> None:
    path = f"/w/{TEAM}/api/v1/me"
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    request = Request({**scope, "raw_path": path.encode()})
    answer = await Dispatcher(_Unreachable(), NETWORK_ROUTES).respond(request)
    assert answer.status_code == 503
    assert b"keeper" not in answer.body
    assert b"10.0.0.3" not in answer.body
