"""The stream of a workspace over the network: who gets what, and what a cut loses."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from proofs.http_world import OWNER, TEAM, Team, a_team, serving_here
from tests.databases import as_owner
from turntree.auth.identities.identity import ProvenAccount
from turntree.core.errors import DatabaseUnavailable
from turntree.core.event import BEGINNING, FeedPosition
from turntree.core.message import assistant, user
from turntree.core.viewer import Sight
from turntree.db import pool as pools
from turntree.server import workspace_stream
from turntree.server.context import StreamHandle
from turntree.server.reads.stream import WorkspaceStreamResponse
from turntree.server.workspace_stream import StreamReader, WorkspaceStream

pytestmark = pytest.mark.anyio
SOON_S = 10.0
API = f"/w/{TEAM}/api/v1"


@pytest.fixture
async def team(conninfo: str, place: Path) -> AsyncGenerator[Team, None]:
    """A workspace with people of every role."""
    async with a_team(as_owner(conninfo), place / "served") as opened:
        yield opened


@pytest.fixture
async def http(team: Team) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of a server on a free port."""
    async with (
        serving_here(team) as url,
        httpx2.AsyncClient(base_url=url, timeout=SOON_S) as client,
    ):
        yield client


@dataclass
class Listener:
    """One connection, and what it got."""

    lines: AsyncIterator[str]
    position: str = ""
    names: set[str] = field(default_factory=set[str])
    messages: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    async def next(self) -> tuple[str, Any]:
        """Return the next message: its kind and its document."""
        position, kind = "", ""
        async with asyncio.timeout(SOON_S):
            async for line in self.lines:
                name, _, text = line.partition(": ")
                if name == "id":
                    position = text
                elif name == "event":
                    kind = text
                elif name == "data":
                    document = json.loads(text)
                    self.position = position or self.position
                    self.messages.append((kind, document))
                    self.names |= {*document.get("turns", ()), *document.get("sessions", ())}
                    return kind, document
        raise EOFError

    async def wait_for(self, name: str) -> None:
        """Wait until a change names a turn or a session."""
        while name not in self.names:
            await self.next()


