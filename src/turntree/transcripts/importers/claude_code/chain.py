"""Assign Claude Code's records to turns.

The tool links every record to the previous one. Taken as a tree of turns, those links are wrong in
two cases: results of parallel calls look like forks, and a compaction looks like a new start. So a
turn begins at a prompt or at a compaction, and every other record belongs to the turn of the record
it follows. Nothing here looks into a message.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from turntree.core.value import value
from turntree.transcripts.drafts import Key
from turntree.transcripts.importers.claude_code.records import ChainRecord, calls_in, is_error
from turntree.transcripts.importers.shared.lenient_json import text

MAIN: Final = ""
"""The name of the main session, which is not a subagent's."""

CUTS_MAX: Final = 1_000
"""Number of forks from the middle of a turn that are exact; further ones follow the whole turn."""

_ABOVE_MAX: Final = 200
_UNFINISHED: Final = frozenset({"tool_use", "pause_turn"})
_LEADING: Final = frozenset({"attachment", "printed", "command", "injected", "aside"})
StemKind = Literal["normal", "compaction", "continued"]


@dataclass(slots=True, eq=False)
class Stem:
    """A turn while it is collected: where it begins, and every record that belongs to it."""

    key: Key
    kind: StemKind
    session: str
    start: ChainRecord
    parent: "Stem | None"
    above: "RecordNode | None"
    """The record it follows, which may be in the middle of its parent."""
    depth: int
    before: list[ChainRecord] = field(default_factory=list[ChainRecord])
    """Context that was inserted before the prompt."""
    lines: list[ChainRecord] = field(default_factory=list[ChainRecord])


@dataclass(slots=True, eq=False)
class RecordNode:
    """A record and its position."""

    line: ChainRecord
    above: "RecordNode | None"
    session: str
    stem: Stem | None
    finished: bool
    """Every prompt so far is answered, so a new answer needs a new prompt."""
    weak: "RecordNode | None"
    """The record that begins a turn if the model answers it."""


@value
class RecordChain:
    """All turns of a transcript, and the node of each record."""

    stems: Sequence[Stem]
    """Parents first."""
    nodes: Mapping[str, RecordNode]
    orphans: Sequence[int]
    heads: Mapping[str, Stem | None]
    """Of each session, in the order in which they appear."""


def arrange(
    lines: Sequence[ChainRecord], agents: Mapping[str, str], forks: frozenset[str]
) -> RecordChain:
    """Return the turns that some records make up.

    ``agents`` maps a file to its subagent; in other files, subagents are found by their records.
    A subagent in ``forks`` continues from the turn it is linked to; every other one starts fresh.
    """
    work = _NodeArranger(lines, agents, forks)
    work.link()
    heads: dict[str, Stem | None] = {}
    orphans: list[int] = []
    for line in lines:
        node = work.nodes[line.uuid]
        if node.stem is not None:
            node.stem.lines.append(line)
        elif line.kind in ("answer", "result"):
            orphans.append(line.place)
        if line.kind not in ("aside", "attachment") or node.session not in heads:
            heads[node.session] = node.stem or heads.get(node.session)
    return RecordChain(list(_cut(work.stems)), work.nodes, orphans, heads)


