"""``human``: a person, who can be notified and asked for approval.

An approval is an event in the person's own stream. Only that person can give it, or a principal
whom another person granted that access; only once, and never a program.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

from turntree.core.canonical import Json
from turntree.core.errors import Conflict, Hint, InvalidOperation
from turntree.core.program import Program
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.typed_config import TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation

# Each attempt loses only to a change that succeeded, so this many losses in a row mean a fault of
# ours.
QUICKER_MAX: Final = 20


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
                "Notification channel: terminal, or none.",
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
        """Notify the person, ask for approval, or record their decision."""
        match call.request:
            case {"decide": str(request), "approve": bool(approve)}:
                return await _decide(call, request, approve=approve)
            case {"ask": str(what)} if what:
                return await _ask(call, what)
            case {"message": str(text)} if text:
                reached = await _notify(call, text)
                return {"notified": call.program.name, **reached}
            case _:
                raise InvalidOperation(
                    "a person is told a message, or asked for approval: say which"
                )


async def _notify(call: Invocation, text: str) -> dict[str, Json]:
    preferences = call.program.config.get("preferences")
    channel: Json = "none"
    if isinstance(preferences, Mapping):
        channel = preferences.get("notification_channel") or "none"
    reached = await call.around.notify(str(channel), text)
    told: dict[str, Json] = {"channel": channel, "reached": reached}
    await call.around.tell(call.program, "human.notified", more={**told, "message": text})
    return told


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


def _waiting(person: Program) -> dict[str, Json]:
    found = person.details.get("pending")
    return dict(found) if isinstance(found, Mapping) else {}


def _count(person: Program) -> int:
    found = person.details.get("request_count")
    return found if isinstance(found, int) else 0
