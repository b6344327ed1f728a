"""``human``: a person, who can be notified and asked for approval.

An approval is an event in the person's own stream. Only that person can give it, or a principal
whom another person granted that access; only once, and never a program.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

from turntree.core.canonical import Json
from turntree.core.errors import Conflict, Hint, InvalidOperation, PermissionDenied
from turntree.core.program import Program
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.typed_config import TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation

# Each attempt loses only to a change that succeeded, so this many losses in a row mean a fault of
# ours.
QUICKER_MAX: Final = 20
INBOX_MAX: Final = 50
"""How many unread messages are kept in an inbox; the person's stream has them all."""
ABSENT: Final = ("away", "offline")
"""States in which a person cannot be expected to answer soon."""
MESSAGE_CHARS_MAX: Final = 10_000
"""Each message is stored again with every later one, until it is read."""


class Preferences(TypedConfig):
    """How a person wants to be notified."""

    notification_channel: str | None = None


class HumanConfig(TypedConfig):
    """Who a person is, how to notify them, and what they may decide."""

    name: str | None = None
    description: str | None = None
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
            Option(
                "--channel",
                "preferences/notification_channel",
                "Where messages go: inbox (default), terminal, or none.",
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
    preferences = call.program.config.get("preferences")
    channel: Json = "inbox"
    if isinstance(preferences, Mapping):
        channel = preferences.get("notification_channel") or channel
    reached = channel != "none"
    told: dict[str, Json] = {"channel": channel, "reached": reached}
    if call.program.state in ABSENT:
        # It waits in the inbox; the caller should know that this may take long.
        told["state"] = call.program.state

    if len(text) > MESSAGE_CHARS_MAX:
        raise InvalidOperation(f"a message to a person has at most {MESSAGE_CHARS_MAX} characters")

    async def notify(person: Program) -> dict[str, Json]:
        inbox = _add_message(_inbox(person), str(call.by), text)
        await call.around.tell(
            person,
            "human.notified",
            sets={"inbox": inbox} if reached else None,
            more={**told, "message": text},
        )
        return told

    # The terminal of this process is the person's only if the person is its user.
    if str(call.by) == f"human:{call.program.name}":
        await call.around.notify(str(channel), text)
    return await _once_at_a_time(call, notify)


async def _read(call: Invocation) -> dict[str, Json]:
    if str(call.by) != f"human:{call.program.name}":
        raise PermissionDenied(
            f"only human:{call.program.name} reads their messages, not {call.by}"
        )

    async def read(person: Program) -> dict[str, Json]:
        messages: list[Json] = [*_inbox(person)]
        if messages:
            await call.around.tell(person, "human.read", sets={"inbox": None})
        return {"read": messages}

    return await _once_at_a_time(call, read)


async def _ask(call: Invocation, what: str) -> dict[str, Json]:
    if "approve" not in _permissions(call.program):
        raise InvalidOperation(
            f"{call.program.address} may not approve anything",
            hint=Hint(
                "human.permit",
                {"human": call.program.name, "permission": _with_approval(call.program)},
            ),
        )
    told = await _notify(call, f"approval is asked for: {what}")

    async def ask(person: Program) -> dict[str, Json]:
        request = f"r{_count(person) + 1}"
        await call.around.tell(
            person,
            "human.approval_requested",
            sets={
                "pending": {**_waiting(person), request: what},
                "request_count": _count(person) + 1,
            },
            more={"request": request, "question": what},
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
    found = person.config.get("permissions")
    return found if isinstance(found, list) else []


def _inbox(person: Program) -> list[dict[str, Json]]:
    found = person.details.get("inbox")
    messages = found if isinstance(found, list | tuple) else ()
    return [dict(one) for one in messages if isinstance(one, Mapping)]


def _add_message(inbox: list[dict[str, Json]], by: str, text: str) -> list[Json]:
    """Return an inbox with one more message; of a full one, the loudest sender loses the oldest."""
    arrived: list[dict[str, Json]] = [*inbox, {"by": by, "message": text}]
    if len(arrived) > INBOX_MAX:
        # Otherwise a sender who floods the inbox would push out the messages of others.
        senders = [str(one.get("by")) for one in arrived]
        ((loudest, _),) = Counter(senders).most_common(1)
        del arrived[senders.index(loudest)]
    return [*arrived]


def _waiting(person: Program) -> dict[str, Json]:
    found = person.details.get("pending")
    return dict(found) if isinstance(found, Mapping) else {}


def _count(person: Program) -> int:
    found = person.details.get("request_count")
    return found if isinstance(found, int) else 0
