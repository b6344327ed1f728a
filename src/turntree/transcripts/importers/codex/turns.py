"""Project the lines of a rollout as turns.

A parser reads lines in order and closes a turn where Codex says that it ended, where the next one
begins, or where a message came in the middle of it. A closed turn does not change any more, so a
fork that shares a start shares its turns. A parser can be split in two: the second one continues
from the same state, in another rollout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from turntree.core.canonical import Json, tidy
from turntree.core.compaction import CompactionTrigger
from turntree.core.ids import instant
from turntree.core.message import Message, OpaquePart, Part, Source, Text, ToolResult, ToolStatus
from turntree.core.turn import Outcome
from turntree.core.usage import ModelCall
from turntree.transcripts.drafts import DraftCompaction, DraftTurn, Key, SpawnCall
from turntree.transcripts.importers.codex.drafts import (
    OpenTurn,
    ParseState,
    RolloutLine,
    attached_files,
    less,
    moment_in,
    task_in,
    threads_named,
)
from turntree.transcripts.importers.codex.records import (
    ToolReport,
    call_of,
    content_part,
    output_of,
    reasoning_parts,
    report_of,
    said_of,
    usage_of,
)
from turntree.transcripts.importers.shared.lenient_json import (
    entries,
    mapping,
    moment,
    number,
    text,
    word,
)

BEGINNING: Final = instant(0)
"""The timestamp of a line without one."""
_SETTINGS: Final = (
    "approval_policy", "sandbox_policy", "permission_profile", "network", "effort", "personality",
)  # fmt: skip
_QUIET_LINES: Final = frozenset({
    "session_meta", "world_state", "security_risk_score", "inter_agent_communication_metadata",
    "state",
})  # fmt: skip
_QUIET: Final = frozenset({
    "thread_goal_updated", "thread_name_updated", "undo_completed", "guardian_assessment",
    "user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content",
    "entered_review_mode", "exited_review_mode", "context_compacted", "image_generation_end",
    "item_completed", "view_image_tool_call", "error", "warning", "stream_error", "turn_diff",
    "exec_command_end", "patch_apply_end", "mcp_tool_call_end", "web_search_end", "plan_update",
    "collab_agent_spawn_end", "sub_agent_activity", "background_event", "model_reroute",
})  # fmt: skip


class RolloutParser:
    """Reads the lines of one rollout, or of several that continue each other."""

    def __init__(self, tale: ParseState) -> None:
        self._tale = tale
        self.head: Key | None = None
        self.title: str | None = None
        self._turn: OpenTurn | None = None
        self._early: list[int] = []
        self._model: str | None = None
        self._provider: str | None = None
        self._sender: Source = "human"
        self._sender_from = 0
        self._is_own = True
        self._total: Mapping[str, Any] = {}
        self._context_tokens = 0

    def split(self) -> "RolloutParser":
        """Return another parser in the same state."""
        other = RolloutParser(self._tale)
        other.head, other.title = self.head, self.title
        other._turn = None if self._turn is None else self._turn.copy()
        other._model, other._provider = self._model, self._provider
        other._total, other._context_tokens = self._total, self._context_tokens
        return other

    def enter(
        self, provider: str | None, sender: Source, sender_from: int, *, is_own: bool
    ) -> None:
        """Start a rollout; ``sender`` sends the messages from ordinal ``sender_from`` on."""
        self._provider, self._sender, self._sender_from = provider, sender, sender_from
        self._is_own = is_own

    def read(self, line: RolloutLine) -> None:
        """Read one line."""
        payload = line.payload
        match line.kind:
            case "response_item":
                self._item(line)
            case "event_msg":
                self._event(line)
            case "turn_context":
                self._settle(line)
            case "compacted":
                self._compact(line)
            case "token_usage_record":
                usage = usage_of(mapping(payload.get("usage")))
                self._context_tokens = usage.context + usage.output
                id = word(payload.get("response_id"))
                if self._turn is not None:
                    model = self._model or "unknown"
                    self._turn.calls.append(ModelCall(model, usage, self._provider, id))
            case "inter_agent_communication":
                self._agent_message(line)
            case kind:
                if kind not in _QUIET_LINES:
                    self._tale.count(kind or "untyped")
        if self._turn is not None:
            self._turn.records.append(line.place)

    def finish(self) -> None:
        """Close the open turn: the transcript ends in the middle of it."""
        turn = self._turn
        if turn is None:
            return
        told = turn.id is None and turn.ends_in_words
        self._close("completed" if told else "interrupted", is_open=not told)

    def _settle(self, line: RolloutLine) -> None:
        self._enter_turn(word(line.payload.get("turn_id")), line)
        self._model = word(line.payload.get("model")) or self._model
        if self._turn is not None and self._turn.settings is None:
            found = ((name, line.payload.get(name)) for name in _SETTINGS)
            self._turn.settings = {name: tidy(value) for name, value in found if value}

    # Lines of the model's history.

    def _item(self, line: RolloutLine) -> None:
        item = line.payload
        told = mapping(item.get("internal_chat_message_metadata_passthrough"))
        if (id := word(told.get("turn_id"))) is not None:
            self._enter_turn(id, line)
        match item.get("type"):
            case "message" if item.get("role") == "assistant":
                parts = [p for c in entries(item.get("content")) if (p := content_part(mapping(c)))]
                self._reply(line, parts, word(item.get("phase")))
            case "message":
                self._message(line)
            case "agent_message":
                self._agent_message(line)
            case "reasoning":
                self._reply(line, reasoning_parts(item))
            case "compaction" | "compaction_summary" | "context_compaction":
                document = {"kind": "codex.compaction", "item": tidy(dict(item))}
                self._reply(line, [OpaquePart(document)])
            case str(kind) if kind.endswith("_output"):
                self._result(line)
            case str(kind) if kind.endswith("_call"):
                self._call(line)
            case "ghost_snapshot" | "compaction_trigger" | "additional_tools":
                pass
            case kind:
                self._tale.count(f"response_item/{tidy(kind)}")

    def _message(self, line: RolloutLine) -> None:
        said = said_of(line.payload)
        told = mapping(line.payload.get("internal_chat_message_metadata_passthrough"))
        at = moment(told.get("create_time")) or line.at
        is_user = line.payload.get("role") == "user"
        turn = self._turn or self._begin(line)
        if not said.parts:
            turn.harness += said.harness
        elif is_user:
            new = line.ordinal is None or line.ordinal >= self._sender_from
            sender: Source = self._sender if new else "human"
            self._ask(line, Message("user", said.parts, sender, at)).harness += said.harness
        elif turn.reply:
            # A message of the harness in the middle of an answer does not end it.
            words = "".join(part.text for part in said.parts if isinstance(part, Text))
            turn.harness.append({"kind": "developer", "text": words})
        else:
            turn.query.append(Message("system", said.parts, None, at))

    def _ask(self, line: RolloutLine, said: Message) -> OpenTurn:
        """Add a message to the turn, or to the next one if this is being answered."""
        turn = self._turn or self._begin(line)
        if turn.waits and turn.id is not None:
            turn.late.append(said)
            return turn
        if turn.reply:
            turn = self._begin(line, after=turn)
        turn.query.append(said)
        return turn

    def _agent_message(self, line: RolloutLine) -> None:
        item = line.payload
        content = item.get("content")
        pieces = entries(content) or [{"type": "text", "text": content}]
        parts = [part for piece in pieces if (part := content_part(mapping(piece)))]
        names = {name: tidy(item[name]) for name in ("author", "recipient") if item.get(name)}
        self._ask(line, Message("user", tuple(parts), "agent", line.at, meta=names or None))

    def _reply(self, line: RolloutLine, parts: Sequence[Part], phase: str | None = None) -> None:
        if not parts:
            return
        turn = self._turn or self._begin(line)
        if turn.late and not turn.waits:
            said, turn.late = turn.late, []
            turn = self._begin(line, after=turn)
            turn.query += said
        meta: dict[str, Json] | None = {"phase": phase} if phase else None
        last = turn.reply[-1] if turn.reply else None
        # Consecutive output of the model is one message; a call belongs to the text before it.
        if last is not None and last.role == "assistant" and meta in (None, last.meta):
            turn.reply[-1] = replace(last, parts=(*last.parts, *parts))
        else:
            turn.reply.append(Message("assistant", tuple(parts), None, line.at, meta=meta))
        turn.last_at = line.at

    def _call(self, line: RolloutLine) -> None:
        turn = self._turn or self._begin(line)
        call = call_of(line.payload, len(turn.uses))
        if call is None:
            self._tale.count(f"response_item/{text(line.payload.get('type'))}")
        elif call.use.call_id in turn.uses:
            self._tale.orphans.append(line.place)
        else:
            self._reply(line, [call.use])
            # A message that came meanwhile has started another turn, and the call belongs to that.
            turn = self._turn or turn
            turn.uses[call.use.call_id] = call.use
            if call.answer is not None:
                status, output = call.answer
                self._answer(line, call.use.call_id, status, output, {})

    def _result(self, line: RolloutLine) -> None:
        turn, id = self._turn, word(line.payload.get("call_id"))
        if turn is None or id is None or id not in turn.uses or id in turn.answered:
            self._tale.orphans.append(line.place)
            return
        status, output, meta = output_of(line.payload)
        self._answer(line, id, status, output, meta)

    def _answer(
        self, line: RolloutLine, id: str, status: ToolStatus, output: Json, meta: Mapping[str, Json]
    ) -> None:
        turn = self._turn
        assert turn is not None, "only a call of an open turn is answered"
        turn.answered.add(id)
        found = ToolResult(id, status, output)
        turn.reply.append(Message("tool", (found,), None, line.at, meta=meta or None))
        turn.last_at = line.at
        for began in threads_named(turn.uses[id], output):
            turn.reports[id] = turn.reports.get(id, ToolReport()).and_then(
                ToolReport(spawned=(began,))
            )

    # Lines about what happened.

    def _event(self, line: RolloutLine) -> None:
        event = line.payload
        match event.get("type"):
            case "task_started" | "turn_started":
                self._enter_turn(word(event.get("turn_id")), line, is_start=True)
            case "task_complete" | "turn_complete":
                failed = mapping(event.get("error"))
                self._end_turn(line, "failed" if failed else "completed")
            case "turn_aborted":
                self._end_turn(line, "interrupted")
            case "thread_rolled_back":
                self._roll_back(number(event.get("num_turns")))
            case "token_count":
                self._count_tokens(mapping(event.get("info")))
            case "thread_settings_applied":
                settings = mapping(event.get("thread_settings"))
                self._model = word(settings.get("model")) or self._model
                self._provider = word(settings.get("model_provider_id")) or self._provider
            case kind:
                if not isinstance(kind, str) or kind not in _QUIET:
                    self._tale.count(f"event_msg/{tidy(kind)}")
                self._note(event)

    def _note(self, event: Mapping[str, Any]) -> None:
        if event.get("type") == "thread_name_updated":
            self.title = text(event.get("thread_name")) or self.title
        turn = self._turn
        if turn is None:
            return
        if (found := report_of(event)) is not None:
            id, report = found
            turn.reports[id] = turn.reports.get(id, ToolReport()).and_then(report)
        turn.attached += attached_files(event)

    def _count_tokens(self, info: Mapping[str, Any]) -> None:
        total = mapping(info.get("total_token_usage"))
        # Counts are cumulative and are repeated without new usage, for example on resuming.
        if not total or total == self._total:
            if self._turn is not None:
                again = usage_of(mapping(info.get("last_token_usage")))
                self._turn.told_again += again.total
            return
        last = mapping(info.get("last_token_usage")) or less(total, self._total)
        self._total = total
        usage = usage_of(last)
        self._context_tokens = usage.context + usage.output
        if self._turn is not None and usage.total:
            model = self._model or "unknown"
            self._turn.counted.append(ModelCall(model, usage, self._provider))

    # Where turns begin and end.

    def _enter_turn(self, id: str | None, line: RolloutLine, *, is_start: bool = False) -> None:
        turn = self._turn
        if id is None or (turn is not None and turn.id == id and not (is_start and turn.reply)):
            return
        if turn is not None and not turn.reply and not turn.asked:
            # Texts that came before the turn was named belong to it.
            turn.id, turn.started_at = id, moment_in(id) or line.at
            return
        if turn is not None and turn.id is None and not turn.reply:
            turn.id, turn.started_at = id, moment_in(id) or turn.started_at
            return
        if turn is not None:
            self._close("completed" if turn.id is None and turn.ends_in_words else "interrupted")
        self._turn = OpenTurn(id, 0, moment_in(id) or line.at)

    def _begin(self, line: RolloutLine, after: OpenTurn | None = None) -> OpenTurn:
        """Open a turn for a new message, and close the one it interrupts."""
        id, part = None, 0
        if after is not None:
            self._close("interrupted" if after.waits else "completed")
            id, part = after.id, after.part + 1
        self._turn = OpenTurn(id, part, line.at)
        return self._turn

    def _end_turn(self, line: RolloutLine, outcome: Outcome) -> None:
        turn, id = self._turn, word(line.payload.get("turn_id"))
        if turn is None or (id is not None and turn.id not in (None, id)):
            return
        turn.records.append(line.place)
        turn.last_at = line.at
        self._close(outcome)

    def _roll_back(self, count: int) -> None:
        if self._turn is not None:
            self._close("interrupted" if self._turn.waits else "completed")
        key = self.head
        while count and key is not None:
            found = self._tale.by_key[key]
            count -= found.kind == "normal"
            key = found.parent
        self.head = key

    def _compact(self, line: RolloutLine) -> None:
        words = text(line.payload.get("message"))
        parts: list[Part] = [Text(words)] if words else []
        if (items := line.payload.get("replacement_history")) is not None:
            parts.append(OpaquePart({"kind": "codex.replacement_history", "items": tidy(items)}))
        said = Message("assistant", tuple(parts), None, line.at)
        turn = self._turn
        is_asked = turn is not None and turn.asked
        calls: tuple[ModelCall, ...] = ()
        records: tuple[int, ...] = (line.place,)
        if turn is not None:
            calls = tuple(_take_summary(turn, words))
            if turn.reply:
                self._close("completed")
                self._turn = OpenTurn(turn.id, turn.part + 1, line.at)
            elif not turn.asked:
                records, turn.records = (*turn.records, line.place), []
        self._tell(sum(call.usage.total for call in calls))
        details: DraftCompaction | None = None
        query: tuple[Message, ...] = (Message("user", (), "event"),)
        if self.head is not None:
            trigger: CompactionTrigger = "context_limit" if is_asked else "manual"
            tokens = self._context_tokens or None
            details, query = DraftCompaction(trigger=trigger, tokens_before=tokens), ()
        self.head = self._tale.add(
            DraftTurn(
                Key(f"compacted at {line.at}"), self.head, query, (said,), line.at, line.at,
                kind="normal" if details is None else "compaction",
                model=self._model, provider=self._provider, calls=calls,
                compaction=details, records=records,
            )
        )  # fmt: skip

    def _close(self, outcome: Outcome, *, is_open: bool = False) -> None:
        turn, self._turn = self._turn, None
        assert turn is not None, "only an open turn is closed"
        if not turn.reply and not turn.asked:
            if turn.query or turn.harness:
                # Without a question yet, the harness's context waits for the first one.
                self._turn = replace(turn, id=None, started_at=None)
            return
        if outcome == "completed" and not any(said.role == "assistant" for said in turn.reply):
            outcome = "interrupted"
        self._tell(turn.told - turn.told_elsewhere)
        started = turn.started_at or turn.query[0].at or BEGINNING
        ended = max(turn.last_at or started, started)
        name = turn.id or f"at {started}"
        key = self._tale.add(
            DraftTurn(
                Key(f"{name}+{turn.part}" if turn.part else name), self.head,
                turn.whole_query(), turn.whole_reply(), started, ended,
                outcome=outcome, model=self._model, provider=self._provider,
                calls=tuple(turn.calls or turn.counted),
                open=is_open and outcome == "interrupted", records=tuple(turn.records),
            )
        )  # fmt: skip
        self.head = key
        for call, report in turn.reports.items():
            for thread in report.spawned:
                begun = SpawnCall(key, call, task_in(turn.uses.get(call)))
                self._tale.spawns.setdefault(thread, begun)
        if turn.late:
            said, part = turn.late, turn.part + 1
            self._turn = OpenTurn(turn.id, part, said[0].at, query=said)
            self._close("interrupted", is_open=is_open)

    def _tell(self, tokens: int) -> None:
        """Count reported tokens; a rollout that is only continued counts in its own thread."""
        if self._is_own:
            self._tale.tokens += tokens


def _take_summary(turn: OpenTurn, words: str) -> list[ModelCall]:
    """Remove the model's summary from the turn that it was written in, and return its call.

    Codex records it twice: as the model's answer, and with an introduction as the compaction.
    """
    last = turn.reply[-1] if turn.reply else None
    if last is None or last.role != "assistant" or not last.text or last.text not in words:
        return []
    turn.reply.pop()
    told = turn.calls or turn.counted
    return [told.pop()] if told else []
