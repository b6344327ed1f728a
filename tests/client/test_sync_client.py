"""The client without ``async``: the same verbs before a real server."""

import asyncio
import threading

import pytest

from proofs.http_world import TEAM, Team
from tests.sync_stub import CLIENT_STUB, write_client_stub
from turntree.client import Client, SyncClient
from turntree.core.errors import InvalidOperation, NotFound
from turntree.wire.sessions import SessionSummary

pytestmark = pytest.mark.anyio


def test_stub_is_what_the_client_offers() -> None:
    written = CLIENT_STUB.read_text(encoding="utf-8")
    assert written == write_client_stub(), "python -m tests.sync_stub"


def test_every_facet_is_in_the_stub() -> None:
    facets = [name for name in vars(Client("http://127.0.0.1:1/w/team", "ttk_x")) if name[0] != "_"]
    written = CLIENT_STUB.read_text(encoding="utf-8")
    assert [name for name in facets if f"\n    {name}: _" not in written] == ["address"]


async def test_verbs_wait_for_their_results(team: Team, url: str) -> None:
    # In a thread, because the server answers in the loop of this one.
    await asyncio.to_thread(_talk, f"{url}/w/{TEAM}", team.keys["member"])
    assert "turntree" not in [thread.name for thread in threading.enumerate()]


def _talk(url: str, key: str) -> None:
    with SyncClient(url, key) as client:
        assert client.me().user == "mia"
        turn = client.turns.get("lobby")
        made = client.sessions.fork("lobby", "aside")
        assert made.head == turn.id
        sessions: list[SessionSummary] = list(client.sessions.list_all())
        assert {"lobby", "aside"} <= {one.label for one in sessions}
        # A generator that is left early ends the request.
        for session in client.sessions.list_all():
            assert session.label
            break
        queued = client.runs.post("aside", "Hello", key="once")
        assert client.runs.post("aside", "Hello", key="once").run == queued.run
        with pytest.raises(NotFound, match="no-such-session"):
            client.turns.get("no-such-session")
    with pytest.raises(InvalidOperation, match="the client is closed"):
        client.me()


async def test_client_is_closed_once_however_often(team: Team, url: str) -> None:
    def open_and_close() -> None:
        client = SyncClient(f"{url}/w/{TEAM}", team.keys["member"])
        assert client.sessions.get("lobby").label == "lobby"
        client.close()
        client.close()

    await asyncio.to_thread(open_and_close)


def test_address_that_is_none_is_refused_before_a_thread_begins() -> None:
    before = threading.active_count()
    with pytest.raises(InvalidOperation):
        SyncClient("turntree.example.net", "ttk_x")
    assert threading.active_count() == before
