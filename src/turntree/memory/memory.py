"""What the tools do: find, read and cite turns, and begin new work from them.

Every answer is made of stored words. No model is called, and nothing is summarized.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import PurePath
from typing import Final

from turntree.api import Tree
from turntree.core.canonical import canonical
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.message import (
    ErasedMessage,
    Part,
    Text,
    ToolResult,
    ToolUse,
    answers_call,
    calls_tool,
)
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.ledger.graph.causes import Cause
from turntree.memory.answer import cite, join_blocks, minute, page, short, title
from turntree.resources.files import pair_states
from turntree.search.passages import find_window
from turntree.search.query import parse_query
from turntree.search.rank import Judge
from turntree.search.results import SearchHit
from turntree.system.shell_words import joined

OpenTree = Callable[[], AbstractAsyncContextManager[Tree]]
"""Opens the ledger for one call, as the user or the token that the server acts for."""
HITS: Final = 5
ROWS: Final = 15
SNIPPET_CHARS: Final = 220
LINES_MAX: Final = 40
LINES_COMPARED_MAX: Final = 5_000
_LINES: Final = re.compile(r"(?P<path>.+?):(?P<first>\d+)(?:-(?P<last>\d+))?", re.ASCII)


@value
class Memory:
    """The eight tools, without a protocol."""

    open_tree: OpenTree

    async def search(self, query: str, skip: int = 0) -> str:
        """Return the turns that a query finds, each with the passage that matches."""
        async with self.open_tree() as tree:
            first = max(0, skip)
            result = await tree.search(query, limit=first + HITS + 1, snippet_chars=SNIPPET_CHARS)
            hits = result.hits[first:]
            blocks = [_hit(hit) for hit in hits[:HITS]]
            if result.is_behind:
                blocks.append("(the newest turns are still being indexed: ask again)")
            if not hits:
                blocks.insert(0, "nothing was found; fewer or other words find more")
            return join_blocks(blocks, skip=first, more=len(hits) > HITS)

    async def read(self, turn: str, near: str = "", start: int = 0) -> str:
        """Return the words of a turn, its tool calls and their results, page by page."""
        async with self.open_tree() as tree:
            (placed,) = await tree.turns.restore([await tree.turns.get(turn)])
            text = "\n".join(_words(placed))
            if near and not start:
                weights = Judge(parse_query(near, placed.turn.header.started_at)).weights
                _, start = find_window(text, weights)
            return page(text, start=min(max(0, start), len(text)), head=cite(placed))

    async def list(self, session: str = "", skip: int = 0) -> str:
        """Return the sessions, newest first, or the turns of one, newest first."""
        async with self.open_tree() as tree:
            first = max(0, skip)
            if session:
                newest = await tree.turns.get(session)
                high = newest.depth - first
                turns = await tree.threads.page(session, low=max(1, high - ROWS + 1), high=high)
                blocks = [f"{placed.depth}. {cite(placed)}" for placed in reversed(turns)]
                return join_blocks(blocks, skip=first, more=high > ROWS)
            found = sorted(
                [one async for one in tree.sessions.list_all()], key=lambda one: one.worked_at
            )[::-1][first:]
            blocks = list[str]()
            for one in found[:ROWS]:
                head = None if one.head is None else await tree.turns.get(one.head)
                last = "empty" if head is None else f"[{short(head.turn.digest)}] {title(head)}"
                facts = f"{one.depth} turns, {minute(one.worked_at)}"
                blocks.append(f"{one.label} ({facts}): {last}")
            return join_blocks(blocks, skip=first, more=len(found) > ROWS)

    async def blame(self, path: str, skip: int = 0) -> str:
        """Return the turns that used a file, or the turn that wrote each of some lines."""
        async with self.open_tree() as tree:
            first = max(0, skip)
            named = _LINES.fullmatch(path)
            if named is None:
                uses = (await tree.search.blame(path, limit=first + ROWS + 1))[first:]
                blocks = [
                    f"{cite(one.placed, one.sessions)}: "
                    + ", ".join(dict.fromkeys(touch.use for touch in one.touches))
                    for one in uses[:ROWS]
                ]
                if not uses:
                    blocks = [f"no turn recorded that it used {path}"]
                return join_blocks(blocks, skip=first, more=len(uses) > ROWS)
            low = int(named["first"])
            lines = (low, int(named["last"] or low))
            return join_blocks(await _blame_lines(tree, named["path"], lines), skip=first)

    async def fork(self, turn: str, label: str) -> str:
        """Create a session at a turn, and return how to go on there."""
        async with self.open_tree() as tree:
            placed = await tree.turns.get(turn)
            created = await tree.sessions.fork(placed.turn.id, label)
            go_on = joined(["turntree", "handoff", created.label, "--open"])
            undo = joined(["turntree", "session", "archive", created.label])
            return (
                f"session {created.label} begins at {cite(placed)}\n"
                f"continue it with: {go_on}\nundo with: {undo}"
            )

    async def diff(self, left: str, right: str, *, files: bool = False, start: int = 0) -> str:
        """Return how two turns differ, in their words or in the files that they left."""
        async with self.open_tree() as tree:
            turns = await tree.turns.restore([await tree.turns.get(one) for one in (left, right)])
            if files:
                lines = await _diff_files(tree, turns)
            else:
                before, after = ([*_words(one)] for one in turns)
                lines = [*difflib.unified_diff(before, after, lineterm="", n=2)]
            text = "\n".join(lines) or "no difference"
            head = "\n".join(map(cite, turns))
            return page(text, start=min(max(0, start), len(text)), head=head)

    async def send(self, to: str, message: str) -> str:
        """Queue a message for a session, a turn or an agent, and return without an answer."""
        async with self.open_tree() as tree:
            posted = await tree.runs.post(to, message)
            return (
                f"queued for {posted.label} as run {posted.run}; read the answer with list or read"
            )

    async def why(self, turn: str, skip: int = 0) -> str:
        """Return what led to a turn, step by step."""
        async with self.open_tree() as tree:
            explained = await tree.causes.explain((await tree.turns.get(turn)).turn.id)
            blocks = [cite(explained.placed), *_causes(explained.causes, 1)]
            first = max(0, skip)
            return join_blocks(blocks[first:], skip=first, more=explained.bound is not None)


def _hit(hit: SearchHit) -> str:
    head = cite(hit.placed, [holder.label for holder in hit.holders])
    if hit.snippet is None:
        return head
    return f"{head}\n  {hit.snippet.where}: {hit.snippet.text}"


def _words(placed: ThreadTurn) -> Iterator[str]:
    """Yield the lines of a turn: what was said, and each call with its result."""
    numbers: dict[str | None, int] = {}
    for message in placed.turn.messages:
        if isinstance(message, ErasedMessage):
            yield "(erased)"
            continue
        for part in message.parts:
            if calls_tool(part):
                numbers[part.call_id] = len(numbers) + 1
                yield from f"call {numbers[part.call_id]} {part.tool} {_text(part)}".split("\n")
            elif answers_call(part):
                number = numbers.get(part.call_id, 0)
                yield from f"result {number} ({part.status}): {_text(part)}".split("\n")
            elif isinstance(part, Text):
                yield from f"{message.role}: {part.text}".split("\n")


def _text(part: Part) -> str:
    match part:
        case ToolUse(args=inner) | ToolResult(output=inner):
            return inner if isinstance(inner, str) else canonical(inner).decode()
        case _:
            return "(erased)"


async def _blame_lines(tree: Tree, path: str, lines: tuple[int, int]) -> list[str]:
    full = _absolute(path)
    for resource in await tree.resources.list_around(full):
        if not await tree.blame.has_history(resource):
            continue
        inside = PurePath(full).relative_to(resource.place).as_posix()
        found = await tree.blame(resource, inside)
        blocks: list[str] = []
        for line in found.lines[lines[0] - 1 : min(lines[1], lines[0] + LINES_MAX)]:
            writers = [cite(await tree.turns.get(turn)) for turn in line.writer.turns]
            said = line.text.decode(errors="replace").rstrip()
            author = line.writer.kind if line.writer.kind != "turn" else "written by"
            blocks.append(f"{line.number}: {said}\n  {author} {' or '.join(writers)}".rstrip())
        return blocks or [f"{inside} has only {len(found.lines)} lines"]
    raise NotFound(f"no turn has a snapshot of a folder around {path}")


def _absolute(path: str) -> str:
    """Return a path from the root of this machine; symlinks are not followed."""
    return os.path.abspath(path)  # noqa: PTH100


async def _diff_files(tree: Tree, turns: Sequence[ThreadTurn]) -> list[str]:
    (_, old), (_, new) = [await tree.resources.nearest(one.turn.id) for one in turns]
    lines: list[str] = []
    for resource, before, after in pair_states(old, new):
        changes = await tree.files.compare(resource, before, after)
        for change in await tree.files.diff(resource, before, after, only=changes):
            lines.append(f"{change.kind} {change.path}")
            lines += [
                f"{sign}{text.decode(errors='replace').rstrip()}"
                for hunk in change.hunks
                for sign, text in hunk.lines
            ]
            if len(lines) > LINES_COMPARED_MAX:
                raise InvalidOperation("the files differ too much to be compared here")
    return lines


def _causes(causes: Sequence[Cause], depth: int) -> Iterator[str]:
    for cause in causes:
        facts = [
            cause.session,
            cause.by,
            cause.tool,
            None if cause.at is None else minute(cause.at),
        ]
        named = ", ".join(str(fact) for fact in facts if fact)
        what = cause.event or cause.node.kind if cause.placed is None else cite(cause.placed)
        yield f"{'  ' * depth}{cause.how} {what}{f' ({named})' if named else ''}"
        yield from _causes(cause.causes, depth + 1)
