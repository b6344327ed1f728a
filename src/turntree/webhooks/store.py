"""Store of webhooks. Every change is an event of the workspace's own stream."""

from collections.abc import Sequence

from turntree.core.event import Event, FeedPosition
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import Array, int_array, text_array, uuid_array
from turntree.db.database import Database
from turntree.db.sql import load_statements
from turntree.ledger.session_store import as_instant
from turntree.webhooks.webhook import Webhook, WebhookDelivery, WebhookState, message_id

SQL = load_statements(__file__)


@value
class Endpoint:
    """Where a webhook sends, and with which secrets it signs."""

    owner: str
    url: str
    state: WebhookState
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        """Return for whom it is, and nothing of what opens it."""
        return f"Endpoint({self.owner})"


@value
class ListeningWebhook:
    """A webhook that events leave by."""

    id: str
    owner: str
    patterns: tuple[str, ...]
    position: FeedPosition
    """The last event that was looked at."""
    may_hear: bool
    """Whether its owner may still be sent events."""


@value
class WebhookStore:
    """The webhooks of a workspace."""

    database: Database

    async def create(
        self,
        id: str,
        owner: str,
        url: str,
        events: Sequence[str],
        secret: str,
        *,
        at: Timestamp,
        right: str,
        roles: Sequence[str],
    ) -> None:
        """Record a webhook with its first secret.

        Raises:
            PermissionDenied: The viewer has none of ``roles``, or is not the owner.
        """
        await self.database.run(
            SQL["create_webhook"], id=id, owner=owner, url=url, events=text_array(events),
            secret=secret, at=at, right=right, roles=text_array(roles),
        )  # fmt: skip

    async def rotate(
        self,
        id: str,
        secret: str,
        *,
        until: Timestamp,
        by: str,
        at: Timestamp,
        roles: Sequence[str],
    ) -> None:
        """Add a secret; those before it are valid until a time.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
            PermissionDenied: It is another person's, and the viewer is an admin.
        """
        await self.database.run(
            SQL["rotate_webhook"], id=id, secret=secret, until=until, by=by, at=at,
            roles=text_array(roles),
        )  # fmt: skip

    async def set_state(
        self, id: str, state: WebhookState, *, by: str, at: Timestamp, roles: Sequence[str]
    ) -> None:
        """Pause a webhook, resume it or delete it.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        await self.database.run(
            SQL["set_webhook_state"], id=id, state=state, by=by, at=at, roles=text_array(roles)
        )

    async def list_all(self, *, at: Timestamp) -> list[Webhook]:
        """Return the webhooks that the viewer sees, in the order in which they were made."""
        rows = await self.database.fetch(SQL["list_webhooks"])
        holders = text_array([row[0] for row in rows])
        # As the system: no other viewer reads the table of secrets.
        everything = self.database.seen_by(EVERYTHING)
        counts: dict[str, int] = dict(
            await everything.fetch(SQL["count_secrets"], holders=holders, at=at)
        )
        return [
            Webhook(
                id, owner, url, tuple(events), state, as_instant(created), counts.get(id, 0),
                waiting, failed,
            )
            for id, owner, url, events, state, created, waiting, failed in rows
        ]  # fmt: skip

    async def list_deliveries(
        self,
        webhook: str,
        person: str,
        *,
        failed: bool = False,
        id: str | None = None,
        limit: int,
    ) -> list[WebhookDelivery]:
        """Return the deliveries of a person's webhook, newest first: all, or those given up."""
        rows = await self.database.fetch(
            SQL["list_deliveries"], webhook=webhook, person=person, failed=failed, id=id,
            limit=limit,
        )  # fmt: skip
        return [
            WebhookDelivery(
                id, webhook, kind, state, attempts, error, as_instant(created),
                None if ended is None else as_instant(ended),
            )
            for id, webhook, kind, state, attempts, error, created, ended in rows
        ]  # fmt: skip

    async def resend(self, id: str, *, at: Timestamp) -> str:
        """Begin a delivery anew that has ended, and return its webhook.

        Raises:
            NotFound: There is no such delivery, or it is another person's.
            InvalidOperation: It has not ended, or it has notices.
        """
        row = await self.database.fetch_one(SQL["resend_delivery"], id=id, at=at)
        assert row is not None, "a function returns one row"
        return str(row[0])

    async def find_endpoint(self, id: str, *, at: Timestamp) -> Endpoint | None:
        """Return where a webhook sends, to a viewer from whom nothing is hidden."""
        row = await self.database.fetch_one(SQL["find_endpoint"], id=id, at=at)
        return None if row is None else Endpoint(row[0], row[1], row[2], tuple(row[3]))

    async def list_listening(self) -> list[ListeningWebhook]:
        """Return the webhooks that events leave by, to a viewer from whom nothing is hidden."""
        rows = await self.database.fetch(SQL["list_listening"])
        return [
            ListeningWebhook(id, owner, tuple(events), FeedPosition(epoch, xid, n), may_hear)
            for id, owner, events, epoch, xid, n, may_hear in rows
        ]

    async def begin(
        self,
        webhook: ListeningWebhook,
        until: FeedPosition,
        events: Sequence[Event],
        *,
        at: Timestamp,
    ) -> bool:
        """Begin a delivery of each event, and note that all up to a position were looked at.

        Returns False if another worker did so first.
        """
        row = await self.database.fetch_one(
            SQL["begin_event_deliveries"],
            webhook=webhook.id,
            before=_texts(webhook.position),
            until=_texts(until),
            ids=text_array([message_id(webhook.id, one) for one in events]),
            streams=uuid_array(one.stream for one in events),
            seqs=int_array([one.seq for one in events]),
            at=at,
        )
        return row is not None and bool(row[0])


def _texts(position: FeedPosition) -> Array:
    return text_array([str(position.epoch), str(position.transaction), str(position.n)])
