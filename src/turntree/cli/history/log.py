"""``log``: turns as a list, or as a tree.

Chooses the turns and their order; ``cli.output.log_line`` prints a line.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.failed_runs import note_failed, read_last
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.annotations import Annotations, list_sessions, read_legend
from turntree.cli.output.log_line import LogColumns, draw_line, draw_note, draw_reason, plan_columns
from turntree.cli.output.text import counted, digits
from turntree.cli.param_types import REVISION
from turntree.core.ids import TurnId
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn, newest_first
from turntree.core.value import value
from turntree.ledger.graph.layout import (
    ASCII,
    NO_PARENT,
    UNICODE,
    ElidedRow,
    LayoutNode,
    LayoutRow,
    TurnMark,
    condense,
    gutter,
    layout,
)
from turntree.ledger.revisions import parse_time

TURNS_SHOWN: Final = 200
TURNS_SHOWN_MAX: Final = 100_000
PAGE: Final = 500
CURRENT_KEPT_MAX: Final = 30
"""Number of newest turns of the current thread that are never collapsed."""
Level = Literal["short", "normal", "full"]


@value
class LogGraph:
    """The requested turns, newest first, with their annotations."""

    turns: tuple[ThreadTurn, ...]
    legend: Annotations
    more: bool
    """Whether there are older turns beyond the limit."""


@verb()
@click.argument("revisions", metavar="[REV|RANGE]...", nargs=-1, type=REVISION)
@click.option("--graph", "-g", is_flag=True, help="Tree view.")
@click.option("--all", "-a", "everything", is_flag=True, help="All turns, not only those of HEAD.")
@click.option(
    "-n", "limit", metavar="N", type=click.IntRange(1, TURNS_SHOWN_MAX), default=TURNS_SHOWN,
    show_default=True, help="Maximum number of turns, the newest first.",
)  # fmt: skip
@click.option("--since", metavar="WHEN", help="Earliest seal time: yesterday, '2 hours ago'.")
@click.option("--messages", "-m", is_flag=True,
              help="Messages of one session, oldest first, instead of turns.")  # fmt: skip
@click.option("--short", "level", flag_value="short", help="Digest, labels and title only.")
@click.option("--full", "level", flag_value="full", help="Complete tree, with no turn left out.")
def log(
    terminal: Terminal,
    revisions: tuple[str, ...],
    graph: bool,
    everything: bool,
    limit: int,
    since: str | None,
    messages: bool,
    level: Level | None,
) -> None:
    """List turns, or draw their tree.

    Without a REV it lists the thread of HEAD. With --graph it draws the threads of all active
    sessions; --all adds turns that no active session leads to, and archived ones. A RANGE is
    main..other, the turns only other holds, or main...other, the turns only one of them holds.
    """
    if messages:
        if len(revisions) > 1 or graph or everything or since or level:
            raise click.UsageError("--messages takes one session, and -n")
        from turntree.cli.sessions.session_config import show_messages

        show_messages(terminal, revisions[0] if revisions else "HEAD", limit)
        return
    read = partial(
        _read, revisions=revisions, graph=graph, everything=everything, limit=limit, since=since
    )
    picture = with_ledger(terminal, read)
    if terminal.as_json:
        terminal.documents(picture.legend.document(placed) for placed in picture.turns)
    elif not picture.turns:
        _greet(terminal, picture.legend, filtered=bool(since or revisions))
    else:
        columns = plan_columns(picture.turns, picture.legend, terminal, short=level == "short")
        draw = partial(_draw_tree, full=level == "full") if graph else draw_list
        terminal.page(draw(picture, columns, terminal))
        failed = [one.turn for one in picture.turns if one.turn.id in picture.legend.reasons]
        note_failed(terminal, [digits(turn.digest) for turn in reversed(failed)])


async def _read(
    opened: CliContext,
    *,
    revisions: tuple[str, ...],
    graph: bool,
    everything: bool,
    limit: int,
    since: str | None,
) -> LogGraph:
    after = None if since is None else parse_time(since, opened.now)
    if revisions:
        turns = await _read_threads(opened, revisions, limit + 1)
    elif graph or everything:
        sessions = await list_sessions(opened, with_archived=everything)
        heads = None if everything else {s.head for s in sessions if s.head is not None}
        turns = await _read_newest(opened, heads, limit + 1)
    elif await opened.tree.sessions.ledger.list_page(limit=1, status=None):
        current = await opened.tree.sessions.get("HEAD")
        turns = [*reversed(await read_last(opened, current, limit + 1))]
    else:
        turns = []
    more = len(turns) > limit
    kept = tuple(p for p in turns[:limit] if after is None or p.turn.header.sealed_at >= after)
    return LogGraph(kept, await read_legend(opened, kept, with_archived=everything), more)


async def _read_threads(
    opened: CliContext, revisions: Sequence[str], limit: int
) -> list[ThreadTurn]:
    """Return the newest turns of the given threads or ranges, newest first."""
    found: dict[TurnId, ThreadTurn] = {}
    threads = opened.tree.threads
    for text in revisions:
        read: Iterable[ThreadTurn] = await _read_session(opened, text, limit)
        if read:
            found.update((placed.turn.id, placed) for placed in read)
            continue
        ends = await opened.tree.revisions.resolve_range(text)
        if not isinstance(ends, tuple):
            read = await threads.read(ends, last=limit)
        elif ends[0] is None:
            read = await threads.read(ends[1], last=limit)
        else:
            parted = await threads.compare(ends[0], ends[1])
            read = (*(parted.left if ends[2] else ()), *parted.right)
        found.update((placed.turn.id, placed) for placed in read)
    return newest_first(found.values())[:limit]


async def _read_session(opened: CliContext, name: str, limit: int) -> tuple[ThreadTurn, ...]:
    """Return a session's last turns with its failed ones; empty if it is not a label."""
    named = opened.current if name == "HEAD" else name
    session = None if named is None else await opened.tree.sessions.ledger.find(named)
    return () if session is None else await read_last(opened, session, limit)


