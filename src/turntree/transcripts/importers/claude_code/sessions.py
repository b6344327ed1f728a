"""Collect metadata of Claude Code's sessions and subagents.

Titles, folders and versions come from here, and the call that started a subagent: the tool records
it in a small file next to the subagent's, in the call's result, in its progress or, for the oldest
subagents, nowhere. Nothing here knows turns.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp, instant
from turntree.transcripts.importers.claude_code.records import ChainRecord, words_of
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, number, text, word

RETENTION_DAYS: Final = 30
"""Days until the tool deletes an unused session, unless its settings say otherwise."""

TITLE_MAX: Final = 200
_DAY_MS: Final = 24 * 60 * 60 * 1000
_STAMPED: Final = 3
_TOOLS_MAX: Final = 500
_SEEN_MAX: Final = 500


def deletion_due(mtime_ms: int) -> Timestamp:
    """Return when the tool may delete a session's file, given when that was last written.

    It does so at its next start after that. ``cleanupPeriodDays`` in its settings changes the
    period; a transcript does not record that setting.
    """
    return instant(mtime_ms + RETENTION_DAYS * _DAY_MS)


def mtime_ms(stamp: str) -> int | None:
    """Return when the first file of a transcript was last written, if its fingerprint says so."""
    told = stamp.partition(";")[0].split(":")
    digits = told[-1]
    return int(digits) // 1_000_000 if len(told) == _STAMPED and digits.isdecimal() else None


@dataclass(slots=True)
class SessionInfo:
    """The metadata of one session."""

    last: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The newest record of each kind that is not in the chain."""
    summaries: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    counts: Counter[str] = field(default_factory=Counter[str])
    tools: dict[str, None] = field(default_factory=dict[str, None])
    seen: int = 0
    envelope: dict[str, Json] = field(default_factory=dict[str, Json])

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add a record that is not in the chain."""
        match kind:
            case "summary":
                self.summaries.append(data)
            case "file-history-snapshot":
                self.counts["file_checkpoints"] += data.get("isSnapshotUpdate") is not True
            case "queue-operation":
                self.counts["queued"] += data.get("operation") == "enqueue"
            case "api-request":
                self.counts["requests"] += 1
            case "api-request-shape":
                for tool in entries(mapping(data.get("shape")).get("tools")):
                    if (name := word(mapping(tool).get("name"))) and len(self.tools) < _TOOLS_MAX:
                        self.tools[name] = None
            case _:
                self.last[kind] = data

    def see(self, line: ChainRecord) -> None:
        """Read the environment from a line; values that are set already stay.

        Lines come newest first, so the newest value of each counts.
        """
        self.seen += 1
        if self.seen > _SEEN_MAX:
            return
        data = line.data
        for name, ours in _ENVELOPE:
            # Most lines lack some of them, and every line is asked.
            if name in data and ours not in self.envelope and (value := word(data[name])):
                self.envelope[ours] = value
        copied = data.get("forkedFrom")
        if copied is not None and (session := word(mapping(copied).get("sessionId"))) is not None:
            self.envelope["forked_from"] = session

    def title(self, uuids: Iterable[str], first_prompt: str) -> str | None:
        """Return the best title: a person's, a model's, a summary or the first prompt."""
        own = frozenset(uuids)
        # Old files begin with summaries of other sessions; those refer to no record in this file.
        told = [text(s.get("summary")) for s in self.summaries if text(s.get("leafUuid")) in own]
        for found in (
            self._told("custom-title", "customTitle"),
            self._told("ai-title", "aiTitle"),
            *reversed(told),
            self._told("last-prompt", "lastPrompt"),
            first_prompt,
        ):
            if words := " ".join(found.split()):
                return word(words[:TITLE_MAX])
        return None

    def details(self, deleted_on: Timestamp | None) -> dict[str, Json]:
        """Return all other metadata."""
        found: dict[str, Json] = dict(self.envelope)
        for kind, member, ours in _DETAILS:
            if (value := word(self._told(kind, member))) is not None:
                found[ours] = value
        cost = mapping(self.last.get("cost-state"))
        if isinstance(spent := cost.get("totalCostUSD"), int | float):
            found["cost_usd"] = tidy(spent)
        if spent_on := {
            cast("str", word(model)): _counted(mapping(used))
            for model, used in mapping(cost.get("modelUsage")).items()
            if word(model)
        }:
            found["usage"] = spent_on
        pull = mapping(self.last.get("pr-link"))
        if number(pull.get("prNumber")):
            found["pull_request"] = number(pull["prNumber"])
        found |= {name: count for name, count in sorted(self.counts.items()) if count}
        if self.tools:
            found["tools"] = [*self.tools]
        if deleted_on is not None:
            found["deleted_on"] = deleted_on
        return found

    def _told(self, kind: str, member: str) -> str:
        return text(mapping(self.last.get(kind)).get(member))


_ENVELOPE: Final = (
    ("cwd", "cwd"), ("gitBranch", "git_branch"), ("version", "version"),
    ("entrypoint", "entrypoint"), ("permissionMode", "permission_mode"), ("slug", "name"),
    ("teamName", "team"), ("agentName", "agent"),
)  # fmt: skip
_DETAILS: Final = (
    ("permission-mode", "permissionMode", "permission_mode"), ("mode", "mode", "mode"),
    ("tag", "tag", "tag"), ("agent-name", "agentName", "agent"),
    ("agent-setting", "agentSetting", "agent_setting"), ("pr-link", "prUrl", "pull_request_url"),
)  # fmt: skip


def _counted(used: Mapping[str, Any]) -> Json:
    """Return the tool's own totals; they include calls that no record describes."""
    return {
        "input": number(used.get("inputTokens")),
        "output": number(used.get("outputTokens")),
        "cached_input": number(used.get("cacheReadInputTokens")),
        "cache_write": number(used.get("cacheCreationInputTokens")),
        "reasoning": number(used.get("thinkingTokens")),
    }


