"""Import Gemini CLI: chats under ``$GEMINI_CLI_HOME/.gemini`` or ``~/.gemini``.

A session is one file under ``tmp/<project>/chats``, sometimes with a second one of the same id; a
subagent's is in a folder named after the session that started it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turntree.core.canonical import Json, tidy
from turntree.ledger.raw_codec import RECORD_BYTES_MAX, RawRecord
from turntree.transcripts.drafts import DraftSession, DraftSpawn, Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef, stamp_of
from turntree.transcripts.importers.gemini.turns import (
    ChatNode,
    GeminiChat,
    TurnReader,
    messages_in,
)
from turntree.transcripts.importers.shared.lenient_json import (
    moment,
    parse,
    read_lines,
    text,
)

ORIGIN: Final = "gemini"
_LABEL_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LABEL_SIGNS: Final = 12
_ID_CHARS_IN_NAME: Final = 8
"""Characters of a session's id that the name of its file ends with."""
_TOLD: Final = ("projectHash", "directories", "kind", "startTime")


class GeminiImporter:
    """Reads Gemini CLI's chats."""

    origin = ORIGIN
    version = 1

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield a transcript for each session; only the first line of a file is read."""
        for folder in self.usual_places(places):
            yield from _bundles(folder)

    def usual_places(self, places: ToolPaths) -> Sequence[Path]:
        """Return the folder of projects."""
        told = places.environ.get("GEMINI_CLI_HOME")
        return [(Path(told) if told else places.home) / ".gemini" / "tmp"]

    def open(self, path: Path) -> Iterable[TranscriptRef]:
        """Yield the sessions in a file or folder."""
        if path.is_dir():
            yield from _bundles(path)
            return
        chats = next((f for f in path.parents if f.name == "chats"), path.parent)
        for bundle in _bundles(chats) if _session_id(path) else ():
            if path in bundle.files:
                yield bundle

    def open_unnamed(self, path: Path, session: str) -> Iterable[TranscriptRef]:
        """Yield a chat without its first record.

        When Gemini CLI starts, it deletes every chat that has no message yet, also one that another
        process has just begun. That process writes on, to a new file without a first record.
        """
        is_named_after = path.stem.endswith(f"-{session[:_ID_CHARS_IN_NAME]}")
        if path.suffix == ".jsonl" and is_named_after and _lacks_first_record(path):
            yield _bundle(path.parent, session, [path])

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield the lines of all files; a file in the old format is one record."""
        root = bundle.files[0].parent
        for path in bundle.files:
            name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
            if path.suffix == ".jsonl":
                yield from read_lines(path, name)
            else:
                with path.open("rb") as file:
                    yield RawRecord(name, 0, file.read(RECORD_BYTES_MAX))

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return the turns of a session and of its subagents."""
        told, broken, unknown = _read_all(bundle.id, records)
        drafts = [turn for session in told.values() for turn in session.turns.drafts]
        begun = {
            agent: (session.id, found)
            for session in told.values()
            for agent, found in session.turns.spawned.items()
        }
        sessions: list[DraftSession] = []
        for session in told.values():
            spawn = None
            if session.id != bundle.id and (found := begun.get(session.id)) is not None:
                parent, call = found
                spawn = DraftSpawn(parent, call.turn, call.call, "fresh", call.task)
            sessions.append(session.draft(spawn))
        tokens = sum(session.conversation.tokens for session in told.values())
        return Projection(drafts, sessions, unknown, (), broken, tokens)


class _Session:
    """A session while its files are being read."""

    def __init__(self, id: str, *, is_main: bool) -> None:
        self.id = id
        self.conversation = GeminiChat()
        self.meta: dict[str, Any] = {}
        self.turns = TurnReader(id, "human" if is_main else "agent")
        self._ends: list[ChatNode] = []

    def take(self, record: Mapping[str, Any], place: int, unknown: dict[str, int]) -> None:
        for what, value in messages_in(record):
            match what:
                case "put":
                    self.conversation.put(value, place)
                case "restore":
                    self.conversation.restore(value, place)
                case "rewind":
                    self.conversation.rewind(value)
                case "set":
                    self.meta.update({name: tidy(member) for name, member in value.items()})
                case _:
                    unknown[value] = unknown.get(value, 0) + 1

    def end_file(self) -> None:
        if (end := self.conversation.end) is not None:
            self._ends.append(end)
        self.conversation.begin_file()

    def tell(self) -> None:
        """Make the turns; the session's head is the turn of the newest message."""
        self._ends.sort(key=lambda end: (end.depth > 0, moment(end.record.get("timestamp")) or ""))
        newest = self._ends[-1] if self._ends else None
        self.turns.tell(self.conversation, newest)

    def draft(self, spawn: DraftSpawn | None) -> DraftSession:
        details: dict[str, Json] = {name: self.meta[name] for name in _TOLD if self.meta.get(name)}
        head = self.turns.head_at(self._ends[-1] if self._ends else None)
        short = _LABEL_UNFIT.sub("-", self.id).strip("-")[-_LABEL_SIGNS:] or "session"
        title = text(self.meta.get("summary")) or None
        return DraftSession(self.id, f"gemini/{short}", head, title, spawn, details)


def _read_all(
    main: str, records: Sequence[RawRecord]
) -> tuple[dict[str, _Session], int, dict[str, int]]:
    sessions: dict[str, _Session] = {main: _Session(main, is_main=True)}
    unknown: dict[str, int] = {}
    broken = 0
    file, session = None, sessions[main]
    for place, record in enumerate(records):
        if record.file != file:
            session.end_file()
            file = record.file
            name = main if "/" not in file else Path(file).stem
            session = sessions.setdefault(name, _Session(name, is_main=name == main))
        found = parse(record.data)
        if found is None:
            broken += 1
        else:
            session.take(found, place, unknown)
    session.end_file()
    for session in sessions.values():
        session.tell()
    return sessions, broken, unknown


def _bundles(folder: Path) -> Iterator[TranscriptRef]:
    """Yield a transcript for each session id, with the files of its subagents."""
    if not folder.is_dir():
        return
    found: dict[tuple[Path, str], list[Path]] = {}
    for path in sorted(folder.rglob("session-*.json*")):
        if path.suffix in (".json", ".jsonl") and (id := _session_id(path)):
            found.setdefault((path.parent, id), []).append(path)
    for (chats, id), own in found.items():
        yield _bundle(chats, id, own)


def _bundle(chats: Path, id: str, own: Iterable[Path]) -> TranscriptRef:
    """Return a session's transcript, with the files of its subagents."""
    is_name = "/" not in id and id not in (".", "..")
    below = sorted((chats / id).glob("*.json*")) if is_name else []
    files = (*own, *(path for path in below if path.suffix in (".json", ".jsonl")))
    stamp, size = stamp_of(files)
    return TranscriptRef(ORIGIN, id, files, stamp, size)


def _lacks_first_record(path: Path) -> bool:
    """Whether a file begins with a later record of a chat."""
    first = next(read_lines(path, path.name), None)
    told = None if first is None else parse(first.data)
    return (
        told is not None
        and "sessionId" not in told
        and any(what != "unknown" for what, _ in messages_in(told))
    )


def _session_id(path: Path) -> str | None:
    """Return the id in a file's first record, or None if it is not a chat."""
    if path.suffix == ".jsonl":
        first = next(read_lines(path, path.name), None)
        data = b"" if first is None else first.data
    else:
        data = path.read_bytes() if path.suffix == ".json" else b""
    told = parse(data) or {}
    return text(told.get("sessionId")) or None if "projectHash" in told else None
