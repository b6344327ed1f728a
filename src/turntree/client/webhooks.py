"""Webhooks and triggers over HTTP: what leaves to other systems, and what comes in."""

from collections.abc import Sequence

from turntree.client.connection import HttpConnection
from turntree.core.value import Facet, value
from turntree.wire.webhooks import (
    DeliveryDocument,
    DeliveryList,
    FiringDocument,
    FiringList,
    NewTrigger,
    NewWebhook,
    TriggerDocument,
    TriggerList,
    WebhookDocument,
    WebhookList,
)

ROTATION_HOURS = 24


@value
class WebhooksApi(Facet):
    """The facet ``client.webhooks``."""

    http: HttpConnection

    async def create(self, url: str, *, events: Sequence[str] = ()) -> NewWebhook:
        """Return a new webhook with its secret, which is not shown again.

        Raises:
            PermissionDenied: The caller is not a person, or asks for events and is not an admin.
            InvalidOperation: The URL is not one of HTTPS or not public, or a pattern is invalid.
        """
        return await self.http.post("/webhooks", NewWebhook, {"url": url, "events": [*events]})

    async def list_all(self) -> tuple[WebhookDocument, ...]:
        """Return the webhooks of the caller, or of all if that is an admin."""
        return (await self.http.get("/webhooks", WebhookList)).webhooks

    async def get(self, id: str) -> WebhookDocument:
        """Return a webhook.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        return await self.http.get("/webhooks/{webhook}", WebhookDocument, webhook=id)

    async def rotate(self, id: str, *, hours: int = ROTATION_HOURS) -> NewWebhook:
        """Return a webhook with its new secret; for some hours the one before signs too.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        body = {"hours": hours}
        return await self.http.post("/webhooks/{webhook}/rotate", NewWebhook, body, webhook=id)

    async def pause(self, id: str) -> WebhookDocument:
        """Send nothing until the webhook is resumed.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        return await self.http.post("/webhooks/{webhook}/pause", WebhookDocument, {}, webhook=id)

    async def resume(self, id: str) -> WebhookDocument:
        """Send again, also what has happened meanwhile.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        return await self.http.post("/webhooks/{webhook}/resume", WebhookDocument, {}, webhook=id)

    async def delete(self, id: str) -> WebhookDocument:
        """Delete a webhook and its secrets, and return it as it was.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        return await self.http.post("/webhooks/{webhook}/delete", WebhookDocument, {}, webhook=id)

    async def list_deliveries(
        self, id: str, *, failed: bool = False, limit: int = 100
    ) -> tuple[DeliveryDocument, ...]:
        """Return the deliveries of one's own webhook, newest first: all, or those given up.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
        query = {"failed": failed, "limit": limit}
        found = await self.http.get(
            "/webhooks/{webhook}/deliveries", DeliveryList, query, webhook=id
        )
        return found.deliveries

    async def resend(self, delivery: str) -> DeliveryDocument:
        """Send the event of a delivery again that has ended, under the same id.

        Raises:
            NotFound: There is no such delivery, or it is another person's.
            InvalidOperation: It has not ended, or it has notices.
        """
        return await self.http.post(
            "/deliveries/{delivery}/resend", DeliveryDocument, {}, delivery=delivery
        )


@value
class TriggersApi(Facet):
    """The facet ``client.triggers``."""

    http: HttpConnection

    async def create(
        self,
        name: str,
        target: str,
        *,
        prompt: str = "",
        allow: Sequence[str] | None = None,
        secret: str | None = None,
    ) -> NewTrigger:
        """Return a new trigger with its secret, which is not shown again.

        Raises:
            PermissionDenied: The caller is not a person.
            NotFound: The target names nothing that the caller may read.
            InvalidOperation: The name, the secret or a pattern is invalid.
        """
        body = {
            "name": name, "target": target, "prompt": prompt, "secret": secret,
            "allow": None if allow is None else [*allow],
        }  # fmt: skip
        return await self.http.post("/triggers", NewTrigger, body)

    async def list_all(self) -> tuple[TriggerDocument, ...]:
        """Return the triggers of the caller, or of all if that is an admin."""
        return (await self.http.get("/triggers", TriggerList)).triggers

    async def get(self, id: str) -> TriggerDocument:
        """Return a trigger.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        return await self.http.get("/triggers/{trigger}", TriggerDocument, trigger=id)

    async def rotate(
        self, id: str, *, hours: int = ROTATION_HOURS, secret: str | None = None
    ) -> NewTrigger:
        """Return a trigger with its new secret; for some hours the one before is accepted too.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        body = {"hours": hours, "secret": secret}
        return await self.http.post("/triggers/{trigger}/rotate", NewTrigger, body, trigger=id)

    async def pause(self, id: str) -> TriggerDocument:
        """Take no messages until the trigger is resumed.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        return await self.http.post("/triggers/{trigger}/pause", TriggerDocument, {}, trigger=id)

    async def resume(self, id: str) -> TriggerDocument:
        """Take messages again.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        return await self.http.post("/triggers/{trigger}/resume", TriggerDocument, {}, trigger=id)

    async def delete(self, id: str) -> TriggerDocument:
        """Delete a trigger and its secrets, and return it as it was.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        return await self.http.post("/triggers/{trigger}/delete", TriggerDocument, {}, trigger=id)

    async def list_firings(self, id: str, *, limit: int = 100) -> tuple[FiringDocument, ...]:
        """Return the messages that came in by a trigger, newest first.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
        query = {"limit": limit}
        found = await self.http.get("/triggers/{trigger}/firings", FiringList, query, trigger=id)
        return found.firings
