"""Live text between processes, by a real Redis."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

import turntree
from turntree.boot.open import Settings
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.core.message import assistant
from turntree.core.run import RunEvent
from turntree.core.usage import Usage
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.runs.live.hub import LiveHub
from turntree.runs.live.redis_hub import BELL, RedisHub, make_redis_hub
from turntree.runs.live.stream import Hub, LiveChunk, PartialMessage, StreamPosition

redis = pytest.importorskip("redis.asyncio")
SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(SERVER is None, reason="install redis-server or valkey-server"),
]

SOON_S = 20.0
RUN = RunId("01a0c3a8-2001-7000-8000-000000000001")


@dataclass
class Server:
    """A Redis that is reached by a socket in a folder."""

    folder: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/redis.sock"

    async def start(self) -> None:
        assert SERVER is not None
        self.process = await asyncio.create_subprocess_exec(
            SERVER, "--port", "0", "--unixsocket", f"{self.folder}/redis.sock", "--save", "",
            "--dir", str(self.folder), "--logfile", f"{self.folder}/redis.log",
        )  # fmt: skip
        client: Any = redis.Redis.from_url(self.url)
        with anyio.fail_after(SOON_S):
            while not await self._answers(client):  # noqa: ASYNC110
                await anyio.sleep(0.02)
        await client.aclose()

    async def _answers(self, client: Any) -> bool:
        try:
            return bool(await client.ping())
        except (redis.RedisError, OSError):
            return False

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@pytest.fixture
async def redis_server() -> AsyncGenerator[Server, None]:
    # The path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        await server.start()
        yield server
        await server.stop()


class Follower:
    """Reads a run as a follower in another process does."""

    def __init__(self, hub: Hub, run: RunId = RUN) -> None:
        self.hub, self.run = hub, run
        self.partial = PartialMessage()
        self.chunks: list[LiveChunk] = []

    async def until(self, is_enough: Callable[[], bool]) -> None:
        with anyio.fail_after(SOON_S):
            while True:
                # Kept: text is received for as long as a follower holds its reader.
                self.read, news = self.hub.listen(self.run), self.hub.news(self.run)
                for chunk in self.read(self.partial.position):
                    self.chunks.append(chunk)
                    self.partial = self.partial.read(chunk)
                if is_enough():
                    return
                await self.hub.wait(self.run, since=news, timeout_s=1.0)

    async def until_text(self, text: str) -> None:
        await self.until(lambda: self.partial.text == text)


@pytest.fixture(params=["one process", "three processes"])
async def hubs(
    request: pytest.FixtureRequest, redis_server: Server
) -> AsyncGenerator[tuple[Hub, Hub, Hub], None]:
    """Two that produce and one that follows: one hub for all three, or each its own."""
    if request.param == "one process":
        hub = LiveHub()
        yield hub, hub, hub
        return
    made = [make_redis_hub(redis_server.url) for _ in range(3)]
    yield made[0], made[1], made[2]
    for one in made:
        await one.aclose()


def say(hub: Hub, words: str, *, seq: int = 2, epoch: int = 1, attempt: int = 1) -> None:
    for word in words.split(" "):
        hub.publish(RUN, StreamPosition(seq, epoch), attempt, "text", f"{word} ")


async def test_follower_gets_every_word_in_order(hubs: tuple[Hub, Hub, Hub]) -> None:
    producer, _, hub = hubs
    follower = Follower(hub)
    say(producer, "four degrees")
    await follower.until_text("four degrees ")
    producer.publish(RUN, StreamPosition(2, 1), 1, "tool", "{", tool="look", call_id="c1")
    say(producer, "and falling")
    await follower.until_text("four degrees and falling ")
    assert [chunk.position.offset for chunk in follower.chunks] == [1, 2, 3, 4, 5]
    assert (follower.chunks[2].tool, follower.chunks[2].call_id) == ("look", "c1")


async def test_follower_that_comes_late_gets_what_was_said(hubs: tuple[Hub, Hub, Hub]) -> None:
    producer, _, hub = hubs
    say(producer, "four degrees")
    await anyio.sleep(0.1)
    await Follower(hub).until_text("four degrees ")


async def test_repeated_attempt_never_doubles_text(hubs: tuple[Hub, Hub, Hub]) -> None:
    producer, _, hub = hubs
    follower = Follower(hub)
    say(producer, "four")
    await follower.until_text("four ")
    say(producer, "five degrees", attempt=2)
    await follower.until_text("five degrees ")
    assert [chunk.kind for chunk in follower.chunks] == ["text", "restart", "text", "text"]


async def test_worker_that_took_over_discards_what_the_first_one_said(
    hubs: tuple[Hub, Hub, Hub],
) -> None:
    first, second, hub = hubs
    follower = Follower(hub)
    say(first, "four")
    await follower.until_text("four ")
    say(second, "five degrees", epoch=2)
    await follower.until_text("five degrees ")
    say(first, "again")
    await anyio.sleep(0.1)
    await follower.until(lambda: True)
    assert "restart" in [chunk.kind for chunk in follower.chunks]


async def test_recorded_event_wakes_followers(hubs: tuple[Hub, Hub, Hub]) -> None:
    producer, _, hub = hubs
    follower = Follower(hub)
    say(producer, "four")
    await follower.until_text("four ")
    for act in (producer.tell, producer.forget):
        reader, news = hub.listen(RUN), hub.news(RUN)
        act(RUN)
        with anyio.fail_after(SOON_S):
            await hub.wait(RUN, since=news, timeout_s=2 * SOON_S)
        # What was said can still be read.
        assert [chunk.text for chunk in reader(StreamPosition())] == ["four "]


@pytest.fixture
async def apart(redis_server: Server) -> AsyncGenerator[tuple[RedisHub, RedisHub], None]:
    """One that produces and one that follows, in two processes."""
    made = make_redis_hub(redis_server.url), make_redis_hub(redis_server.url)
    yield made
    for one in made:
        await one.aclose()


async def test_words_stop_with_the_server_and_are_complete_once_it_is_back(
    redis_server: Server, apart: tuple[RedisHub, RedisHub]
) -> None:
    producer, hub = apart
    follower = Follower(hub)
    say(producer, "four")
    await follower.until_text("four ")
    await redis_server.stop()
    say(producer, "degrees and")
    producer.tell(RUN)
    await anyio.sleep(0.2)
    await follower.until(lambda: True)
    assert follower.partial.text == "four "
    await redis_server.start()
    say(producer, "falling")
    await follower.until_text("four degrees and falling ")
    assert [chunk.position.offset for chunk in follower.chunks] == [1, 2, 3, 4]


async def test_restart_of_the_server_while_no_one_speaks_leaves_no_hole(
    redis_server: Server, apart: tuple[RedisHub, RedisHub]
) -> None:
    producer, hub = apart
    say(producer, "four degrees")
    await Follower(hub).until_text("four degrees ")
    await redis_server.stop()
    await redis_server.start()
    say(producer, "and falling")
    # Another follower, in a process that has not read any of it.
    late = make_redis_hub(redis_server.url)
    try:
        await Follower(late).until_text("four degrees and falling ")
    finally:
        await late.aclose()


async def test_what_was_sealed_while_the_server_was_stopped_is_not_sent(
    redis_server: Server, apart: tuple[RedisHub, RedisHub]
) -> None:
    producer, hub = apart
    other = RunId("01a0c3a8-2001-7000-8000-000000000002")
    say(producer, "four")
    await Follower(hub).until_text("four ")
    await redis_server.stop()
    say(producer, "degrees")
    producer.forget(RUN)
    # Long enough for an attempt to send it.
    await anyio.sleep(0.2)
    await redis_server.start()
    producer.publish(other, StreamPosition(2, 1), 1, "text", "five ")
    await Follower(hub, other).until_text("five ")
    client: Any = redis.Redis.from_url(redis_server.url)
    assert await client.keys() == [f"turntree:live:{other}".encode()]
    await client.aclose()


async def test_what_others_write_there_is_left_out(redis_server: Server) -> None:
    hub = make_redis_hub(redis_server.url)
    client: Any = redis.Redis.from_url(redis_server.url)
    try:
        follower = Follower(hub)
        for chunks in (b"{", b"{}", b'[["x","text","a",null,null]]', b"[[1,2,3]]",
                       b'[["2.1.1","shout","a",null,null]]', b'[["2.1.1","text","a",null,7]]',
                       b'[["2.1.2","text","fine",null,null]]'):  # fmt: skip
            await client.xadd(f"turntree:live:{RUN}", {"chunks": chunks})
        await client.xadd(f"turntree:live:{RUN}", {"other": "x"})
        for bell in (b"", b"[]", b'{"said":1,"told":2}'):
            await client.publish(BELL, bell)
        await follower.until_text("fine")
        assert len(follower.chunks) == 1
    finally:
        await client.aclose()
        await hub.aclose()


async def test_hub_closes_if_the_client_swallows_a_cancellation(
    redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener: Any = redis.client.PubSub
    waiting, wait = anyio.Event(), listener.get_message

    async def swallow(self: Any, **kwargs: Any) -> Any:
        waiting.set()
        try:
            return await wait(self, **kwargs)
        except asyncio.CancelledError:
            return None

    monkeypatch.setattr(listener, "get_message", swallow)
    hub = make_redis_hub(redis_server.url)
    follower = Follower(hub)
    await follower.until(lambda: True)
    with anyio.fail_after(SOON_S):
        await waiting.wait()
        await hub.aclose()


async def test_without_followers_nothing_is_read(redis_server: Server) -> None:
    hub = make_redis_hub(redis_server.url)
    client: Any = redis.Redis.from_url(redis_server.url)
    try:
        follower: Follower | None = Follower(hub)
        assert follower is not None
        await follower.until(lambda: True)
        with anyio.fail_after(SOON_S):
            while await client.pubsub_numsub(BELL) != [(BELL.encode(), 1)]:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            del follower
            while await client.pubsub_numsub(BELL) != [(BELL.encode(), 0)]:  # noqa: ASYNC110
                await anyio.sleep(0.1)
    finally:
        await client.aclose()
        await hub.aclose()


def test_address_that_is_none_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidOperation, match="not the address of a Redis") as refused:
        make_redis_hub("http://me:hunter2@host/0")
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(RedisHub("redis://me:hunter2@host/0"))


@dataclass
class Halting:
    """Says one word, and the rest when it is told to."""

    go_on: anyio.Event
    name: str = "halting"

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        del prompt, settings
        yield ReplyDelta("text", "four ")
        await self.go_on.wait()
        yield ReplyDelta("text", "degrees")
        yield ModelReply(assistant("four degrees"), Usage(), model)

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        raise NotImplementedError

    async def list_models(self) -> list[str]:
        return ["halting-1"]

    async def aclose(self) -> None:
        pass


async def test_words_reach_a_follower_that_does_not_serve(
    redis_server: Server, conninfo: str, tmp_path: Path
) -> None:
    settings = Settings(
        tmp_path, database_url=conninfo, workspace="shared", user="ana", live_url=redis_server.url
    )
    halting = Halting(anyio.Event())
    async with (
        turntree.open(settings, providers=[halting], model="halting-1"),
        turntree.open(replace(settings, user="ana")) as tree,
    ):
        posted = await tree.runs.post("talk", "How cold is it?", model="halting-1")
        words: list[str] = []
        kinds: list[str] = []
        with anyio.fail_after(SOON_S):
            async for news in tree.runs.follow(posted.run):
                if isinstance(news, LiveChunk):
                    words.append(news.text)
                    # Only then: the first word came while the model was still speaking.
                    halting.go_on.set()
                else:
                    assert isinstance(news, RunEvent)
                    kinds.append(news.event.kind)
        assert words[0] == "four "
        assert kinds[-1] == "run.finished"
