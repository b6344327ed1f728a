"""Tells the followers of runs what has changed, with one reader of the feed for all of them.

A follower whose run is driven by another process has to ask the database. One that is alone does so
by itself. From the second one on, a shared reader asks for all of them: 200 followers that each ask
five times a second cost a quarter of a core, one reader a fiftieth of one.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from turntree.core.errors import TurntreeError
from turntree.core.event import FeedPosition
from turntree.core.ids import RunId
from turntree.ledger.feed import Feed
from turntree.runs.live.stream import Hub

FOLLOWERS_MIN = 2
"""With fewer followers a shared reader costs more than it saves."""
LOOK_S = 5.0
"""How often a follower still looks at the ledger itself, in case the reader fails."""
PAGE = 1000


@dataclass(slots=True)
class RunFeed:
    """The reader of one workspace's feed in this process."""

    feed: Feed
    """As the system sees it. Only which stream has news is passed on, and only within the process;
    what the news is each follower reads with its own rights."""
    hub: Hub
    _followers: int = 0
    _reader: "asyncio.Task[None] | None" = field(default=None, repr=False)
    _position: FeedPosition | None = None
    """How far it has read; None until it has begun."""

    @asynccontextmanager
    async def following(self, poll_s: float) -> AsyncGenerator[None, None]:
        """Count a follower while the block lasts; several share a reader."""
        self._followers += 1
        try:
            if self._followers >= FOLLOWERS_MIN and self._reader is None:
                self._reader = asyncio.create_task(self._read(poll_s))
            yield
        finally:
            self._followers -= 1
            if self._followers < FOLLOWERS_MIN and self._reader is not None:
                self._reader.cancel()
                self._reader = self._position = None

    def find_timeout(self, poll_s: float) -> float:
        """Return how long a follower that looks at the ledger next may then wait for news.

        Ask before looking: only what is recorded after the reader has begun is told.
        """
        return poll_s if self._position is None else max(LOOK_S, poll_s)

    async def _read(self, poll_s: float) -> None:
        while True:
            try:
                position = self._position or await self.feed.end()
                page = await self.feed.read(position, limit=PAGE)
            except TurntreeError:
                # The database does not answer: followers notice that themselves.
                self._position = None
                await asyncio.sleep(poll_s)
                continue
            for _, event in page:
                self.hub.notice(RunId(event.stream))
            self._position = page[-1][0] if page else position
            if len(page) < PAGE:
                await asyncio.sleep(poll_s)
