"""Sessions as a list shows them."""

from turntree.core.value import value


@value
class SessionSummary:
    """One session, with the figures that a list shows."""

    id: str
    label: str
    title: str
    """The title of its first turn; empty while it has none."""
    head: str | None
    turns: int
    agent: str
    """Who answered last: an agent or the tool that the session came from."""
    model: str | None
    project: str | None
    folder: str | None
    tool: str | None
    """The tool that the session was imported from."""
    began_at: str
    last_at: str
    tokens: int
    cost: float | None
    """In US dollars; null if a call has no known price, or if there was none."""
    archived: bool
    spawned_by: str | None
    """The label of the session whose tool call spawned it."""
    tags: tuple[str, ...]
    activity: tuple[int, ...]
    """Turns on each of the last 14 days, oldest first."""


@value
class SessionPage:
    """A page of sessions, the one that worked last first."""

    sessions: tuple[SessionSummary, ...]
    next: str | None
    """The cursor of the next page."""


@value
class SessionDocument:
    """One session: where it is, and by which names it is known."""

    id: str
    label: str
    head: str | None
    """The turn that it is at, which ``If-Match`` names; null while it has none."""
    digest: str | None
    """The digest of that turn."""
    turns: int
    version: int
    """Grows with each move."""
    status: str
    aliases: tuple[str, ...]
    created_at: str
    worked_at: str
