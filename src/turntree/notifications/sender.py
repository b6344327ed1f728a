"""Sends deliveries: what a worker does with notices and events besides its runs.

Each delivery is recorded before it is sent, and its answer afterwards. A worker that dies in
between leaves a delivery in doubt, and another one sends it again under the same id: rather twice
than never.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec

import anyio

from turntree.core.clock import Clock
from turntree.core.errors import ProviderNotConfigured, TurntreeError
from turntree.core.ids import WorkspaceId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.notifications.delivery import (
    Claim,
    Delivery,
    DeliveryAttempt,
    is_due,
    is_held,
    next_attempt,
)
from turntree.notifications.mail import MailServer, send_mail, write_mail
from turntree.notifications.preferences import EMAIL
from turntree.notifications.store import DeliveryStore

DELIVER_S = 10.0
"""How often a worker looks for notices that have to leave."""
ADDRESSES_AT_ONCE_MAX = 8
AT_ONCE_MAX = 1_000
"""Deliveries of a workspace that are tried in one look. One that quiet hours hold back counts."""
_LOG = logging.getLogger(__name__)


@value
class DeliverySource:
    """The workspace that a delivery leaves from."""

    name: str
    database: Database
    """Seen by a viewer from whom nothing is hidden."""


SendDelivery = Callable[[Delivery, Claim, DeliverySource], Awaitable[DeliveryAttempt]]
"""Sends a delivery with what was claimed of it. There is one for each channel."""
BeginDeliveries = Callable[[Database], Awaitable[None]]
"""Begins deliveries of what has happened in a workspace and is no notice."""


@value
class NoticeSender:
    """Sends the notices of a database to the people that they are for."""

    database: Database
    world: Clock
    channels: Mapping[str, SendDelivery]
    """What a channel is sent by."""
    begins: BeginDeliveries | None = None

    async def look(self, only: Sequence[WorkspaceId] | None = None) -> None:
        """Send what has to leave now, in all workspaces of the database or in some."""
        waiting = await self._store(self.database).list_workspaces(at=self.world.now())
        if not waiting:
            return
        names = dict(await self.database.list_workspaces())
        for workspace in waiting:
            if only is None or workspace in only:
                try:
                    await self.look_in(self.database.in_workspace(workspace), names[workspace])
                except TurntreeError as error:
                    # The other workspaces do not wait for this one, which is looked at again.
                    _LOG.warning("notices of %s: %s", names[workspace], error)

    async def look_in(self, database: Database, name: str) -> None:
        """Send what has to leave now in one workspace."""
        store, now = self._store(database), self.world.now()
        for waiting in await store.list_waiting():
            if is_due(waiting, now):
                await store.begin(waiting, self.world.nonce(), at=now)
        if self.begins is not None:
            await self.begins(store.database)
        source = DeliverySource(name, store.database)
        queues: dict[str, list[Delivery]] = {}
        for delivery in await store.list_due(limit=AT_ONCE_MAX, at=self.world.now()):
            queues.setdefault(f"{delivery.channel} {delivery.address}", []).append(delivery)
        places = anyio.CapacityLimiter(ADDRESSES_AT_ONCE_MAX)
        # An address that answers slowly holds up its own deliveries, and no others.
        async with anyio.create_task_group() as group:
            for queue in queues.values():
                group.start_soon(self._send_queue, store, queue, source, places)

    async def _send_queue(
        self,
        store: DeliveryStore,
        queue: Sequence[Delivery],
        source: DeliverySource,
        places: anyio.CapacityLimiter,
    ) -> None:
        """Send the deliveries to one address in their order, until one is not accepted."""
        async with places:
            for delivery in queue:
                if is_held(delivery.preferences, self.world.now()):
                    continue
                try:
                    # A worker that is told to stop ends its attempt: it would be in doubt
                    # otherwise.
                    with anyio.CancelScope(shield=True):
                        if not await self._try(store, delivery, source):
                            return
                except TurntreeError as error:
                    # The other addresses do not wait for this one, which is looked at again.
                    _LOG.warning("delivery %s: %s", delivery.id, error)
                    return

    async def _try(self, store: DeliveryStore, delivery: Delivery, source: DeliverySource) -> bool:
        """Try a delivery; return whether the next one to its address may be tried."""
        claim = await store.claim(delivery, at=self.world.now())
        if claim is None:
            return True
        attempt = await self.channels[delivery.channel](delivery, claim, source)
        if attempt.error:
            _LOG.warning("delivery %s %s: %s", delivery.id, attempt.result, attempt.error)
        now = self.world.now()
        next_at = next_attempt(delivery, claim.attempt, attempt, now)
        await store.record(delivery, claim.attempt, attempt, next_at=next_at, at=now)
        return attempt.result == "delivered"

    def _store(self, database: Database) -> DeliveryStore:
        return DeliveryStore(database.seen_by(EVERYTHING), tuple(self.channels))


def make_channels(mail: MailServer | None) -> dict[str, SendDelivery]:
    """Return the channels that settings set up.

    Raises:
        ProviderNotConfigured: The library of one is not installed.
    """
    if mail is None:
        return {}
    if find_spec("aiosmtplib") is None:
        raise ProviderNotConfigured("mail needs aiosmtplib: pip install 'turntree[mail]'")
    return {EMAIL: partial(_send_by_mail, mail)}


async def _send_by_mail(
    server: MailServer, delivery: Delivery, claim: Claim, source: DeliverySource
) -> DeliveryAttempt:
    return await send_mail(write_mail(delivery, claim.notices, server, source.name), server)
