"""Find hooks that are installed but no longer report.

A tool writes its transcripts whether or not its hooks work, and its hooks report at least the
beginning and the end of each turn. So a transcript that changed long after the last report means
that turns went unreported: the tool was started before the hooks were installed, its settings turn
hooks off, or what the hooks call is gone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from turntree.core.canonical import Json
from turntree.core.ids import Timestamp, instant
from turntree.core.value import value
from turntree.hooks.coding_agents import Tool
from turntree.hooks.launcher import launcher_path
from turntree.hooks.spool import FOLDER, Spool
from turntree.transcripts.importer import Importer, ToolPaths

START_MAX_S: Final = 10 * 60
"""How long after their installation hooks may be silent: until the tool is restarted."""
TURN_MAX_S: Final = 6 * 60 * 60
"""How long after its beginning a turn may still write. A shorter limit would report long turns."""
DAYS_MAX: Final = 7
"""Transcripts that have not changed for longer say nothing about the hooks of today."""
_DAY_S: Final = 24 * 60 * 60


@value
class SilentHook:
    """A tool that works without reporting it."""

    tool: Tool
    wrote_at: Timestamp
    """When one of its transcripts last changed."""
    silent_since: Timestamp
    """The last report, or the installation."""
    has_reported: bool

    def to_json(self) -> dict[str, Json]:
        """Return the document for programs."""
        return {
            "tool": self.tool.name,
            "wrote_at": self.wrote_at,
            "silent_since": self.silent_since,
            "has_reported": self.has_reported,
        }


def find_silence(
    tool: Tool, importer: Importer, places: ToolPaths, home: Path, now_s: float
) -> SilentHook | None:
    """Return why the hooks of a tool seem dead; None if all it wrote was reported."""
    heard_s = Spool(home / FOLDER).heard_at(tool.name)
    try:
        # Rewritten by each installation, also one that changes nothing in the tool's settings.
        installed_s = launcher_path(home).stat().st_mtime
    except FileNotFoundError:
        return None  # A state of its own, which the installer reports.
    wrote_s = max(_list_changes(importer, places), default=0.0)
    since_s = max(heard_s or 0.0, installed_s)
    patience_s = TURN_MAX_S if heard_s is not None and heard_s >= installed_s else START_MAX_S
    if wrote_s <= since_s + patience_s or wrote_s < now_s - DAYS_MAX * _DAY_S:
        return None
    return SilentHook(
        tool, instant(int(wrote_s * 1000)), instant(int(since_s * 1000)), heard_s is not None
    )


def _list_changes(importer: Importer, places: ToolPaths) -> Iterator[float]:
    for bundle in importer.discover(places):
        if bundle.part_of is not None:
            continue  # It grows with commands to the tool too, which are no turns.
        for path in bundle.files:
            # A database of all sessions also changes when none of them goes on.
            if path.suffix in {".jsonl", ".json"} and path.is_file():
                yield path.stat().st_mtime
