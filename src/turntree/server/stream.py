"""The stream: one reader of the feed, and what it reads sent to every browser that listens.

One task reads the feed and the text of replies in progress, as the user of the tree sees them, and
encodes each message once. A client has a queue of encoded messages; one that falls behind is
disconnected and resumes at its position, because a browser that sleeps must not fill the memory of
the server. A client that was away for longer than the messages kept here is told to ask again for
everything, which costs less than repeating them.
"""

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from turntree.api import Tree
from turntree.core.errors import TurntreeError
from turntree.core.event import BEGINNING, FeedPosition
from turntree.core.ids import RunId
from turntree.core.run import RunEvent
from turntree.runs.live.stream import LiveChunk, StreamPosition
from turntree.wire.stream import ChangeSet, Hello, ImportJob, Words, gather, join

TICK_S: Final = 0.05
"""Messages are gathered for this long."""
FEED_S: Final = 0.1
"""How often the feed is read while a client listens."""
RETRY_S: Final = 1.0
"""How long to wait for a database that does not answer."""
COMMENT_S: Final = 15.0
"""A comment is sent this often, so that no proxy takes the stream for dead."""
PAGE_MAX: Final = 1000
NAMES_MAX: Final = 2000
"""Turns or sessions named in one message; a bulk import changes more."""
FRAMES_MAX: Final = 512
"""Messages kept for clients that reconnect."""
QUEUE_MAX: Final = 256
"""Messages that may wait for one client."""
RECONNECT_MS: Final = 400

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def encode(event: str, data: object, position: str | None = None) -> bytes:
    """Return one message of the stream as bytes."""
    head = b"" if position is None else b"id: " + position.encode() + b"\n"
    # JSON has no line breaks, so one data line is enough.
    return head + b"event: " + event.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


@dataclass(slots=True, eq=False)
class _Client:
    queue: "asyncio.Queue[bytes | None]" = field(
        default_factory=lambda: asyncio.Queue[bytes | None](QUEUE_MAX)
    )
    """Encoded messages; None ends the stream."""

    def put(self, frame: bytes | None) -> bool:
        """Queue a message; False if the client has fallen behind and was disconnected."""
        try:
            self.queue.put_nowait(frame)
        except asyncio.QueueFull:
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)
            return False
        return True


@dataclass(slots=True)
class _LiveRun:
    run: RunId
    session: str
    label: str
    position: StreamPosition = field(default_factory=StreamPosition)
    seq: int = 0
    """The next recorded event to read."""
    words: list[Words] = field(default_factory=list[Words])
    """All text so far, for clients that come later."""


