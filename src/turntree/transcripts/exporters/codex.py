"""Export a session that Codex can continue: ``sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl``.

Knows the records that Codex resumes from: what the model reads, as items of the Responses API, and
in addition what the screen shows. The file is always new; a rollout that Codex wrote is never
changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turntree.core.ids import Timestamp
from turntree.models.portable_thread import PortableMessage
from turntree.transcripts.exporter import HandoffFiles, HandoffRequest, NewFile
from turntree.transcripts.exporters.openai import to_items
from turntree.transcripts.exporters.shared import json_lines
from turntree.transcripts.importer import ToolPaths

VERSION: Final = "0.166.0"
"""The version that wrote this format."""


class CodexExporter:
    """Writes sessions for Codex. See ``exporter``."""

    tool = "codex"
    program = "codex"
    install = "npm install -g @openai/codex"

    def plan(
        self, told: Sequence[PortableMessage], order: HandoffRequest, places: ToolPaths
    ) -> HandoffFiles:
        """Return the rollout and the command that continues it."""
        home = places.environ.get("CODEX_HOME")
        root = Path(home) if home else places.home / ".codex"
        day = root / "sessions" / order.at[:4] / order.at[5:7] / order.at[8:10]
        moment = order.at[:19].replace(":", "-")
        path = day / f"rollout-{moment}-{order.session}.jsonl"
        return HandoffFiles(
            session=order.session,
            files=(NewFile(path, json_lines(render(told, order))),),
            resume=(self.program, "resume", order.session),
        )


def render(told: Sequence[PortableMessage], order: HandoffRequest) -> Iterator[dict[str, Any]]:
    """Yield the records of a session, in order. Pure: equal input, equal records."""
    yield _record(
        order.at,
        "session_meta",
        {
            "id": order.session,
            "timestamp": order.at,
            "cwd": str(order.folder),
            "originator": "turntree",
            "cli_version": VERSION,
            "source": "cli",
        },
    )
    for said, item in to_items(told):
        yield _record(said.at, "response_item", item)
        shown = _shown(said, item)
        if shown is not None:
            yield _record(said.at, "event_msg", shown)


def _shown(said: PortableMessage, item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the screen event of an item; without it, resuming shows an empty page."""
    if item["type"] != "message" or said.role == "system":
        return None
    text = "".join(str(part.get("text", "")) for part in item["content"])
    kind = "agent_message" if said.role == "assistant" else "user_message"
    return {"type": kind, "message": text}


def _record(at: Timestamp, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"timestamp": at, "type": kind, "payload": payload}
