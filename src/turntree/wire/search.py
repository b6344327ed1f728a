"""Search results."""

from turntree.core.value import value


@value
class SearchHitDocument:
    """A turn that was found, and why."""

    turn: str
    segment: int
    depth: int
    title: str
    snippet: str
    where: str | None
    """The kind of text that the snippet is from; null if there is none."""
    marks: tuple[tuple[int, int], ...]
    """Matches in the snippet, in UTF-16 code units as browsers count them."""
    agent: str
    model: str | None
    outcome: str
    at: str
    sessions: tuple[str, ...]
    project: str | None
    why: str


@value
class SearchPage:
    """A page of search results, best first."""

    hits: tuple[SearchHitDocument, ...]
    total: int
    """How many turns were found; at least this many if ``next`` is not null."""
    next: str | None
    hint: str | None
    """What to try if little or nothing was found."""
    is_behind: bool
    """Whether some turns are not in the index yet."""
