"""``/triggers``: addresses at which messages of other systems come in and act for the caller.

``/hooks`` is where they come in. Its callers have no key: a message proves with its signature that
its sender knows the secret of the trigger. All who do not are refused with the same words.
"""

from http import HTTPStatus
from typing import Annotated, Final

from annotated_types import Ge, Le, MaxLen, MinLen

from turntree.auth.member import CREATE_TRIGGERS
from turntree.auth.permissions import Permissions
from turntree.auth.webhook_signature import ID_HEADER, SIGNATURE_HEADER, TIME_HEADER
from turntree.core.errors import PermissionDenied
from turntree.core.value import value
from turntree.server.access.visitor import Visitor
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute, NoValues
from turntree.triggers.service import ROTATION_HOURS_DEFAULT, ROTATION_HOURS_MAX
from turntree.triggers.trigger import (
    BODY_BYTES_MAX,
    NAME_CHARS_MAX,
    PROMPT_CHARS_MAX,
    SCOPES_DEFAULT,
    Firing,
    Trigger,
)
from turntree.wire.webhooks import (
    FiringDocument,
    FiringList,
    NewTrigger,
    TriggerDocument,
    TriggerList,
)

FIRINGS_DEFAULT: Final = 100
FIRINGS_MAX: Final = 1_000
ID_CHARS_MAX: Final = 64
TARGET_CHARS_MAX: Final = 500
PATTERNS_MAX: Final = 100
SECRET_CHARS_MAX: Final = 200
HEADER_CHARS_MAX: Final = 2_000


@value
class TriggerRequest:
    """Whom the messages are for, and what they may do."""

    name: Annotated[str, MinLen(1), MaxLen(NAME_CHARS_MAX)]
    target: Annotated[str, MinLen(1), MaxLen(TARGET_CHARS_MAX)]
    """An agent, a session or a turn."""
    prompt: Annotated[str, MaxLen(PROMPT_CHARS_MAX)] = ""
    """What the agent is told before each message."""
    allow: Annotated[tuple[str, ...], MaxLen(PATTERNS_MAX)] | None = None
    """Patterns such as ``tool:fs.read``; without them: reading, sending, sessions and all tools."""
    secret: Annotated[str, MaxLen(SECRET_CHARS_MAX)] | None = None
    """A secret that the other system made, ``whsec_…``; without one, the server makes it."""


@value
class TriggerId:
    """A trigger."""

    trigger: Annotated[str, MaxLen(ID_CHARS_MAX)]


@value
class TriggerRotation:
    """A trigger whose secret is replaced."""

    trigger: Annotated[str, MaxLen(ID_CHARS_MAX)]
    hours: Annotated[int, Ge(0), Le(ROTATION_HOURS_MAX)] = ROTATION_HOURS_DEFAULT
    """How long the one before is accepted too."""
    secret: Annotated[str, MaxLen(SECRET_CHARS_MAX)] | None = None
    """A secret that the other system made; without one, the server makes it."""


@value
class FiringQuery:
    """Which messages that a trigger took."""

    trigger: Annotated[str, MaxLen(ID_CHARS_MAX)]
    limit: Annotated[int, Ge(1), Le(FIRINGS_MAX)] = FIRINGS_DEFAULT


@value
class HookCall:
    """A message of another system, with its headers."""

    trigger: Annotated[str, MaxLen(ID_CHARS_MAX)]
    body: bytes
    """As it was sent: the signature is of its bytes."""
    webhook_id: Annotated[str, MaxLen(HEADER_CHARS_MAX)] = ""
    webhook_timestamp: Annotated[str, MaxLen(HEADER_CHARS_MAX)] = ""
    webhook_signature: Annotated[str, MaxLen(HEADER_CHARS_MAX)] = ""


async def list_triggers(context: ServerContext, _: NoValues) -> TriggerList:
    """Return the triggers of the caller, or of all for an admin."""
    return TriggerList(tuple(map(_document, await context.tree.triggers.list_all())))


async def create_trigger(context: ServerContext, asked: TriggerRequest) -> NewTrigger:
    """Return a new trigger of the caller with its secret.

    Raises:
        PermissionDenied: The caller is not a person.
        NotFound: The target names nothing that the caller may read.
        InvalidOperation: The name, the secret or a pattern is invalid.
    """
    made, secret = await context.tree.triggers.create(
        asked.name, asked.target, prompt=asked.prompt, secret=asked.secret,
        scopes=SCOPES_DEFAULT if asked.allow is None else Permissions.of_patterns(asked.allow),
    )  # fmt: skip
    return NewTrigger(_document(made), secret)


async def get_trigger(context: ServerContext, asked: TriggerId) -> TriggerDocument:
    """Return a trigger."""
    return _document(await context.tree.triggers.get(asked.trigger))


