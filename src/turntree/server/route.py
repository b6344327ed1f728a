"""One entry of the API's table: how it is called, what it takes, what it answers.

The dispatcher and the OpenAPI document both read the entry, so that neither can say something else
than the other. A handler gets one frozen value: its fields are the parameters of the path and of
the query, or of the path and the JSON body. pydantic checks them by their annotations.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, Literal
from urllib.parse import unquote

from pydantic import TypeAdapter

from turntree.auth.permissions import Right
from turntree.core.value import value

Handler = Callable[[Any, Any], Awaitable[Any]]
"""Gets the context of its caller, or an unknown caller as a ``Visitor``, and the values."""
IF_MATCH: Final = "if_match"
"""The header of a write that names the turn at which the client saw a session."""
OWN_SEND: Final = "turntree.send"
"""Where a request's scope has what writes to the connection, past all layers before a route."""
ROUTE_KEY: Final = "turntree.route"
"""Where a request's scope has the path of its route, with parameters in braces."""
PROBLEM_KEY: Final = "turntree.problem"
"""Where a request's scope has the name of the problem that answers it."""
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


@value
class NoValues:
    """What a route takes that needs nothing to be told."""


@value
class ApiRoute:
    """A route below ``/api/v1``."""

    method: Literal["GET", "POST"]
    path: str
    """With parameters in braces; one never contains a slash unless it is escaped as ``%2F``."""
    right: Right | None
    """What the caller must be permitted to do; None only for a route that is open."""
    handler: Handler
    summary: str
    asks: Any = NoValues
    """A frozen dataclass. What is neither in the path nor a header is in the query or the body."""
    answers: Any = None
    """The type of the answer; None answers 204. A handler may also return the JSON as bytes."""
    kind: Literal["read", "write"] = "read"
    """A write needs an idempotency key."""
    media: str = "application/json"
    """``text/plain`` answers a str, ``text/event-stream`` an asynchronous iterator of bytes."""
    refusals: tuple[int, ...] = ()
    """The statuses with which the handler refuses, besides 422. A route with a name in its
    path or body also refuses with 404 and 409, one that takes ``If-Match`` with 412. What the
    server refuses before any handler is the same for all."""
    headers: tuple[str, ...] = ()
    """Fields of ``asks`` that are headers: ``last_event_id`` is ``Last-Event-ID``."""
    is_bounded: bool = False
    """Whether a person may have only so many of its answers open at a time."""
    is_open: bool = False
    """Whether it answers callers whom the server does not know."""
    is_raw: bool = False
    """Whether its handler gets the body as bytes, as ``body``: a signature is of them."""
    is_local: bool = False
    """Whether it works with the files of this machine, and so serves only its user."""

    @property
    def path_names(self) -> list[str]:
        """The parameters of the path, in order."""
        return _PARAMETER.findall(self.path)

    @property
    def has_etag(self) -> bool:
        """Whether its answer has the digest of its bytes, so that a client can keep it."""
        return self.method == "GET" and self.media != "text/event-stream"

    def match(self, raw_path: str) -> Mapping[str, str] | None:
        """Return the parameters of an escaped path, or None if it is another route's."""
        matched = _pattern(self.path).fullmatch(raw_path)
        if matched is None:
            return None
        return {name: unquote(text) for name, text in matched.groupdict().items()}

    @property
    def names_in_request(self) -> tuple[str, ...]:
        """The fields that come from the query, or from the body of a POST."""
        return _names_in_request(self.path, self.headers, self.asks)

    @property
    def word(self) -> str:
        """The first piece of the path, by which a route is found among all."""
        return self.path[1:].partition("/")[0]


def check_routes(routes: Sequence[ApiRoute]) -> None:
    """Refuse a table with a route that does not say what it requires, or cannot be found.

    Raises:
        ValueError: A route requires nothing and is not open, or is open and requires something, or
            is an open write, or its path begins with a parameter.
    """
    for route in routes:
        fault = ""
        if (route.right is None) != route.is_open:
            fault = "is open and names a right" if route.is_open else "names no right"
        elif route.is_open and route.kind == "write":
            # Its answers would be kept, and with them any stranger could push out those of others.
            fault = "is open and keeps answers"
        elif "{" in route.word:
            fault = "begins with a parameter"
        if fault:
            raise ValueError(f"the route {route.method} {route.path} {fault}")


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return what validates and writes values of a type; pydantic compiles it once."""
    return TypeAdapter(kind)


@cache
def _names_in_request(path: str, headers: tuple[str, ...], asks: Any) -> tuple[str, ...]:
    elsewhere = {*_PARAMETER.findall(path), *headers}
    return tuple(field.name for field in fields(asks) if field.name not in elsewhere)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    # A name is taken as short as possible: `/compare/a...b` has two in one segment. What was taken
    # is never tried again: a path of dots, which needs no key, would take seconds otherwise.
    first, *parts = _PARAMETER.split(path)
    source = re.escape(first)
    for name, after in zip(parts[::2], parts[1::2], strict=True):
        end = re.escape(after) if after else r"\Z"
        source += f"(?>(?P<{name}>[^/]+?){end})"
    return re.compile(source)
