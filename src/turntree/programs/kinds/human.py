"""``human``: a person, who can be notified and asked for approval.

An approval is an event in the person's own stream. Only that person can give it, or a principal
whom another person granted that access; only once, and never a program.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from turntree.core.canonical import Json
from turntree.core.errors import Conflict, Hint, InvalidOperation, PermissionDenied
from turntree.core.program import Program
from turntree.notifications.notice import TEXT_CHARS_MAX
from turntree.notifications.preferences import (
    INBOX,
    check_address,
    check_channel,
    check_hours,
    check_interval,
    check_webhook,
    check_zone,
)
from turntree.programs.changes import AddNotice
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.typed_config import TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation

# Each attempt loses only to a change that succeeded, so this many losses in a row mean a fault of
# ours.
QUICKER_MAX: Final = 20
ABSENT: Final = ("away", "offline")
"""States in which a person cannot be expected to answer soon."""


def _checked(check: Callable[[str], str]) -> AfterValidator:
    """Return a check of a member, whose refusal names the member."""

    def validate(text: str) -> str:
        try:
            return check(text)
        except InvalidOperation as error:
            raise ValueError(str(error)) from error

    return AfterValidator(validate)


class Preferences(TypedConfig):
    """How a person wants to be notified. An address counts only if that person set it."""

    notification_channel: Annotated[str, _checked(check_channel)] | None = None
    email: Annotated[str, _checked(check_address)] | None = None
    webhook: Annotated[str, _checked(check_webhook)] | None = None
    quiet_hours: Annotated[str, _checked(check_hours)] | None = None
    time_zone: Annotated[str, _checked(check_zone)] | None = None
    digest_interval: Annotated[str, _checked(check_interval)] | None = None


class HumanConfig(TypedConfig):
    """Who a person is, how to notify them, and what they may decide."""

    name: str | None = None
    description: str | None = None
    avatar_url: Annotated[str, Field(pattern=r"^https?://\S+$", max_length=2000)] | None = None
    """Where their picture is."""
    preferences: Preferences | None = None
    permissions: list[Literal["approve", "assign", "configure"]] | None = None


class HumanKind:
    """The kind ``human``."""

    kind: Final = Kind(
        "human",
        "A person, to notify or to ask for approval.",
        LIFECYCLES["human"],
        (
            Option("--display-name", "name", "Display name of the person."),
            Option("--avatar", "avatar_url", "Address of their picture: https://…"),
            Option(
                "--channel",
                "preferences/notification_channel",
                "Where notices go: inbox (default), terminal, email, webhook, or none.",
            ),
            Option("--email", "preferences/email", "E-mail address, which counts if you set it."),
            Option(
                "--webhook", "preferences/webhook", "Webhook of yours, which counts if you set it."
            ),
            Option("--quiet-hours", "preferences/quiet_hours", "No mail in these: 22:00-07:00."),
            Option("--time-zone", "preferences/time_zone", "Time zone of the quiet hours, or UTC."),
            Option(
                "--digest-interval",
                "preferences/digest_interval",
                "Time between two mails at least, by default 15m.",
            ),
            Option(
                "--permission",
                "permissions",
                "Permission: approve, assign or configure; repeatable.",
                many=True,
            ),
            Option("--description", "description", "Description."),
        ),
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(HumanConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(HumanConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Notify the person, ask for approval, or record what they read or decided."""
        match call.request:
            case {"decide": str(request), "approve": bool(approve)}:
                return await _decide(call, request, approve=approve)
            case {"ask": str(what)} if what:
                return await _ask(call, what)
            case {"message": str(text)} if text:
                return {"notified": call.program.name, **await _notify(call, text)}
            case {"read": True}:
                return await _read(call)
            case _:
                raise InvalidOperation(
                    "a person is told a message, or asked for approval: say which"
                )


async def _notify(call: Invocation, text: str) -> dict[str, Json]:
    """Put a message into the person's inbox, unless they want none; return where it went."""
    _check_text(text)
    told = await _tell_at_terminal(call, text)
    key = f"message {call.around.nonce()}"  # The same words twice are two messages.

    async def notify(person: Program) -> dict[str, Json]:
        notice = AddNotice(_principal(person), "message", text, {}, key)
        await call.around.tell(person, "human.notified", more=told, notice=notice)
        return told

    return await _once_at_a_time(call, notify)


