"""Import Claude Code: find its sessions and project their records.

A transcript is the file of one session with the files of its subagents, in every layout the tool
has used; ``history`` reads what is left of a session whose file was deleted. ``records`` reads one
record, ``chain`` assigns records to turns, ``turns`` drafts a turn and ``sessions`` collects
metadata. Nothing is written, and only named files are read.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef, stamp_of
from turntree.transcripts.importers.claude_code.history import (
    NAME,
    is_prompts,
    list_prompts,
    project_prompts,
    read_prompts,
)
from turntree.transcripts.importers.claude_code.projection import TranscriptReader
from turntree.transcripts.importers.claude_code.records import ABOUT, CHAINED
from turntree.transcripts.importers.shared.lenient_json import parse, read_lines, text

ORIGIN: Final = "claude-code"
PEEK_MAX_BYTES: Final = 64 * 1024
"""Bytes of a file that are read to see whether Claude Code wrote it."""

_AGENT_FILE: Final = re.compile(r"agent-.+\.jsonl")
_OWNER: Final = re.compile(rb'"sessionId":\s?"([^"]{1,200})"')


class ClaudeCodeImporter:
    """Reads Claude Code's sessions, which the tool deletes after thirty days by default."""

    origin: Final = ORIGIN
    version: Final = 1

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield the sessions of this machine: ``projects/*/*.jsonl`` of the tool's folder."""
        for projects in self.usual_places(places):
            for project in _folders(projects):
                yield from _bundles(project)
            yield from _prompts(projects.parent / NAME)

    def usual_places(self, places: ToolPaths) -> Sequence[Path]:
        """Return the folder of projects."""
        configured = places.environ.get("CLAUDE_CONFIG_DIR")
        root = Path(configured) if configured else places.home / ".claude"
        return [root / "projects"]

    def open(self, path: Path) -> Iterator[TranscriptRef]:
        """Yield the sessions of a file, of a project's folder, or of a folder of projects."""
        if path.is_file():
            yield from _prompts(path) if path.name == NAME else _of_file(path)
            return
        deeper = (path, path / "projects", path / ".claude" / "projects")
        folders = {path, *(below for folder in deeper for below in _folders(folder))}
        for folder in sorted(folders):
            for bundle in _bundles(folder):
                if _is_ours(bundle.files[0]):
                    yield bundle
        for folder in (path, path / ".claude"):
            yield from _prompts(folder / NAME)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield the lines of every file; the metadata file of a subagent is one record."""
        if is_prompts(bundle):
            yield from read_prompts(bundle)
            return
        folder = bundle.files[0].parent
        for file in bundle.files:
            name = file.relative_to(folder).as_posix()
            if file.suffix == ".json":
                yield RawRecord(name, 0, file.read_bytes())
            else:
                yield from read_lines(file, name)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return the turns, sessions and subagents that the records describe."""
        if is_prompts(bundle):
            return project_prompts(bundle, records)
        return TranscriptReader(bundle, records).projection()


def _folders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else []


def _prompts(file: Path) -> Iterator[TranscriptRef]:
    """Yield what a history holds of sessions whose transcripts were deleted."""
    if file.is_file():
        written = {path.stem for path in (file.parent / "projects").glob("*/*.jsonl")}
        yield from list_prompts(file, ORIGIN, written)


def _of_file(path: Path) -> Iterator[TranscriptRef]:
    """Yield the session of a file; a subagent's file leads to its session."""
    if path.suffix != ".jsonl" or not _is_ours(path):
        return
    nested = next((up for up in path.parents if up.name == "subagents"), None)
    session = path if nested is None else nested.parent.with_suffix(".jsonl")
    for bundle in _bundles(session.parent):
        if session in bundle.files:
            yield bundle
            return
    yield _bundle(path, ())


def _bundles(folder: Path) -> Iterator[TranscriptRef]:
    files = sorted(file for file in folder.glob("*.jsonl") if file.is_file())
    sessions = [file for file in files if not _AGENT_FILE.fullmatch(file.name)]
    known = {file.stem for file in sessions}
    beside: Mapping[str, list[Path]] = defaultdict(list)
    alone: list[Path] = []
    for file in files:
        if _AGENT_FILE.fullmatch(file.name):
            # Only its records name the session that this subagent belongs to.
            owner = _owner(file)
            if owner in known:
                beside[owner].append(file)
            else:
                alone.append(file)
    for file in sessions:
        yield _bundle(file, beside[file.stem])
    for file in alone:
        yield _bundle(file, ())


def _bundle(session: Path, beside: Iterable[Path]) -> TranscriptRef:
    nested = session.with_suffix("") / "subagents"
    agents = [*beside, *sorted(nested.rglob("agent-*.jsonl"))]
    notes = (agent.with_suffix(".meta.json") for agent in agents)
    files = (session, *agents, *(note for note in notes if note.is_file()))
    stamp, size = stamp_of(files)
    project = session.parent.resolve().name or "unnamed"
    return TranscriptRef(ORIGIN, f"{project}/{session.stem}", files, stamp, size)


def _owner(agent: Path) -> str:
    with agent.open("rb") as file:
        found = _OWNER.search(file.read(PEEK_MAX_BYTES))
    return "" if found is None else found[1].decode("utf-8", "replace")


def _is_ours(file: Path) -> bool:
    """Return whether the first lines of a file were written by Claude Code."""
    with file.open("rb") as stream:
        head = stream.read(PEEK_MAX_BYTES)
    lines = head.split(b"\n")
    for line in lines if len(lines) == 1 else lines[:-1]:
        data = parse(line)
        kind = None if data is None else data.get("type")
        if data is None or kind not in CHAINED | ABOUT:
            continue
        if text(data.get("sessionId")) or "parentUuid" in data or "leafUuid" in data:
            return True
        if kind == "file-history-snapshot" and "messageId" in data:
            return True
    # A first line that is longer than this can still be recognized by its start.
    return len(lines) == 1 and b'"sessionId":' in head and b'"type":' in head