class _NodeArranger:
    """Builds nodes parents first, in a loop: a conversation may exceed the recursion limit."""

    def __init__(
        self, lines: Sequence[ChainRecord], agents: Mapping[str, str], forks: frozenset[str]
    ) -> None:
        self.nodes: dict[str, RecordNode] = {}
        self.stems: list[Stem] = []
        self._lines = lines
        self._by_uuid = {line.uuid: line for line in lines}
        self._agents = agents
        self._forks = forks
        self._previous: dict[str, ChainRecord] = {}

    def link(self) -> None:
        """Create a node for every line."""
        last: dict[tuple[str, bool, str | None], ChainRecord] = {}
        for line in self._lines:
            stream = (line.file, line.side, line.agent)
            if stream in last:
                self._previous[line.uuid] = last[stream]
            last[stream] = line
        for line in self._lines:
            above = self.nodes.get(line.link or "")
            if above is not None and line.uuid not in self.nodes:
                # Almost every record follows one that was read before.
                self.nodes[line.uuid] = self._node(line, above)
                continue
            for found in self._missing_above(line):
                followed = self._followed(found)
                above = None if followed is None else self.nodes.get(followed.uuid)
                self.nodes[found.uuid] = self._node(found, above)

    def _missing_above(self, line: ChainRecord) -> list[ChainRecord]:
        """Return a line and its ancestors without a node, the oldest first."""
        path: dict[str, ChainRecord] = {}
        cursor: ChainRecord | None = line
        # Records that link to each other in a circle have no first one; any will do.
        while cursor is not None and cursor.uuid not in self.nodes and cursor.uuid not in path:
            path[cursor.uuid] = cursor
            cursor = self._followed(cursor)
        return [*reversed(path.values())]

    def _followed(self, line: ChainRecord) -> ChainRecord | None:
        """Return the previous line; if the link is dangling, the one before it in the file."""
        if line.link is None and line.kind not in ("boundary", "summary"):
            return None
        known = self._by_uuid.get(line.link or "")
        return known if known is not None else self._previous.get(line.uuid)

    def _node(self, line: ChainRecord, above: RecordNode | None) -> RecordNode:
        session = self._session(line, above)
        if above is not None and above.session != session and session not in self._forks:
            above = None
        node = RecordNode(
            line=line,
            above=above,
            session=session,
            stem=None if above is None else above.stem,
            finished=above is None or above.finished,
            weak=None if above is None else above.weak,
        )
        self._judge(node)
        return node

    def _session(self, line: ChainRecord, above: RecordNode | None) -> str:
        agent = self._agents.get(line.file)
        if agent is not None:
            return agent
        if not line.side:
            return MAIN
        if line.agent is not None:
            return line.agent
        # The oldest format: subagents are in the file of their session and have no names.
        return above.session if above is not None and above.line.side else line.uuid

    def _judge(self, node: RecordNode) -> None:
        line, stem = node.line, node.stem
        match line.kind:
            case "prompt":
                self._begin(node, "normal")
                node.finished, node.weak = False, None
            case "boundary" if stem is not None:
                self._begin(node, "compaction")
                node.finished, node.weak = True, None
            case "summary" if stem is not None:
                if not _awaits_summary(node):
                    self._begin(node, "compaction")
                node.finished, node.weak = True, None
            case "answer":
                self._answered(node)
            case "stop":
                node.finished, node.weak = True, None
            case "result":
                node.finished, node.weak = False, None
            case "command" | "injected" if node.finished:
                node.weak = node.weak or node
            case "printed":
                node.weak = None
            case _:
                pass

    def _answered(self, node: RecordNode) -> None:
        if node.finished and node.weak is not None:
            begun = node.weak.stem
            if begun is None or begun.start is not node.weak.line:
                begun = self._begin(node.weak, "normal")
            cursor = node.above
            while cursor is not None and cursor is not node.weak:
                cursor.stem, cursor.weak, cursor.finished = begun, None, False
                cursor = cursor.above
            node.weak.finished, node.weak.weak = False, None
            node.stem = begun
        elif node.stem is not None and node.stem.kind == "compaction":
            self._begin(node, "continued")
        node.finished, node.weak = _ends(node.line), None

    def _begin(self, node: RecordNode, kind: StemKind) -> Stem:
        """Start a turn at a node, below the turn the node belonged to until now."""
        parent = node.stem
        stem = Stem(
            key=Key(node.line.uuid),
            kind=kind,
            session=node.session,
            start=node.line,
            parent=parent,
            above=node.above,
            depth=1 if parent is None else parent.depth + 1,
            before=list(_leading(node.above)) if kind == "normal" else [],
        )
        self.stems.append(stem)
        node.stem = stem
        return stem


def _awaits_summary(node: RecordNode) -> bool:
    """Return whether a summary follows its boundary, with only asides between."""
    assert node.stem is not None, "asked of a summary in a turn"
    cursor = node.above
    for _ in range(_ABOVE_MAX):
        if cursor is None or cursor.line.kind not in _LEADING:
            break
        cursor = cursor.above
    return cursor is not None and cursor.line.kind == "boundary"


def _leading(above: RecordNode | None) -> Iterator[ChainRecord]:
    """Yield the context between the last message and a new prompt, the oldest first."""
    found: list[ChainRecord] = []
    while above is not None and len(found) < _ABOVE_MAX:
        # A summary of turns that are not in the file is not a turn, but the model has read it.
        lone = above.line.kind in ("boundary", "summary") and above.stem is None
        if above.line.kind not in _LEADING and not lone:
            break
        found.append(above.line)
        above = above.above
    yield from reversed(found)


def _ends(line: ChainRecord) -> bool:
    """Return whether an answer requests nothing more. Old files give no stop reason."""
    if is_error(line):
        return True
    return text(line.message.get("stop_reason")) not in _UNFINISHED and not calls_in(line)


def _cut(stems: Sequence[Stem]) -> Iterator[Stem]:
    """Yield the turns, parents first; before a fork from the middle of a turn, its first part.

    The fork has never seen what came after that point.
    """
    cuts: dict[tuple[Key, str], Stem] = {}
    last_new: dict[Key, int] = {}
    for stem in stems:
        parent, above = stem.parent, stem.above
        if parent is not None and above is not None and len(cuts) < CUTS_MAX:
            place = above.line.place
            if parent.key not in last_new:
                last_new[parent.key] = _last_new_answer(parent)
            if last_new[parent.key] > place:
                cut = (parent.key, above.line.uuid)
                if cut not in cuts:
                    cuts[cut] = _until(parent, above.line)
                    yield cuts[cut]
                stem.parent = cuts[cut]
        yield stem


def _last_new_answer(stem: Stem) -> int:
    """Return the index where the last answer begins."""
    first: dict[str, int] = {}
    for line in stem.lines:
        if line.kind == "answer":
            first.setdefault(line.answer_id, line.place)
    return max(first.values(), default=-1)


def _until(stem: Stem, last: ChainRecord) -> Stem:
    return Stem(
        key=Key(f"{stem.key}@{last.uuid}"),
        kind=stem.kind,
        session=stem.session,
        start=stem.start,
        parent=stem.parent,
        above=stem.above,
        depth=stem.depth,
        before=stem.before,
        lines=[line for line in stem.lines if line.place <= last.place],
    )
