"""The live stream of this process: what runs say before it is recorded.

A ring of pieces for each run that is being worked on. Nothing here is durable and nothing waits
for a follower: one that is too slow finds the beginning gone and reads the event in the ledger.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import anyio

from turntree.core.ids import RunId
from turntree.runs.live import LiveChunk, LiveKind, StreamPosition

PIECES_MAX = 4096
"""How many pieces of a run are kept for those who come late."""
RUNS_MAX = 1024


@dataclass(slots=True)
class _RingBuffer:
    pieces: deque[LiveChunk] = field(default_factory=lambda: deque[LiveChunk](maxlen=PIECES_MAX))
    at: StreamPosition = field(default_factory=StreamPosition)
    attempt: int = 0
    words: list[str] = field(default_factory=list[str])
    """All that this attempt has said of the event, however many pieces it took."""
    news: int = 0
    """How often something happened; what came while nobody waited is seen by this."""
    # Named when one is made: until then, AnyIO has not loaded what events are.
    bell: "anyio.Event" = field(default_factory=lambda: anyio.Event())  # noqa: PLW0108

    def ring(self) -> None:
        self.news += 1
        self.bell.set()
        self.bell = anyio.Event()


@dataclass(slots=True)
class LiveHub:
    """Pieces of what is being said, by run."""

    _rings: dict[RunId, _RingBuffer] = field(default_factory=dict[RunId, _RingBuffer])

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
        """Tell followers of a run about a piece of the event at a place, under an epoch.

        The offset of ``at`` is not looked at: pieces are counted here. The first piece of another
        attempt takes back what was said of the same event before.
        """
        ring = self._ring(run)
        begun = (ring.at.seq, ring.at.epoch, ring.attempt)
        if begun != (at.seq, at.epoch, attempt):
            is_other = bool(ring.pieces) and ring.at.seq == at.seq
            offset = ring.at.offset if ring.at.epoch == at.epoch and is_other else 0
            ring.at, ring.attempt = StreamPosition(at.seq, at.epoch, offset), attempt
            ring.words = []
            if is_other:
                self._add(run, ring, "restart", "", None, None)
        if kind == "text":
            ring.words.append(text)
        self._add(run, ring, kind, text, tool, call_id)

    def said(self, run: RunId, at: StreamPosition) -> str:
        """Return the words of the event at a place that were said under an epoch so far."""
        ring = self._rings.get(run)
        if ring is None or (ring.at.seq, ring.at.epoch) != (at.seq, at.epoch):
            return ""
        return "".join(ring.words)

    def tell(self, run: RunId) -> None:
        """Tell followers of a run that something was recorded."""
        if (ring := self._rings.get(run)) is not None:
            ring.ring()

    def forget(self, run: RunId) -> None:
        """Drop what was said in a run: it is sealed."""
        if (ring := self._rings.pop(run, None)) is not None:
            ring.ring()

    def pieces(self, run: RunId, after: StreamPosition) -> list[LiveChunk]:
        """Return the pieces after a position that are still there."""
        return list(self.listen(run)(after))

    def listen(self, run: RunId) -> Callable[[StreamPosition], Iterator[LiveChunk]]:
        """Return what gives the pieces after a position, also once the run is forgotten."""
        pieces = self._ring(run).pieces
        return lambda after: (live for live in tuple(pieces) if live.position > after)

    def news(self, run: RunId) -> int:
        """Return how often something happened in a run; ``wait`` takes it."""
        return self._ring(run).news

    async def wait(self, run: RunId, *, since: int, timeout_s: float) -> None:
        """Return when there is news of a run since it was looked at, or after a while."""
        ring = self._ring(run)
        if ring.news == since:
            with anyio.move_on_after(timeout_s):
                await ring.bell.wait()

    def _ring(self, run: RunId) -> _RingBuffer:
        ring = self._rings.get(run)
        if ring is None:
            # The oldest make room: their followers find everything in the ledger.
            while len(self._rings) >= RUNS_MAX:
                self.forget(next(iter(self._rings)))
            ring = self._rings[run] = _RingBuffer()
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
