"""Webhooks and triggers, as they travel: never with a secret, except when one is made."""

from turntree.core.value import value


@value
class WebhookDocument:
    """An address to which events or notices leave."""

    id: str
    owner: str
    url: str
    events: tuple[str, ...]
    """Patterns of event kinds; without any, it is for the notices of its owner."""
    state: str
    """``active``, ``paused`` or ``deleted``."""
    created_at: str
    secrets: int
    """How many are valid: two while one is replaced."""
    waiting: int
    """Deliveries that have not ended."""
    failed: int
    """Deliveries that were given up."""


@value
class WebhookList:
    """Webhooks, in the order in which they were made."""

    webhooks: tuple[WebhookDocument, ...]


@value
class NewWebhook:
    """A webhook with its new secret, which is not shown again."""

    webhook: WebhookDocument
    secret: str


@value
class DeliveryDocument:
    """A message that leaves by a webhook."""

    id: str
    """The ``webhook-id``, the same in each attempt."""
    webhook: str
    kind: str
    """The kind of its event; ``inbox.notices`` for notices."""
    state: str
    """``waiting``, ``delivered``, ``failed`` or ``withdrawn``."""
    attempts: int
    error: str | None
    created_at: str
    ended_at: str | None


@value
class DeliveryList:
    """Deliveries of a webhook, newest first."""

    deliveries: tuple[DeliveryDocument, ...]


@value
class TriggerDocument:
    """An address at which messages come in."""

    id: str
    name: str
    owner: str
    target: str
    prompt: str
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    """What it permits of what its owner may do: ``allow`` without ``deny``."""
    state: str
    """``active``, ``paused`` or ``deleted``."""
    created_at: str
    secrets: int
    """How many are valid: two while one is replaced."""
    firings: int
    fired_at: str | None


@value
class TriggerList:
    """Triggers, in the order in which they were made."""

    triggers: tuple[TriggerDocument, ...]


@value
class NewTrigger:
    """A trigger with its new secret, which is not shown again."""

    trigger: TriggerDocument
    secret: str


@value
class FiringDocument:
    """A message that a trigger took."""

    message: str
    """Its ``webhook-id``."""
    run: str
    """The run that answers it."""
    at: str
    repeated: bool = False
    """Whether it had come before, and nothing was posted now."""


@value
class FiringList:
    """Messages that a trigger took, newest first."""

    firings: tuple[FiringDocument, ...]
