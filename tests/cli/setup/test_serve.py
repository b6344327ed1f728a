"""``turntree serve``, typed: the link, the first key, readiness and the end."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from proofs.http_world import ServeProcess, serving_apart
from tests.cli.conftest import Call
from tests.databases import as_owner
from turntree.boot.open import Settings

pytestmark = pytest.mark.anyio
SOON_S = 60.0


@pytest.fixture
async def served(conninfo: str, place: Path) -> AsyncGenerator[ServeProcess, None]:
    """The command in a process of its own, for ana."""
    settings = Settings(
        place / "served", database_url=as_owner(conninfo), workspace="tests", user="ana"
    )
    async with serving_apart(settings, "--no-worker", "--drain-s", "5") as process:
        yield process


@pytest.fixture
async def http(served: ServeProcess) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of it."""
    async with httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as client:
        yield client


async def exchange(http: httpx2.AsyncClient, served: ServeProcess) -> httpx2.Response:
    code = served.told["link"].partition("#code=")[2]
    return await http.post("/w/tests/api/v1/first-key", json={"code": code})


async def test_link_gives_the_first_admin_a_key_once(
    served: ServeProcess, http: httpx2.AsyncClient
) -> None:
    page = await http.get(served.told["link"].partition("#")[0].replace("127.0.0.1", "localhost"))
    assert "welcome.js" in page.text
    assert (await http.get("/w/tests/welcome.js")).headers["content-type"].startswith("text/java")
    first = await exchange(http, served)
    assert first.status_code == 200, first.text
    key: dict[str, Any] = first.json()
    assert key["holder"] == "human:ana"
    headers = {"authorization": f"Bearer {key['key']}"}
    assert (await http.get("/w/tests/api/v1/me", headers=headers)).json()["user"] == "ana"
    assert (await exchange(http, served)).status_code == 403


async def test_stop_signal_ends_streams_and_the_process(
    served: ServeProcess, http: httpx2.AsyncClient
) -> None:
    assert (await http.get("/readyz")).json() == {"status": "ready"}
    key = (await exchange(http, served)).json()["key"]
    headers = {"authorization": f"Bearer {key}", "idempotency-key": "a"}
    body = {"to": "desk", "text": "hello"}
    sent = await http.post("/w/tests/api/v1/runs", json=body, headers=headers)
    assert sent.status_code == 200, sent.text
    path = f"/w/tests/api/v1/runs/{sent.json()['run']}/events"
    async with http.stream("GET", path, headers=headers) as stream, asyncio.timeout(SOON_S):
        assert stream.status_code == 200
        served.process.send_signal(signal.SIGTERM)
        assert [line async for line in stream.aiter_lines() if line.startswith("data")] == []
    assert await asyncio.wait_for(served.process.wait(), SOON_S) == 0


def test_address_beyond_this_machine_needs_a_name(bare: Call) -> None:
    answer = bare("serve", "--host", "0.0.0.0")  # noqa: S104 - it is refused.
    assert answer.code == 1
    assert "by which name" in answer.err


def test_server_is_not_started_with_a_token(bare: Call) -> None:
    answer = bare("serve", "--token", "x")
    assert answer.code == 1
    assert "without a token" in answer.err


def test_welcome_page_runs_no_inline_script() -> None:
    page = Path(__file__).parents[3] / "src/turntree/server/access/welcome/index.html"
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert json.dumps("welcome.js") in text
