"""The channel webhook: how a delivery is signed, and how it is handed to its receiver.

A receiver that did not answer may have taken the message, so it is sent again under the same id,
by which receivers know that it is the same.
"""

import ssl
from functools import cache
from typing import Final

import anyio
import httpx2

from turntree.auth.webhook_signature import sign
from turntree.core.clock import Clock
from turntree.core.ids import unix_ms
from turntree.core.value import value
from turntree.notifications.delivery import Claim, Delivery, DeliveryAttempt
from turntree.notifications.sender import DeliverySource
from turntree.system.public_addresses import NotPublicError, PublicTransport, Resolve, resolve
from turntree.webhooks.store import WebhookStore
from turntree.webhooks.webhook import write_event, write_notices

ANSWER_MAX_S: Final = 10.0
"""A receiver that says nothing for so long has not answered."""
CONNECT_MAX_S: Final = 5.0
ERROR_BYTES_MAX: Final = 300
"""What is read of the answer of a receiver that refuses."""
GONE: Final = 410
"""With this status a receiver says that it wants no more."""


@value
class WebhookChannel:
    """Sends deliveries to webhooks."""

    clock: Clock
    permitted: frozenset[str] = frozenset()
    """Hosts that may have an address that is not public, and be reached without TLS."""
    resolve: Resolve = resolve
    timeout_s: float = ANSWER_MAX_S

    async def send(
        self, delivery: Delivery, claim: Claim, source: DeliverySource
    ) -> DeliveryAttempt:
        """Sign a delivery and hand it to its receiver; return what became of it."""
        now = self.clock.now()
        found = await WebhookStore(source.database).find_endpoint(delivery.address, at=now)
        if found is None or found.owner != delivery.person or found.state == "deleted":
            return DeliveryAttempt(
                "rejected", f"{delivery.address} is not a webhook of this person"
            )
        if found.state == "paused":
            return DeliveryAttempt("refused", "the webhook is paused")
        body = (
            write_notices(source.name, delivery.person, claim.notices, delivery.created_at)
            if claim.event is None
            else write_event(source.name, claim.event)
        )
        headers = sign(found.secrets, delivery.id, unix_ms(now) // 1000, body)
        return await self._post(found.url, headers, body)

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> DeliveryAttempt:
        inner = httpx2.AsyncHTTPTransport(verify=_trusted_authorities())
        transport = PublicTransport(inner, self.resolve, permitted=self.permitted)
        client = httpx2.AsyncClient(
            transport=transport,
            timeout=httpx2.Timeout(self.timeout_s, connect=CONNECT_MAX_S),
            # To where a redirect leads was not checked, and a proxy would resolve the name again.
            follow_redirects=False,
            trust_env=False,
        )
        given = {**headers, "content-type": "application/json", "user-agent": "Turntree"}
        try:
            # The client's timeouts are for single reads: a byte in time would begin them anew.
            with anyio.fail_after(self.timeout_s):
                async with client, client.stream("POST", url, content=body, headers=given) as reply:
                    return await _judge(reply)
        except NotPublicError as error:
            return DeliveryAttempt("rejected", str(error))
        except httpx2.ConnectError as error:
            return DeliveryAttempt("refused", f"no connection: {error}")
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            return DeliveryAttempt("lost", f"no answer: {type(error).__name__}")


async def _judge(reply: httpx2.Response) -> DeliveryAttempt:
    """Return what an answer means, with the beginning of its text if it refuses."""
    if reply.is_success:
        return DeliveryAttempt("delivered")
    if reply.is_redirect:
        return DeliveryAttempt("refused", f"{reply.status_code}: redirects are not followed")
    text = b""
    async for piece in reply.aiter_raw():
        text += piece
        if len(text) >= ERROR_BYTES_MAX:
            break
    said = "".join(
        char for char in text[:ERROR_BYTES_MAX].decode(errors="replace") if char.isprintable()
    )
    error = f"{reply.status_code}: {said}".removesuffix(": ")
    return DeliveryAttempt("rejected" if reply.status_code == GONE else "refused", error)


@cache
def _trusted_authorities() -> ssl.SSLContext:
    # Loading the certificates takes longer than most requests.
    return ssl.create_default_context()
