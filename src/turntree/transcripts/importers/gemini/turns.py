"""Project the messages of Gemini CLI as turns.

The transcript is a journal: a message may be repeated and then replaces the first one, a checkpoint
repeats the whole conversation, a rewind drops its end. Read as a tree, nothing is lost: each
message follows the previous one, and what was dropped is a branch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turntree.core.canonical import Json
from turntree.core.ids import Timestamp, instant
from turntree.core.message import Message, Source, Text, ToolUse
from turntree.core.turn import Outcome
from turntree.core.usage import ModelCall
from turntree.transcripts.drafts import DraftCompaction, DraftTurn, Key, SpawnCall
from turntree.transcripts.importers.gemini.records import (
    called,
    result_of,
    said_by_model,
    said_by_user,
    usage_of,
)
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, moment, text, word

_BEGINNING: Final = instant(0)
_COMPACTED: Final = "<state_snapshot>"


@dataclass(eq=False, slots=True)
class ChatNode:
    """A message at its position in the tree."""

    id: str
    record: Mapping[str, Any]
    parent: "ChatNode | None"
    depth: int
    is_compaction: bool = False
    children: dict[str, "ChatNode"] = field(default_factory=dict[str, "ChatNode"])
    places: list[int] = field(default_factory=list[int])
    responses: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Results of its calls that came as messages of their own, by call."""

    @property
    def begins(self) -> bool:
        """Whether a turn begins here: a person asks, or a summary replaces what came before."""
        return self.is_compaction or (
            self.record.get("type") == "user" and bool(said_by_user(self.record).parts)
        )


class GeminiChat:
    """The tree of messages in the files of one session."""

    def __init__(self) -> None:
        self.nodes: list[ChatNode] = []
        self.tokens = 0
        """The tokens that all messages report: a rewritten message reports them again."""
        self._roots: dict[str, ChatNode] = {}
        self._by_id: dict[str, ChatNode] = {}
        self._answers: dict[str, ChatNode] = {}
        self._path: list[ChatNode] = []

    @property
    def end(self) -> ChatNode | None:
        """The last message of the file that is being read."""
        return self._path[-1] if self._path else None

    def begin_file(self) -> None:
        """Start another file, which repeats the conversation from its start."""
        self._path = []

    def put(self, record: Mapping[str, Any], place: int) -> None:
        """Add a message; one with a known id replaces the existing one."""
        id = text(record.get("id"))
        if self._take_answer(id, record, place):
            return
        known = self._by_id.get(id)
        if known is None or not self._stands(known):
            known = self._child(id, record)
        known.record = record
        known.places.append(place)
        self._tell(record)

    def _tell(self, record: Mapping[str, Any]) -> None:
        usage = usage_of(record.get("tokens"))
        self.tokens += 0 if usage is None else usage.total

    def _take_answer(self, id: str, record: Mapping[str, Any], place: int) -> bool:
        """Attach results to the message with the calls: they return under other ids."""
        said = said_by_user(record) if record.get("type") == "user" else None
        if said is None or not said.is_answer or (end := self.end) is None:
            return False
        for response in said.responses:
            end.responses.setdefault(word(response.get("id")) or "", response)
        end.places.append(place)
        self._answers[id] = end
        return True

    def restore(self, messages: list[Any], place: int) -> None:
        """Apply a checkpoint: from here on the conversation is this list.

        Known messages keep their first version. A checkpoint is written on resuming, with new times
        and without tokens, models and results.
        """
        told = [mapping(message) for message in messages if text(mapping(message).get("id"))]
        summary = next((m for m in told if _COMPACTED in said_by_user(m).text), None)
        if summary is not None and self._path and text(summary.get("id")) not in self._by_id:
            self._child(text(summary.get("id")), summary, is_compaction=True).places.append(place)
            return
        old, self._path = self._path, []
        for message in told:
            id = text(message.get("id"))
            at = len(self._path)
            if self._take_answer(id, message, place):
                continue
            if at < len(old) and old[at].id == id:
                self._path.append(old[at])
            else:
                known = self._by_id.get(id)
                node = self._child(id, message if known is None else known.record)
                node.places.append(place)
                self._tell(message)

    def rewind(self, id: str) -> None:
        """Drop a message and all after it; without such a message, everything."""
        known, answered = self._by_id.get(id), self._answers.get(id)
        if known is not None and self._stands(known):
            del self._path[known.depth :]
        elif answered is not None and self._stands(answered):
            del self._path[answered.depth + 1 :]
        else:
            self._path.clear()

    def _stands(self, node: ChatNode) -> bool:
        return node.depth < len(self._path) and self._path[node.depth] is node

    def _child(
        self, id: str, record: Mapping[str, Any], *, is_compaction: bool = False
    ) -> ChatNode:
        end = self.end
        siblings = self._roots if end is None else end.children
        node = siblings.get(id)
        if node is None:
            node = ChatNode(id, record, end, len(self._path), is_compaction)
            siblings[id] = node
            self.nodes.append(node)
        self._by_id[id] = node
        self._path.append(node)
        return node


