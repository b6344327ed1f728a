"""Store of notices and their deliveries. A viewer sees those of one person: their own."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from turntree.core.canonical import Json
from turntree.core.ids import Timestamp, WorkspaceId
from turntree.core.value import value
from turntree.db.arrays import text_array
from turntree.db.database import Database
from turntree.db.sql import load_statements
from turntree.ledger.session_store import as_instant
from turntree.notifications.delivery import (
    ERROR_CHARS_MAX,
    NOTICES_MAX,
    Claim,
    Delivery,
    DeliveryAttempt,
    FailedDelivery,
    PastDelivery,
    WaitingPerson,
    claimed_until,
    newest_due,
    quiet_since,
)
from turntree.notifications.notice import Notice
from turntree.notifications.preferences import NoticePreferences, read_preferences

SQL = load_statements(__file__)


@value
class NoticeStore:
    """The notices of people."""

    database: Database

    async def list_page(
        self, person: str, *, everything: bool, before: str | None, limit: int
    ) -> list[Notice]:
        """Return notices, newest first: those that are unread, or all."""
        rows = await self.database.fetch(
            SQL["list_notices"], person=person, everything=everything, before=before, limit=limit
        )
        return [_notice(row) for row in rows]

    async def count_unread(self, person: str) -> int:
        """Return how many notices a person has not read."""
        row = await self.database.fetch_one(SQL["count_unread"], person=person)
        return 0 if row is None else row[0]

    async def read(self, person: str, ids: Sequence[str] | None, *, at: Timestamp) -> list[Notice]:
        """Mark unread notices as read, all or some, and return them, oldest first.

        Raises:
            PermissionDenied: The viewer is another principal.
        """
        rows = await self.database.fetch(
            SQL["read_notices"], person=person, ids=None if ids is None else text_array(ids), at=at
        )
        return [_notice(row) for row in rows]

    async def list_failed(self, person: str) -> list[FailedDelivery]:
        """Return the channels whose newest message to a person was given up."""
        rows = await self.database.fetch(SQL["list_failed_deliveries"], person=person)
        return [
            FailedDelivery(channel, address, error or "", as_instant(at))
            for channel, address, error, at in rows
        ]


@value
class DeliveryStore:
    """The deliveries of a workspace, for a worker: seen by a viewer from whom nothing is hidden."""

    database: Database
    channels: tuple[str, ...]
    """The channels that this worker can send by."""

    async def list_workspaces(self, *, at: Timestamp) -> list[WorkspaceId]:
        """Return the workspaces of the database in which a notice may have to leave."""
        rows = await self.database.fetch(SQL["list_workspaces_with_notices"], at=at)
        return [WorkspaceId(id) for (id,) in rows]

    async def list_waiting(self) -> list[WaitingPerson]:
        """Return the people with unread notices that their channel has not had."""
        rows = await self.database.fetch(SQL["list_waiting"], channels=text_array(self.channels))
        return [
            WaitingPerson(
                person,
                _preferences(preferences),
                as_instant(oldest),
                None if ended is None else PastDelivery(as_instant(ended), failed, address),
            )
            for person, preferences, oldest, ended, failed, address in rows
        ]

    async def begin(self, waiting: WaitingPerson, id: str, *, at: Timestamp) -> bool:
        """Begin a delivery, unless another worker did; returns whether there is one."""
        row = await self.database.fetch_one(
            SQL["begin_delivery"],
            person=waiting.person,
            channel=waiting.preferences.channel,
            address=waiting.preferences.address,
            id=id,
            until=newest_due(at),
            after=quiet_since(waiting, at),
            limit=NOTICES_MAX,
            at=at,
        )
        return row is not None and row[0]

    async def list_due(self, *, limit: int, at: Timestamp) -> list[Delivery]:
        """Return the deliveries that may be tried now, the one that waits longest first."""
        rows = await self.database.fetch(
            SQL["list_due_deliveries"], channels=text_array(self.channels), limit=limit, at=at
        )
        return [
            Delivery(
                id, person, channel, address, as_instant(created), rejections,
                _preferences(prefers), is_event,
            )
            for id, person, channel, address, created, rejections, prefers, is_event in rows
        ]  # fmt: skip

    async def claim(self, delivery: Delivery, *, at: Timestamp) -> Claim | None:
        """Claim an attempt; None if another worker has it, or if nothing is to be sent any more."""
        if delivery.is_event:
            found = await self.database.fetch_one(
                SQL["claim_event"], id=delivery.id, until=claimed_until(at), at=at
            )
            return None if found is None else Claim(found[0], (), found[1])
        current = delivery.preferences
        rows = await self.database.fetch(
            SQL["claim_delivery"],
            id=delivery.id,
            address=current.address if current.channel == delivery.channel else None,
            until=claimed_until(at),
            at=at,
        )
        if not rows:
            return None
        return Claim(rows[0][0], tuple(_notice(row[1:]) for row in rows))

    async def record(
        self,
        delivery: Delivery,
        number: int,
        attempt: DeliveryAttempt,
        *,
        next_at: Timestamp | None,
        at: Timestamp,
    ) -> None:
        """Record how an attempt ended; without a next one the delivery is given up."""
        await self.database.run(
            SQL["record_attempt"],
            id=delivery.id,
            attempt=number,
            result=attempt.result,
            error=attempt.error[:ERROR_CHARS_MAX],
            next=next_at,
            at=at,
        )


def _preferences(text: str) -> NoticePreferences:
    document: Mapping[str, Json] = orjson.loads(text)
    return read_preferences(document)


def _notice(row: Sequence[Any]) -> Notice:
    id, kind, by, text, refs, at, read_at, is_displaced = row
    return Notice(
        id, kind, by, text, refs, as_instant(at),
        None if read_at is None else as_instant(read_at), is_displaced,
    )  # fmt: skip
