"""Convert composers to sessions: label, working directory and the call that started each.

Knows what a composer's documents say about the conversation as a whole, not its bubbles.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from turntree.core.canonical import Json, tidy
from turntree.core.value import value
from turntree.transcripts.drafts import DraftSession, DraftSpawn, Key
from turntree.transcripts.importers.cursor.bubbles import decoded
from turntree.transcripts.importers.cursor.context import path_of
from turntree.transcripts.importers.cursor.records import Composer
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, text, word

_ID_SHOWN: Final = 8
_SPAWNING: Final = frozenset({"task", "task_v2", "subagent", "spawn_subagent", "create_subagent"})
_CALL_NAMES: Final = ("toolCallId", "parentToolCallId", "spawningToolCallId")
_DETAILS: Final[Mapping[str, str]] = {
    "createdAt": "created_ms", "lastUpdatedAt": "updated_ms", "status": "status",
    "unifiedMode": "mode", "_v": "version", "isAgentic": "agentic", "isArchived": "archived",
    "isBestOfNParent": "best_of_n", "isBestOfNSubcomposer": "best_of_n_part",
    "subComposerIds": "parts", "contextTokensUsed": "context_tokens",
    "contextTokenLimit": "context_tokens_max", "contextTokensLimit": "context_tokens_max",
    "contextUsagePercent": "context_percent", "usageData": "usage", "todos": "todos",
    "trackedGitRepos": "repositories", "createdOnBranch": "branch", "subtitle": "subtitle",
    "totalLinesAdded": "lines_added", "totalLinesRemoved": "lines_removed",
    "workspaceId": "workspace", "subagentTypeName": "agent",
}  # fmt: skip


@value
class ToolCallRef:
    """A call of a tool, and the turn that made it."""

    turn: Key
    id: str
    tool: Mapping[str, Any]


@value
class ParentComposer:
    """The parent of a subagent's composer, and its number among the siblings."""

    parent: str
    index: int


def tree_of(root: str, composers: Mapping[str, Composer]) -> dict[str, ParentComposer]:
    """Return the parent of each composer; none has two parents, or is its own ancestor."""
    below: dict[str, list[str]] = {id: [] for id in composers}
    for id, composer in composers.items():
        below[id] += [
            child for child in entries(composer.member("subagentComposerIds")) if word(child)
        ]
    for id, composer in composers.items():
        parent = mapping(composer.member("subagentInfo")).get("parentComposerId")
        if isinstance(parent, str) and parent in below and id not in below[parent]:
            below[parent].append(id)
    found: dict[str, ParentComposer] = {}
    waiting = [root]
    for id in waiting:
        for index, child in enumerate(below.get(id, ())):
            if child in composers and child != root and child not in found:
                found[child] = ParentComposer(id, index)
                waiting.append(child)
    return found


def spawn_of(
    composer: Composer, above: ParentComposer, calls: Sequence[ToolCallRef]
) -> DraftSpawn | None:
    """Return the call that started a subagent: by its id, by the child's id, or by number."""
    info = mapping(composer.member("subagentInfo"))
    named = {info[name] for name in _CALL_NAMES if isinstance(info.get(name), str)}
    spawning = [call for call in calls if text(call.tool.get("name")).lower() in _SPAWNING]
    found = next((call for call in calls if text(call.tool.get("toolCallId")) in named), None)
    if found is None:
        found = next((call for call in spawning if _names(call.tool, composer.id)), None)
    if found is None and above.index < len(spawning):
        found = spawning[above.index]
    if found is None:
        return None
    args = mapping(decoded(found.tool.get("params") or found.tool.get("rawArgs")))
    told = (args.get(name) for name in ("description", "task", "prompt"))
    task = next((words for words in map(word, told) if words), None)
    return DraftSpawn(above.parent, found.turn, found.id, "fresh", task)


def session_of(
    composer: Composer,
    folder: str | None,
    head: Key,
    spawn: DraftSpawn | None,
    above: ParentComposer | None,
) -> DraftSession:
    """Return the session of a composer."""
    shown = re.sub(r"[^A-Za-z0-9_-]", "", composer.id)[:_ID_SHOWN] or "unnamed"
    title = word(composer.member("name")) or word(composer.member("chatTitle"))
    details = _details(composer, folder)
    if above is not None:
        details["parent_session"] = above.parent
    return DraftSession(
        composer.id, f"cursor/{shown}", head, None if title is None else title, spawn, details
    )


def _details(composer: Composer, folder: str | None) -> dict[str, Json]:
    details: dict[str, Json] = {}
    for theirs, ours in _DETAILS.items():
        if (value := composer.member(theirs)) not in (None, "", [], {}):
            details[ours] = tidy(value)
    place = path_of(mapping(composer.member("workspaceIdentifier")).get("uri")) or path_of(folder)
    if place is not None:
        details["cwd"] = place
    if model := word(mapping(composer.member("modelConfig")).get("modelName")):
        details["model"] = model
    made = [path_of(mapping(file).get("uri")) or path_of(file) for file in
            entries(composer.member("newlyCreatedFiles"))]  # fmt: skip
    if paths := [path for path in made if path is not None]:
        details["files_created"] = paths
    if before := [path_of(name) for name in mapping(composer.member("originalFileStates"))]:
        details["files_changed"] = [path for path in before if path is not None]
    return details


def _names(tool: Mapping[str, Any], id: str) -> bool:
    told = (text(tool.get("result")), text(tool.get("params")), text(tool.get("rawArgs")))
    return any(id in words for words in told) or id.encode() in orjson.dumps(
        tidy(tool.get("additionalData"))
    )