async def rotate_trigger(context: ServerContext, asked: TriggerRotation) -> NewTrigger:
    """Return a trigger of the caller with its new secret."""
    made, secret = await context.tree.triggers.rotate(
        asked.trigger, hours=asked.hours, secret=asked.secret
    )
    return NewTrigger(_document(made), secret)


async def pause_trigger(context: ServerContext, asked: TriggerId) -> TriggerDocument:
    """Take no messages until the trigger is resumed."""
    return _document(await context.tree.triggers.pause(asked.trigger))


async def resume_trigger(context: ServerContext, asked: TriggerId) -> TriggerDocument:
    """Take messages again."""
    return _document(await context.tree.triggers.resume(asked.trigger))


async def delete_trigger(context: ServerContext, asked: TriggerId) -> TriggerDocument:
    """Delete a trigger and its secrets, and return it as it was."""
    return _document(await context.tree.triggers.delete(asked.trigger))


async def list_firings(context: ServerContext, asked: FiringQuery) -> FiringList:
    """Return the messages that a trigger took."""
    found = await context.tree.triggers.list_firings(asked.trigger, limit=asked.limit)
    return FiringList(tuple(map(_firing, found)))


async def fire_trigger(visitor: Visitor, call: HookCall) -> FiringDocument:
    """Post a signed message for the owner of a trigger, once.

    Raises:
        Refusal: There is no such trigger, or its secret did not sign this message a short time
            ago. Nothing says which, nor whether there is such a workspace.
        Conflict: Another message had this id.
        PermissionDenied: The owner may no longer send to the target.
    """
    refused = Refusal(
        HTTPStatus.FORBIDDEN,
        "message-refused",
        "no trigger here accepts this message",
        "compare the address, the secret and the clock of the sender",
    )
    workspace = await visitor.find_workspace()
    if workspace is None:
        raise refused
    headers = {
        ID_HEADER: call.webhook_id,
        TIME_HEADER: call.webhook_timestamp,
        SIGNATURE_HEADER: call.webhook_signature,
    }
    if len(call.body) > BODY_BYTES_MAX:
        detail = f"a message has at most {BODY_BYTES_MAX} bytes"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body-too-large", detail)
    try:
        incoming = await workspace.tree.triggers.accept(call.trigger, headers, call.body)
    except PermissionDenied as error:
        raise refused from error
    acting = workspace.tree.act_as(incoming.acting)
    return _firing(await acting.triggers.fire(incoming))


def _document(one: Trigger) -> TriggerDocument:
    return TriggerDocument(
        one.id, one.name, one.owner, one.target, one.prompt, one.scopes.allow, one.scopes.deny,
        one.state, one.created_at, one.secrets, one.firings, one.fired_at,
    )  # fmt: skip


def _firing(one: Firing) -> FiringDocument:
    return FiringDocument(one.message, one.run, one.at, one.repeated)


ROUTES: Final = (
    ApiRoute(
        "GET", "/triggers", CREATE_TRIGGERS, list_triggers,
        "The caller's triggers; for an admin, those of all members.", answers=TriggerList,
    ),
    ApiRoute(
        "POST", "/triggers", CREATE_TRIGGERS, create_trigger,
        "Create a trigger, whose secret is shown once.", TriggerRequest, NewTrigger, "write",
    ),
    ApiRoute(
        "GET", "/triggers/{trigger}", CREATE_TRIGGERS, get_trigger, "A trigger.",
        TriggerId, TriggerDocument,
    ),
    ApiRoute(
        "POST", "/triggers/{trigger}/rotate", CREATE_TRIGGERS, rotate_trigger,
        "Replace the secret of a trigger; for some hours both are accepted.",
        TriggerRotation, NewTrigger, "write",
    ),
    ApiRoute(
        "POST", "/triggers/{trigger}/pause", CREATE_TRIGGERS, pause_trigger, "Pause a trigger.",
        TriggerId, TriggerDocument, "write",
    ),
    ApiRoute(
        "POST", "/triggers/{trigger}/resume", CREATE_TRIGGERS, resume_trigger,
        "Resume a trigger.", TriggerId, TriggerDocument, "write",
    ),
    ApiRoute(
        "POST", "/triggers/{trigger}/delete", CREATE_TRIGGERS, delete_trigger,
        "Delete a trigger and its secrets.", TriggerId, TriggerDocument, "write",
    ),
    ApiRoute(
        "GET", "/triggers/{trigger}/firings", CREATE_TRIGGERS, list_firings,
        "What came in by a trigger.", FiringQuery, FiringList,
    ),
)  # fmt: skip
"""The triggers of the caller."""
HOOK_ROUTES: Final = (
    ApiRoute(
        "POST", "/hooks/{trigger}", None, fire_trigger,
        "Send a signed message to a trigger: Standard Webhooks.",
        HookCall, FiringDocument, is_open=True, is_raw=True,
        headers=("webhook_id", "webhook_timestamp", "webhook_signature"),
    ),
)  # fmt: skip
"""Where messages come in, over the network."""
