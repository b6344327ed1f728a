"""Search, the shape of the tree, and costs over HTTP."""

from collections.abc import Sequence

from turntree.client.connection import HttpConnection
from turntree.core.value import Facet, value
from turntree.wire.costs import CostTable
from turntree.wire.search import SearchPage
from turntree.wire.shape import (
    ActivityDocument,
    PlaceList,
    RowList,
    ShapeDocument,
    SpineDocument,
)


@value
class SearchApi(Facet):
    """The facet ``client.search``."""

    http: HttpConnection

    async def __call__(
        self, query: str, *, limit: int = 20, after: str | None = None
    ) -> SearchPage:
        """Return the turns that a query finds, best first; ``after`` continues a page.

        Raises:
            InvalidQuery: The text is not a query.
        """
        values = {"q": query, "limit": limit, "cursor": after}
        return await self.http.get("/search", SearchPage, values)

    async def places(self, query: str) -> PlaceList:
        """Return where in the tree the turns are that a query finds."""
        return await self.http.get("/search/places", PlaceList, {"q": query})


@value
class ShapeApi(Facet):
    """The facet ``client.shape``."""

    http: HttpConnection

    async def read(self, after: str | None = None) -> ShapeDocument:
        """Return the tree without its texts, or what changed in it after a position."""
        return await self.http.get("/shape", ShapeDocument, {"after": after})

    async def activity(self, *, zone: str = "UTC") -> ActivityDocument:
        """Return how many turns each agent took on each day."""
        return await self.http.get("/shape/activity", ActivityDocument, {"zone": zone})

    async def spine(self, revision: str) -> SpineDocument:
        """Return a thread by its branch points, ends and compactions."""
        return await self.http.get("/spine/{revision}", SpineDocument, revision=revision)

    async def lines(self, ranges: Sequence[tuple[int, int, int]]) -> RowList:
        """Return turns as lines, by ranges of a segment, its first depth and its last."""
        at = ",".join(f"{segment}.{low}-{high}" for segment, low, high in ranges)
        return await self.http.get("/rows", RowList, {"at": at})

    async def lines_of(self, turns: Sequence[str]) -> RowList:
        """Return turns as lines, by their ids."""
        return await self.http.get("/rows", RowList, {"turns": ",".join(turns)})


@value
class StatsApi(Facet):
    """The facet ``client.stats``."""

    http: HttpConnection

    async def list_costs(
        self, *, since: str | None = None, until: str | None = None, sessions: bool = True
    ) -> CostTable:
        """Return what model calls used and cost, each call counted once."""
        values = {"since": since, "until": until, "sessions": sessions}
        return await self.http.get("/costs", CostTable, values)
