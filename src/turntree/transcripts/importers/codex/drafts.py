"""Turns of a Codex rollout while they are being read, and their form once they are closed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from turntree.core.canonical import Json
from turntree.core.ids import Timestamp, instant
from turntree.core.message import Message, ToolResult, ToolUse
from turntree.core.message_context import FileUse, TouchedFile
from turntree.core.usage import ModelCall
from turntree.transcripts.drafts import DraftTurn, Key, SpawnCall
from turntree.transcripts.importers.codex.records import ToolReport, files_patched
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, number, text, word

# Codex names turns by version 7 UUIDs, whose first digits are a time.
_UUID_LENGTH = 36


class RolloutLine(NamedTuple):
    """A parsed record: its index, its timestamp and its payload.

    A named tuple, because there is one for each record of a large file.
    """

    place: int
    offset: int
    ordinal: int | None
    at: Timestamp
    kind: str
    payload: Mapping[str, Any]


@dataclass(slots=True)
class OpenTurn:
    """A turn that is still being read."""

    id: str | None
    part: int
    """Which part of the turn it is: a message in the middle of a turn starts another part."""
    started_at: Timestamp | None = None
    last_at: Timestamp | None = None
    query: list[Message] = field(default_factory=list[Message])
    harness: list[Json] = field(default_factory=list[Json])
    settings: dict[str, Json] | None = None
    attached: list[TouchedFile] = field(default_factory=list[TouchedFile])
    reply: list[Message] = field(default_factory=list[Message])
    uses: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])
    answered: set[str] = field(default_factory=set[str])
    reports: dict[str, ToolReport] = field(default_factory=dict[str, ToolReport])
    counted: list[ModelCall] = field(default_factory=list[ModelCall])
    """From cumulative counts; used where single calls are not recorded."""
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    told_again: int = 0
    """Tokens of counts that repeat the previous one."""
    told_elsewhere: int = 0
    """Tokens that belong to another rollout, which this one continues."""
    records: list[int] = field(default_factory=list[int])
    late: list[Message] = field(default_factory=list[Message])
    """Messages that came while tools were running: they start the next part."""

    @property
    def asked(self) -> bool:
        return any(said.role == "user" for said in self.query)

    @property
    def told(self) -> int:
        """Number of tokens that the lines of one rollout report."""
        found = sum(call.usage.total for call in self.calls or self.counted)
        return found + (0 if self.calls else self.told_again)

    @property
    def waits(self) -> bool:
        return len(self.answered) < len(self.uses)

    @property
    def ends_in_words(self) -> bool:
        """Whether it ends with an answer, and no call waits for a result."""
        return bool(self.reply) and not self.waits and self.reply[-1].role == "assistant"

    def whole_query(self) -> tuple[Message, ...]:
        """Return the query; its context is attached to the first message of a person."""
        context: dict[str, Json] = {}
        if self.harness:
            context["harness"] = [*self.harness]
        if self.settings:
            context["settings"] = self.settings
        if self.attached:
            context["files"] = [file.to_json() for file in self.attached]
        query = [*self.query]
        place = next((i for i, said in enumerate(query) if said.role == "user"), None)
        if place is None:
            # The model continues by itself, for example after a compaction.
            query.append(Message("user", (), "event", context=context or None))
        elif context:
            query[place] = replace(query[place], context=context)
        return tuple(query)

    def whole_reply(self) -> tuple[Message, ...]:
        """Return the reply, with what Codex reported about each call."""
        return tuple(self._reported(said) for said in self.reply)

    def _reported(self, said: Message) -> Message:
        found = said.parts[0]
        if not isinstance(found, ToolResult):
            return said
        report = self.reports.get(found.call_id, ToolReport())
        if found.status == "ok" and report.status is not None:
            found = replace(found, status=report.status)
        use: FileUse = "written" if found.status == "ok" else "referenced"
        args = self.uses[found.call_id].args
        files = report.files or tuple(files_patched(args, use))
        context: dict[str, Json] = {"files": [file.to_json() for file in files]}
        meta = {**(said.meta or {}), **report.meta}
        return replace(said, parts=(found,), meta=meta or None, context=context if files else None)

    def copy(self) -> "OpenTurn":
        return replace(
            self,
            told_again=0,
            told_elsewhere=sum(call.usage.total for call in self.calls or self.counted),
            query=[*self.query],
            late=[*self.late],
            harness=[*self.harness],
            attached=[*self.attached],
            reply=[*self.reply],
            uses={**self.uses},
            answered={*self.answered},
            reports={**self.reports},
            counted=[*self.counted],
            calls=[*self.calls],
            records=[*self.records],
        )


@dataclass(slots=True)
class ParseState:
    """The results of one projection so far, shared by all its parsers."""

    turns: list[DraftTurn] = field(default_factory=list[DraftTurn])
    by_key: dict[Key, DraftTurn] = field(default_factory=dict[Key, DraftTurn])
    spawns: dict[str, SpawnCall] = field(default_factory=dict[str, SpawnCall])
    """By the thread that was started, or by the path of its agent."""
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    orphans: list[int] = field(default_factory=list[int])
    tokens: int = 0
    """The sum of what the lines of the transcript's own threads report, repetitions included."""
    _alike: dict[tuple[object, ...], list[DraftTurn]] = field(
        default_factory=dict[tuple[object, ...], list[DraftTurn]]
    )

    def count(self, kind: str) -> None:
        """Count a record of an unknown kind."""
        self.unknown[kind] = self.unknown.get(kind, 0) + 1

    def add(self, turn: DraftTurn) -> Key:
        """Add a turn and return its key, or the key of an equal turn if there is one already."""
        mark = (turn.parent, turn.started_at, turn.sealed_at, turn.outcome, turn.model)
        alike = self._alike.setdefault(mark, [])
        for other in alike:
            if other.query == turn.query and other.reply == turn.reply and other.kind == turn.kind:
                return other.key
        key, count = turn.key, 1
        while key in self.by_key:
            count += 1
            key = Key(f"{turn.key}~{count}")
        turn = replace(turn, key=key)
        alike.append(turn)
        self.by_key[key] = turn
        self.turns.append(turn)
        return key


