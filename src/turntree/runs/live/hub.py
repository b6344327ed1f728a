"""The live stream of this process: text that runs produce before it is recorded.

It holds a ring buffer of chunks for each run in progress. Nothing here is durable, and no producer
waits for a follower: a follower that is too slow loses the oldest chunks and reads the event in the
ledger.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import anyio

from turntree.core.ids import RunId
from turntree.runs.live.stream import LiveChunk, LiveKind, StreamPosition

PIECES_MAX = 4096
"""Chunks kept for each run, for followers that start late."""
RUNS_MAX = 1024
"""Runs with text that are kept. Followers that wait for the first word do not count."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class _RingBuffer:
    pieces: deque[LiveChunk] = field(default_factory=lambda: deque[LiveChunk](maxlen=PIECES_MAX))
    at: StreamPosition = field(default_factory=StreamPosition)
    attempt: int = 0
    words: list[str] = field(default_factory=list[str])
    """All text of the event in this attempt, including chunks that left the buffer."""
    news: int = 0
    """Counts changes, so that a follower notices one that came while it was not waiting."""
    # A lambda, because looking ``Event`` up here would load its module when the class is created.
    bell: "anyio.Event" = field(default_factory=lambda: anyio.Event())  # noqa: PLW0108

    def ring(self) -> None:
        self.news += 1
        self.bell.set()
        # An event cannot be reset without losing a waiter between set and clear, so each news has
        # its own.
        self.bell = anyio.Event()


@dataclass(slots=True)
class LiveHub:
    """Chunks of streamed text, by run. Implements ``Hub`` for one process."""

    _rings: dict[RunId, _RingBuffer] = field(default_factory=dict[RunId, _RingBuffer])
    """Runs with text."""
    _known: "WeakValueDictionary[RunId, _RingBuffer]" = field(
        default_factory=WeakValueDictionary[RunId, _RingBuffer]
    )
    """These, and runs that only have followers, for as long as one of them waits."""

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
        """Publish a chunk of the event at ``at.seq`` under ``at.epoch``.

        The offset of ``at`` is ignored: chunks are counted here. The first chunk of a new attempt
        discards the text of the same event before it.
        """
        ring = self._writable_ring(run)
        started = (ring.at.seq, ring.at.epoch, ring.attempt)
        if started != (at.seq, at.epoch, attempt):
            is_other = bool(ring.pieces) and ring.at.seq == at.seq
            offset = ring.at.offset if ring.at.epoch == at.epoch and is_other else 0
            ring.at, ring.attempt = StreamPosition(at.seq, at.epoch, offset), attempt
            ring.words = []
            # Followers have shown text that will never be recorded: tell them to take it back.
            if is_other:
                self._add(run, ring, "restart", "", None, None)
        if kind == "text":
            ring.words.append(text)
        self._add(run, ring, kind, text, tool, call_id)

    def receive(self, chunk: LiveChunk) -> None:
        """Take a chunk that another process published, if the run is followed here.

        One that is here already, or older than what is, changes nothing.
        """
        ring, at = self._known.get(chunk.run), chunk.position
        if ring is None or at <= ring.at:
            return
        if ring.pieces and ring.at.seq == at.seq and ring.at.epoch < at.epoch:
            # Another worker has taken the run over: what the first one said will not be recorded.
            restart = StreamPosition(at.seq, at.epoch)
            ring.pieces.append(LiveChunk(chunk.run, restart, "restart"))
        ring.at = at
        ring.pieces.append(chunk)
        ring.ring()

    def is_followed(self, run: RunId) -> bool:
        """Return whether a run has followers here, or text."""
        return run in self._known

    def said(self, run: RunId, at: StreamPosition) -> str:
        """Return the text so far of the event at ``at.seq`` under ``at.epoch``."""
        ring = self._rings.get(run)
        if ring is None or (ring.at.seq, ring.at.epoch) != (at.seq, at.epoch):
            return ""
        return "".join(ring.words)

    def tell(self, run: RunId) -> None:
        """Notify the followers of a run that this process recorded an event."""
        self.notice(run)

    def notice(self, run: RunId) -> None:
        """Notify the followers in this process that any process recorded an event."""
        if (ring := self._known.get(run)) is not None:
            ring.ring()

    def forget(self, run: RunId) -> None:
        """Drop the buffer of a run that is sealed."""
        self._rings.pop(run, None)
        if (ring := self._known.pop(run, None)) is not None:
            ring.ring()

    def list_runs(self) -> list[RunId]:
        """Return the runs that have text here."""
        return [run for run, ring in self._rings.items() if ring.pieces]

    def pieces(self, run: RunId, after: StreamPosition) -> list[LiveChunk]:
        """Return the buffered chunks after a position."""
        return list(self.listen(run)(after))

    def listen(self, run: RunId) -> Callable[[StreamPosition], Iterator[LiveChunk]]:
        """Return a reader of the chunks after a position; it still works after ``forget``."""
        # The buffer itself, not the run's entry: a follower that is slower than the seal can still
        # read the rest. It also keeps the buffer of a run that has no text yet.
        ring = self._ring(run)
        return lambda after: (live for live in tuple(ring.pieces) if live.position > after)

    def news(self, run: RunId) -> int:
        """Return the number of changes in a run so far, to pass to ``wait``."""
        return self._ring(run).news

    async def wait(self, run: RunId, *, since: int, timeout_s: float) -> None:
        """Return when a run has changed since ``since``, or after ``timeout_s``."""
        ring = self._ring(run)
        if ring.news == since:
            with anyio.move_on_after(timeout_s):
                await ring.bell.wait()

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def _ring(self, run: RunId) -> _RingBuffer:
        """Return the buffer of a run, which lives as long as its caller holds it, or it has text.

        So that asking for a run never drops the text of another.
        """
        ring = self._known.get(run)
        if ring is None:
            ring = self._known[run] = _RingBuffer()
        return ring

    def _writable_ring(self, run: RunId) -> _RingBuffer:
        ring = self._rings.get(run)
        if ring is None:
            # Drop the oldest: its followers find everything in the ledger.
            while len(self._rings) >= RUNS_MAX:
                self.forget(next(iter(self._rings)))
            ring = self._rings[run] = self._ring(run)
        return ring

    def _add(
        self,
        run: RunId,
        ring: _RingBuffer,
        kind: LiveKind,
        text: str,
        tool: str | None,
        call_id: str | None,
    ) -> None:
        ring.at = StreamPosition(ring.at.seq, ring.at.epoch, ring.at.offset + 1)
        ring.pieces.append(LiveChunk(run, ring.at, kind, text, tool, call_id))
        ring.ring()
