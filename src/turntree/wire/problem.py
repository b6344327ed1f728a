"""An error as RFC 9457 has it, with the steps that the reader can take next."""

from typing import Any

from turntree.core.value import value


@value
class Problem:
    """Why a request was refused."""

    type: str
    title: str
    status: int
    detail: str
    next: tuple[str, ...] = ()
    """Commands or actions to try, each complete."""
    head: str | None = None
    """The turn at which the session is now, if it moved since the client saw it."""
    hint: dict[str, Any] | None = None
    """The first of these steps as data, for clients with words of their own: an ``action``, and
    what to apply it to."""
