"""Export a session that Codex can continue: ``sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl``.

Knows the records that Codex resumes from: what the model reads, as items of the Responses API, and
in addition what the screen shows. The file is always new; a rollout that Codex wrote is never
changed.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turntree.core.ids import Timestamp
from turntree.models.portable_thread import PortableMessage
from turntree.transcripts.exporter import HandoffFiles, HandoffRequest, NewFile
from turntree.transcripts.exporters.openai import to_items
from turntree.transcripts.exporters.shared import json_lines
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.importers.shared.lenient_json import mapping, word

VERSION: Final = "0.166.0"
"""The version that wrote this format."""
BUILT_IN_PROVIDER: Final = "openai"
"""What Codex uses if its configuration names no provider."""


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
            files=(NewFile(path, json_lines(render(told, order, _provider(root)))),),
            resume=(self.program, "resume", order.session),
        )


def render(
    told: Sequence[PortableMessage], order: HandoffRequest, provider: str = BUILT_IN_PROVIDER
) -> Iterator[dict[str, Any]]:
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
            # Codex reads a missing provider as one without a name, and may refuse the session.
            "model_provider": provider,
        },
    )
    for said, item in to_items(told):
        yield _record(said.at, "response_item", item)
        shown = _shown(said, item)
        if shown is not None:
            yield _record(said.at, "event_msg", shown)


def _provider(root: Path) -> str:
    """Return the model provider that Codex is configured to use."""
    try:
        config = tomllib.loads((root / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # Codex itself reports a broken configuration when it starts.
        return BUILT_IN_PROVIDER
    # What a chosen profile says takes precedence.
    profile = mapping(mapping(config.get("profiles")).get(str(config.get("profile"))))
    providers = (word(table.get("model_provider")) for table in (profile, config))
    return next(filter(None, providers), BUILT_IN_PROVIDER)


def _shown(said: PortableMessage, item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the screen event of an item; without it, resuming shows an empty page."""
    if item["type"] != "message" or said.role == "system":
        return None
    text = "".join(str(part.get("text", "")) for part in item["content"])
    kind = "agent_message" if said.role == "assistant" else "user_message"
    return {"type": kind, "message": text}


def _record(at: Timestamp, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"timestamp": at, "type": kind, "payload": payload}
