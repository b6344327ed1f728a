"""The interface of the scripted model's dialects, and what each is given.

Knows that a request is a JSON document and a response is one document or a stream of events. Must
never know a vendor's format: that is what a dialect is for.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from turntree.core.value import value
from turntree.testing.scripted.script import Call, Failure, Reply, ScriptRequest

Document: TypeAlias = dict[str, Any]
Event: TypeAlias = tuple[str | None, Document | str]
"""The name of a server-sent event, if it has one, and its data."""


@value
class OutgoingReply:
    """A reply to send: the scripted one, with the server's additions."""

    name: str
    """Part of every id, so that ids differ between servers."""
    number: int
    """Index of the request in the server's log."""
    model: str
    reply: Reply

    def id(self, prefix: str, place: int = 0) -> str:
        """Return an id of this reply, or of its n-th part."""
        return f"{prefix}{self.name}{self.number:06}{place:02}"

    def calls(self, prefix: str) -> tuple[tuple[str, Call], ...]:
        """Return the calls with their ids."""
        return tuple(
            (call.id or self.id(prefix, place), call) for place, call in enumerate(self.reply.calls)
        )


@value
class Dialect:
    """How one vendor's requests are parsed and its responses written."""

    name: str
    call_prefix: str
    """Prefix of its tool call ids."""
    reads: Callable[[str, Document], ScriptRequest]
    writes: Callable[[OutgoingReply], Document]
    streams: Callable[[OutgoingReply], Iterable[Event]]
    fails: Callable[[Failure], Document]


def arguments_text(call: Call) -> str:
    """Return the arguments as text, as in OpenAI's formats."""
    given = call.arguments
    return given if isinstance(given, str) else json.dumps(given, separators=(",", ":"))


def arguments_value(call: Call) -> Any:
    """Return the arguments as a value, as in the other formats."""
    return json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments


def documents(value: object) -> list[Document]:
    """Return the members of a list that are JSON objects; empty for anything else."""
    if not isinstance(value, list):
        return []
    return [cast("Document", one) for one in cast("list[object]", value) if isinstance(one, dict)]


def texts(value: object) -> list[str]:
    """Return the texts of a value that may be a text or a list of parts."""
    if isinstance(value, str):
        return [value]
    return [str(one["text"]) for one in documents(value) if "text" in one]


def member(value: object, name: str) -> Any:
    """Return a member of a value that may be a JSON object, or None."""
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None


def chunks(text: str) -> list[str]:
    """Return a text in two pieces, so that stream readers have to join them."""
    middle = (len(text) + 1) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]