@dataclass(slots=True, eq=False)
class Stream:
    """Changes and words of one user's tree, for any number of browsers."""

    tree: Tree
    server: str = field(default_factory=lambda: secrets.token_hex(8))
    list_jobs: Callable[[], Iterable[ImportJob]] = tuple
    """The imports in progress, for clients that come later."""
    _clients: set[_Client] = field(default_factory=set[_Client])
    _frames: "deque[tuple[FeedPosition, bytes]]" = field(
        default_factory=lambda: deque[tuple[FeedPosition, bytes]](maxlen=FRAMES_MAX)
    )
    _since: FeedPosition = BEGINNING
    """The position before the first kept message."""
    _position: FeedPosition = BEGINNING
    _runs: dict[RunId, _LiveRun] = field(default_factory=dict[RunId, _LiveRun])
    _hidden: set[RunId] = field(default_factory=set[RunId])
    """Runs of this process's worker that the user may not see."""
    _bell: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while a client listens."""
    _is_closed: bool = False

    @property
    def clients(self) -> int:
        """The number of connected clients."""
        return len(self._clients)

    @property
    def is_closed(self) -> bool:
        """Whether the server is about to stop."""
        return self._is_closed

    async def run(self) -> None:
        """Read and send until canceled; rests while no client listens."""
        while True:
            await self._bell.wait()
            try:
                await self._read_while_heard()
            except TurntreeError:
                # The database does not answer. Clients stay connected, and it is asked again.
                await asyncio.sleep(RETRY_S)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one client: an ASGI application for ``GET /stream``."""
        # A reader that rested starts where the feed is now.
        if not self._clients and not self._is_closed:
            await self._catch_up()
        client = _Client()
        for greeting in self._greet(_find_position(scope)):
            client.put(greeting)
        if self._is_closed:
            client.put(None)
        self._clients.add(client)
        self._bell.set()
        leaving = asyncio.create_task(_wait_for_disconnect(receive, client))
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while (frame := await client.queue.get()) is not None:
                # What waits is sent together: one write for many small messages.
                frames, is_last = [frame], False
                while not client.queue.empty():
                    more = client.queue.get_nowait()
                    is_last = is_last or more is None
                    frames.append(more or b"")
                await send(
                    {"type": "http.response.body", "body": b"".join(frames), "more_body": True}
                )
                if is_last:
                    break
            with contextlib.suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()
            self._leave(client)

    def tell(self, job: ImportJob) -> None:
        """Send the progress of an import."""
        self._send(encode("import", job))

    def close(self) -> None:
        """End every client's stream, so that a server that stops need not wait for them."""
        self._is_closed = True
        self.drop_all()

    def drop_all(self) -> None:
        """Disconnect every client; they connect again."""
        for client in tuple(self._clients):
            if not client.put(None):
                self._leave(client)

    def _leave(self, client: _Client) -> None:
        self._clients.discard(client)
        if not self._clients:
            self._bell.clear()

    def _send(self, frame: bytes) -> None:
        for client in tuple(self._clients):
            if not client.put(frame):
                self._leave(client)

    async def _catch_up(self) -> None:
        """Forget what was kept, and go on where the feed is now."""
        self._position = self._since = await self.tree.feed.end()
        self._frames.clear()
        self._runs.clear()
        self._hidden.clear()
        for opened in await self.tree.runs.list_open():
            await self._read_run(opened.run)

    def _greet(self, after: FeedPosition | None) -> Iterable[bytes]:
        """Yield what a new client gets first."""
        now = str(self._position)
        has_missed = after is not None and after != self._position
        # Without an id where more follows: a client that is cut off in between would otherwise come
        # back after what it never got.
        yield f"retry: {RECONNECT_MS}\n\n".encode() + encode(
            "hello",
            Hello(now, self.server, len(self._clients) + 1, tuple(map(str, self._runs))),
            None if has_missed else now,
        )
        if after is not None and has_missed:
            if self._since <= after < self._position:
                yield from (frame for position, frame in self._frames if position > after)
            else:
                yield encode("changed", ChangeSet(now, is_whole=True), now)
        for live in self._runs.values():
            for words in _whole(live.words):
                yield encode("words", words)
        for job in self.list_jobs():
            yield encode("import", job)

    async def _read_while_heard(self) -> None:
        feed_at = comment_at = time.monotonic()
        while self._clients:
            now = time.monotonic()
            await self._send_words()
            if now >= feed_at:
                await self._read_feed()
                feed_at = now + FEED_S
            if now >= comment_at:
                self._send(b": here\n\n")
                comment_at = now + COMMENT_S
            await asyncio.sleep(TICK_S)

    async def _read_feed(self) -> None:
        recorded = await self.tree.feed.read(self._position, limit=PAGE_MAX)
        if not recorded:
            return
        changed = gather(recorded)
        if max(len(changed.turns), len(changed.sessions)) > NAMES_MAX:
            changed = replace(changed, turns=(), sessions=(), is_whole=True)
        if len(self._frames) == FRAMES_MAX:
            self._since = self._frames[0][0]
        for run in map(RunId, changed.runs):
            await self._read_run(run)
        self._position = recorded[-1][0]
        frame = encode("changed", changed, changed.position)
        self._frames.append((self._position, frame))
        self._send(frame)
        for turn in changed.turns:
            self._runs.pop(RunId(turn), None)

    async def _send_words(self) -> None:
        """Send the new text of runs that this process's worker drives."""
        hub = self.tree.runs.hub
        running = hub.list_runs()
        self._hidden.intersection_update(running)
        for run in running:
            if run in self._hidden:
                continue
            if (live := await self._find_run(run)) is None:
                self._hidden.add(run)
            else:
                chunks = hub.pieces(run, live.position)
                self._tell(live, [_words(chunk, live) for chunk in chunks])

    async def _read_run(self, run: RunId) -> None:
        """Send what models replied in a run, whichever process drives it."""
        if (live := await self._find_run(run)) is None:
            return
        facts = await self.tree.ledger.facts(run, after=live.seq)
        self._tell(live, [_recorded(fact, live) for fact in facts if fact.message])
        if facts:
            live.seq = facts[-1].event.seq + 1

    async def _find_run(self, run: RunId) -> _LiveRun | None:
        """Return a run in progress; None if the user may not see it, or it has ended."""
        if (live := self._runs.get(run)) is not None:
            return live
        for opened in await self.tree.runs.list_open():
            if opened.run == run:
                session = await self.tree.sessions.ledger.get(opened.session)
                self._runs[run] = _LiveRun(run, str(session.id), session.label)
        return self._runs.get(run)

    def _tell(self, live: _LiveRun, words: list[Words]) -> None:
        fresh = [one for one in words if StreamPosition.parse(one.position) > live.position]
        if not fresh:
            return
        live.position = StreamPosition.parse(fresh[-1].position)
        for one in join(fresh):
            live.words = _after(live.words, one)
            self._send(encode("words", one))


def _find_position(scope: MutableMapping[str, Any]) -> FeedPosition | None:
    """Return where a client wants to resume; None if it is new, or sent no position."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    asked = headers.get(b"last-event-id", b"").decode("latin-1")
    if not asked:
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("after", [""])[0]
    try:
        return FeedPosition.parse(asked) if asked else None
    except ValueError:
        # It is no position of ours, so the client is told to ask again for everything.
        return BEGINNING


async def _wait_for_disconnect(receive: Receive, client: _Client) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    client.put(None)


def _words(chunk: LiveChunk, live: _LiveRun) -> Words:
    return Words(
        live.run, live.session, live.label, chunk.position.seq, str(chunk.position), chunk.kind,
        chunk.text, chunk.tool,
    )  # fmt: skip


def _recorded(fact: RunEvent, live: _LiveRun) -> Words:
    """Return the recorded text of a step; it replaces what was streamed of it."""
    text = fact.message.text if fact.message and fact.message.role == "assistant" else ""
    seq, after = fact.event.seq, str(StreamPosition(fact.event.seq + 1))
    return Words(live.run, live.session, live.label, seq, after, "text", text, is_whole=True)


def _after(words: list[Words], new: Words) -> list[Words]:
    """Return the text of a run after one more message."""
    if new.kind == "restart":
        return [one for one in words if one.seq != new.seq]
    if new.is_whole:
        return [*(one for one in words if (one.seq, one.kind) != (new.seq, new.kind)), new]
    return join([*words, new])


def _whole(words: Iterable[Words]) -> Iterable[Words]:
    """Return the text of each step and kind in one message, which replaces what a client has."""
    steps: dict[tuple[int, str, str | None], Words] = {}
    for one in words:
        key = (one.seq, one.kind, one.tool)
        before = steps.get(key)
        text = one.text if before is None else before.text + one.text
        steps[key] = replace(one, text=text, is_whole=True)
    return sorted(steps.values(), key=lambda one: StreamPosition.parse(one.position))
