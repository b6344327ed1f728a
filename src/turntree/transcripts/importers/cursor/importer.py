"""Import Cursor: find the conversations of the editor and of the command line.

A transcript is one composer, or one agent of the command line, with its subagents. This module
knows the folders on each system, ``storage`` the databases, ``turns`` the conversations and
``transcripts`` the command line's files.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef
from turntree.transcripts.importers.cursor.storage import (
    DATABASE,
    ORIGIN,
    Workspace,
    bundles_of,
    find_workspace,
    inline_bundles_of,
    rows_of,
)
from turntree.transcripts.importers.cursor.transcripts import (
    SUFFIX,
    lines_of,
    project_lines,
    transcripts_below,
    transcripts_in,
)
from turntree.transcripts.importers.cursor.turns import project
from turntree.transcripts.importers.shared.sqlite_source import is_database

_GLOBAL: Final = "globalStorage"
_WORKSPACES: Final = "workspaceStorage"


class CursorImporter:
    """Reads the Cursor editor's databases and its command line's transcripts."""

    origin: Final = ORIGIN
    version: Final = 1

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield every conversation of the editor, then those that only a transcript holds."""
        *editors, transcripts = self.usual_places(places)
        told: set[str] = set()
        for editor in editors:
            for bundle in self.open(editor):
                told.add(bundle.id)
                yield bundle
        for bundle in transcripts_below(transcripts):
            if bundle.id not in told:
                yield bundle

    def usual_places(self, places: ToolPaths) -> Sequence[Path]:
        """Return the editor's folder on every system, and the folder of transcripts last."""
        config = places.environ.get("XDG_CONFIG_HOME") or places.home / ".config"
        roots = [Path(config), places.home / "Library/Application Support"]
        if roaming := places.environ.get("APPDATA"):
            roots.append(Path(roaming))
        return [*(root / "Cursor/User" for root in roots), places.home / ".cursor"]

    def open(self, path: Path) -> Iterable[TranscriptRef]:
        """Yield the conversations of a database, of the editor's folder, or of transcripts."""
        if path.suffix == SUFFIX or path.name == "agent-transcripts":
            return transcripts_in(path)
        if path.is_dir() and (path / "User").is_dir():
            path = path / "User"
        elif path.is_dir() and path.name == _GLOBAL:
            path = path.parent
        if path.is_file() or (path / DATABASE).is_file():
            file = path if path.is_file() else path / DATABASE
            return _told_once(*_from_file(file))
        return _told_once(path / _GLOBAL / DATABASE, _workspaces(path / _WORKSPACES))

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield the rows or lines of a conversation and of its subagents.

        Raises:
            OSError: A database or a transcript cannot be read.
        """
        return lines_of(bundle) if bundle.files[0].suffix == SUFFIX else rows_of(bundle)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return the turns of a conversation's rows or lines."""
        # By the records: what is projected again from the ledger has no files any more.
        if records and records[0].file.endswith(SUFFIX):
            return project_lines(bundle.id, records)
        return project(bundle.id, records)


def _from_file(file: Path) -> tuple[Path, list[Workspace]]:
    if file.parent.name == _GLOBAL:
        return file, _workspaces(file.parent.parent / _WORKSPACES)
    place = _find_workspace(file.parent) if file.name == DATABASE else None
    return file, [] if place is None else [place]


def _workspaces(folder: Path) -> list[Workspace]:
    folders = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [_find_workspace(place) for place in folders]
    return [place for place in found if place is not None]


def _find_workspace(folder: Path) -> Workspace | None:
    try:
        return find_workspace(folder)
    except OSError:
        # A workspace that cannot be read must not hide the others.
        return None


def _told_once(database: Path, workspaces: Sequence[Workspace]) -> Iterator[TranscriptRef]:
    """Yield each conversation from the first database that holds it."""
    told: set[str] = set()
    for bundle in (*_bundles(database, workspaces), *_others(workspaces, database)):
        if bundle.id not in told:
            told.add(bundle.id)
            yield bundle


def _others(workspaces: Sequence[Workspace], database: Path) -> Iterator[TranscriptRef]:
    for place in workspaces:
        if place.folder / DATABASE != database:
            yield from _bundles(place.folder / DATABASE, [place])
        yield from inline_bundles_of(place)


def _bundles(database: Path, workspaces: Sequence[Workspace]) -> list[TranscriptRef]:
    if not is_database(database):
        return []
    try:
        return list(bundles_of(database, workspaces))
    except OSError:
        # A database that cannot be read now, for instance while it is replaced, must not stop the
        # discovery of the others. The next import finds it.
        return []
