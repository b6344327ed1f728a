"""``/compare``: two threads from where they part, with figures, turns and files."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from turntree.api import Tree
from turntree.core.errors import NotFound
from turntree.core.ids import unix_ms
from turntree.core.message import calls_tool
from turntree.core.thread import ThreadTurn
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.ledger.revisions import ResolvedRevision
from turntree.resources.files import pair_states
from turntree.resources.resource import ResolvedTurnSnapshot
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.files import change_word, diff_document, inside, spell_path
from turntree.server.reads.turn_documents import price_calls, read_documents
from turntree.server.route import ApiRoute
from turntree.wire.compare import CompareDocument, ComparePath, CompareSide, ToolCount
from turntree.wire.files import PathChange, PathDiff

TURNS_SHOWN_MAX: Final = 60
TURNS_COUNTED_MAX: Final = 2_000
"""Of a longer side only the first turns are counted: their tools are in their bodies."""
PATHS_MAX: Final = 2_000
_MINUTE_MS: Final = 60_000


@value
class CompareQuery:
    """Two revisions."""

    a: str
    b: str


@value
class CompareFileQuery:
    """Two revisions and a file."""

    a: str
    b: str
    path: str


async def compare_threads(context: ServerContext, asked: CompareQuery) -> CompareDocument:
    """Return what two threads share, and what each has alone."""
    tree = context.tree
    left, right = await tree.resolve(asked.a), await tree.resolve(asked.b)
    threads = tree.revisions.threads
    shared = await threads.find_common_ancestor(left.turn, right.turn)
    base = None if shared is None else await threads.get_turn(shared)
    first = 1 if base is None else base.depth + 1
    changes = {
        side.turn: {} if base is None else await _list_changes(tree, base, side)
        for side in (left, right)
    }
    sides = [
        await _read_side(context, name, side, first, len(changes[side.turn]))
        for name, side in ((asked.a, left), (asked.b, right))
    ]
    paths = sorted({*changes[left.turn], *changes[right.turn]})[:PATHS_MAX]
    documents = await read_documents(context, [] if base is None else [base])
    return CompareDocument(
        documents[0] if documents else None,
        sides[0],
        sides[1],
        tuple(
            ComparePath(path, changes[left.turn].get(path), changes[right.turn].get(path))
            for path in paths
        ),
    )


async def _read_side(
    context: ServerContext, name: str, side: ResolvedRevision, first: int, files: int
) -> CompareSide:
    tree = context.tree
    threads = tree.revisions.threads
    depth = (await threads.get_turn(side.turn)).depth
    high = min(depth, first + TURNS_COUNTED_MAX - 1)
    turns = await threads.list_range(side.turn, low=first, high=high) if first <= depth else ()
    ids = [placed.turn.id for placed in turns]
    calls = await tree.turns.list_calls(ids)
    started = {placed.turn.id: placed.turn.header.started_at for placed in turns}
    costs = [cost for made in (await price_calls(calls, started)).values() for cost in made]
    known = [cost for cost in costs if cost is not None]
    used = sum((call.usage for made in calls.values() for call in made), Usage())
    shown = turns[:TURNS_SHOWN_MAX]
    following = next((placed.turn.id for placed in turns[TURNS_SHOWN_MAX:]), None)
    labels = await tree.revisions.sessions.list_labels_at([side.turn])
    label = side.session.label if side.session is not None else None
    return CompareSide(
        revision=name,
        label=label or next(iter(labels.get(side.turn, ())), None),
        turns=await read_documents(context, shown, following),
        turns_total=max(depth - first + 1, 0),
        tokens=used.total,
        cost=float(sum(known)) if known else None,
        unknown_cost=len(known) < len(costs),
        minutes=_minutes(turns),
        tools=tuple(ToolCount(tool, count) for tool, count in _count_tools(turns)),
        files_changed=files,
    )


def _minutes(turns: Sequence[ThreadTurn]) -> int:
    if not turns:
        return 0
    began, ended = turns[0].turn.header.started_at, turns[-1].turn.header.sealed_at
    return max(unix_ms(ended) - unix_ms(began), 0) // _MINUTE_MS


def _count_tools(turns: Sequence[ThreadTurn]) -> list[tuple[str, int]]:
    """Return how often each tool was called, the most used first."""
    counts = Counter(
        part.tool or "unknown"
        for placed in turns
        for message in placed.turn.messages
        for part in message.parts
        if calls_tool(part)
    )
    return counts.most_common()


async def _nearest(tree: Tree, revision: str) -> list[ResolvedTurnSnapshot]:
    try:
        return (await tree.resources.nearest(revision))[1]
    except NotFound:
        return []


async def _list_changes(
    tree: Tree, base: ThreadTurn, side: ResolvedRevision
) -> dict[str, PathChange]:
    """Return the files that differ from those at the turn where two threads part."""
    old, new = await _nearest(tree, base.turn.id), await _nearest(tree, side.turn)
    if not old or not new:
        return {}
    return {
        spell_path(change.path): change_word(change)
        for resource, before, after in pair_states(old, new)
        if before != after
        for change in await tree.files.compare(resource, before, after)
        if any(
            entry is not None and entry.kind != "directory" for entry in (change.old, change.new)
        )
    }


async def compare_file(context: ServerContext, asked: CompareFileQuery) -> PathDiff:
    """Return how a file of one thread differs from that of another."""
    tree = context.tree
    left, right = await tree.resolve(asked.a), await tree.resolve(asked.b)
    old, new = await _nearest(tree, left.turn), await _nearest(tree, right.turn)
    for resource, before, after in pair_states(old, new):
        wanted = inside(resource, asked.path)
        changes = await tree.files.compare(resource, before, after)
        chosen = [change for change in changes if spell_path(change.path) == wanted]
        if chosen:
            return diff_document((await tree.files.diff(resource, before, after, only=chosen))[0])
    raise NotFound(f"{asked.path} does not differ between the two")


ROUTES: Final = (
    ApiRoute(
        "GET", "/compare/{a}...{b}", READ, compare_threads, "Two threads from where they part.",
        CompareQuery, CompareDocument,
    ),
    ApiRoute(
        "GET", "/compare/{a}...{b}/diff", READ, compare_file,
        "How a file of one thread differs from that of another.", CompareFileQuery, PathDiff,
    ),
)  # fmt: skip