@dataclass(slots=True)
class SubagentInfo:
    """The metadata of one subagent."""

    call_id: str | None = None
    task: str | None = None
    details: dict[str, Json] = field(default_factory=dict[str, Json])
    finished: bool = False
    forked: bool = False

    def take_meta(self, data: Mapping[str, Any]) -> None:
        """Read the metadata file next to its transcript, which is most reliable."""
        self.call_id = word(data.get("toolUseId")) or self.call_id
        self.task = word(data.get("description")) or self.task
        self.finished = data.get("finished") is True
        self.forked = data.get("agentType") == "fork"
        for name, ours in _AGENT_DETAILS:
            value = data.get(name)
            if isinstance(value, str | int | bool) and value != "":
                self.details[ours] = tidy(value)


_AGENT_DETAILS: Final = (
    ("agentType", "agent_type"), ("spawnDepth", "spawn_depth"), ("parentAgentId", "parent_agent"),
    ("requestShape", "request_shape"), ("worktreePath", "worktree"), ("finished", "finished"),
)  # fmt: skip


def link_in(line: ChainRecord) -> tuple[str, str] | None:
    """Return a subagent and the call that started it, if a line names both."""
    data = line.data
    if line.kind == "result":
        agent = text(mapping(data.get("toolUseResult")).get("agentId"))
        calls = [text(b.get("tool_use_id")) for b in line.blocks if b.get("type") == "tool_result"]
        if agent and len(calls) == 1 and calls[0]:
            return agent, calls[0]
    elif data.get("type") == "progress":
        agent = text(mapping(data.get("data")).get("agentId"))
        call = text(data.get("parentToolUseID")) or text(data.get("toolUseID"))
        if agent and call:
            return agent, call
    elif line.kind in ("prompt", "injected"):
        words = words_of(line.blocks)
        if words.startswith("<task-notification>"):
            agent, call = _tagged(words, "task-id"), _tagged(words, "tool-use-id")
            if agent and call:
                return agent, call
    return None


def _tagged(words: str, tag: str) -> str:
    return words.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()[:200]
