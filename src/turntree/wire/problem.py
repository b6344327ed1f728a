"""An error as RFC 9457 has it, with the steps that the reader can take next."""

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
