"""``/search``: turns by their words, with snippets."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Final

from annotated_types import Ge, Le

from turntree.core.errors import InvalidOperation, InvalidQuery
from turntree.core.ids import TurnId
from turntree.core.value import value
from turntree.ledger.shape import Skeleton, agent_name
from turntree.resources.service import in_thread
from turntree.search.query import Query
from turntree.search.rank import Snippet
from turntree.search.results import SearchHit
from turntree.search.service import HITS_DEFAULT, HITS_MAX
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.parts import one_line
from turntree.server.route import ApiRoute
from turntree.server.skeleton import KeptSkeleton, keep_skeleton
from turntree.wire.search import SearchHitDocument, SearchPage

LIKENESS_MIN: Final = 0.75
"""How much of a word must be as it was typed for it to be proposed instead."""
TYPED_CHARS_MIN: Final = 3
"""No word of a title is that much like a shorter one."""
CURSOR_DIGITS_MAX: Final = 9
_ASTRAL_MIN: Final = 0x10000


@value
class SearchQuery:
    """What to find; see the search grammar."""

    q: str
    typing: bool = False
    """Whether it is still being typed: what cannot be read yet finds nothing, without an error."""
    limit: Annotated[int, Ge(1), Le(HITS_MAX)] = HITS_DEFAULT
    cursor: str | None = None


async def search_turns(context: ServerContext, asked: SearchQuery) -> SearchPage:
    """Return the turns that a query finds, best first."""
    tree = context.tree
    first = 0
    if asked.cursor is not None:
        is_number = asked.cursor.isascii() and asked.cursor.isdigit()
        if not is_number or len(asked.cursor) > CURSOR_DIGITS_MAX:
            raise InvalidOperation(f"{asked.cursor[:80]!r} is not a cursor")
        first = int(asked.cursor)
    wanted = min(first + asked.limit + 1, HITS_MAX)
    try:
        result = await tree.search(asked.q, limit=wanted)
    except InvalidQuery as error:
        if not asked.typing:
            raise
        return SearchPage(hits=(), total=0, next=None, hint=str(error), is_behind=False)
    page = result.hits[first : first + asked.limit]
    has_more = len(result.hits) > first + asked.limit
    total = len(result.hits)
    if len(result.hits) >= wanted:
        total = max(total, len((await tree.search.places(asked.q)).hits))
    kept = await keep_skeleton(tree)
    hits = await _documents(context, page, kept)
    # Thousands of words are compared: other requests must not wait for them.
    hint = None if result.hits else await in_thread(lambda: _hint(result.query, kept))
    return SearchPage(
        hits=hits,
        total=total,
        next=str(first + asked.limit) if has_more else None,
        hint=hint,
        is_behind=result.is_behind,
    )


async def _documents(
    context: ServerContext, hits: Sequence[SearchHit], kept: KeptSkeleton
) -> tuple[SearchHitDocument, ...]:
    if not hits:
        return ()
    lines = {
        line.turn: line
        for line in await context.tree.shape.lines_of([hit.placed.turn.id for hit in hits])
    }
    documents: list[SearchHitDocument] = []
    for hit in hits:
        turn, header = hit.placed.turn, hit.placed.turn.header
        line = lines.get(TurnId(turn.id))
        snippet = hit.snippet
        project = -1 if line is None else kept.projects.get(line.segment, -1)
        documents.append(
            SearchHitDocument(
                turn=turn.id,
                segment=-1 if line is None else line.segment,
                depth=hit.placed.depth,
                title=one_line(turn.title),
                snippet=one_line(turn.title) if snippet is None else snippet.text,
                where=None if snippet is None else snippet.where,
                marks=() if snippet is None else browser_marks(snippet),
                agent=agent_name(_answered_by(line.by, line.tool) if line else str(header.by)),
                model=header.model,
                outcome=header.outcome,
                at=header.sealed_at,
                sessions=tuple(holder.label for holder in hit.holders),
                project=kept.skeleton.projects[project] if project >= 0 else None,
                why=" · ".join(hit.reasons) or "matches the filters",
            )
        )
    return tuple(documents)


def _answered_by(by: str, tool: str | None) -> str | None:
    return by if by.startswith("agent:") else tool


def browser_marks(snippet: Snippet) -> tuple[tuple[int, int], ...]:
    """Return the marks of a snippet as browsers count: a character may be two code units."""
    astral = [place for place, sign in enumerate(snippet.text) if ord(sign) >= _ASTRAL_MIN]

    def unit(place: int) -> int:
        return place + sum(before < place for before in astral)

    return tuple((unit(start), unit(end)) for start, end in snippet.marks)


def _hint(query: Query, kept: KeptSkeleton) -> str:
    """Return what to try instead of a query that found nothing."""
    skeleton = kept.skeleton
    labels = [session.label for session in skeleton.sessions]
    for name, known in (
        ("in", labels),
        ("by", list(skeleton.agents)),
        ("origin", _tools(skeleton)),
    ):
        for said in query.names.get(name, ()):
            if said not in known and (near := get_close_matches(said, known, n=1)):
                return f"Did you mean {name}:{near[0]}?"
    for term in query.terms:
        said = term.text.lower()
        if len(said) < TYPED_CHARS_MIN or said in kept.title_words:
            continue
        if near := get_close_matches(said, kept.title_words, n=1, cutoff=LIKENESS_MIN):
            return f"Did you mean “{near[0]}”?"
    if query.names or query.failed is not None:
        return "Nothing matches all of these conditions. Leave one out."
    return "Fewer words find more."


def _tools(skeleton: Skeleton) -> list[str]:
    return sorted({session.tool for session in skeleton.sessions if session.tool is not None})


ROUTES: Final = (
    ApiRoute(
        "GET", "/search", READ, search_turns, "Turns by their words, best first.",
        SearchQuery, SearchPage,
    ),
)  # fmt: skip
