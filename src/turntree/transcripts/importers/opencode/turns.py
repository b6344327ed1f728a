"""Project the messages of opencode as turns.

A question and all answers that name it as their parent are a turn. opencode's ids never enter a
turn: a fork copies messages under new ids and keeps everything else, so its copies are the same
turns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp, instant
from turntree.core.message import Message, Part, Source, Text
from turntree.core.message_context import TouchedFile
from turntree.core.turn import Outcome
from turntree.core.usage import ModelCall
from turntree.transcripts.drafts import DraftCompaction, DraftTurn, Key
from turntree.transcripts.importers.opencode.parts import (
    ToolCallPart,
    attached,
    call_in,
    files_written,
    said_by_model,
    said_by_user,
    usage_of,
)
from turntree.transcripts.importers.opencode.storage import Document
from turntree.transcripts.importers.shared.lenient_json import mapping, moment, text, word

_BEGINNING: Final = instant(0)
_ABORTED: Final = "MessageAbortedError"
_GOES_ON: Final = ("tool-calls", "unknown")
_QUIET: Final = frozenset({"step-start", "step-finish", "snapshot", "agent", "retry"})


@dataclass(slots=True)
class Exchange:
    """A question with its answers, each with its parts in order."""

    question: Document | None
    answers: list[Document] = field(default_factory=list[Document])

    @property
    def documents(self) -> list[Document]:
        """All messages, the question first."""
        return [*([] if self.question is None else [self.question]), *self.answers]


def exchanges_in(messages: Sequence[Document]) -> list[Exchange]:
    """Return questions with their answers, in the order they were asked."""
    ordered = sorted(messages, key=lambda m: (created_at(m) or _BEGINNING, m.id))
    found: list[Exchange] = []
    by_question: dict[str, Exchange] = {}
    for message in ordered:
        if message.told.get("role") == "user":
            found.append(Exchange(message))
            by_question[message.id] = found[-1]
            continue
        asked = by_question.get(text(message.told.get("parentID")))
        if asked is None:
            if not found:
                found.append(Exchange(None))
            asked = found[-1]
        asked.answers.append(message)
    return found


def created_at(message: Document) -> Timestamp | None:
    """Return when a message began."""
    told = mapping(message.told.get("time"))
    return moment(told.get("created")) or moment(message.told.get("time_created"))


class TurnBuilder:
    """A turn whose messages are being read."""

    def __init__(self, sender: Source, unknown: dict[str, int]) -> None:
        self._sender: Source = sender
        self._unknown = unknown
        self._query: list[Message] = []
        self._reply: list[Message] = []
        self._calls: list[ModelCall] = []
        self._seen: set[str] = set()
        self._places: list[int] = []
        self._moments: list[Timestamp] = []
        self._model: str | None = None
        self._provider: str | None = None
        self._outcome: Outcome = "interrupted"
        self._is_summary = False
        self.compaction: Mapping[str, Any] | None = None
        self.begun: list[tuple[str, str, str | None]] = []

    def ask(self, message: Document, parts: Sequence[Document]) -> None:
        """Add a question."""
        self._note(message, parts)
        told = message.told
        model = mapping(told.get("model"))
        self._model, self._provider = word(model.get("modelID")), word(model.get("providerID"))
        if system := text(told.get("system")):
            self._query.append(Message("system", (Text(system),), None, created_at(message)))
        said: list[Part] = []
        harness: list[Json] = []
        files: list[TouchedFile] = []
        for part in parts:
            if part.told.get("type") == "compaction":
                self.compaction = part.told
            words = text(part.told.get("text"))
            if part.told.get("synthetic") is True or part.told.get("ignored") is True:
                harness.append({"kind": "synthetic", "text": words})
            elif (found := said_by_user(part.told)) is not None:
                said.append(found)
            else:
                self._count(part)
            files += attached(part.told)
        context: dict[str, Json] = {}
        if harness:
            context["harness"] = harness
        if files:
            context["files"] = [file.to_json() for file in files]
        if agent := word(told.get("agent")):
            context["agent"] = agent
        at = created_at(message)
        self._query.append(Message("user", tuple(said), self._sender, at, context or None))

    def answer(self, message: Document, parts: Sequence[Document]) -> None:
        """Add one answer: what a model said and did in one or several steps."""
        self._note(message, parts)
        told = message.told
        self._model = word(told.get("modelID")) or self._model
        self._provider = word(told.get("providerID")) or self._provider
        self._is_summary = self._is_summary or told.get("summary") is True
        meta = _meta(told, parts)
        for step in _steps(parts):
            self._step(message, step, meta)
            meta = None
        for tokens in _tokens(told, parts):
            usage = usage_of(tokens)
            if usage.total:
                self._calls.append(ModelCall(self._model or "unknown", usage, self._provider))
        self._outcome = _outcome(told)

    def _step(
        self, message: Document, step: Sequence[Document], meta: Mapping[str, Json] | None
    ) -> None:
        said: list[Part] = []
        calls: list[ToolCallPart] = []
        files: list[TouchedFile] = []
        for part in step:
            call = call_in(part.told)
            if call is not None and call.use.call_id not in self._seen:
                self._seen.add(call.use.call_id)
                said.append(call.use)
                calls.append(call)
            elif (found := said_by_model(part.told)) is not None:
                said.append(found)
            elif call is None:
                self._count(part)
            files += files_written(part.told)
        at = next((began for part in step if (began := _began(part))), created_at(message))
        context: dict[str, Json] = {"files": [file.to_json() for file in files]}
        if said or files:
            self._reply.append(
                Message("assistant", tuple(said), None, at, context if files else None, meta)
            )
        for call in calls:
            if call.result is not None:
                self._reply.append(call.result)
            self._moments += [call.ended] if call.ended else []
            if call.began:
                self.begun.append((call.began, call.use.call_id, call.task))

    def turn(
        self, key: Key, parent: Key | None, kept: Key | None, *, is_last: bool
    ) -> DraftTurn | None:
        """Return the turn, or None if it has no content."""
        if not self._query and not self._reply:
            return None
        outcome = self._outcome
        if outcome == "completed" and not any(said.role == "assistant" for said in self._reply):
            outcome = "interrupted"
        started = min(self._moments, default=_BEGINNING)
        is_compaction = self.compaction is not None and self._is_summary and parent is not None
        query = tuple(self._query) or (Message("user", (), "event"),)
        if self.compaction is not None and not is_compaction:
            query = tuple(replace(said, source="event") for said in query)
        return DraftTurn(
            key, parent, () if is_compaction else query, tuple(self._reply),
            started, max(self._moments, default=started), outcome=outcome,
            kind="compaction" if is_compaction else "normal", model=self._model,
            provider=self._provider, calls=tuple(self._calls),
            compaction=self._details(kept) if is_compaction else None,
            open=is_last and outcome == "interrupted", records=tuple(self._places),
        )  # fmt: skip

    def _details(self, kept: Key | None) -> DraftCompaction:
        auto = mapping(self.compaction).get("auto") is True
        return DraftCompaction(first_kept=kept, trigger="context_limit" if auto else "manual")

    def _note(self, message: Document, parts: Sequence[Document]) -> None:
        self._places += [message.place, *(part.place for part in parts)]
        told = mapping(message.told.get("time"))
        found = (created_at(message), moment(told.get("completed")))
        self._moments += [at for at in found if at is not None]

    def _count(self, part: Document) -> None:
        kind = text(part.told.get("type")) or "untyped"
        if kind not in _QUIET and kind not in ("text", "reasoning", "compaction", "patch"):
            self._unknown[f"part/{kind}"] = self._unknown.get(f"part/{kind}", 0) + 1


def _steps(parts: Sequence[Document]) -> Iterator[list[Document]]:
    """Yield the parts of each step: calls of one step get results before the next begins."""
    step: list[Document] = []
    for part in parts:
        if part.told.get("type") == "step-start" and step:
            yield step
            step = []
        step.append(part)
    if step:
        yield step


def _began(part: Document) -> Timestamp | None:
    return moment(mapping(part.told.get("time")).get("start"))


def _meta(told: Mapping[str, Any], parts: Sequence[Document]) -> dict[str, Json] | None:
    meta: dict[str, Json] = {}
    snapshots = [found for part in parts if (found := word(part.told.get("snapshot")))]
    if snapshots:
        meta["snapshots"] = [*dict.fromkeys(snapshots)]
    if retries := sum(part.told.get("type") == "retry" for part in parts):
        meta["retries"] = retries
    if error := mapping(told.get("error")):
        meta["error"] = tidy(dict(error))
    return meta or None


def _tokens(told: Mapping[str, Any], parts: Sequence[Document]) -> list[Mapping[str, Any]]:
    steps = [part.told for part in parts if part.told.get("type") == "step-finish"]
    return [mapping(step.get("tokens")) for step in steps or [told]]


def _outcome(told: Mapping[str, Any]) -> Outcome:
    if error := mapping(told.get("error")):
        return "interrupted" if error.get("name") == _ABORTED else "failed"
    is_done = moment(mapping(told.get("time")).get("completed")) is not None
    return "completed" if is_done and told.get("finish") not in _GOES_ON else "interrupted"
