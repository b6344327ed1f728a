"""What a person decides about a request: which verb, with which arguments or answer."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, cast

import click

from turntree.cli.common.request_text import short_request
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.policy.approval import Approval

AGENT_VARIABLES: Final = ("CLAUDECODE", "CODEX_SANDBOX", "CODEX_THREAD_ID")
"""What coding agents set in the shells that they run commands in."""


class RequestVerbs(Protocol):
    """What the commands do with requests: a ledger does it, or a server."""

    async def list_waiting(
        self, *, session: str | None = None, mine: bool = False, limit: int = 100
    ) -> list[Approval]:
        """Return the requests that wait."""
        ...

    async def find(self, start: str | None = None) -> Approval:
        """Return the request that the beginning or the end of an id names."""
        ...

    async def approve(self, id: str, *, note: str | None = None) -> Approval:
        """Allow a call, once."""
        ...

    async def reject(self, id: str, *, note: str | None = None) -> Approval:
        """Refuse a call or a question."""
        ...

    async def edit(self, id: str, args: Mapping[str, Json], *, note: str | None = None) -> Approval:
        """Allow a call with other arguments, once."""
        ...

    async def answer(self, id: str, answer: Json, *, note: str | None = None) -> Approval:
        """Answer a question."""
        ...


Verdict = Callable[[RequestVerbs], Awaitable[Approval]]
"""Decides about one request."""


def require_person() -> None:
    """Refuse to decide in the shell of a coding agent: it would approve its own calls.

    Raises:
        PermissionDenied: A coding agent runs this command.
    """
    if name := next((one for one in AGENT_VARIABLES if os.environ.get(one)), None):
        raise PermissionDenied(
            f"an agent cannot decide, and {name} is set here: use another terminal"
        )


def choose_verdict(one: Approval, said: str) -> Verdict | None:
    """Return the decision that a line states; None if it states none.

    Raises:
        InvalidOperation: Edited arguments are not a JSON object, or nothing was changed.
        PermissionDenied: A coding agent runs this command.
    """
    require_person()
    if one.kind == "question":
        return lambda verbs: verbs.answer(one.id, read_answer(one, said))
    word, _, rest = said.partition(" ")
    match word.lower():
        case "y" | "yes":
            return lambda verbs: verbs.approve(one.id, note=rest or None)
        case "n" | "no":
            return lambda verbs: verbs.reject(one.id, note=rest or None)
        case "e" | "edit":
            args = read_args(rest or ask_for_args(one))
            return lambda verbs: verbs.edit(one.id, args)
        case _:
            return None


def ask_for_args(one: Approval) -> str:
    """Return the arguments of a request as a person changes them in their editor.

    Raises:
        InvalidOperation: Nothing was changed, or the arguments are not known any more.
    """
    if one.args is None:
        raise InvalidOperation(f"{short_request(one)} has no arguments to edit")
    text = json.dumps(dict(one.args), ensure_ascii=False, indent=2)
    changed = click.edit(text, extension=".json")
    if changed is None or not changed.strip() or changed == text:
        raise InvalidOperation("nothing was changed, and nothing decided")
    return changed


def read_args(text: str) -> dict[str, Json]:
    """Return edited arguments.

    Raises:
        InvalidOperation: They are not a JSON object.
    """
    try:
        read = json.loads(text)
    except ValueError as error:
        raise InvalidOperation(f"the arguments are not JSON: {error}") from error
    if not isinstance(read, dict):
        raise InvalidOperation("the arguments are not a JSON object")
    return cast("dict[str, Json]", read)


def read_answer(one: Approval, text: str) -> Json:
    """Return an answer as a question expects it: JSON, or a text for its only field."""
    try:
        read: Json = json.loads(text)
    except ValueError:
        read = text
    schema: Any = (one.question or {}).get("schema")
    fields = _members(_members(schema).get("properties"))
    if len(fields) == 1 and not isinstance(read, dict):
        ((name, field),) = fields.items()
        is_text = _members(field).get("type") == "string"
        return {str(name): text if is_text else read}
    return read


def _members(document: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", document) if isinstance(document, Mapping) else {}