@dataclass(slots=True)
class TurnReader:
    """Turns of one session, by the message each ends in."""

    session: str
    sender: Source
    drafts: list[DraftTurn] = field(default_factory=list[DraftTurn])
    spawned: dict[str, SpawnCall] = field(default_factory=dict[str, SpawnCall])
    _ends: dict[int, Key | None] = field(default_factory=dict[int, Key | None])
    _early: dict[int, list[ChatNode]] = field(default_factory=dict[int, list[ChatNode]])
    """What came before a question without being one, by the message it ends in."""

    def tell(self, conversation: GeminiChat, last: ChatNode | None) -> None:
        """Make a turn of each stretch between two questions, on every branch."""
        for node in conversation.nodes:
            if not node.children or any(child.begins for child in node.children.values()):
                self._tell_one(node, is_last=node is last)

    def head_at(self, node: ChatNode | None) -> Key | None:
        """Return the turn that ends with a message."""
        return None if node is None else self._ends.get(id(node))

    def _tell_one(self, end: ChatNode, *, is_last: bool) -> None:
        stretch = [end]
        while not stretch[-1].begins and stretch[-1].parent is not None:
            stretch.append(stretch[-1].parent)
        stretch.reverse()
        stretch = [*self._early.get(id(stretch[0].parent), ()), *stretch]
        first = stretch[0]
        parent = None if first.parent is None else self._ends.get(id(first.parent))
        draft = _GeminiDraft(self.sender)
        for node in stretch:
            draft.add(node)
        key = Key(f"{self.session}/{len(self.drafts)}")
        turn = draft.turn(key, parent, is_last=is_last)
        if turn is None:
            # Context without a question yet becomes part of the first question's turn.
            self._ends[id(end)] = parent
            self._early[id(end)] = stretch
            return
        self.drafts.append(turn)
        self._ends[id(end)] = key
        for agent, call, task in draft.agents:
            self.spawned.setdefault(agent, SpawnCall(key, call, task))


