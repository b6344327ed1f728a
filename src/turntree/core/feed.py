"""Positions in the feed: the coordinate of pages, streams and webhooks alike."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FeedPosition:
    """A place in the order of all events of a database.

    ``epoch`` counts the lives of the database: a restore or a move begins a new one, because
    transaction numbers start again.
    """

    epoch: int
    transaction: int
    n: int

    def __str__(self) -> str:
        """Return the text that a client keeps and sends back."""
        return f"{self.epoch}-{self.transaction}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> "FeedPosition":
        """Return the position a text stands for."""
        epoch, transaction, n = text.split("-")
        return cls(int(epoch), int(transaction), int(n))


BEGINNING = FeedPosition(0, 0, 0)
