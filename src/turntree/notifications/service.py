"""``tree.inbox``: what a person was told."""

from collections.abc import Sequence
from typing import Final

from turntree.core.clock import Clock
from turntree.core.principal import Principal
from turntree.core.value import Facet, value
from turntree.notifications.delivery import FailedDelivery
from turntree.notifications.notice import Notice, find_ids
from turntree.notifications.store import NoticeStore

PAGE: Final = 100
UNREAD_READ_MAX: Final = 10_000
"""Unread notices among which the beginning of an id is looked up."""


@value
class Inbox(Facet):
    """``tree.inbox``: the notices of the person who acts. Another principal has no inbox."""

    store: NoticeStore
    world: Clock
    by: Principal

    async def list_page(
        self, *, everything: bool = False, before: str | None = None, limit: int = PAGE
    ) -> list[Notice]:
        """Return notices, newest first: the unread ones, or all.

        ``before`` is the id of the last notice of the page before.
        """
        if self._person is None:
            return []
        return await self.store.list_page(
            self._person, everything=everything, before=before, limit=limit
        )

    async def count_unread(self) -> int:
        """Return how many notices are unread."""
        return 0 if self._person is None else await self.store.count_unread(self._person)

    async def read(self, ids: Sequence[str] | None = None) -> list[Notice]:
        """Mark notices as read and return them, oldest first: all, or those of some ids.

        The beginning of an id is enough.

        Raises:
            NotFound: There is no unread notice of such an id.
            InvalidOperation: Several ids begin like this.
        """
        if ids is not None:
            ids = find_ids(ids, await self.list_page(limit=UNREAD_READ_MAX))
        if self._person is None:
            return []
        return await self.store.read(self._person, ids, at=self.world.now())

    async def list_failed(self) -> list[FailedDelivery]:
        """Return the channels whose last message to the person was given up."""
        return [] if self._person is None else await self.store.list_failed(self._person)

    @property
    def _person(self) -> str | None:
        # An agent that acts for a person is not that person, and sees no inbox.
        is_person = self.by.kind == "human" and self.by.on_behalf_of is None
        return str(self.by) if is_person else None