async def _read_newest(
    opened: CliContext, heads: set[TurnId] | None, limit: int
) -> list[ThreadTurn]:
    """Return the newest turns, or those that lead to the given heads and are not archived."""
    found: dict[TurnId, ThreadTurn] = {}
    kept: list[ThreadTurn] = []
    hidden: set[TurnId] = set()
    index = opened.tree.turns.index
    page = await index.list_newest(limit=min(PAGE, limit))
    while page:
        found.update((placed.turn.id, placed) for placed in page)
        kept = list(found.values())
        if heads is not None:
            # Not left out before: the way from an archived head leads on to turns that are shown.
            hidden |= await index.list_archived([placed.turn.id for placed in page])
            kept = [one for one in _leading_to(heads, found) if one.turn.id not in hidden]
        if len(kept) >= limit:
            break
        page = await index.list_newest(before=page[-1].turn.id, limit=PAGE)
    return newest_first(kept)[:limit]


def _leading_to(
    heads: Iterable[TurnId], found: Mapping[TurnId, ThreadTurn]
) -> Iterator[ThreadTurn]:
    seen: set[TurnId] = set()
    for head in heads:
        at: TurnId | None = head
        while at is not None and at in found and at not in seen:
            seen.add(at)
            yield found[at]
            at = found[at].parent


