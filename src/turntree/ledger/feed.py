"""The feed: all events of a workspace in one stable order."""

from collections.abc import Iterable, Sequence

import orjson

from turntree.core import event as events
from turntree.core.event import BEGINNING, Event, FeedPosition
from turntree.core.value import Facet, value
from turntree.core.viewer import Sight
from turntree.db.arrays import text_array
from turntree.db.database import Database
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@value
class Feed(Facet):
    """All events of a workspace in one order; a reader never skips a late commit."""

    database: Database

    async def read(
        self, after: FeedPosition = BEGINNING, *, limit: int = 1000
    ) -> list[tuple[FeedPosition, Event]]:
        """Return the events after a position, in the same order for all readers."""
        rows = await self.database.fetch(
            SQL["read_feed"], epoch=after.epoch, xid=str(after.transaction), n=after.n, limit=limit
        )
        return [
            (FeedPosition(epoch, xid, n), events.from_json(orjson.loads(body)))
            for epoch, xid, n, body in rows
        ]

    async def list_visible(self, streams: Sequence[str]) -> set[str]:
        """Return those of some streams whose events the viewer may read."""
        rows = await self.database.fetch(SQL["list_visible_streams"], streams=list(streams))
        return {stream for (stream,) in rows}

    async def list_visible_to(
        self, sights: Iterable[Sight], streams: Sequence[str]
    ) -> dict[Sight, frozenset[str]]:
        """Return by viewer those of some streams whose events they may read, none left out.

        Only the system asks: the programs on which that depends may be hidden from others.
        """
        rows = await self.database.fetch(
            SQL["list_visible_by_viewer"], viewers=text_array([*sights]), streams=list(streams)
        )
        visible: dict[Sight, frozenset[str]] = {}
        for viewers, seen in rows:
            visible.update(dict.fromkeys(viewers, frozenset(seen)))
        return visible

    async def end(self) -> FeedPosition:
        """Return the position of the last event that ``read`` would return."""
        row = await self.database.fetch_one(SQL["read_feed_end"])
        return BEGINNING if row is None else FeedPosition(*row)
