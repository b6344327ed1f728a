"""``tree.webhooks``: addresses to which events of the workspace, or notices of a person, leave.

A webhook with patterns of event kinds is sent the events that its owner may read, and takes an
admin. One without is for the notices of its owner, who names it in their preferences. Its secret is
shown once, when it is made or replaced.
"""

import hashlib
from collections.abc import Sequence

from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.member import CREATE_WEBHOOKS, MANAGE_WEBHOOKS, as_person, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.auth.webhook_signature import make_secret
from turntree.core.clock import Clock
from turntree.core.errors import Hint, InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import instant, unix_ms
from turntree.core.value import Facet, value
from turntree.webhooks.store import WebhookStore
from turntree.webhooks.webhook import (
    ROTATION_HOURS_DEFAULT,
    ROTATION_HOURS_MAX,
    Webhook,
    WebhookDelivery,
    WebhookState,
    check_patterns,
    check_url,
)

PAGE = 100
ID_CHARS = 16
HOUR_MS = 60 * 60 * 1000


@value
class Webhooks(Facet):
    """``tree.webhooks``: the webhooks of the workspace."""

    store: WebhookStore
    members: MemberStore
    world: Clock
    own: ExecutionContext
    permitted: frozenset[str] = frozenset()
    """Hosts that may have an address that is not public."""

    async def create(self, url: str, *, events: Sequence[str] = ()) -> tuple[Webhook, str]:
        """Return a new webhook, and its secret, which is not shown again.

        ``events`` are patterns of event kinds: ``run.failed``, ``session.*`` or ``*``. Without any,
        the webhook is for the notices of the person who makes it.

        Raises:
            PermissionDenied: The acting principal is not a person, or events take an admin.
            InvalidOperation: The URL is not one of HTTPS or not public, or a pattern is invalid.
        """
        right = MANAGE_WEBHOOKS if events else CREATE_WEBHOOKS
        await require_action(self.members, right, self.own)
        acting = find_current() or self.own
        if acting.principal.kind != "human":
            raise PermissionDenied(f"only a person can create a webhook, not {acting.principal}")
        patterns, at = check_patterns(events), self.world.now()
        check_url(url, self.permitted)
        await self.members.ensure(at=at)
        id = f"wh-{hashlib.sha256(self.world.nonce().encode()).hexdigest()[:ID_CHARS]}"
        secret = make_secret(self.world.nonce() + self.world.nonce())
        await self.store.create(
            id, as_person(str(acting.principal)), url, patterns, secret, at=at,
            right=right.removeprefix("action:"), roles=roles_with(right),
        )  # fmt: skip
        return await self.get(id), secret

    async def list_all(self) -> list[Webhook]:
        """Return the webhooks of the acting person, or of all if that is an admin."""
        acting = find_current() or self.own
        found = await self.store.list_all(at=self.world.now())
        if acting.decide(MANAGE_WEBHOOKS).allowed:
            return found
        return [one for one in found if one.owner == str(acting.principal)]

    async def get(self, id: str) -> Webhook:
        """Return a webhook.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        for one in await self.list_all():
            if one.id == id:
                return one
        raise NotFound(f"there is no webhook {id[:80]!r}", hint=Hint("webhook.list"))

    async def rotate(self, id: str, *, hours: int = ROTATION_HOURS_DEFAULT) -> tuple[Webhook, str]:
        """Return a webhook with its new secret; for some hours the one before signs too.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
            PermissionDenied: It is another person's, and this one is an admin.
        """
        if not 0 <= hours <= ROTATION_HOURS_MAX:
            raise InvalidOperation(
                f"a secret stays valid for 0 to {ROTATION_HOURS_MAX} hours, not {hours}"
            )
        by, at = await require_action(self.members, CREATE_WEBHOOKS, self.own), self.world.now()
        secret = make_secret(self.world.nonce() + self.world.nonce())
        until = instant(unix_ms(at) + hours * HOUR_MS)
        roles = roles_with(MANAGE_WEBHOOKS)
        await self.store.rotate(id, secret, until=until, by=by, at=at, roles=roles)
        return await self.get(id), secret

    async def pause(self, id: str) -> Webhook:
        """Send nothing until the webhook is resumed, and then what has happened meanwhile.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        await self._set_state(id, "paused")
        return await self.get(id)

    async def resume(self, id: str) -> Webhook:
        """Send again by a webhook that was paused.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        await self._set_state(id, "active")
        return await self.get(id)

    async def delete(self, id: str) -> Webhook:
        """Delete a webhook and its secrets, and return it as it was; nothing more leaves by it.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        found = await self.get(id)
        await self._set_state(id, "deleted")
        return found

    async def list_deliveries(
        self, id: str, *, failed: bool = False, limit: int = PAGE
    ) -> list[WebhookDelivery]:
        """Return the deliveries of one's own webhook, newest first: all, or those given up.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        webhook = await self.get(id)
        return await self.store.list_deliveries(
            webhook.id, str((find_current() or self.own).principal), failed=failed, limit=limit
        )

    async def resend(self, delivery: str) -> WebhookDelivery:
        """Send the event of a delivery again that has ended, under the same id.

        Raises:
            NotFound: There is no such delivery, or it is another person's.
            InvalidOperation: It has not ended, or it has notices, which leave by themselves.
        """
        await require_action(self.members, CREATE_WEBHOOKS, self.own)
        webhook = await self.store.resend(delivery, at=self.world.now())
        person = str((find_current() or self.own).principal)
        (found,) = await self.store.list_deliveries(webhook, person, id=delivery, limit=1)
        return found

    async def _set_state(self, id: str, state: WebhookState) -> None:
        found = await self.get(id)
        is_own = found.owner == str((find_current() or self.own).principal)
        right = CREATE_WEBHOOKS if is_own else MANAGE_WEBHOOKS
        by = await require_action(self.members, right, self.own)
        await self.store.set_state(
            id, state, by=by, at=self.world.now(), roles=roles_with(MANAGE_WEBHOOKS)
        )
