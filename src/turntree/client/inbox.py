"""The inbox over HTTP: what the holder of the key was told."""

from collections.abc import Sequence

from turntree.client.connection import HttpConnection
from turntree.core.value import Facet, value
from turntree.wire.inbox import InboxPage, NoticeDocument, ReadNotices


@value
class InboxApi(Facet):
    """The facet ``client.inbox``."""

    http: HttpConnection

    async def list_page(
        self, *, everything: bool = False, limit: int = 100, cursor: str | None = None
    ) -> InboxPage:
        """Return notices, newest first: the unread ones, or all."""
        query = {"everything": everything, "limit": limit, "cursor": cursor}
        return await self.http.get("/inbox", InboxPage, query)

    async def read(self, ids: Sequence[str] | None = None) -> tuple[NoticeDocument, ...]:
        """Mark notices as read and return them, oldest first: all, or those of some ids.

        Raises:
            NotFound: There is no unread notice of such an id.
        """
        body = {"ids": None if ids is None else list(ids)}
        return (await self.http.post("/inbox/read", ReadNotices, body)).notices