@asynccontextmanager
async def listening(
    http: httpx2.AsyncClient, team: Team, caller: str, after: str = ""
) -> AsyncGenerator[Listener, None]:
    """Listen as a caller, once the server has greeted them."""
    url = str(http.base_url).rstrip("/")
    headers = {**team.headers(caller, url), **({"last-event-id": after} if after else {})}
    async with http.stream("GET", f"{API}/stream", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        listener = Listener(answer.aiter_lines())
        assert (await listener.next())[0] == "hello"
        yield listener


async def say(team: Team, words: str, label: str = "lobby") -> str:
    placed = await team.tree.turns.record(label, [user(words)], [assistant("yes")])
    return str(placed.turn.id)


async def test_listener_is_told_what_others_do(http: httpx2.AsyncClient, team: Team) -> None:
    async with listening(http, team, "member") as first, listening(http, team, "guest") as second:
        turn = await say(team, "hello")
        await first.wait_for(turn)
        await second.wait_for(turn)
        assert first.messages[-1] == second.messages[-1]


async def test_private_change_reaches_only_who_may_see_it(
    http: httpx2.AsyncClient, team: Team
) -> None:
    callers = ("owner", "narrowed to reading", "member", "admin", "guest", "agent on behalf")
    async with (
        listening(http, team, callers[0]) as owner,
        listening(http, team, callers[1]) as same,
        listening(http, team, callers[2]) as member,
        listening(http, team, callers[3]) as admin,
        listening(http, team, callers[4]) as guest,
        listening(http, team, callers[5]) as agent,
    ):
        vault = await team.add_vault(1)
        end = await say(team, "the end")
        for one in (owner, same):
            await one.wait_for(vault.turns[-1])
        for one in (owner, same, member, admin, guest, agent):
            await one.wait_for(end)
        session = str((await team.of(OWNER).sessions.get(vault.label)).id)
        assert session in owner.names
        for one in (member, admin, guest, agent):
            assert not one.names & {session, *vault.turns}


async def test_listener_who_comes_back_gets_what_they_may_see_of_the_rest(
    http: httpx2.AsyncClient, team: Team
) -> None:
    async with listening(http, team, "owner") as before:
        position = before.position
    vault = await team.add_vault(1)
    turn = await say(team, "meanwhile")
    for caller, is_seen in (("owner", True), ("member", False)):
        async with listening(http, team, caller, position) as again:
            await again.wait_for(turn)
            assert (vault.turns[0] in again.names) is is_seen
        async with listening(http, team, caller, again.position) as later:
            assert len(later.messages) == 1


async def test_greeting_before_what_was_missed_has_no_position(
    http: httpx2.AsyncClient, team: Team
) -> None:
    await say(team, "hello")
    async with listening(http, team, "member", str(BEGINNING)) as listener:
        assert listener.position == ""
        assert (await listener.next())[0] == "changed"
        assert listener.position


async def test_listener_from_a_position_that_is_not_there_asks_again_for_all(
    http: httpx2.AsyncClient, team: Team
) -> None:
    async with listening(http, team, "member", str(FeedPosition(9, 1, 1))) as listener:
        kind, changes = await listener.next()
        assert (kind, changes["is_whole"]) == ("changed", True)
        turn = await say(team, "hello")
        await listener.wait_for(turn)


@pytest.mark.parametrize("text", ["x", "1-2", "-1-0-0", f"0-{2**63}-0", "0-0-0-0"])
async def test_text_that_is_no_position_is_refused(
    http: httpx2.AsyncClient, team: Team, text: str
) -> None:
    answer = await http.get(f"{API}/stream?after={text}", headers=team.headers("member"))
    assert answer.status_code == 422, answer.text


async def test_stream_is_cut_ten_times_without_a_gap_or_repeat(
    http: httpx2.AsyncClient, team: Team
) -> None:
    async with listening(http, team, "member") as listener:
        position = listener.position
    heard: list[str] = []
    said: list[str] = []
    for number in range(10):
        said.append(await say(team, f"before {number}"))
        async with listening(http, team, "member", position) as listener:
            said.append(await say(team, f"while {number}"))
            await listener.wait_for(said[-1])
            position = listener.position
            heard += [turn for _, it in listener.messages for turn in it.get("turns", ())]
    assert heard == said


@pytest.mark.parametrize("how", ["key revoked", "member removed", "role changed"])
async def test_reader_who_may_no_longer_read_gets_nothing_more(
    http: httpx2.AsyncClient, team: Team, how: str
) -> None:
    async with listening(http, team, "member") as mia, listening(http, team, "owner") as owner:
        if how == "key revoked":
            (made,) = await team.of("mia").keys.list_all()
            await team.of("mia").keys.revoke(made.id)
        elif how == "member removed":
            await team.tree.members.remove("mia")
        else:
            await team.tree.members.set_role("mia", "guest")
        turn = await say(team, "not for you")
        await owner.wait_for(turn)
        with pytest.raises(EOFError):
            await mia.wait_for(turn)
        assert turn not in mia.names


@pytest.mark.parametrize("how", ["logged out", "ended by an admin", "account unlinked"])
async def test_stream_of_a_login_session_ends_with_it(
    http: httpx2.AsyncClient, team: Team, how: str
) -> None:
    login = await team.log_in("browser", "mia")
    code = team.logins["browser"]
    if how == "account unlinked":
        session = await team.tree.login_sessions.verify(code)
        account = ProvenAccount("https://id.example.net", "s-mia")
        identity = await team.tree.identities.link(account, session)
        made, team.logins["browser"] = await team.tree.identities.log_in(account)
        login = made.id
    async with listening(http, team, "browser") as mia, listening(http, team, "owner") as owner:
        if how == "logged out":
            await team.tree.login_sessions.log_out(code)
        elif how == "ended by an admin":
            await team.of("ana").login_sessions.end(login)
        else:
            await team.of("mia").identities.unlink(identity)
        turn = await say(team, "not for you")
        await owner.wait_for(turn)
        with pytest.raises(EOFError):
            await mia.wait_for(turn)
        assert turn not in mia.names


@dataclass
class SlowConnection:
    """An ASGI connection that takes nothing more until there is room."""

    room: asyncio.Event = field(default_factory=asyncio.Event)
    greeted: asyncio.Event = field(default_factory=asyncio.Event)
    text: str = ""

    async def receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("the client never leaves")

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self.greeted.is_set():
            await self.room.wait()
        self.text += message.get("body", b"").decode()
        if "event: hello" in self.text:
            self.greeted.set()


@asynccontextmanager
async def serving_slowly(
    team: Team,
) -> AsyncGenerator[tuple[WorkspaceStream, SlowConnection, "asyncio.Task[None]"], None]:
    stream, slow = WorkspaceStream(team.database, "proof"), SlowConnection()

    async def is_admitted() -> bool:
        return True

    reader = StreamReader("key", "human:mia", Sight("human:mia"), is_admitted)
    serving = asyncio.create_task(stream.serve(reader, None, slow.receive, slow.send, slow.send))
    await asyncio.wait_for(slow.greeted.wait(), SOON_S)
    yield stream, slow, serving
    serving.cancel()
    await asyncio.wait([serving])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not is_so():  # noqa: ASYNC110 - the server sets no event for what it has sent.
            await asyncio.sleep(0.02)


async def test_slow_client_gets_everything_in_order_once_it_has_room(team: Team) -> None:
    async with serving_slowly(team) as (_, slow, _):
        turns = [await say(team, f"turn {number}") for number in range(3)]
        slow.room.set()
        await until(lambda: turns[-1] in slow.text)
        later = await say(team, "later")
        await until(lambda: later in slow.text)
        places = [slow.text.index(turn) for turn in (*turns, later)]
        assert places == sorted(places)
        assert all(slow.text.count(f'"turns":["{turn}"') <= 1 for turn in turns)


async def test_client_that_falls_too_far_behind_is_cut_off(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_stream, "WAITING_MAX", 2)
    async with serving_slowly(team) as (stream, _, serving):
        for number in range(6):
            await say(team, f"turn {number}")
            await asyncio.sleep(2 * workspace_stream.FEED_S)
        await until(serving.done)
        assert serving.exception() is None
        assert stream.clients == 0


async def test_reader_who_is_refused_while_joining_gets_nothing(team: Team) -> None:
    stream, connection = WorkspaceStream(team.database, "proof"), SlowConnection()

    async def is_admitted() -> bool:
        return False

    reader = StreamReader("key", "human:mia", Sight("human:mia"), is_admitted)
    send = connection.send
    async with asyncio.timeout(SOON_S):
        await stream.serve(reader, BEGINNING, connection.receive, send, send)
    assert (connection.text, stream.clients) == ("", 0)


async def test_reader_of_whom_nothing_is_known_while_joining_is_sent_the_end(team: Team) -> None:
    stream, connection = WorkspaceStream(team.database, "proof"), SlowConnection()

    async def is_admitted() -> bool:
        raise DatabaseUnavailable("all 10 connections are in use")

    reader = StreamReader("key", "human:mia", Sight("human:mia"), is_admitted)
    send = connection.send
    async with asyncio.timeout(SOON_S):
        await stream.serve(reader, BEGINNING, connection.receive, send, send)
    assert (connection.text, stream.clients) == ("", 0)


async def test_stream_that_cannot_begin_without_the_database_says_so(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "CONNECT_TIMEOUT_S", 0.05)
    stream, sent = WorkspaceStream(team.database, "proof"), list[MutableMapping[str, Any]]()

    async def is_admitted() -> bool:
        return True

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    reader = StreamReader("key", "human:mia", Sight("human:mia"), is_admitted)
    response = WorkspaceStreamResponse(StreamHandle(stream, reader), BEGINNING)
    async with AsyncExitStack() as stack:
        for _ in range(pools.CONNECTIONS_MAX):
            await stack.enter_async_context(team.database.connection())
        async with asyncio.timeout(SOON_S):
            await response({"type": "http"}, receive, send)
    begins, body = sent
    assert (begins["status"], stream.clients) == (503, 0)
    assert b"database-unavailable" in body["body"]


async def test_server_that_drains_ends_its_streams(team: Team) -> None:
    is_draining = False
    stream, slow = WorkspaceStream(team.database, "proof", lambda: is_draining), SlowConnection()
    slow.room.set()

    async def is_admitted() -> bool:
        return True

    reader = StreamReader("key", "human:mia", Sight("human:mia"), is_admitted)
    serving = asyncio.create_task(stream.serve(reader, None, slow.receive, slow.send, slow.send))
    await asyncio.wait_for(slow.greeted.wait(), SOON_S)
    is_draining = True
    await until(lambda: stream.clients == 0)
    serving.cancel()
    await asyncio.wait([serving])
