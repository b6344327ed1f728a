"""The live stream of several processes: text that one produces reaches followers in another.

Each run in progress has a stream of Redis, or of Valkey, which speaks the same protocol. What a
process produces within ``GATHER_S`` is sent at once, and a message on one channel says which runs
have news. A process reads that channel only while it has followers, and of the streams only those
of runs that are followed. Without the server nothing fails: followers read each event from the
ledger. Once it is back, each producer sends again what the runs in progress have said, so that no
follower sees a text with a hole: a server that was restarted has usually lost it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import anyio
import orjson

from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.runs.live.hub import LiveHub
from turntree.runs.live.stream import LiveChunk, LiveKind, StreamPosition

GATHER_S: Final = 0.03
"""How long text is gathered before it is sent: each message costs more than its text."""
BELL_S: Final = 1.0
"""How often a reader without news looks whether it still has followers."""
RETRY_S: Final = 1.0
"""How long nothing is sent or read after an error."""
CONNECT_S: Final = 1.0
SILENCE_S: Final = 3.0
"""A server that does not answer a command for this long counts as gone."""
CLOSE_S: Final = 0.5
"""How long a process that ends waits for the last text to be sent."""
ENTRIES_MAX: Final = 4096
"""Messages kept for each run, for followers that start late."""
KEPT_S: Final = 3600
"""How long the text of a run is kept whose worker died."""
SEALED_KEPT_S: Final = 60
BELL: Final = "turntree:live"
"""The channel on which each process says which runs have news."""
_FIELD: Final = b"chunks"
_BEGINNING: Final = "0"
_LOG = logging.getLogger(__name__)

Reader = Callable[[StreamPosition], Iterator[LiveChunk]]
"""Returns the chunks of a run after a position."""


@dataclass(slots=True)
class RedisHub:
    """Chunks of streamed text, by run, from all processes. Implements ``Hub``."""

    url: str = field(repr=False)
    """It may hold a password."""
    local: LiveHub = field(default_factory=LiveHub)
    _redis: Any = None
    """The client, from its first use on."""
    _speaking: dict[RunId, Reader] = field(default_factory=dict[RunId, Reader])
    """Runs with text that was not sent."""
    _sent_to: dict[RunId, StreamPosition] = field(default_factory=dict[RunId, StreamPosition])
    """How far the text of each run in progress was sent; a run that is absent is sent whole."""
    _told: set[RunId] = field(default_factory=set[RunId])
    """Runs of which an event was recorded."""
    _sealed: set[RunId] = field(default_factory=set[RunId])
    _read_to: dict[RunId, str] = field(default_factory=dict[RunId, str])
    """Followed runs, and how far the stream of each was read."""
    _sender: "asyncio.Task[None] | None" = None
    _reader: "asyncio.Task[None] | None" = None
    _catching_up: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])
    _is_closed: bool = False
    _is_out_of_reach: bool = False
    """Whether the last attempt to send failed, which is logged once."""

    def publish(
        self,
        run: RunId,
        at: StreamPosition,
        attempt: int,
        kind: LiveKind,
        text: str,
        *,
        tool: str | None = None,
        call_id: str | None = None,
    ) -> None:
        """Publish a chunk of the event at ``at.seq`` under ``at.epoch``."""
        self.local.publish(run, at, attempt, kind, text, tool=tool, call_id=call_id)
        # Its reader still works when the run is sealed before this is sent.
        self._speaking[run] = self.local.listen(run)
        self._send_soon()

    def said(self, run: RunId, at: StreamPosition) -> str:
        """Return the text so far of an event that this process is producing."""
        return self.local.said(run, at)

    def tell(self, run: RunId) -> None:
        """Notify the followers of a run that this process recorded an event."""
        self.local.notice(run)
        self._told.add(run)
        self._send_soon()

    def notice(self, run: RunId) -> None:
        """Notify the followers in this process that any process recorded an event."""
        self.local.notice(run)

    def forget(self, run: RunId) -> None:
        """Drop the text of a run that is sealed."""
        self.local.forget(run)
        self._sealed.add(run)
        self._send_soon()

    def list_runs(self) -> list[RunId]:
        """Return the runs whose text this process produces."""
        return self.local.list_runs()

    def pieces(self, run: RunId, after: StreamPosition) -> list[LiveChunk]:
        """Return the chunks after a position that are here."""
        return list(self.listen(run)(after))

    def listen(self, run: RunId) -> Callable[[StreamPosition], Iterator[LiveChunk]]:
        """Return a reader of the chunks after a position; it still works after ``forget``."""
        reader = self.local.listen(run)
        if run not in self._read_to:
            self._read_to[run] = _BEGINNING
            # What was said before it was followed. The caller holds the reader, so it is received.
            catching_up = asyncio.create_task(self._catch_up(run))
            self._catching_up.add(catching_up)
            catching_up.add_done_callback(self._catching_up.discard)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read())
        return reader

    def news(self, run: RunId) -> int:
        """Return the number of changes in a run so far, to pass to ``wait``."""
        return self.local.news(run)

    async def wait(self, run: RunId, *, since: int, timeout_s: float) -> None:
        """Return when a run has changed since ``since``, or after ``timeout_s``."""
        await self.local.wait(run, since=since, timeout_s=timeout_s)

    def client(self) -> Any:
        """Return the client, which connects when it sends.

        Raises:
            ValueError: This is not the address of a server.
        """
        if self._redis is None:
            self._redis = _library().Redis.from_url(
                self.url, socket_connect_timeout=CONNECT_S, socket_timeout=SILENCE_S
            )
        return self._redis

    async def aclose(self) -> None:
        """Send what is gathered, stop reading, and close the connections."""
        # The client may swallow a cancellation, and the reader must end nevertheless.
        self._is_closed = True
        if self._sender is not None:
            await asyncio.wait({self._sender}, timeout=CLOSE_S)
        tasks = [one for one in (self._sender, self._reader, *self._catching_up) if one is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._sender = self._reader = None
        redis, self._redis = self._redis, None
        if redis is not None:
            with anyio.CancelScope(shield=True), suppress(*_errors()):
                await redis.aclose()

    def _send_soon(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """Send what is gathered, until there is nothing left."""
        while self._speaking or self._told or self._sealed:
            await asyncio.sleep(GATHER_S)
            speaking, told, sealed = self._speaking, self._told | self._sealed, self._sealed
            self._speaking, self._told, self._sealed = {}, set(), set()
            try:
                await self._send_all(speaking, told, sealed)
            except _errors() as error:
                if not self._is_out_of_reach:
                    _LOG.warning("live text is not passed on: %s", error)
                self._is_out_of_reach = True
                # How much has arrived is not known. What was sealed meanwhile is in the ledger.
                self._sent_to.clear()
                left = {run: read for run, read in speaking.items() if run not in sealed}
                self._speaking = left | self._speaking
                await asyncio.sleep(RETRY_S)
            else:
                self._is_out_of_reach = False

    async def _send_all(
        self, speaking: Mapping[RunId, Reader], told: set[RunId], sealed: set[RunId]
    ) -> None:
        await self._forget_lost(speaking)
        said = {
            run: chunks
            for run, read in speaking.items()
            if (chunks := [*read(self._sent_to.get(run, StreamPosition()))])
        }
        async with self.client().pipeline(transaction=False) as pipe:
            for run, chunks in said.items():
                pipe.xadd(_key(run), {_FIELD: _dump(chunks)}, maxlen=ENTRIES_MAX, approximate=True)
                pipe.expire(_key(run), KEPT_S)
            for run in sealed:
                pipe.expire(_key(run), SEALED_KEPT_S)
            pipe.publish(BELL, orjson.dumps({"said": [*said], "told": [*told]}))
            await pipe.execute()
        self._sent_to |= {run: chunks[-1].position for run, chunks in said.items()}
        for run in sealed:
            self._sent_to.pop(run, None)

    async def _forget_lost(self, speaking: Mapping[RunId, Reader]) -> None:
        """Find the runs whose text the server has lost, which are then sent whole.

        Only the server knows: while no one spoke, a restart failed nothing here.
        """
        begun = [run for run in speaking if run in self._sent_to]
        if not begun:
            return
        async with self.client().pipeline(transaction=False) as pipe:
            for run in begun:
                pipe.exists(_key(run))
            are_there = await pipe.execute()
        for run, is_there in zip(begun, are_there, strict=True):
            if not is_there:
                del self._sent_to[run]

    async def _read(self) -> None:
        """Receive what is said in followed runs, until none is followed."""
        while self._list_followed():
            try:
                await self._read_while_followed()
            except _errors() as error:
                _LOG.warning("live text of other processes is not received: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _read_while_followed(self) -> None:
        async with self.client().pubsub() as bell:
            await bell.subscribe(BELL)
            # After subscribing, so that nothing is said between the two.
            due = self._list_followed()
            while self._list_followed():
                if due:
                    await self._receive(due)
                message = await bell.get_message(ignore_subscribe_messages=True, timeout=BELL_S)
                due = [] if message is None else self._hear(message["data"])

    def _hear(self, data: bytes) -> list[RunId]:
        """Pass on which runs have events, and return those followed here that have text."""
        match _load(data):
            case {"said": [*said], "told": [*told]}:
                for run in told:
                    self.local.notice(RunId(str(run)))
                return [RunId(str(run)) for run in said if run in self._read_to]
            case _:
                return []

    async def _catch_up(self, run: RunId) -> None:
        with suppress(*_errors()):
            await self._receive([run])

    async def _receive(self, runs: Iterable[RunId]) -> None:
        wanted: dict[Any, Any] = {
            _key(run): self._read_to[run] for run in runs if run in self._read_to
        }
        found: Any = await self.client().xread(wanted) if wanted else []
        for key, entries in found:
            run = RunId(key.decode().removeprefix(_key(RunId(""))))
            for id, fields in entries:
                for chunk in _chunks(run, _load(fields.get(_FIELD, b""))):
                    self.local.receive(chunk)
                if run in self._read_to:
                    self._read_to[run] = id.decode()

    def _list_followed(self) -> list[RunId]:
        """Return the runs that are followed here, and drop the others; none once it is closed."""
        if self._is_closed:
            return []
        for run in [run for run in self._read_to if not self.local.is_followed(run)]:
            del self._read_to[run]
        return [*self._read_to]


def make_redis_hub(url: str) -> RedisHub:
    """Return a hub that reaches all processes with the same server; it connects on first use.

    Raises:
        InvalidOperation: The client is not installed, or this is not the address of a server.
    """
    hub = RedisHub(url)
    try:
        hub.client()
    except ValueError as error:
        # Not the client's message: it may quote a password.
        raise InvalidOperation(
            "live_url is not the address of a Redis: write redis://HOST:PORT/0"
        ) from error
    return hub


def _library() -> Any:
    try:
        return import_module("redis.asyncio")
    except ImportError as error:
        raise InvalidOperation(
            "live text over Redis needs its client: pip install 'turntree[redis]'"
        ) from error


def _errors() -> tuple[type[Exception], ...]:
    """Return what a server that does not answer, or answers strangely, raises."""
    return (import_module("redis.exceptions").RedisError, OSError)


def _key(run: RunId) -> str:
    return f"turntree:live:{run}"


def _dump(chunks: Iterable[LiveChunk]) -> bytes:
    return orjson.dumps([
        [str(chunk.position), chunk.kind, chunk.text, chunk.tool, chunk.call_id]
        for chunk in chunks
    ])  # fmt: skip


def _load(data: bytes) -> Any:
    """Return a document; None for what no process of ours wrote."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _chunks(run: RunId, document: Any) -> Iterator[LiveChunk]:
    """Yield the chunks of a message, without those that are malformed: others may write there."""
    match document:
        case [*entries]:
            for entry in entries:
                yield from _chunk(run, entry)
        case _:
            pass


def _chunk(run: RunId, entry: Any) -> Iterator[LiveChunk]:
    match entry:
        case [
            str(position),
            "text" | "reasoning" | "tool" | "restart" as kind,
            str(text),
            str() | None as tool,
            str() | None as call_id,
        ]:
            with suppress(InvalidOperation):
                yield LiveChunk(run, StreamPosition.parse(position), kind, text, tool, call_id)
        case _:
            pass
