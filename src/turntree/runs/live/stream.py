"""The live stream: text that is not recorded yet, positions to resume from, and the port of hubs.

A position has three parts: the ``seq`` of the event that the text will become, the epoch of the
run, and the number of chunks before it. Streamed text is provisional. Once the event is recorded,
only the event counts, and a new attempt discards the text of the one before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.core.run import RunEvent
from turntree.core.value import value

DIGITS_MAX: Final = 10
LiveKind = Literal["text", "reasoning", "tool", "restart"]


@dataclass(frozen=True, slots=True, order=True)
class StreamPosition:
    """Where a follower resumes; written ``3.1.40``."""

    seq: int = 0
    """Position of the next event."""
    epoch: int = 0
    offset: int = 0
    """Number of its chunks that were read."""

    def __str__(self) -> str:
        """Return the form that ``parse`` reads."""
        return f"{self.seq}.{self.epoch}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "StreamPosition":
        """Return the position that a text denotes.

        Raises:
            InvalidOperation: It is not a position.
        """
        pieces = text.split(".")
        if len(pieces) != 3 or not all(map(_is_number, pieces)):  # noqa: PLR2004
            raise InvalidOperation(
                f"{text[:80]!r} is not a stream position; expected a form like 3.1.40"
            )
        seq, epoch, offset = map(int, pieces)
        return cls(seq, epoch, offset)


def _is_number(text: str) -> bool:
    """Return whether a text is a number that a position may have: those of events are 32 bits."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


@value
class LiveChunk:
    """One chunk of streamed text, or the notice that the text so far is discarded."""

    run: RunId
    position: StreamPosition
    """Where a follower that has read this chunk resumes."""
    kind: LiveKind
    text: str = ""
    tool: str | None = None
    call_id: str | None = None


class Hub(Protocol):
    """Passes on the text of runs in progress, from the process that drives one to its followers.

    Nothing here is durable, and no method waits for a follower or raises because one is out of
    reach: what is lost here is in the ledger a moment later.
    """

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
        ...

    def said(self, run: RunId, at: StreamPosition) -> str:
        """Return the text so far of an event that this process is producing."""
        ...

    def tell(self, run: RunId) -> None:
        """Notify the followers of a run that this process recorded an event."""
        ...

    def notice(self, run: RunId) -> None:
        """Notify the followers in this process that any process recorded an event."""
        ...

    def forget(self, run: RunId) -> None:
        """Drop the text of a run that is sealed."""
        ...

    def list_runs(self) -> list[RunId]:
        """Return the runs whose text this process produces."""
        ...

    def pieces(self, run: RunId, after: StreamPosition) -> list[LiveChunk]:
        """Return the chunks after a position that are here."""
        ...

    def listen(self, run: RunId) -> Callable[[StreamPosition], Iterator[LiveChunk]]:
        """Return a reader of the chunks after a position; it still works after ``forget``."""
        ...

    def news(self, run: RunId) -> int:
        """Return the number of changes in a run so far, to pass to ``wait``."""
        ...

    async def wait(self, run: RunId, *, since: int, timeout_s: float) -> None:
        """Return when a run has changed since ``since``, or after ``timeout_s``."""
        ...

    async def aclose(self) -> None:
        """Close connections, if it has any."""
        ...


def position_after(news: LiveChunk | RunEvent) -> StreamPosition:
    """Return where a follower that has read this resumes."""
    return news.position if isinstance(news, LiveChunk) else StreamPosition(news.event.seq + 1)


def with_restart(chunk: LiveChunk, after: StreamPosition) -> tuple[LiveChunk, ...]:
    """Return a chunk, and before it what discards the text that its follower has, if it has any.

    A follower that was cut off may resume at a process that has never heard of the earlier text:
    another worker has taken the run over meanwhile, and begins it again under its own epoch.
    """
    at = chunk.position
    is_taken_over = at.seq == after.seq and at.epoch > after.epoch and after.offset > 0
    if not is_taken_over or chunk.kind == "restart":
        return (chunk,)
    return (LiveChunk(chunk.run, StreamPosition(at.seq, at.epoch), "restart"), chunk)


@value
class PartialMessage:
    """What a follower has received of an event that is not recorded yet."""

    position: StreamPosition = StreamPosition()
    text: str = ""

    def read(self, live: LiveChunk) -> "PartialMessage":
        """Return the state after one more chunk; a repeated chunk changes nothing."""
        before, after = self.position, live.position
        if after <= before:
            return self
        begins_anew = live.kind == "restart" or (after.seq, after.epoch) != (
            before.seq,
            before.epoch,
        )
        text = live.text if live.kind == "text" else ""
        return PartialMessage(after, text if begins_anew else self.text + text)

    def recorded(self, seq: int) -> "PartialMessage":
        """Return the state once the event at ``seq`` is recorded: empty, positioned after it."""
        return (
            self
            if seq < self.position.seq
            else replace(self, position=StreamPosition(seq + 1), text="")
        )
