"""Export a session that Claude Code can continue: ``projects/<folder>/<session>.jsonl``.

Knows the records that Claude Code resumes from: one per message, each naming the previous one. The
file is always new; a file that Claude Code wrote is never changed.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turntree.core.errors import InvalidOperation
from turntree.core.message import ToolUse
from turntree.models.portable_thread import PortableMessage, fit
from turntree.transcripts.exporter import HandoffFiles, HandoffRequest, NewFile
from turntree.transcripts.exporters.anthropic import CALL_PREFIX, PROVIDER, blocks_of
from turntree.transcripts.exporters.shared import json_lines, mark_of, marked_id
from turntree.transcripts.importer import ToolPaths

VERSION: Final = "2.1.0"
"""The oldest version that wrote this format; Claude Code reads formats older than itself."""
SLUG_CHARS_MAX: Final = 200
MODEL_FOREIGN: Final = "<synthetic>"
"""Claude Code's marker of a message from another vendor's model; it restores no other."""
_NOT_IN_SLUGS: Final = re.compile(r"[^a-zA-Z0-9]")


class ClaudeCodeExporter:
    """Writes sessions for Claude Code. See ``exporter``."""

    tool = "claude-code"
    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"

    def plan(
        self, told: Sequence[PortableMessage], order: HandoffRequest, places: ToolPaths
    ) -> HandoffFiles:
        """Return the session's file and the command that continues it."""
        folder = project_folder(order.folder, places)
        records = list(render(told, order))
        ids = [record["uuid"] for record in records if "uuid" in record]
        return HandoffFiles(
            session=order.session,
            files=(NewFile(folder / f"{order.session}.jsonl", json_lines(records)),),
            resume=(self.program, "--resume", order.session),
            mark=mark_of(order) if ids else None,
            last=ids[-1] if ids else None,
        )


def render(told: Sequence[PortableMessage], order: HandoffRequest) -> Iterator[dict[str, Any]]:
    """Yield the records of a session, in order. Pure: equal input, equal records."""
    before: str | None = None
    for place, said in enumerate(fit(told, provider=PROVIDER, call_prefix=CALL_PREFIX)):
        here = marked_id(order, place)
        yield {
            "parentUuid": before,
            "isSidechain": False,
            "userType": "external",
            "cwd": str(order.folder),
            "sessionId": order.session,
            "version": VERSION,
            "gitBranch": "",
            **_message(said, here),
            "uuid": here,
            "timestamp": said.at,
        }
        before = here
    yield {"type": "custom-title", "customTitle": order.title, "sessionId": order.session}


def project_folder(folder: Path, places: ToolPaths) -> Path:
    """Return where Claude Code looks for the sessions of a folder.

    Raises:
        InvalidOperation: The folder's path is so long that Claude Code abbreviates it in its own
            way, and Claude Code has not worked there yet.
    """
    config = places.environ.get("CLAUDE_CONFIG_DIR")
    projects = (Path(config) if config else places.home / ".claude") / "projects"
    named = places.environ.get("CLAUDE_CODE_PROJECT_DIR_NAME")
    slug = named or _NOT_IN_SLUGS.sub("-", unicodedata.normalize("NFC", str(folder)))
    if len(slug) <= SLUG_CHARS_MAX:
        return projects / slug
    there = list(projects.glob(f"{slug[:SLUG_CHARS_MAX]}-*"))
    if len(there) != 1:
        raise InvalidOperation(
            f"{folder} is too long a name for Claude Code: run it there once, or choose another "
            "folder with --into"
        )
    return there[0]


def _message(said: PortableMessage, id: str) -> Mapping[str, Any]:
    if said.role == "assistant":
        calls = any(isinstance(part, ToolUse) for part in said.parts)
        return {
            "type": "assistant",
            "message": {
                "id": f"msg_{id.replace('-', '')}",
                "type": "message",
                "role": "assistant",
                "model": (said.model if said.provider == PROVIDER else None) or MODEL_FOREIGN,
                "content": blocks_of(said),
                "stop_reason": "tool_use" if calls else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            },
        }
    content = blocks_of(said)
    if said.role == "system":
        # Only the program itself sends system instructions to the model.
        note = f"<system-reminder>\n{said.text}\n</system-reminder>"
        return {"type": "user", "isMeta": True, "message": {"role": "user", "content": note}}
    if [block["type"] for block in content] == ["text"]:
        content = content[0]["text"]
    flags = {"isCompactSummary": True} if said.is_summary else {}
    return {"type": "user", **flags, "message": {"role": "user", "content": content}}
