"""Begins deliveries of events: what has happened since a webhook was last looked at.

Each webhook has its position in the feed. The events after it are read as the owner of the webhook
sees them, and the deliveries are begun in the transaction that moves the position: a worker that
dies has begun all of them or none.
"""

from typing import Final

from turntree.core.clock import Clock
from turntree.core.event import FeedPosition
from turntree.core.value import value
from turntree.core.viewer import Sight
from turntree.db.database import Database
from turntree.ledger.feed import Feed
from turntree.webhooks.store import ListeningWebhook, WebhookStore
from turntree.webhooks.webhook import matches

PAGE: Final = 1_000


@value
class EventQueue:
    """Finds the events that leave by webhooks."""

    clock: Clock

    async def begin(self, database: Database) -> None:
        """Begin deliveries of new events of a workspace.

        The database is seen by a viewer from whom nothing is hidden.
        """
        store = WebhookStore(database)
        for webhook in await store.list_listening():
            await self._look(store, webhook)

    async def _look(self, store: WebhookStore, webhook: ListeningWebhook) -> None:
        # Read first: what is behind it is read next time, and no event between the two is missed.
        end = await Feed(store.database).end()
        if _order(end) <= _order(webhook.position):
            return
        owner = store.database.seen_by(Sight(webhook.owner))
        page = await Feed(owner).read(webhook.position, limit=PAGE) if webhook.may_hear else []
        wanted = [event for _, event in page if matches(webhook.patterns, event.kind)]
        last = page[-1][0] if page else end
        # After a page that is full there may be more; otherwise what is hidden was passed too.
        until = last if len(page) == PAGE else max(last, end, key=_order)
        await store.begin(webhook, until, wanted, at=self.clock.now())


def _order(position: FeedPosition) -> tuple[int, int, int]:
    return position.epoch, position.transaction, position.n
