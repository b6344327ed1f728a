"""``turntree serve``, typed: the link, the first key, an answer, readiness and the end."""

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
from tests.cli.hint_runner import begin_and_end
from tests.cli.talker import furnish
from tests.databases import as_owner
from turntree.boot.open import Settings

pytestmark = pytest.mark.anyio
SOON_S = 60.0
WORDS = "one two three four five six seven eight"


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


@pytest.fixture
def furnished(turntree: Call, place: Path, conninfo: str) -> Settings:
    """The workspace of a person whose model says its words one by one when told to wait."""
    rules = [{"when": "wait", "replies": [{"text": WORDS}]}]
    furnish(turntree, rules, "--set", "word_delay_s=0.2")
    return Settings(
        place / "served", database_url=as_owner(conninfo), workspace="tests", user="ana"
    )


def as_holder(key: str, name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "idempotency-key": name}


async def read_events(stream: httpx2.Response) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the position, the name and the document of each event until the stream ends."""
    events: list[tuple[str, str, dict[str, Any]]] = []
    position = name = ""
    async for line in stream.aiter_lines():
        field, _, text = line.partition(": ")
        match field:
            case "id":
                position = text
            case "event":
                name = text
            case "data":
                events.append((position, name, json.loads(text)))
            case _:
                pass
    return events


@pytest.mark.slow
async def test_message_is_followed_from_any_position_until_it_is_answered(
    furnished: Settings,
) -> None:
    api = "/w/tests/api/v1"
    async with (
        serving_apart(furnished) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
        asyncio.timeout(SOON_S),
    ):
        assert served.told["worker"] is True
        key = (await exchange(http, served)).json()["key"]
        body = {"to": "main", "text": "wait for it"}
        sent = await http.post(f"{api}/runs", json=body, headers=as_holder(key, "first"))
        assert sent.status_code == 200, sent.text
        again = await http.post(f"{api}/runs", json=body, headers=as_holder(key, "first"))
        run = sent.json()["run"]
        assert again.json()["run"] == run
        path, caller = f"{api}/runs/{run}", as_holder(key, "unused")
        async with http.stream("GET", f"{path}/events", headers=caller) as stream:
            events = await read_events(stream)
        chunks = [event for event in events if event[1] == "chunk"]
        assert "".join(document["text"] for _, _, document in chunks) == WORDS
        assert events[-1][1] == "end"
        assert events[-1][2]["outcome"] == "completed"
        assert (await http.get(path, headers=caller)).json() == events[-1][2]
        # A client that was cut off after any event gets what follows it. What was said in pieces
        # is in the step that records it, once the run is finished.
        recorded = [event for event in events if event[1] != "chunk"]
        for index, (position, _, _) in enumerate(recorded[:-1]):
            resumed = {**caller, "last-event-id": position}
            async with http.stream("GET", f"{path}/events", headers=resumed) as stream:
                rest = await read_events(stream)
            assert [event[2] for event in rest] == [event[2] for event in recorded[index + 1 :]]
        turn = (await http.get(f"{api}/turns/{run}", headers=caller)).json()
        assert [part["text"] for part in turn["reply"][0]["parts"]] == [WORDS]
        assert (await http.get(f"{api}/sessions/main", headers=caller)).json()["head"] == run
        # Sent once, answered once.
        assert (await http.get(f"{api}/sessions/main", headers=caller)).json()["turns"] == 1


@pytest.mark.slow
async def test_stop_signal_lets_a_turn_that_was_begun_finish(furnished: Settings) -> None:
    api = "/w/tests/api/v1"
    async with asyncio.timeout(2 * SOON_S):
        async with (
            serving_apart(furnished) as served,
            httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
        ):
            key = (await exchange(http, served)).json()["key"]
            body = {"to": "main", "text": "wait for it"}
            sent = await http.post(f"{api}/runs", json=body, headers=as_holder(key, "first"))
            path = f"{api}/runs/{sent.json()['run']}"
            async with http.stream("GET", f"{path}/events", headers=as_holder(key, "x")) as stream:
                async for line in stream.aiter_lines():
                    if line == "event: chunk":
                        served.process.send_signal(signal.SIGINT)
                        break
            assert await served.process.wait() == 0
        # The next server tells what became of it; there is no worker that could answer now.
        async with (
            serving_apart(furnished, "--no-worker") as served,
            httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
        ):
            ended = (await http.get(path, headers=as_holder(key, "x"))).json()
            assert (ended["status"], ended["outcome"]) == ("finished", "completed")


@pytest.mark.slow
def test_address_beyond_this_machine_needs_a_name(turntree: Call) -> None:
    answer = turntree("serve", "--host", "0.0.0.0")  # noqa: S104 - it is refused.
    assert answer.code == 1
    assert "give the host name that clients use" in answer.err


@pytest.mark.slow
def test_link_of_a_server_for_others_stays_on_this_machine(turntree: Call) -> None:
    assert turntree("session", "create", "main").code == 0
    words = ("--host", "0.0.0.0", "--name", "team.example.net", "--port", "0")  # noqa: S104
    code, printed = begin_and_end(["serve", *words])
    assert code == 0, printed
    assert "your key: http://127.0.0.1:" in printed
    assert "team.example.net" not in printed


def test_server_is_not_started_with_a_token(bare: Call) -> None:
    answer = bare("serve", "--token", "x")
    assert answer.code == 1
    assert "cannot run with a token" in answer.err


@pytest.mark.parametrize(("page", "script"), [
    ("index.html", "welcome.js"), ("login.html", "login.js"),
])  # fmt: skip
def test_pages_run_no_inline_script_and_have_no_inline_style(page: str, script: str) -> None:
    folder = Path(__file__).parents[3] / "src/turntree/server/access/welcome"
    text = (folder / page).read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "style=" not in text
    assert json.dumps(script) in text
    # Text that a server or a person wrote never becomes elements.
    assert "innerHTML" not in (folder / script).read_text(encoding="utf-8")


async def test_login_page_is_the_same_for_every_workspace(
    served: ServeProcess, http: httpx2.AsyncClient
) -> None:
    pages = [await http.get(f"/w/{name}/login") for name in ("tests", "none")]
    assert [page.status_code for page in pages] == [200, 200]
    assert pages[0].text == pages[1].text
    assert pages[0].headers["content-type"].startswith("text/html")
    policy = pages[0].headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    for name, media in (("login.js", "text/javascript"), ("login.css", "text/css")):
        file = await http.get(f"/w/tests/{name}")
        assert file.headers["content-type"].startswith(media)
        assert file.headers["x-content-type-options"] == "nosniff"
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert (await http.get("/w/tests/login", headers=link)).status_code == 200
