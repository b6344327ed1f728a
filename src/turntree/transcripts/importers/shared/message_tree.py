"""Split trees of messages, as hosted chats export them, into turns.

Every path is kept: where a person edited a question or regenerated an answer, turns become
siblings. Knows roles and order, not a vendor or a file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from turntree.core.canonical import Json
from turntree.core.ids import Timestamp
from turntree.core.message import Message, Part, ToolResult, ToolStatus, ToolUse
from turntree.core.turn import Outcome
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.transcripts.drafts import DraftTurn, Key
from turntree.transcripts.importers.shared.lenient_json import word

NEVER: Final = Timestamp("1970-01-01T00:00:00.000Z")
UNKNOWN_TOOL: Final = "unknown"
"""The tool name of a call that only its result mentions."""


@value
class ToolResultNode:
    """A tool result whose call the source does not name."""

    tool: str
    status: ToolStatus
    output: Json
    parts: tuple[Part, ...] = ()
    """Images and other parts that came with it."""
    meta: Mapping[str, Json] | None = None


@value
class MessageNode:
    """One entry of a tree; without messages and result it only connects others."""

    id: str
    parent: str | None
    asks: bool = False
    """Whether it was sent to the model; otherwise it answers."""
    messages: tuple[Message, ...] = ()
    result: ToolResultNode | None = None
    at: Timestamp | None = None
    until: Timestamp | None = None
    model: str | None = None
    unfinished: bool = False
    calls: tuple[ModelCall, ...] = ()
    places: tuple[int, ...] = ()
    """The indexes of its records."""

    @property
    def is_silent(self) -> bool:
        """Whether it only connects others."""
        return not self.messages and self.result is None


@dataclass(slots=True)
class MessageTree:
    """A conversation's nodes, in any order, and the turns they make."""

    nodes: Mapping[str, MessageNode]
    start: Timestamp
    """Replaces missing timestamps."""
    current: str | None
    """The node that was displayed last."""
    provider: str | None = None
    turns: list[DraftTurn] = field(default_factory=list[DraftTurn])
    _begins: set[str] = field(default_factory=set[str])
    _ended: dict[str, Key | None] = field(default_factory=dict[str, Key | None])
    """For each last node of a turn, that turn; where there is none, the one before."""
    _sealed: dict[Key, Timestamp] = field(default_factory=dict[Key, Timestamp])

    def __post_init__(self) -> None:
        """Split the tree into turns, parents first."""
        children, order = self._walk()
        for id in order:
            below = children.get(id, [])
            if not below or any(child in self._begins for child in below):
                self._end(id)

    @property
    def head(self) -> Key | None:
        """The turn of the node that was displayed last, or the last turn of all."""
        at, seen = self.current, set[str]()
        while at is not None and at in self.nodes and at not in seen:
            if (key := self._ended.get(at)) is not None:
                return key
            seen.add(at)
            at = self.nodes[at].parent
        return self.turns[-1].key if self.turns else None

    def _walk(self) -> tuple[dict[str, list[str]], list[str]]:
        """Return the children of each node and an order, parents first.

        Nodes in a cycle have no root and are skipped.
        """
        children: dict[str, list[str]] = {}
        roots: list[str] = []
        for id, node in self.nodes.items():
            known = node.parent is not None and node.parent in self.nodes
            (children.setdefault(str(node.parent), []) if known else roots).append(id)
        order: list[str] = []
        answering: dict[str | None, bool] = {None: False}
        waiting = roots[::-1]
        while waiting:
            id = waiting.pop()
            node = self.nodes[id]
            before = answering.get(node.parent, False)
            if node.asks and not node.is_silent and before:
                self._begins.add(id)
            answering[id] = before if node.is_silent else not node.asks
            order.append(id)
            waiting += children.get(id, [])[::-1]
        return children, order

    def _end(self, id: str) -> None:
        """Make a turn of the path that ends in a node."""
        path: list[MessageNode] = []
        at: str | None = id
        while at is not None and at in self.nodes:
            node = self.nodes[at]
            path.append(node)
            at = node.parent
            if node.id in self._begins:
                break
        path.reverse()
        parent = None if at is None else self._ended.get(at)
        turn = self._turn(Key(id), path, parent)
        self._ended[id] = parent if turn is None else turn.key
        if turn is not None:
            self._sealed[turn.key] = turn.sealed_at
            self.turns.append(turn)

    def _turn(self, key: Key, path: Sequence[MessageNode], parent: Key | None) -> DraftTurn | None:
        query = tuple(said for node in path if node.asks for said in node.messages)
        spoken = [node for node in path if not node.asks and not node.is_silent]
        if not spoken and not any(said.role == "user" for said in query):
            return None
        times = [at for node in path for at in (node.at, node.until) if at is not None]
        before = self.start if parent is None else self._sealed[parent]
        start = times[0] if times else before
        running = not spoken or spoken[-1].unfinished
        outcome: Outcome = "interrupted" if running else "completed"
        models = [node.model for node in spoken if node.model is not None]
        return DraftTurn(
            key,
            parent,
            # An answer without a question answers an empty system message.
            query or (Message("system", ()),),
            _reply(spoken),
            start,
            max((start, *times)),
            outcome,
            model=models[-1] if models else None,
            provider=self.provider,
            calls=tuple(call for node in path for call in node.calls),
            open=running and key == self.current,
            records=tuple(dict.fromkeys(place for node in path for place in node.places)),
        )


