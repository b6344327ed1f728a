"""The stream of a workspace: one reader of its feed, for any number of members that listen.

One task reads the feed of a workspace, as the system sees it, and asks once for each batch which of
the listeners may see the private part of it. What all may see is encoded once, and the rest once
for each group that sees the same. The bytes are written from that task, straight to the connection:
10,000 listeners need neither a task nor a queue of their own. One that reads too slowly gets a task
until it has caught up, and is disconnected if it does not: a client resumes at its position.

Nothing is kept for clients that come back. They get what was recorded since their position from the
database, with the eyes that they have now, so that a position is good at any age.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from turntree.core.errors import DatabaseUnavailable, TurntreeError
from turntree.core.event import Event, FeedPosition
from turntree.core.viewer import EVERYTHING, PUBLIC, Sight
from turntree.db.database import Database
from turntree.ledger.feed import Feed
from turntree.server.stream import COMMENT_S, RECONNECT_MS, encode
from turntree.wire.stream import ChangeSet, StreamHello, gather

FEED_S: Final = 0.1
"""How often the feed is read while a client listens."""
RETRY_S: Final = 1.0
"""How long to wait for a database that does not answer."""
PAGE_MAX: Final = 1000
NAMES_MAX: Final = 2000
"""Turns or sessions named in one message; a bulk import changes more."""
WAITING_MAX: Final = 256
"""Messages that may wait for a client that reads slowly."""
BATCH: Final = 256
"""Clients that are written to before other requests get their turn."""
ADMITTED_S: Final = 20.0
"""How often it is asked whether a reader may still read, if no event suggests that they may not."""
_ABOUT_READERS: Final = frozenset({"api_key", "login_session", "token", "member"})
"""The nouns of events after which a reader may be one no longer."""
_START: Final[Mapping[str, Any]] = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}
_COMMENT: Final = b": here\n\n"

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Recorded = list[tuple[FeedPosition, Event]]


@dataclass(slots=True, eq=False)
class StreamReader:
    """Who listens: one for each credential, however many connections it has."""

    credential: str
    holder: str
    """The person whose rights the credential has: ``human:ana``."""
    sight: Sight
    is_admitted: Callable[[], Awaitable[bool]]
    clients: int = 0
    admitted_at: float = 0.0

    def is_concerned_by(self, event: Event) -> bool:
        """Return whether this reader may be one no longer after an event: better once too often."""
        noun = event.kind.partition(".")[0]
        if noun not in _ABOUT_READERS:
            return False
        told = [one for one in event.data.values() if isinstance(one, str) and one]
        return noun == "token" or any(one == self.holder or one in self.credential for one in told)


@dataclass(slots=True, eq=False)
class _Subscriber:
    reader: StreamReader
    send: Send
    """Writes to the connection itself."""
    task: "asyncio.Task[Any] | None"
    after: FeedPosition
    """What came up to here was sent, or will be before all else."""
    waiting: "deque[bytes] | None" = field(default_factory=deque[bytes])
    """What has to be sent by a task of this client's own; None while the connection has room."""
    is_gone: bool = False


