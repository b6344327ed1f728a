"""Tags as a list."""

from turntree.core.value import value


@value
class TagDocument:
    """A tag, and a turn that has it."""

    tag: str
    turn: str


@value
class TagPage:
    """A page of tags, ordered by name and turn."""

    tags: tuple[TagDocument, ...]
    next: str | None
    """The cursor of the next page."""
