"""``/tags``: which turns have which tags."""

from typing import Annotated, Final

from annotated_types import Ge, Le

from turntree.core.errors import InvalidOperation
from turntree.core.ids import TurnId, find_long_id
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.wire.tags import TagDocument, TagPage

TAGS_DEFAULT: Final = 100
TAGS_MAX: Final = 1_000


@value
class TagsQuery:
    """Which tags: all, or those of one name."""

    tag: str | None = None
    limit: Annotated[int, Ge(1), Le(TAGS_MAX)] = TAGS_DEFAULT
    cursor: str | None = None


async def list_tags(context: ServerContext, asked: TagsQuery) -> TagPage:
    """Return tags and the turns that have them, ordered by both."""
    found = await context.tree.turns.marks.list_tags(
        tag=asked.tag, after=_read_cursor(asked.cursor), limit=asked.limit + 1
    )
    page = found[: asked.limit]
    last = page[-1] if len(found) > asked.limit else None
    return TagPage(
        tuple(TagDocument(tag, turn) for turn, tag in page),
        None if last is None else f"{last[0]}@{last[1]}",
    )


def _read_cursor(text: str | None) -> tuple[TurnId, str] | None:
    if text is None:
        return None
    # The id comes first: a tag may contain any character.
    turn, _, tag = text.partition("@")
    if find_long_id(turn) != turn or not tag:
        raise InvalidOperation(f"{text[:80]!r} is not a cursor")
    return TurnId(turn), tag


ROUTES: Final = (
    ApiRoute("GET", "/tags", READ, list_tags, "Tags and their turns.", TagsQuery, TagPage),
)
