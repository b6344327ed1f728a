"""The stream of changes, as a client receives it."""

from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson
import pytest

from turntree.api import Tree
from turntree.core.event import BEGINNING
from turntree.core.ids import RunId, SessionId
from turntree.core.message import assistant, user
from turntree.core.thread import ThreadTurn
from turntree.runs.live.stream import StreamPosition
from turntree.server.stream import QUEUE_MAX, Stream
from turntree.wire.stream import ImportJob

pytestmark = pytest.mark.anyio
SECONDS_MAX = 20


@dataclass
class Browser:
    """Reads a stream as a browser does."""

    after: str = ""
    is_slow: bool = False
    text: str = ""
    ended: anyio.Event = field(default_factory=anyio.Event)
    leaves: anyio.Event = field(default_factory=anyio.Event)
    news: anyio.Event = field(default_factory=anyio.Event)
    wakes: anyio.Event = field(default_factory=anyio.Event)
    joined: anyio.Event = field(default_factory=anyio.Event)

    @property
    def scope(self) -> dict[str, Any]:
        headers = [(b"last-event-id", self.after.encode())] if self.after else []
        return {"type": "http", "headers": headers, "query_string": b""}

    async def receive(self) -> MutableMapping[str, Any]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.joined.set()
        if self.is_slow:
            await self.wakes.wait()
        self.text += message.get("body", b"").decode()
        if message["type"] == "http.response.body" and not message["more_body"]:
            self.ended.set()
        self.news.set()
        self.news = anyio.Event()

    def heard(self, event: str) -> list[dict[str, Any]]:
        """Return the data of the messages of a kind."""
        found: list[dict[str, Any]] = []
        for frame in self.text.split("\n\n"):
            lines = frame.splitlines()
            if f"event: {event}" in lines:
                found += [orjson.loads(one[6:]) for one in lines if one.startswith("data: ")]
        return found

    def position_after_first(self, event: str) -> str:
        """Return where a client resumes that is cut off after the first message of a kind."""
        position = self.after
        for frame in self.text.split("\n\n"):
            lines = frame.splitlines()
            position = next((one[4:] for one in lines if one.startswith("id: ")), position)
            if f"event: {event}" in lines:
                return position
        raise AssertionError(f"there was no {event}")

    async def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        with anyio.fail_after(SECONDS_MAX):
            while len(found := self.heard(event)) < count:
                await self.news.wait()
        return found

    async def wait_for_turn(self, turn: ThreadTurn) -> None:
        with anyio.fail_after(SECONDS_MAX):
            while not any(turn.turn.id in one["turns"] for one in self.heard("changed")):
                await self.news.wait()


@asynccontextmanager
async def listening(
    stream: Stream, *browsers: Browser, is_running: bool = False
) -> AsyncGenerator[None, None]:
    async with anyio.create_task_group() as tasks:
        if not is_running:
            tasks.start_soon(stream.run)
        for browser in browsers:
            tasks.start_soon(stream, browser.scope, browser.receive, browser.send)
        for browser in browsers:
            await browser.joined.wait()
            if not browser.is_slow:
                await browser.wait_for("hello")
        yield
        tasks.cancel_scope.cancel()


async def test_a_recorded_turn_reaches_every_client(tree: Tree) -> None:
    one, two = Browser(), Browser()
    async with listening(Stream(tree), one, two):
        await tree.sessions.create("main")
        turn = await tree.turns.record("main", [user("hello")], [assistant("hi")])
        for browser in (one, two):
            await browser.wait_for_turn(turn)
            sessions = {one for changed in browser.heard("changed") for one in changed["sessions"]}
            assert sessions == {(await tree.sessions.get("main")).id}


async def test_a_client_resumes_at_its_position(tree: Tree) -> None:
    first, again, stale = Browser(), Browser(), Browser()
    await tree.sessions.create("main")
    stream = Stream(tree)
    async with listening(stream, first):
        await first.wait_for_turn(await tree.turns.record("main", [user("one")], [assistant("1")]))
        position = first.heard("changed")[-1]["position"]
        turn = await tree.turns.record("main", [user("two")], [assistant("2")])
        await first.wait_for_turn(turn)
        again.after, stale.after = position, str(BEGINNING)
        async with listening(stream, again, stale, is_running=True):
            missed = await again.wait_for("changed")
            assert [turn.turn.id] == [id for one in missed for id in one["turns"]]
            assert not any(one["is_whole"] for one in missed)
            # What is older than the messages kept here is asked for again as a whole.
            assert (await stale.wait_for("changed"))[0]["is_whole"]


async def test_a_client_cut_off_after_hello_comes_back_for_what_it_missed(tree: Tree) -> None:
    first, cut, again = Browser(), Browser(), Browser()
    await tree.sessions.create("main")
    stream = Stream(tree)
    async with listening(stream, first):
        await first.wait_for_turn(await tree.turns.record("main", [user("one")], [assistant("1")]))
        cut.after = first.heard("changed")[-1]["position"]
        turn = await tree.turns.record("main", [user("two")], [assistant("2")])
        await first.wait_for_turn(turn)
        async with listening(stream, cut, is_running=True):
            again.after = cut.position_after_first("hello")
        async with listening(stream, again, is_running=True):
            await again.wait_for_turn(turn)


async def test_a_client_that_falls_behind_is_disconnected(tree: Tree) -> None:
    slow, quick = Browser(is_slow=True), Browser()
    stream = Stream(tree)
    async with listening(stream, slow, quick):
        for number in range(QUEUE_MAX + 2):
            stream.tell(ImportJob("job", "codex", number, 1, 0, 0, "running"))
            await quick.wait_for("import", number + 1)
        slow.wakes.set()
        with anyio.fail_after(SECONDS_MAX):
            await slow.ended.wait()
        assert stream.clients == 1


async def test_a_stream_that_closes_ends_for_its_clients(tree: Tree) -> None:
    browser = Browser()
    stream = Stream(tree)
    async with listening(stream, browser):
        stream.close()
        with anyio.fail_after(SECONDS_MAX):
            await browser.ended.wait()


async def test_a_client_that_leaves_is_forgotten(tree: Tree) -> None:
    browser = Browser()
    stream = Stream(tree)
    async with listening(stream, browser):
        browser.leaves.set()
        with anyio.fail_after(SECONDS_MAX):
            await browser.ended.wait()
            await anyio.wait_all_tasks_blocked()
        assert stream.clients == 0


async def test_words_of_a_hidden_run_are_not_sent(tree: Tree) -> None:
    browser = Browser()
    stream = Stream(tree)
    async with listening(stream, browser):
        # No run that the user may see has this id, as with another user's private session.
        hidden = RunId(str(SessionId("01a1ea43-53ee-775e-ab42-e089ca691a8b")))
        tree.runs.hub.publish(hidden, StreamPosition(2, 1), 1, "text", "a secret")
        for text in ("one", "two"):
            turn = await tree.turns.record("main", [user(text)], [assistant(text)])
            await browser.wait_for_turn(turn)
        assert browser.heard("words") == []
        assert "secret" not in browser.text
