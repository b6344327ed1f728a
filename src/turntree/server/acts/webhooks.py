"""``/webhooks``: addresses to which events of the workspace, or notices of the caller, leave."""

from typing import Annotated, Final

from annotated_types import Ge, Le, MaxLen, MinLen

from turntree.auth.member import CREATE_WEBHOOKS
from turntree.core.value import value
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute, NoValues
from turntree.webhooks.webhook import (
    PATTERNS_MAX,
    ROTATION_HOURS_DEFAULT,
    ROTATION_HOURS_MAX,
    URL_CHARS_MAX,
    Webhook,
    WebhookDelivery,
)
from turntree.wire.webhooks import (
    DeliveryDocument,
    DeliveryList,
    NewWebhook,
    WebhookDocument,
    WebhookList,
)

DELIVERIES_DEFAULT: Final = 100
DELIVERIES_MAX: Final = 1_000
ID_CHARS_MAX: Final = 64


@value
class WebhookRequest:
    """Where to send, and what."""

    url: Annotated[str, MinLen(1), MaxLen(URL_CHARS_MAX)]
    events: Annotated[tuple[str, ...], MaxLen(PATTERNS_MAX)] = ()
    """Patterns such as ``run.failed`` or ``session.*``; without any, the caller's own notices."""


@value
class WebhookId:
    """A webhook."""

    webhook: Annotated[str, MaxLen(ID_CHARS_MAX)]


@value
class WebhookRotation:
    """A webhook whose secret is replaced."""

    webhook: Annotated[str, MaxLen(ID_CHARS_MAX)]
    hours: Annotated[int, Ge(0), Le(ROTATION_HOURS_MAX)] = ROTATION_HOURS_DEFAULT
    """How long the one before signs too."""


@value
class DeliveryQuery:
    """Which deliveries of a webhook: all, or those that were given up."""

    webhook: Annotated[str, MaxLen(ID_CHARS_MAX)]
    failed: bool = False
    limit: Annotated[int, Ge(1), Le(DELIVERIES_MAX)] = DELIVERIES_DEFAULT


@value
class DeliveryId:
    """A delivery that has ended."""

    delivery: Annotated[str, MaxLen(ID_CHARS_MAX)]


async def list_webhooks(context: ServerContext, _: NoValues) -> WebhookList:
    """Return the webhooks of the caller, or of all for an admin."""
    return WebhookList(tuple(map(_document, await context.tree.webhooks.list_all())))


async def create_webhook(context: ServerContext, asked: WebhookRequest) -> NewWebhook:
    """Return a new webhook of the caller with its secret.

    Raises:
        PermissionDenied: The caller is not a person, or asks for events and is not an admin.
        InvalidOperation: The URL is not one of HTTPS or not public, or a pattern is invalid.
    """
    made, secret = await context.tree.webhooks.create(asked.url, events=asked.events)
    return NewWebhook(_document(made), secret)


async def get_webhook(context: ServerContext, asked: WebhookId) -> WebhookDocument:
    """Return a webhook."""
    return _document(await context.tree.webhooks.get(asked.webhook))


async def rotate_webhook(context: ServerContext, asked: WebhookRotation) -> NewWebhook:
    """Return a webhook of the caller with its new secret."""
    made, secret = await context.tree.webhooks.rotate(asked.webhook, hours=asked.hours)
    return NewWebhook(_document(made), secret)


async def pause_webhook(context: ServerContext, asked: WebhookId) -> WebhookDocument:
    """Send nothing until the webhook is resumed."""
    return _document(await context.tree.webhooks.pause(asked.webhook))


async def resume_webhook(context: ServerContext, asked: WebhookId) -> WebhookDocument:
    """Send again, also what has happened meanwhile."""
    return _document(await context.tree.webhooks.resume(asked.webhook))


async def delete_webhook(context: ServerContext, asked: WebhookId) -> WebhookDocument:
    """Delete a webhook and its secrets, and return it as it was."""
    return _document(await context.tree.webhooks.delete(asked.webhook))


async def list_deliveries(context: ServerContext, asked: DeliveryQuery) -> DeliveryList:
    """Return the deliveries of a webhook of the caller."""
    found = await context.tree.webhooks.list_deliveries(
        asked.webhook, failed=asked.failed, limit=asked.limit
    )
    return DeliveryList(tuple(map(_delivery, found)))


async def resend_delivery(context: ServerContext, asked: DeliveryId) -> DeliveryDocument:
    """Send an event again.

    Raises:
        NotFound: There is no such delivery, or it is another person's.
        InvalidOperation: It has not ended, or it has notices.
    """
    return _delivery(await context.tree.webhooks.resend(asked.delivery))


def _document(one: Webhook) -> WebhookDocument:
    return WebhookDocument(
        one.id, one.owner, one.url, one.events, one.state, one.created_at, one.secrets,
        one.waiting, one.failed,
    )  # fmt: skip


def _delivery(one: WebhookDelivery) -> DeliveryDocument:
    return DeliveryDocument(
        one.id, one.webhook, one.kind, one.state, one.attempts, one.error, one.created_at,
        one.ended_at,
    )  # fmt: skip


ROUTES: Final = (
    ApiRoute(
        "GET", "/webhooks", CREATE_WEBHOOKS, list_webhooks,
        "The caller's webhooks; for an admin, those of all members.", answers=WebhookList,
    ),
    ApiRoute(
        "POST", "/webhooks", CREATE_WEBHOOKS, create_webhook,
        "Create a webhook, whose secret is shown once; events take an admin.",
        WebhookRequest, NewWebhook, "write",
    ),
    ApiRoute(
        "GET", "/webhooks/{webhook}", CREATE_WEBHOOKS, get_webhook, "A webhook.",
        WebhookId, WebhookDocument,
    ),
    ApiRoute(
        "POST", "/webhooks/{webhook}/rotate", CREATE_WEBHOOKS, rotate_webhook,
        "Replace the secret of a webhook; for some hours both sign.",
        WebhookRotation, NewWebhook, "write",
    ),
    ApiRoute(
        "POST", "/webhooks/{webhook}/pause", CREATE_WEBHOOKS, pause_webhook, "Pause a webhook.",
        WebhookId, WebhookDocument, "write",
    ),
    ApiRoute(
        "POST", "/webhooks/{webhook}/resume", CREATE_WEBHOOKS, resume_webhook,
        "Resume a webhook; what has happened meanwhile leaves now.",
        WebhookId, WebhookDocument, "write",
    ),
    ApiRoute(
        "POST", "/webhooks/{webhook}/delete", CREATE_WEBHOOKS, delete_webhook,
        "Delete a webhook and its secrets.", WebhookId, WebhookDocument, "write",
    ),
    ApiRoute(
        "GET", "/webhooks/{webhook}/deliveries", CREATE_WEBHOOKS, list_deliveries,
        "What left by a webhook of the caller, or failed to.", DeliveryQuery, DeliveryList,
    ),
    ApiRoute(
        "POST", "/deliveries/{delivery}/resend", CREATE_WEBHOOKS, resend_delivery,
        "Send the event of a delivery again, under the same id.",
        DeliveryId, DeliveryDocument, "write",
    ),
)  # fmt: skip
"""The webhooks of the caller."""
