"""Build a message of Claude Code, with its context, source and usage.

Attachments, lints and files become the context of the message they were read with. Nothing here
knows the chain or a turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp
from turntree.core.message import Message, Part, Role, Source
from turntree.core.usage import Usage
from turntree.transcripts.importers.claude_code.parts import (
    attached_files,
    lints_in,
    lints_in_words,
)
from turntree.transcripts.importers.claude_code.records import ChainRecord, blocks_of, words_of
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, number, text, word

CONTEXT_TEXT_MAX: Final = 4_000
"""Characters of a piece of context that are stored in a message; the record holds the rest."""

_COUNT_MAX: Final = 2**31 - 1
_NOT_READ: Final = frozenset({"prompt_snapshot", "session_context"})
"""Attachments that copy the whole request, or hold nothing the model read."""
_SOURCES: Final[Mapping[str, Source]] = {
    "task-notification": "agent", "peer": "agent", "coordinator": "agent", "teammate": "agent",
    "observer-activity": "agent", "channel": "webhook", "webhook": "webhook", "remote": "human",
    "cron": "cron", "scheduled": "cron", "schedule": "cron", "loop": "cron",
    "auto-continuation": "event", "plugin": "event", "hook": "event", "system": "event",
    "trigger": "trigger",
}  # fmt: skip


@dataclass(slots=True)
class GrowingMessage:
    """A message that is being built."""

    role: Role
    at: Timestamp | None
    source: Source | None = None
    parts: list[Part] = field(default_factory=list[Part])
    context: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    meta: dict[str, Json] = field(default_factory=dict[str, Json])

    def put(self, name: str, found: Sequence[Json]) -> None:
        """Add something to its context."""
        if found:
            self.context.setdefault(name, []).extend(found)

    def put_line(self, line: ChainRecord) -> None:
        """Add a line that is not a message of its own to its context."""
        if line.kind == "attachment":
            self._put_attachment(line)
        elif line.kind != "aside" and (words := words_of(line.blocks)):
            self.put("lints", [*lints_in_words(words)])
            self.put("attachments", [piece(line.kind, words)])

    def _put_attachment(self, line: ChainRecord) -> None:
        attachment = mapping(line.data.get("attachment"))
        kind = text(attachment.get("type"))
        if kind in _NOT_READ:
            return
        self.put("files", [file.to_json() for file in attached_files(attachment)])
        self.put("lints", [*lints_in(attachment.get("files"))] if kind == "diagnostics" else [])
        rendered = (mapping(entry).get("content") for entry in entries(line.data.get("rendered")))
        words = "\n".join(words_of(blocks_of(content)) for content in rendered)
        if words := words or _plain(attachment):
            self.put("attachments", [piece(kind or "unknown", words)])

    def message(self) -> Message:
        """Return the finished message."""
        return Message(
            self.role,
            tuple(self.parts),
            self.source,
            self.at,
            dict(self.context) or None,
            dict(self.meta) or None,
        )


def piece(kind: str, words: str) -> Json:
    """Return a piece of context; a long one is truncated and marked."""
    found: dict[str, Json] = {"kind": word(kind), "text": tidy(words[:CONTEXT_TEXT_MAX])}
    return found if len(words) <= CONTEXT_TEXT_MAX else {**found, "length": len(words)}


def typed(words: str) -> str:
    """Return a slash command as it was typed."""
    name, args = _between(words, "command-name"), _between(words, "command-args")
    return f"{name} {args}".strip() or words


def source_of(line: ChainRecord) -> Source:
    """Return the source of a message; a person, unless the record says otherwise."""
    if words_of(line.blocks[:1]).startswith(("<task-notification>", "<teammate-message")):
        return "agent"
    data = line.data
    kind = mapping(data.get("origin")).get("kind")
    for told in (kind, data.get("turnOrigin"), data.get("promptSource")):
        source = _SOURCES.get(text(told).replace("_", "-"))
        if source is not None:
            return source
    return "human"


def circumstances(line: ChainRecord) -> Iterator[tuple[str, Json]]:
    """Yield the permission of a call and its duration."""
    decision = mapping(line.data.get("permissionDecision"))
    if decision:
        names = ("decision", "source", "reasonType", "ruleSource", "reasonCode")
        yield "permission", {n: word(decision[n]) for n in names if word(decision.get(n))}
    told = mapping(line.data.get("toolUseResult"))
    took = number(told.get("durationMs")) or number(told.get("totalDurationMs"))
    if took:
        yield "duration_ms", took


def usage_of(told: Mapping[str, Any]) -> Usage:
    """Return the usage of a call; the vendor counts cached input separately, as we do."""
    get = told.get
    written = number(get("cache_creation_input_tokens"))
    if not written and (nested := mapping(get("cache_creation"))):
        # For some versions the sum was 0 and only the nested numbers were right.
        written = min(sum(number(count) for count in nested.values()), _COUNT_MAX)
    details = mapping(get("output_tokens_details"))
    return Usage(
        number(get("input_tokens")),
        number(get("output_tokens")),
        number(get("cache_read_input_tokens")),
        written,
        number(details.get("thinking_tokens")) if details else 0,
    )


def provider_of(model: str, answer: str) -> str | None:
    """Return the provider, as far as the names of model and answer show it."""
    if answer.startswith("msg_bdrk_"):
        return "bedrock"
    if answer.startswith("msg_vrtx_"):
        return "vertex"
    return "anthropic" if "claude" in model else None


def _plain(attachment: Mapping[str, Any]) -> str:
    """Return an attachment's text, for versions that did not record how it was rendered."""
    for name in ("content", "text", "prompt", "snippet", "stdout"):
        found = attachment.get(name)
        if words := text(found) or words_of(blocks_of(found)):
            return words
    return ""


def _between(words: str, tag: str) -> str:
    return words.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()