def _reply(spoken: Iterable[MessageNode]) -> tuple[Message, ...]:
    """Return the reply; a result goes to its call, and gets one where there is none."""
    reply: list[Message] = []
    waiting: list[ToolUse] = []
    for node in spoken:
        reply += node.messages
        for said in node.messages:
            answered = {result.call_id for result in said.tool_results}
            waiting = [call for call in waiting if call.call_id not in answered]
            waiting += [part for part in said.parts if isinstance(part, ToolUse)]
        if (result := node.result) is None:
            continue
        call = next((call for call in reversed(waiting) if call.tool == result.tool), None)
        call = call or (waiting[-1] if waiting else None)
        if call is None:
            call = ToolUse(f"call_{word(node.id)}", result.tool, {})
            reply.append(Message("assistant", (call,), at=node.at))
        else:
            waiting.remove(call)
        answer = ToolResult(call.call_id, result.status, result.output)
        reply.append(Message("tool", (answer, *result.parts), at=node.at, meta=result.meta))
    return _told_apart(reply)


def _told_apart(reply: Iterable[Message]) -> tuple[Message, ...]:
    """Give every call of a turn a unique id and every result a call.

    Sources reuse ids, and hold results whose call is in an earlier turn or missing.
    """
    told: list[Message] = []
    taken: set[str] = set()
    waiting: dict[str, list[str]] = {}
    for said in reply:
        parts: list[Part] = []
        for part in said.parts:
            match part:
                case ToolUse(id, tool, args):
                    free = _free(id, taken)
                    waiting.setdefault(id, []).append(free)
                    parts.append(part if free == id else ToolUse(free, tool, args))
                case ToolResult(id, status, output):
                    if not waiting.get(id):
                        lost = ToolUse(_free(id, taken), UNKNOWN_TOOL, {})
                        waiting[id] = [lost.call_id]
                        told.append(Message("assistant", (lost,), at=said.at))
                    answers = waiting[id].pop(0)
                    parts.append(part if answers == id else ToolResult(answers, status, output))
                case _:
                    parts.append(part)
        told.append(replace(said, parts=tuple(parts)))
    return tuple(told)


def _free(id: str, taken: set[str]) -> str:
    free = id
    while free in taken:
        free = f"{id}#{len(taken)}"
    taken.add(free)
    return free