def draw_list(picture: LogGraph, columns: LogColumns, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of turns, the newest first."""
    is_short = not columns.age
    for placed in picture.turns:
        yield draw_line("", placed, picture.legend, columns, terminal)
        reason = draw_reason(placed.turn, picture.legend, terminal)
        if reason is not None and not is_short:
            yield reason
    if picture.more:
        yield draw_note("", f"… older turns are not shown: -n {len(picture.turns) * 5}", terminal)


def _draw_tree(
    picture: LogGraph, columns: LogColumns, terminal: Terminal, *, full: bool
) -> Iterator[str]:
    legend = picture.legend
    found = {placed.turn.id: placed for placed in picture.turns}
    nodes = order_nodes(found, legend)
    turns = [found[node.id] for node in nodes]
    places = {node.id: place for place, node in enumerate(nodes)}
    head = legend.current.head if legend.current is not None else None
    rows = layout(nodes, [] if head is None or head not in places else [places[head]])
    kept = _current_thread(head, found)

    def must_stay(index: int) -> bool:
        turn = turns[index].turn
        is_dull = turn.header.kind == "normal" and turn.header.outcome == "completed"
        is_marked = turn.id in legend.labels or turn.id in legend.tags
        return full or not is_dull or is_marked or turn.id in kept

    def mark(row: LayoutRow) -> TurnMark:
        return _mark(row, turns[row.index], legend, head)

    for line in gutter(condense(rows, must_stay), ASCII if terminal.is_ascii else UNICODE, mark):
        match line.row:
            case LayoutRow(index=index):
                yield draw_line(line.gutter, turns[index], legend, columns, terminal)
                if nodes[index].parent == NO_PARENT and turns[index].parent is not None:
                    yield draw_note(":" if terminal.is_ascii else "┊", "", terminal)
            case ElidedRow(turns=number):
                yield draw_note(line.gutter, f"({counted(number, 'turn')})", terminal)
            case None:
                yield draw_note(line.gutter, "", terminal)
    if picture.more:
        yield draw_note("", f"… older turns are not shown: -n {len(turns) * 5}", terminal)


def _mark(row: LayoutRow, placed: ThreadTurn, legend: Annotations, head: TurnId | None) -> TurnMark:
    header = placed.turn.header
    if header.outcome != "completed":
        return TurnMark.FAILED
    if placed.turn.id == head:
        return TurnMark.LIVE
    if header.kind == "compaction":
        return TurnMark.COMPACTION
    is_head = row.children == 0 or placed.turn.id in legend.labels
    return TurnMark.HEAD if is_head else TurnMark.TURN


def _current_thread(head: TurnId | None, found: Mapping[TurnId, ThreadTurn]) -> set[TurnId]:
    kept: set[TurnId] = set()
    while head is not None and head in found and len(kept) < CURRENT_KEPT_MAX:
        kept.add(head)
        head = found[head].parent
    return kept


def order_nodes(found: Mapping[TurnId, ThreadTurn], legend: Annotations) -> list[LayoutNode]:
    """Return turns as the graph to draw: parents first, the current session's tree last.

    A turn whose parent is not among them is drawn as a root. The first turn of a subagent is drawn
    under the turn that spawned it.
    """
    spawned = dict(_list_spawned(legend.sessions, found))
    parents = {id: spawned.get(id, placed.parent) for id, placed in found.items()}
    children: dict[TurnId | None, list[TurnId]] = {}
    for id, parent in parents.items():
        children.setdefault(parent if parent in found else None, []).append(id)
    trees = [_walk(root, children) for root in children.get(None, [])]
    head = legend.current.head if legend.current is not None else None
    trees.sort(key=lambda tree: (head in tree, max(tree)))
    places: dict[TurnId | None, int] = {}
    nodes: list[LayoutNode] = []
    for id in (id for tree in trees for id in tree):
        places[id] = len(nodes)
        nodes.append(LayoutNode(id, places.get(parents[id], NO_PARENT), id in spawned))
    return nodes


def _walk(root: TurnId, children: Mapping[TurnId | None, list[TurnId]]) -> list[TurnId]:
    """Return a tree with parents before children, otherwise oldest first."""
    ready, tree = [root], list[TurnId]()
    while ready:
        id = heapq.heappop(ready)
        tree.append(id)
        for child in children.get(id, []):
            heapq.heappush(ready, child)
    return tree


def _list_spawned(
    sessions: Iterable[Session], found: Mapping[TurnId, ThreadTurn]
) -> Iterator[tuple[TurnId, TurnId]]:
    """Yield the first turn of each subagent with the turn that spawned it."""
    for session in sessions:
        spawn, at = session.spawn, session.head
        if spawn is None or at is None or at not in found:
            continue
        # A subagent without turns yet has no first turn: its head is the spawning turn.
        while at != spawn.parent_turn and at in found:
            parent = found[at].parent
            if parent is None or parent == spawn.parent_turn:
                yield at, spawn.parent_turn
                break
            at = parent


def _greet(terminal: Terminal, legend: Annotations, *, filtered: bool) -> None:
    """Print what to do next where there is nothing to list."""
    if filtered:
        terminal.note("no turns match.")
    elif legend.current is not None and legend.sessions:
        terminal.note(f"{legend.current.label} has no turns yet.")
        terminal.note("next: turntree log --all     the turns of other sessions")
    else:
        terminal.note("there are no turns here yet.")
        terminal.note("next: turntree on                    import your agents' sessions")
        terminal.note("      turntree demo                  a small tree to look around in")
        terminal.note("      turntree session create main   an empty session of your own")
        terminal.note("      turntree session list --all    what is archived")