class _GeminiDraft:
    """A turn whose messages are being read."""

    def __init__(self, sender: Source) -> None:
        self._sender: Source = sender
        self._query: list[Message] = []
        self._reply: list[Message] = []
        self._harness: list[Json] = []
        self._notices: list[Json] = []
        self._calls: list[ModelCall] = []
        self._uses: dict[str, ToolUse] = {}
        self._answered: set[str] = set()
        self._places: list[int] = []
        self._moments: list[Timestamp] = []
        self._model: str | None = None
        self._compacted = False
        self._failed = False
        self.agents: list[tuple[str, str, str | None]] = []

    def add(self, node: ChatNode) -> None:
        record = node.record
        self._places += node.places
        at = moment(record.get("timestamp"))
        self._moments += [at] if at else []
        if node.is_compaction:
            self._compacted = True
            words = said_by_user(record).text
            self._reply.append(Message("assistant", (Text(words),), None, at))
            return
        match record.get("type"):
            case "user":
                self._add_user(node, at)
            case "gemini":
                self._add_model(node, at)
            case kind:
                self._failed = self._failed or kind == "error"
                words = said_by_user(record).text or text(record.get("content"))
                self._notices.append({"kind": text(kind), "text": words})

    def _add_user(self, node: ChatNode, at: Timestamp | None) -> None:
        said = said_by_user(node.record)
        self._harness += said.harness
        if said.parts:
            meta: dict[str, Json] | None = {"shown": said.shown} if said.shown else None
            self._query.append(Message("user", said.parts, self._sender, at, meta=meta))
        for response in said.responses:
            self._answer(response, {}, at)

    def _add_model(self, node: ChatNode, at: Timestamp | None) -> None:
        record = node.record
        self._model = word(record.get("model")) or self._model
        if (usage := usage_of(record.get("tokens"))) is not None:
            self._calls.append(ModelCall(self._model or "unknown", usage, "google"))
        parts = [*said_by_model(record)]
        calls = [call for call in called(record) if call.use.call_id not in self._uses]
        parts += [call.use for call in calls]
        if parts:
            self._reply.append(Message("assistant", tuple(parts), None, at))
        for call in calls:
            self._uses[call.use.call_id] = call.use
            self._moments += [call.at] if call.at else []
            if call.agent:
                self.agents.append((call.agent, call.use.call_id, call.task))
        for call in calls:
            for response in call.responses:
                self._answer(response, call.record, call.at or at)
        for response in node.responses.values():
            self._answer(response, {}, at)

    def _answer(
        self, response: Mapping[str, Any], record: Mapping[str, Any], at: Timestamp | None
    ) -> None:
        """Add a result once, although it is recorded with its call and as a message."""
        id = word(response.get("id")) or word(record.get("id")) or ""
        if id in self._uses and id not in self._answered:
            self._answered.add(id)
            self._reply.append(result_of(self._uses[id], response, record, at))

    def turn(self, key: Key, parent: Key | None, *, is_last: bool) -> DraftTurn | None:
        if not self._query and not self._reply:
            return None
        started = self._query[0].at if self._query else None
        started = started or min(self._moments, default=_BEGINNING)
        outcome = self._outcome()
        is_compaction = self._compacted and parent is not None
        return DraftTurn(
            key, parent, () if is_compaction else self._whole_query(), tuple(self._reply),
            started, max(self._moments, default=started), outcome=outcome,
            kind="compaction" if is_compaction else "normal", model=self._model,
            provider="google" if self._model else None, calls=tuple(self._calls),
            compaction=DraftCompaction(trigger="context_limit") if is_compaction else None,
            open=is_last and outcome == "interrupted", records=tuple(self._places),
        )  # fmt: skip

    def _outcome(self) -> Outcome:
        last = self._reply[-1] if self._reply else None
        waits = len(self._answered) < len(self._uses)
        if last is not None and last.role == "assistant" and not waits:
            return "completed"
        return "failed" if self._failed else "interrupted"

    def _whole_query(self) -> tuple[Message, ...]:
        context: dict[str, Json] = {}
        if self._harness:
            context["harness"] = self._harness
        if self._notices:
            context["notices"] = self._notices
        first, *rest = self._query or [Message("user", (), "event")]
        whole = Message(
            first.role, first.parts, first.source, first.at, context or None, first.meta
        )
        return (whole, *rest)


def messages_in(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the operations of a record: ``put``, ``restore``, ``rewind`` or ``set``."""
    if isinstance(record.get("$rewindTo"), str):
        yield "rewind", record["$rewindTo"]
    elif isinstance(record.get("id"), str) and "type" in record:
        yield "put", record
    elif "$set" in record or "sessionId" in record:
        told = mapping(record.get("$set")) or record
        yield "set", {name: value for name, value in told.items() if name != "messages"}
        if isinstance(told.get("messages"), list):
            yield "restore", entries(told["messages"])
    else:
        yield "unknown", text(record.get("type")) or "untyped"
