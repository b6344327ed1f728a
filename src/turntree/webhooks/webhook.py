"""Webhooks: what a ledger knows about one, which events leave by it, and what is sent.

Knows the rules. Must never know how a request is sent.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import orjson

from turntree.core.errors import Hint, InvalidOperation
from turntree.core.event import Event
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.notifications.notice import Notice
from turntree.system.public_addresses import is_permitted_host, is_public

WebhookState = Literal["active", "paused", "deleted"]
URL_CHARS_MAX: Final = 2_000
PATTERNS_MAX: Final = 50
ROTATION_HOURS_DEFAULT: Final = 24
ROTATION_HOURS_MAX: Final = 30 * 24
"""How long the secret before is valid, besides the new one."""
NOTICES_TYPE: Final = "inbox.notices"
"""The type of a message with notices; others have that of their event."""
_PATTERN: Final = re.compile(r"\*|[a-z][a-z0-9_]{0,63}\.(\*|[a-z][a-z0-9_]{0,63})")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")
PORT_MAX: Final = 65_535


@value
class Webhook:
    """What a ledger knows about a webhook: never its secret."""

    id: str
    owner: str
    """The person who made it, and who reads what leaves by it: ``human:ana``."""
    url: str
    events: tuple[str, ...]
    """Patterns of event kinds; without any, it is for the notices of its owner."""
    state: WebhookState
    created_at: Timestamp
    secrets: int
    """How many are valid: two while one is replaced."""
    waiting: int
    """Deliveries that have not ended."""
    failed: int
    """Deliveries that were given up."""


@value
class WebhookDelivery:
    """A message that leaves by a webhook."""

    id: str
    """The ``webhook-id`` of the message, the same in each attempt."""
    webhook: str
    kind: str
    """The kind of its event; ``inbox.notices`` for notices."""
    state: Literal["waiting", "delivered", "failed", "withdrawn"]
    attempts: int
    error: str | None
    created_at: Timestamp
    ended_at: Timestamp | None


def check_patterns(texts: Sequence[str]) -> tuple[str, ...]:
    """Return patterns of event kinds, each once.

    Raises:
        InvalidOperation: One is not a pattern, or there are too many.
    """
    for text in texts:
        if _PATTERN.fullmatch(text) is None:
            raise InvalidOperation(
                f"{text[:80]!r} is not a pattern of events: write run.failed, session.* or *"
            )
    if len(texts) > PATTERNS_MAX:
        raise InvalidOperation(f"a webhook has at most {PATTERNS_MAX} patterns of events")
    return tuple(dict.fromkeys(texts))


def matches(patterns: Collection[str], kind: str) -> bool:
    """Return whether one of the patterns covers an event kind."""
    return not {kind, "*", f"{kind.partition('.')[0]}.*"}.isdisjoint(patterns)


def check_url(text: str, permitted: Collection[str]) -> str:
    """Return the URL of a webhook.

    Raises:
        InvalidOperation: It is not an HTTPS URL, or names an address that is not public.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidOperation("the address of a webhook is not a URL: https://HOST/…") from error
    netloc = host if port is None else f"{host}:{port}"
    is_permitted = is_permitted_host(host, netloc, permitted)
    if not host or len(text) > URL_CHARS_MAX or not text.isascii() or not text.isprintable():
        raise InvalidOperation("the address of a webhook is not a URL: https://HOST/…")
    if " " in text or parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidOperation("the URL of a webhook has no user, no fragment and no space")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_permitted):
        raise InvalidOperation(f"a webhook is sent by https, not by {parts.scheme[:20]!r}")
    try:
        is_refused = not is_public(ip_address(host)) and not is_permitted
    except ValueError:
        # A name is checked when it is resolved, with each attempt.
        is_refused = False
    if is_refused:
        raise InvalidOperation(
            f"{host} is not a public address", hint=Hint("config.allow_webhook", {"host": netloc})
        )
    return text


def read_hosts(text: str) -> frozenset[str]:
    """Return the hosts to which webhooks may leave though their addresses are not public.

    Raises:
        InvalidOperation: One is not a host.
    """
    hosts = [one.strip() for one in text.split(",") if one.strip()]
    for one in hosts:
        if _HOST.fullmatch(one) is None:
            raise InvalidOperation(f"{one[:80]!r} is not a host: write HOST or HOST:PORT")
    return frozenset(one.removeprefix("[").removesuffix("]").lower() for one in hosts)


def message_id(webhook: str, event: Event) -> str:
    """Return the id of the message by which a webhook tells of an event."""
    subject = f"{webhook} {event.stream} {event.seq}"
    return f"msg-{hashlib.sha256(subject.encode()).hexdigest()[:32]}"


def write_event(workspace: str, body: str) -> bytes:
    """Return the message about an event, which has its body as it is stored."""
    event = orjson.loads(body)
    return _write(event["kind"], event["at"], {"workspace": workspace, "event": event})


def write_notices(workspace: str, person: str, notices: Sequence[Notice], at: Timestamp) -> bytes:
    """Return the message with the unread notices of a person."""
    shown = [
        {
            "id": one.id, "kind": one.kind, "by": one.by, "text": one.text,
            "refs": dict(one.refs), "at": one.at,
        }
        for one in notices
    ]  # fmt: skip
    return _write(NOTICES_TYPE, at, {"workspace": workspace, "person": person, "notices": shown})


def _write(kind: str, at: str, data: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "timestamp": at, "data": data})
