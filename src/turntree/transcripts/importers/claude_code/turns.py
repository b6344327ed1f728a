"""Draft a turn from its Claude Code records.

The tool writes a line for every block of an answer; here they become one message again, and its
usage is counted once. The ids of session, prompt and machine never enter a message: a fork copies
the prefix under new ids, and must share the ancestry.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turntree.core.ids import Timestamp
from turntree.core.message import Part, Source, Text, ToolUse
from turntree.core.turn import AgentRole, Outcome
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.transcripts.drafts import DraftCompaction, DraftTurn, Key
from turntree.transcripts.importers.claude_code.chain import Stem
from turntree.transcripts.importers.claude_code.messages import (
    CONTEXT_TEXT_MAX,
    GrowingMessage,
    circumstances,
    piece,
    provider_of,
    source_of,
    typed,
    usage_of,
)
from turntree.transcripts.importers.claude_code.parts import (
    files_in,
    lints_in_words,
    lints_of_call,
    part_of,
    result_of,
)
from turntree.transcripts.importers.claude_code.records import (
    SYNTHETIC,
    ChainRecord,
    is_error,
    words_of,
)
from turntree.transcripts.importers.shared.lenient_json import mapping, number, text, word

DELEGATING: Final = frozenset({"Agent", "Task"})
_USUAL_ENDS: Final = frozenset({"end_turn", "tool_use", "pause_turn"})


@value
class TurnDraft:
    """A draft, its calls, those that may have started subagents, and leftover records."""

    turn: DraftTurn
    calls: Sequence[str]
    delegations: Sequence[ToolUse]
    orphans: Sequence[int]


def draft(
    stem: Stem,
    *,
    worker: bool,
    may_go_on: bool,
    first_kept: Key | None,
    since: Timestamp,
    requests: Mapping[str, int],
) -> TurnDraft:
    """Return the draft of a turn.

    ``since`` is the time of a turn that has none; ``requests`` maps a request to its record.
    """
    told = _Exchange(stem, worker=worker)
    told.take(stem.start)
    for line in stem.lines:
        if line is not stem.start:
            told.take(line)
    started = stem.start.at or since
    times = [line.at for line in stem.lines if line.at is not None and line.speaks]
    outcome = told.outcome
    delegations = [use for use in told.uses.values() if use.tool in DELEGATING]
    role: AgentRole = "manager" if delegations else "unified"
    calls = tuple(told.model_calls())
    turn = DraftTurn(
        key=stem.key,
        parent=None if stem.parent is None else stem.parent.key,
        query=tuple(said.message() for said in told.query),
        reply=tuple(said.message() for said in told.reply if said.parts),
        started_at=started,
        sealed_at=max((started, *times)),
        outcome=outcome,
        kind="compaction" if stem.kind == "compaction" else "normal",
        agent_role="worker" if worker else role,
        model=calls[-1].model if calls else None,
        provider=calls[-1].provider if calls else None,
        calls=calls,
        compaction=_compaction(stem, first_kept) if stem.kind == "compaction" else None,
        open=may_go_on and outcome == "interrupted" and not told.stopped,
        records=_places(stem, requests),
    )
    return TurnDraft(turn, [*told.uses], delegations, told.orphans)


class _Exchange:
    """The query and the reply, built line by line."""

    def __init__(self, stem: Stem, *, worker: bool) -> None:
        self.query: list[GrowingMessage] = []
        self.reply: list[GrowingMessage] = []
        self.uses: dict[str, ToolUse] = {}
        self.orphans: list[int] = []
        self.stopped = False
        self._stem = stem
        self._worker = worker
        self._answers: dict[str, GrowingMessage] = {}
        self._last_lines: dict[str, ChainRecord] = {}
        self._answered: set[str] = set()
        self._sent: GrowingMessage | None = None
        self._pending: list[ChainRecord] = []
        self._last: ChainRecord | None = None

    def take(self, line: ChainRecord) -> None:
        """Add the next line of the turn."""
        if line.speaks:
            self._last = line
            self.stopped = line.kind == "stop"
        asking = self._stem.kind == "normal" and not self._answers
        match line.kind:
            case "answer":
                self._take_answer(line)
            case "result":
                self._take_results(line)
            case "summary" if self._stem.kind == "compaction":
                self.reply.append(GrowingMessage("assistant", line.at, parts=_parts(line)))
            case "prompt" | "command" | "injected" if asking:
                self._ask(line)
            case "attachment" | "printed" | "command" | "injected" | "summary" | "prompt":
                self._pending.append(line)
            case "stop" | "boundary" | "aside":
                pass

    @property
    def outcome(self) -> Outcome:
        """How the turn ended, by its last line."""
        last = self._last
        if last is None or not any(said.parts for said in self.reply):
            return "interrupted"
        if last.kind == "summary":
            return "completed"
        if last.kind != "answer":
            return "interrupted"
        if is_error(last):
            return "failed"
        asks = any(isinstance(part, ToolUse) for part in self._answers[last.answer_id].parts)
        waits = last.message.get("stop_reason") == "pause_turn"
        return "interrupted" if asks or waits else "completed"

    def model_calls(self) -> Iterator[ModelCall]:
        """Yield every model call once, with the usage of its last line."""
        for answer, line in self._last_lines.items():
            message = line.message
            model = word(message.get("model"))
            if model is not None and model != SYNTHETIC:
                call_id = word(answer) if answer != line.uuid else None
                usage = usage_of(mapping(message.get("usage")))
                yield ModelCall(model, usage, provider_of(model, answer), call_id)

    def _ask(self, line: ChainRecord) -> None:
        begins = line is self._stem.start
        parts = _parts(line)
        if not parts and not begins:
            return
        said = GrowingMessage("user", line.at, self._source(line), parts or [Text("")])
        mode = word(line.data.get("permissionMode"))
        if mode is not None and mode != "default":
            said.meta["permission_mode"] = mode
        said.put("lints", [*lints_in_words(words_of(line.blocks))])
        for above in self._stem.before if begins else ():
            said.put_line(above)
        self.query.append(said)
        self._sent = said

    def _source(self, line: ChainRecord) -> Source:
        if line is not self._stem.start or line.kind == "injected":
            return "event"
        if self._worker and self._stem.parent is None:
            return "agent"
        return source_of(line)

    def _take_answer(self, line: ChainRecord) -> None:
        key = line.answer_id
        said = self._answers.get(key)
        if said is None:
            if self._stem.kind == "continued" and not self.query:
                self._sent = _resumed(self._stem)
                self.query.append(self._sent)
            self._flush()
            said = self._answers[key] = GrowingMessage("assistant", line.at)
            self.reply.append(said)
        self._last_lines[key] = line
        for block in line.blocks:
            for part in part_of(block):
                if isinstance(part, ToolUse):
                    if part.call_id in self.uses:
                        continue
                    self.uses[part.call_id] = part
                said.parts.append(part)
        reason = word(line.message.get("stop_reason"))
        if reason is not None and reason not in _USUAL_ENDS:
            said.meta["stop_reason"] = reason
        if is_error(line):
            said.meta["api_error"] = True

    def _take_results(self, line: ChainRecord) -> None:
        said = GrowingMessage("tool", line.at)
        told = line.data.get("toolUseResult")
        for block in line.blocks:
            if block.get("type") != "tool_result":
                if words := text(block.get("text")):
                    said.put("attachments", [piece("text", words)])
                continue
            result = result_of(block, told)
            call = self.uses.get(result.call_id)
            if call is None or result.call_id in self._answered:
                continue
            self._answered.add(result.call_id)
            said.parts.append(result)
            said.put("files", [file.to_json() for file in files_in(call, result, told)])
            said.put("lints", lints_of_call(call, result))
        if said.parts:
            said.meta.update(circumstances(line))
            self.reply.append(said)
            self._sent = said
        else:
            self.orphans.append(line.place)

    def _flush(self) -> None:
        """Add pending context to the last input message: the next answer has read it."""
        if self._sent is not None:
            for line in self._pending:
                self._sent.put_line(line)
            self._pending.clear()


def _parts(line: ChainRecord) -> list[Part]:
    if line.kind == "command":
        return [Text(typed(words_of(line.blocks)))]
    # A person's message holds no calls, whatever a file says.
    return [
        part for block in line.blocks for part in part_of(block) if not isinstance(part, ToolUse)
    ]


def _resumed(stem: Stem) -> GrowingMessage:
    """Return the query after a compaction: the last paragraph of the summary's record.

    It asks the model to continue; no person spoke in between.
    """
    cursor = stem.above
    while cursor is not None and cursor.line.kind not in ("summary", "boundary"):
        cursor = cursor.above
    words = "" if cursor is None else words_of(cursor.line.blocks)
    last = next((part.strip() for part in reversed(words.split("\n\n")) if part.strip()), "")
    parts: list[Part] = [Text(last[:CONTEXT_TEXT_MAX])]
    return GrowingMessage("user", stem.start.at, "event", parts)


def _compaction(stem: Stem, first_kept: Key | None) -> DraftCompaction:
    told = mapping(stem.start.data.get("compactMetadata"))
    return DraftCompaction(
        first_kept=first_kept,
        trigger="context_limit" if told.get("trigger") == "auto" else "manual",
        tokens_before=number(told.get("preTokens")) or None,
        tokens_after=number(told.get("postTokens")) or None,
        duration_ms=number(told.get("durationMs")) or None,
    )


def _places(stem: Stem, requests: Mapping[str, int]) -> tuple[int, ...]:
    places = {line.place for line in (*stem.before, *stem.lines)}
    if requests:
        asked = (requests.get(text(line.data.get("requestRef"))) for line in stem.lines)
        places.update(place for place in asked if place is not None)
    return tuple(sorted(places))