def _check_text(text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidOperation(f"a message to a person has at most {TEXT_CHARS_MAX} characters")


async def _tell_at_terminal(call: Invocation, text: str) -> dict[str, Json]:
    """Print a message if this is the person's own terminal; return where it goes."""
    preferences = call.program.version.config.get("preferences")
    channel: Json = INBOX
    if isinstance(preferences, Mapping):
        channel = preferences.get("notification_channel") or channel
    told: dict[str, Json] = {"channel": channel, "reached": channel != "none"}
    if call.program.state in ABSENT:
        # It waits in the inbox; the caller should know that this may take long.
        told["state"] = call.program.state
    # The terminal of this process is the person's only if the person is its user.
    if str(call.by) == _principal(call.program):
        await call.around.notify(str(channel), text)
    return told


async def _read(call: Invocation) -> dict[str, Json]:
    if str(call.by) != _principal(call.program):
        raise PermissionDenied(
            f"only {_principal(call.program)} reads their messages, not {call.by}"
        )
    read: list[Json] = [
        {"id": one.id, "kind": one.kind, "by": one.by, "message": one.text, "at": one.at}
        for one in await call.around.read_notices()
    ]
    return {"read": read}


async def _ask(call: Invocation, what: str) -> dict[str, Json]:
    if "approve" not in _permissions(call.program):
        raise InvalidOperation(
            f"{call.program.address} may not approve anything",
            hint=Hint(
                "human.permit",
                {"human": call.program.name, "permission": _with_approval(call.program)},
            ),
        )
    text = f"approval is asked for: {what}"
    _check_text(text)
    told = await _tell_at_terminal(call, text)

    async def ask(person: Program) -> dict[str, Json]:
        request = f"r{_count(person) + 1}"
        # The key is known to ``change_program`` too, which marks the question as read when it is
        # answered.
        key = f"request {person.id} {request}"
        await call.around.tell(
            person,
            "human.approval_requested",
            sets={
                "pending": {**_waiting(person), request: what},
                "request_count": _count(person) + 1,
            },
            more={**told, "request": request, "question": what},
            notice=AddNotice(_principal(person), "question", text, {"request": request}, key),
        )
        return {"asked": person.name, "request": request, **told}

    return await _once_at_a_time(call, ask)


async def _decide(call: Invocation, request: str, *, approve: bool) -> dict[str, Json]:
    async def decide(person: Program) -> dict[str, Json]:
        waiting = _waiting(person)
        what = waiting.pop(request, None)
        # Who may decide, and whether it is decided already, is checked where it is recorded.
        await call.around.tell(
            person,
            "human.approved" if approve else "human.rejected",
            sets={"pending": waiting or None},
            more={"request": request, "question": what},
        )
        return {"request": request, "question": what, "approved": approve}

    return await _once_at_a_time(call, decide)


async def _once_at_a_time(
    call: Invocation, act: Callable[[Program], Awaitable[dict[str, Json]]]
) -> dict[str, Json]:
    """Act on the current state of a person, and retry if another process was quicker."""
    for _ in range(QUICKER_MAX):
        try:
            return await act(await call.around.get(call.program.name))
        except Conflict:
            # Two processes may answer for one person at once. The second acts on the state that the
            # first one left.
            continue
    raise Conflict(f"{call.program.address} is asked and answers all the time: try again")


def _with_approval(person: Program) -> list[str]:
    """Return a person's permissions and approval; a config that lists permissions replaces all."""
    return ["approve", *map(str, _permissions(person) or ["assign", "configure"])]


def _permissions(person: Program) -> list[Json]:
    found = person.version.config.get("permissions")
    return found if isinstance(found, list) else []


def _principal(person: Program) -> str:
    return f"human:{person.name}"


def _waiting(person: Program) -> dict[str, Json]:
    found = person.details.get("pending")
    return dict(found) if isinstance(found, Mapping) else {}


def _count(person: Program) -> int:
    found = person.details.get("request_count")
    return found if isinstance(found, int) else 0
