"""Positions in the feed: the coordinate of pages, streams and webhooks alike."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FeedPosition:
    """A position in the order of all events of a database.

    ``epoch`` counts restores: a restore into another cluster starts a new one, because transaction
    ids start again there.
    """

    epoch: int
    transaction: int
    n: int

    def __str__(self) -> str:
        """Return the text that a client stores and sends back."""
        return f"{self.epoch}-{self.transaction}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> "FeedPosition":
        """Parse the text of a position."""
        epoch, transaction, n = text.split("-")
        return cls(int(epoch), int(transaction), int(n))


BEGINNING = FeedPosition(0, 0, 0)
