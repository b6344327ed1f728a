"""Protocol of the feed of all events, which streams, webhooks and followers read."""

from typing import Protocol

from turntree.core.event import Event
from turntree.core.feed import FeedPosition


class Feed(Protocol):
    """All events of a workspace in one order; a reader never skips a late commit."""

    async def read(
        self, after: FeedPosition = ..., *, limit: int = 1000
    ) -> list[tuple[FeedPosition, Event]]:
        """Return the events after a position, in the same order for all readers."""
        ...