def task_in(use: ToolUse | None) -> str | None:
    """Return a subagent's task."""
    args = mapping(None if use is None else use.args)
    return text(args.get("message")) or text(args.get("prompt")) or None


def moment_in(turn: str) -> Timestamp | None:
    """Return the timestamp in a turn's id: unlike a line's, copying preserves it."""
    digits = turn.replace("-", "")
    if len(turn) != _UUID_LENGTH or digits[12:13] != "7":
        return None
    try:
        return instant(int(digits[:12], 16))
    except (ValueError, OverflowError):
        # The digits of another kind of id.
        return None


def less(total: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the difference of two cumulative counts."""
    return {
        name: value - number(before.get(name))
        for name, value in total.items()
        if isinstance(value, int)
    }


def threads_named(use: ToolUse, output: Json) -> Iterator[str]:
    """Yield the threads or agent paths that the output of a spawning call names."""
    if not use.tool.endswith("spawn_agent") or not isinstance(output, str):
        return
    try:
        told = mapping(json.loads(output))
    except (ValueError, RecursionError):
        return
    for name in ("agent_id", "thread_id", "new_thread_id", "task_name", "agent_path"):
        if found := text(told.get(name)):
            yield found


def attached_files(event: Mapping[str, Any]) -> Iterator[TouchedFile]:
    """Yield the files that a person attached to a message."""
    item = mapping(event.get("item"))
    paths = entries(event.get("local_images")) if event.get("type") == "user_message" else []
    if item.get("type") == "UserMessage":
        paths = [
            mapping(piece).get("path")
            for piece in entries(item.get("content"))
            if mapping(piece).get("type") in ("local_image", "local_audio", "mention")
        ]
    for path in paths:
        if found := word(path):
            yield TouchedFile("attached", found)
