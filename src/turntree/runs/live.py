"""Words on their way: what a run says before it is recorded, and from where to read on.

A position is the place of the event that the words will become, the epoch of the run they were
said under, and how many pieces came before. Words are never facts: once the event stands in the
journal it alone is true, and an attempt that is begun again takes back what it had said.
"""

from dataclasses import dataclass, replace
from typing import Literal

from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.core.value import value

LiveKind = Literal["text", "reasoning", "tool", "restart"]


@dataclass(frozen=True, slots=True, order=True)
class StreamPosition:
    """From where a follower reads on; written ``3.1.40``."""

    seq: int = 0
    """The place of the event that comes next."""
    epoch: int = 0
    offset: int = 0
    """How many pieces of it were read."""

    def __str__(self) -> str:
        """Return the form that is handed out and taken back."""
        return f"{self.seq}.{self.epoch}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "StreamPosition":
        """Return the position that a text stands for.

        Raises:
            InvalidOperation: It stands for none.
        """
        pieces = text.split(".")
        if len(pieces) != 3 or not all(piece.isascii() and piece.isdigit() for piece in pieces):  # noqa: PLR2004
            raise InvalidOperation(f"{text!r} is no position in a stream; one reads like 3.1.40")
        seq, epoch, offset = map(int, pieces)
        return cls(seq, epoch, offset)


@value
class LiveChunk:
    """One piece of what is being said, or word that all of it was taken back."""

    run: RunId
    position: StreamPosition
    """Where whoever has read this piece reads on."""
    kind: LiveKind
    text: str = ""
    tool: str | None = None
    call_id: str | None = None


@value
class PartialMessage:
    """What a follower has of an event that is not recorded yet."""

    position: StreamPosition = StreamPosition()
    text: str = ""

    def read(self, live: LiveChunk) -> "PartialMessage":
        """Return what there is after one more piece; a repeated one changes nothing."""
        before, after = self.position, live.position
        if after <= before:
            return self
        begins_anew = live.kind == "restart" or (after.seq, after.epoch) != (
            before.seq,
            before.epoch,
        )
        said = live.text if live.kind == "text" else ""
        return PartialMessage(after, said if begins_anew else self.text + said)

    def recorded(self, seq: int) -> "PartialMessage":
        """Return what there is once the event at a place is recorded: nothing, after it."""
        return (
            self
            if seq < self.position.seq
            else replace(self, position=StreamPosition(seq + 1), text="")
        )
