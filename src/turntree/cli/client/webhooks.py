"""Webhooks and triggers over a server, with the verbs and the values that the commands know."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from turntree.auth.permissions import Permissions
from turntree.cli.client.dispatch import choose_hint
from turntree.cli.client.opened import OpenServer, on_server
from turntree.cli.command import Terminal
from turntree.cli.hints import command_hint
from turntree.client.webhooks import TriggersApi, WebhooksApi
from turntree.core.errors import NotFound, TurntreeError
from turntree.core.ids import RunId, Timestamp
from turntree.core.value import value
from turntree.triggers.trigger import SCOPES_DEFAULT, Firing, Trigger
from turntree.webhooks.webhook import Webhook, WebhookDelivery
from turntree.wire.webhooks import DeliveryDocument, TriggerDocument, WebhookDocument

T = TypeVar("T")


@value
class ServedWebhooks:
    """What ``tree.webhooks`` does, done by a server."""

    api: WebhooksApi

    async def create(self, url: str, *, events: Sequence[str] = ()) -> tuple[Webhook, str]:
        """Return a new webhook and its secret."""
        made = await self.api.create(url, events=events)
        return _webhook(made.webhook), made.secret

    async def list_all(self) -> list[Webhook]:
        """Return the webhooks."""
        return [_webhook(one) for one in await self.api.list_all()]

    async def get(self, id: str) -> Webhook:
        """Return a webhook."""
        return _webhook(await self.api.get(id))

    async def rotate(self, id: str, *, hours: int) -> tuple[Webhook, str]:
        """Return a webhook with its new secret."""
        made = await self.api.rotate(id, hours=hours)
        return _webhook(made.webhook), made.secret

    async def pause(self, id: str) -> Webhook:
        """Send nothing for a while."""
        return _webhook(await self.api.pause(id))

    async def resume(self, id: str) -> Webhook:
        """Send again."""
        return _webhook(await self.api.resume(id))

    async def delete(self, id: str) -> Webhook:
        """Delete a webhook."""
        return _webhook(await self.api.delete(id))

    async def list_deliveries(
        self, id: str, *, failed: bool = False, limit: int = 100
    ) -> list[WebhookDelivery]:
        """Return the deliveries of a webhook."""
        found = await self.api.list_deliveries(id, failed=failed, limit=limit)
        return [_delivery(one) for one in found]

    async def resend(self, delivery: str) -> WebhookDelivery:
        """Send an event again."""
        return _delivery(await self.api.resend(delivery))


@value
class ServedTriggers:
    """What ``tree.triggers`` does, done by a server."""

    api: TriggersApi

    async def create(
        self,
        name: str,
        target: str,
        *,
        prompt: str = "",
        scopes: Permissions = SCOPES_DEFAULT,
        secret: str | None = None,
    ) -> tuple[Trigger, str]:
        """Return a new trigger and its secret."""
        allow = None if scopes == SCOPES_DEFAULT else scopes.allow
        made = await self.api.create(name, target, prompt=prompt, allow=allow, secret=secret)
        return _trigger(made.trigger), made.secret

    async def list_all(self) -> list[Trigger]:
        """Return the triggers."""
        return [_trigger(one) for one in await self.api.list_all()]

    async def get(self, id: str) -> Trigger:
        """Return a trigger."""
        return _trigger(await self.api.get(id))

    async def rotate(
        self, id: str, *, hours: int, secret: str | None = None
    ) -> tuple[Trigger, str]:
        """Return a trigger with its new secret."""
        made = await self.api.rotate(id, hours=hours, secret=secret)
        return _trigger(made.trigger), made.secret

    async def pause(self, id: str) -> Trigger:
        """Take no messages for a while."""
        return _trigger(await self.api.pause(id))

    async def resume(self, id: str) -> Trigger:
        """Take messages again."""
        return _trigger(await self.api.resume(id))

    async def delete(self, id: str) -> Trigger:
        """Delete a trigger."""
        return _trigger(await self.api.delete(id))

    async def list_firings(self, id: str, *, limit: int = 100) -> list[Firing]:
        """Return what came in by a trigger."""
        found = await self.api.list_firings(id, limit=limit)
        return [Firing(one.message, RunId(one.run), Timestamp(one.at)) for one in found]


def call_webhooks(terminal: Terminal, act: Callable[[Any, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the webhooks of the server of a command."""
    return _call(
        terminal, lambda opened: act(ServedWebhooks(opened.client.webhooks), opened.now), "webhook"
    )


def call_triggers(terminal: Terminal, act: Callable[[Any, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the triggers of the server of a command."""
    return _call(
        terminal, lambda opened: act(ServedTriggers(opened.client.triggers), opened.now), "trigger"
    )


def _call(terminal: Terminal, act: Callable[[OpenServer], Awaitable[T]], group: str) -> T:
    try:
        return on_server(terminal, act)
    except NotFound as error:
        error.hint = command_hint(terminal.address(f"turntree {group} list"))
        raise
    except TurntreeError as error:
        error.hint = choose_hint(error, terminal)
        raise


def _webhook(one: WebhookDocument) -> Webhook:
    return Webhook(
        one.id, one.owner, one.url, tuple(one.events), cast("Any", one.state),
        Timestamp(one.created_at), one.secrets, one.waiting, one.failed,
    )  # fmt: skip


def _delivery(one: DeliveryDocument) -> WebhookDelivery:
    return WebhookDelivery(
        one.id, one.webhook, one.kind, cast("Any", one.state), one.attempts, one.error,
        Timestamp(one.created_at), None if one.ended_at is None else Timestamp(one.ended_at),
    )  # fmt: skip


def _trigger(one: TriggerDocument) -> Trigger:
    return Trigger(
        one.id, one.name, one.owner, one.target, one.prompt,
        Permissions.of_patterns(one.allow, one.deny), cast("Any", one.state),
        Timestamp(one.created_at), one.secrets, one.firings,
        None if one.fired_at is None else Timestamp(one.fired_at),
    )  # fmt: skip
