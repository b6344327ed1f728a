"""Parse one record of Claude Code and classify it.

New record types appear every month. This module knows which of them belong to the chain of a
conversation, whose message each is, and which describe the session. How records are connected is
known to ``chain``.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from turntree.core.ids import Timestamp
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, moment, text

LineKind = Literal[
    "prompt", "injected", "command", "printed", "stop", "result", "summary",
    "answer", "boundary", "attachment", "aside",
]  # fmt: skip
"""The kind of a record in the chain.

prompt     a message that begins a turn
injected   text that the tool inserted for the model
command    a slash command; it begins a turn only if the model answers it
printed    the output of a local command, which gets no answer
stop       the mark of an interruption
result     the result of a tool
summary    the summary of a compaction
answer     one block of the model's answer
boundary   the position of a compaction
attachment context that was inserted next to the text
aside      a link of the chain that the model does not read
"""

CHAINED: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
ABOUT: Final = frozenset({
    "summary", "ai-title", "custom-title", "tag", "agent-name", "agent-setting", "agent-color",
    "mode", "permission-mode", "pr-link", "last-prompt", "bridge-session", "tools-used",
    "cost-state", "atis-latch", "content-replacement", "turn_end", "agent_metadata",
    "worktree-state", "file-history-snapshot", "queue-operation",
    "api-request", "api-request-shape", "api-request-blob",
})  # fmt: skip
"""Records about the session or a request, which are not part of the chain."""

SUBTYPES: Final = frozenset({
    "", "compact_boundary", "microcompact_boundary", "stop_hook_summary", "turn_duration",
    "local_command", "api_error", "away_summary", "informational", "bridge_status",
    "model_fallback", "model_refusal_fallback", "model_refusal_no_fallback",
    "model_consent_fallback", "notification", "status", "thinking_tokens",
})  # fmt: skip

_SPEAKING: Final = frozenset({"prompt", "stop", "result", "summary", "answer"})
_PRINTED: Final = (
    "<local-command-", "<bash-stdout>", "<bash-stderr>", "<bash-input>",
    "Caveat: The messages below",
)  # fmt: skip
_COMMAND: Final = ("<command-name>", "<command-message>")
_STOP: Final = "[Request interrupted"
_NOTHING_SAID: Final = "No response requested."
SYNTHETIC: Final = "<synthetic>"
"""The model name of an answer that no model gave."""


class ChainRecord(NamedTuple):
    """A record in the chain of a conversation.

    A named tuple: there is one per record, and a dataclass takes three times as long to create.
    """

    place: int
    file: str
    kind: LineKind
    uuid: str
    link: str | None
    """The record it follows, if it names one."""
    side: bool
    """Whether it belongs to a subagent."""
    agent: str | None
    at: Timestamp | None
    data: Mapping[str, Any]
    message: Mapping[str, Any]
    """What was sent to the model or came from it."""
    blocks: list[Mapping[str, Any]]
    """The blocks of its message; a plain text is one."""
    answer_id: str
    """What all lines of one answer share: the vendor's id of the message."""

    @property
    def speaks(self) -> bool:
        """Whether it is part of the exchange, so that its time counts."""
        return self.kind in _SPEAKING


def line_of(place: int, file: str, data: Mapping[str, Any]) -> ChainRecord | None:
    """Return a record's link in the chain, or None if no record could follow it."""
    get = data.get
    uuid = text(get("uuid"))
    if not uuid:
        return None
    message = mapping(get("message"))
    blocks = blocks_of(message.get("content"))
    return ChainRecord(
        place,
        file,
        _kind(data, message, blocks),
        uuid,
        text(get("parentUuid")) or text(get("logicalParentUuid")) or None,
        get("isSidechain") is True,
        text(get("agentId")) or None,
        _at(get("timestamp")),
        data,
        message,
        blocks,
        text(message.get("id")) or text(get("requestId")) or uuid,
    )


def blocks_of(content: object) -> list[Mapping[str, Any]]:
    """Return the blocks of a message's content; a plain text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [entry for entry in entries(content) if isinstance(entry, dict) and entry]


def words_of(blocks: list[Mapping[str, Any]]) -> str:
    """Return the text of some blocks."""
    return "".join(text(block.get("text")) for block in blocks if block.get("type") == "text")


def calls_in(line: ChainRecord) -> list[Mapping[str, Any]]:
    """Return the blocks of an answer that call a tool."""
    return [block for block in line.blocks if block.get("type") == "tool_use"]


def is_error(line: ChainRecord) -> bool:
    """Return whether an answer is the tool's report of a failed API call."""
    return line.data.get("isApiErrorMessage") is True


def _at(told: object) -> Timestamp | None:
    at = moment(told)
    # An id cannot express a time before 1970.
    return at if at is not None and at >= "1970" else None


def _kind(
    data: Mapping[str, Any], message: Mapping[str, Any], blocks: list[Mapping[str, Any]]
) -> LineKind:
    match data.get("type"):
        case "user":
            return _user_kind(data, blocks)
        case "assistant":
            synthetic = message.get("model") == SYNTHETIC
            return "aside" if synthetic and words_of(blocks) == _NOTHING_SAID else "answer"
        case "attachment":
            return "attachment"
        case "system" if data.get("subtype") == "compact_boundary":
            return "boundary"
        case _:
            return "aside"


def _user_kind(data: Mapping[str, Any], blocks: list[Mapping[str, Any]]) -> LineKind:
    if data.get("isCompactSummary") is True:
        return "summary"
    if any(block.get("type") == "tool_result" for block in blocks):
        return "result"
    if not blocks or data.get("isVisibleInTranscriptOnly") is True:
        return "aside"
    words = next((text(block["text"]) for block in blocks if "text" in block), "").lstrip()[:64]
    if words.startswith(_STOP):
        return "stop"
    if words.startswith(_PRINTED):
        return "printed"
    if words.startswith(_COMMAND):
        return "command"
    return "injected" if data.get("isMeta") is True else "prompt"