@dataclass(slots=True, eq=False)
class WorkspaceStream:
    """The changes of one workspace, for the members that listen."""

    database: Database
    server: str
    """A word that changes when the server was restarted."""
    is_draining: Callable[[], bool] = lambda: False
    deliveries: int = 0
    """Messages that clients were sent, or that wait for those that read slowly."""
    cuts: int = 0
    """Clients that were disconnected because they read too slowly."""
    _read_at: float = 0.0
    """When the feed was last read to its end."""
    _clients: dict[_Subscriber, None] = field(default_factory=dict[_Subscriber, None])
    _readers: dict[str, StreamReader] = field(default_factory=dict[str, StreamReader])
    _position: FeedPosition | None = None
    """How far the feed was read; None while no client listens."""
    _reading: "asyncio.Task[None] | None" = None
    _catching_up: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the feed is read and sent, so that a client joins between two batches."""

    @property
    def clients(self) -> int:
        """The number of connections."""
        return len(self._clients)

    @property
    def lag_s(self) -> float:
        """The age of what clients were told last: 0 while no client listens."""
        return max(0.0, time.monotonic() - self._read_at) if self._clients else 0.0

    async def serve(
        self, new: StreamReader, after: FeedPosition | None, receive: Receive, send: Send,
        send_start: Send,
    ) -> None:  # fmt: skip
        """Serve one connection until its client leaves or it is ended.

        ``new`` was verified just now. ``send`` writes to the connection itself, and ``send_start``
        past the layers that add headers.

        Raises:
            DatabaseUnavailable: It does not answer, and nothing was sent yet.
        """
        client, greeting = await self._join(new, after, send)
        try:
            await send_start({**_START})
            # Once more, now that every later event comes here: a key that was revoked between its
            # verification and this point would be missed by both. Where that is not known because
            # the database does not answer, the stream ends too, and its client comes back.
            is_admitted = False
            with contextlib.suppress(DatabaseUnavailable):
                is_admitted = await client.reader.is_admitted()
            if not is_admitted:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            client.waiting = client.waiting or deque[bytes]()
            client.waiting.appendleft(greeting)
            await self._send_waiting(client)
            while (await receive())["type"] != "http.disconnect":
                pass
        except asyncio.CancelledError:
            # It fell too far behind: the connection is closed under it.
            if not client.is_gone:
                raise
        finally:
            self._leave(client)

    async def _join(
        self, new: StreamReader, after: FeedPosition | None, send: Send
    ) -> tuple[_Subscriber, bytes]:
        """Return a client that gets what is recorded from now on, and what it is told first."""
        async with self._turn:
            if self._position is None:
                self._position = await self._feed(EVERYTHING).end()
            if after is not None and after > self._position:
                # Another server, which had read further, told it so.
                await self._advance()
            position = self._position
            # The connections of a credential share what is known of its holder.
            reader = self._readers.setdefault(new.credential, new)
            reader.admitted_at = time.monotonic()
            client = _Subscriber(reader, send, asyncio.current_task(), position)
            reader.clients += 1
            self._clients[client] = None
            if self._reading is None:
                self._read_at = time.monotonic()
                self._reading = asyncio.create_task(self._read())
        is_greeted = False
        try:
            greeting = await self._greet(client, after, position)
            is_greeted = True
        finally:
            if not is_greeted:
                self._leave(client)
        return client, greeting

    async def _greet(
        self, client: _Subscriber, after: FeedPosition | None, position: FeedPosition
    ) -> bytes:
        """Return the first message, and what was recorded since a client was here last."""
        hello = StreamHello(str(position), self.server)
        retry = f"retry: {RECONNECT_MS}\n\n".encode()
        if after is None or after == position:
            return retry + encode("hello", hello, str(position))
        missed = ChangeSet(str(position), is_whole=True)
        if after < position:
            recorded = await self._feed(client.reader.sight).read(after, limit=PAGE_MAX)
            if len(recorded) < PAGE_MAX:
                known = [(at, event) for at, event in recorded if at <= position]
                missed = _describe(known, position)
        # Without an id: a client that is cut off between the two comes back for the second.
        return retry + encode("hello", hello) + encode("changed", missed, str(position))

    def _leave(self, client: _Subscriber) -> None:
        client.is_gone = True
        if self._clients.pop(client, client) is client:
            return
        client.reader.clients -= 1
        if not client.reader.clients:
            self._readers.pop(client.reader.credential, None)
        if not self._clients and self._reading is not None:
            self._reading.cancel()
            self._reading = self._position = None

    def _feed(self, sight: Sight) -> Feed:
        return Feed(self.database.seen_by(sight))

    async def _read(self) -> None:
        """Send what is recorded until no client listens, or the server is about to stop."""
        comment_at = time.monotonic() + COMMENT_S
        while not self.is_draining():
            try:
                async with self._turn:
                    await self._advance()
                await self._admit_one()
            except TurntreeError:
                # The database does not answer. Clients stay connected, and it is asked again.
                await asyncio.sleep(RETRY_S)
                continue
            if time.monotonic() >= comment_at:
                comment_at = time.monotonic() + COMMENT_S
                async with self._turn:
                    await self._deliver(lambda _: _COMMENT)
            await asyncio.sleep(FEED_S)
        for client in tuple(self._clients):
            self._end(client)

    async def _advance(self) -> None:
        """Read the feed to its end, and send it."""
        assert self._position is not None, "a client listens"
        while recorded := await self._feed(EVERYTHING).read(self._position, limit=PAGE_MAX):
            await self._admit(
                reader
                for reader in tuple(self._readers.values())
                if any(reader.is_concerned_by(event) for _, event in recorded)
            )
            find_frame = await self._encode(recorded)
            self._position = recorded[-1][0]
            await self._deliver(find_frame)
            if len(recorded) < PAGE_MAX:
                break
        self._read_at = time.monotonic()

    async def _encode(self, recorded: Recorded) -> Callable[[Sight], bytes | None]:
        """Return what says which message a viewer gets; those who see the same share the bytes."""
        end = recorded[-1][0]
        streams = {event.stream for _, event in recorded}
        public = await self._feed(PUBLIC).list_visible(sorted(streams))
        frames: dict[frozenset[str], bytes | None] = {}

        def frame_of(visible: frozenset[str]) -> bytes | None:
            if visible not in frames:
                known = [(at, event) for at, event in recorded if event.stream in visible]
                changes = _describe(known, end)
                frames[visible] = encode("changed", changes, str(end)) if known else None
            return frames[visible]

        shared = frame_of(frozenset(public))
        hidden = sorted(streams - public)
        if not hidden:
            return lambda _: shared
        sights = {reader.sight for reader in self._readers.values()}
        seen = await self._feed(EVERYTHING).list_visible_to(sights, hidden)
        by_seen = {one: frame_of(frozenset(public | one)) for one in set(seen.values())}
        by_sight = {sight: by_seen[one] for sight, one in seen.items()}
        return lambda sight: by_sight.get(sight, shared)

    async def _deliver(self, find_frame: Callable[[Sight], bytes | None]) -> None:
        """Write to every client; other requests get their turn in between."""
        for number, client in enumerate(tuple(self._clients), start=1):
            frame = find_frame(client.reader.sight)
            if frame is not None and not client.is_gone:
                self.deliveries += 1
                self._write(client, frame)
            if number % BATCH == 0:
                await asyncio.sleep(0)

    def _write(self, client: _Subscriber, frame: bytes) -> None:
        if client.waiting is not None:
            client.waiting.append(frame)
            if len(client.waiting) > WAITING_MAX:
                self._cut(client)
            return
        writing = client.send(_body(frame))
        try:
            # A connection with room takes it at once. A task for that would cost more than the
            # writing does: with 10,000 clients it took a third of the time.
            writing.send(None)  # type: ignore[attr-defined]
        except StopIteration:
            return
        except OSError:
            self._cut(client)
            return
        # uvicorn waits for room before it takes a message, so that nothing of this one was sent.
        writing.close()  # type: ignore[attr-defined]
        client.waiting = deque([frame])
        catching_up = asyncio.create_task(self._send_waiting(client))
        self._catching_up.add(catching_up)
        catching_up.add_done_callback(self._catching_up.discard)

    async def _send_waiting(self, client: _Subscriber) -> None:
        """Send what waits; from then on messages are written directly."""
        while client.waiting and not client.is_gone:
            frames = b"".join(client.waiting)
            client.waiting.clear()
            with contextlib.suppress(OSError):
                await client.send(_body(frames))
        client.waiting = None

    async def _admit_one(self) -> None:
        """Ask whether one more reader may still read: credentials expire without an event."""
        now = time.monotonic()
        due = (r for r in tuple(self._readers.values()) if now - r.admitted_at > ADMITTED_S)
        await self._admit(reader for reader in (next(due, None),) if reader is not None)

    async def _admit(self, readers: Iterable[StreamReader]) -> None:
        for reader in readers:
            reader.admitted_at = time.monotonic()
            if not await reader.is_admitted():
                for client in [one for one in self._clients if one.reader is reader]:
                    self._end(client)

    def _end(self, client: _Subscriber) -> None:
        """End a stream properly, or cut it if its connection has no room for the end."""
        if client.waiting is not None:
            self._cut(client)
            return
        self._leave(client)
        ending = client.send({"type": "http.response.body", "body": b"", "more_body": False})
        with contextlib.suppress(StopIteration, OSError):
            ending.send(None)  # type: ignore[attr-defined]
            ending.close()  # type: ignore[attr-defined]
            self._cut(client)

    def _cut(self, client: _Subscriber) -> None:
        self.cuts += 1
        self._leave(client)
        if client.task is not None:
            client.task.cancel()


def _body(frame: bytes) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": frame, "more_body": True}


def _describe(recorded: Recorded, position: FeedPosition) -> ChangeSet:
    """Return what some events changed, as of a position that may be after the last of them."""
    if not recorded:
        return ChangeSet(str(position))
    changes = gather(recorded)
    if max(len(changes.turns), len(changes.sessions)) > NAMES_MAX:
        return ChangeSet(str(position), is_whole=True)
    return replace(changes, position=str(position))
