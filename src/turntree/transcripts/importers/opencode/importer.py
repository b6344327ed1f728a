"""Import opencode: sessions under ``$XDG_DATA_HOME/opencode`` or ``~/.local/share/opencode``.

They are rows of a SQLite database, and in older versions files of a folder. A transcript is a
session with all that it spawned.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turntree.core.canonical import Json, tidy
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import (
    DraftSession,
    DraftSpawn,
    DraftTurn,
    Key,
    Projection,
    SpawnCall,
)
from turntree.transcripts.importer import ToolPaths, TranscriptRef
from turntree.transcripts.importers.opencode.storage import (
    ORIGIN,
    Document,
    bundles_in_database,
    bundles_in_files,
    documents_in,
    list_bundles,
    of_kind,
    read_bundle,
)
from turntree.transcripts.importers.opencode.turns import (
    Exchange,
    TurnBuilder,
    exchanges_in,
)
from turntree.transcripts.importers.shared.lenient_json import mapping, text, word

_TOLD: Final = (
    "directory", "version", "agent", "model", "permission", "project_id", "projectID",
    "parent_id", "parentID", "time_archived", "metadata",
)  # fmt: skip
_LABEL_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LABEL_SIGNS: Final = 12


class OpencodeImporter:
    """Reads opencode's sessions."""

    origin = ORIGIN
    version = 1

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield a transcript for each session; of a database only the index of sessions is read."""
        for folder in self.usual_places(places):
            yield from list_bundles(folder)

    def usual_places(self, places: ToolPaths) -> Sequence[Path]:
        """Return the tool's folder."""
        told = places.environ.get("XDG_DATA_HOME")
        return [(Path(told) if told else places.home / ".local" / "share") / "opencode"]

    def open(self, path: Path) -> Iterable[TranscriptRef]:
        """Yield the sessions in a database, or in a folder that contains or is one."""
        if path.is_file():
            yield from bundles_in_database(path)
        elif (path / "session").is_dir() and (path / "message").is_dir():
            yield from bundles_in_files(path)
        else:
            yield from list_bundles(path)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield each row or file; a row becomes JSON, with its number as its offset.

        Raises:
            OSError: The database cannot be read.
        """
        yield from read_bundle(bundle)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return the turns of a session and of those it spawned."""
        documents, broken = documents_in(records)
        tale = _ParseState()
        told = {found.id: found for found in of_kind(documents, "session") if found.id}
        messages = _by(of_kind(documents, "message"), "session")
        parts = _by(sorted(of_kind(documents, "part"), key=lambda part: part.id), "message")
        if bundle.id not in told and bundle.id in messages:
            told[bundle.id] = Document(0, "session", bundle.id, "", "", {})
        heads = {id: tale.tell(found, messages.get(id, []), parts) for id, found in told.items()}
        sessions = [_session(told[id], head, tale, told) for id, head in heads.items()]
        for document in documents:
            if document.kind not in ("session", "message", "part"):
                tale.unknown[document.kind] = tale.unknown.get(document.kind, 0) + 1
        orphans = [
            document.place
            for document in (*of_kind(documents, "message"), *of_kind(documents, "part"))
            if document.place not in tale.used
        ]
        return Projection(tale.turns, sessions, tale.unknown, orphans, broken, tale.tokens)


def _by(documents: Iterable[Document], name: str) -> dict[str, list[Document]]:
    found: dict[str, dict[str, Document]] = {}
    for document in documents:
        # A document that comes twice is one: the later is the newer.
        found.setdefault(getattr(document, name), {})[document.id] = document
    return {key: list(members.values()) for key, members in found.items()}


@dataclass(slots=True)
class _ParseState:
    """The results of one transcript's sessions so far."""

    turns: list[DraftTurn] = field(default_factory=list[DraftTurn])
    begun: dict[str, SpawnCall] = field(default_factory=dict[str, SpawnCall])
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    used: set[int] = field(default_factory=set[int])
    tokens: int = 0
    """The tokens that all messages report: a forked session reports its start again."""

    def tell(
        self, session: Document, messages: Sequence[Document], parts: Mapping[str, list[Document]]
    ) -> Key | None:
        """Add the turns of a session and return its head."""
        revert = mapping(session.told.get("revert"))
        cut, cut_part = text(revert.get("messageID")), text(revert.get("partID"))
        exchanges = exchanges_in(messages)
        head: Key | None = None
        stands: Key | None = None
        is_cut = False
        by_message: dict[str, DraftTurn] = {}
        for place, exchange in enumerate(exchanges):
            ids = [document.id for document in exchange.documents]
            if cut in ids and not is_cut:
                # Reverted turns stay in the tree; the session's head is before them.
                is_cut, stands = True, head
                if cut_part:
                    shorter = self._add(session, exchange, parts, head, by_message, (cut, cut_part))
                    stands = head if shorter is None else shorter.key
            is_last = place == len(exchanges) - 1
            turn = self._add(session, exchange, parts, head, by_message, is_last=is_last)
            if turn is not None:
                head = turn.key
                by_message.update(dict.fromkeys(ids, turn))
        return stands if is_cut else head

    def _add(
        self, session: Document, exchange: Exchange, parts: Mapping[str, list[Document]],
        parent: Key | None, by_message: Mapping[str, DraftTurn], cut: tuple[str, str] | None = None,
        *, is_last: bool = False,
    ) -> DraftTurn | None:  # fmt: skip
        is_child = bool(text(session.told.get("parent_id")) or text(session.told.get("parentID")))
        draft = TurnBuilder("agent" if is_child else "human", self.unknown)
        for message in exchange.documents:
            said = parts.get(message.id, [])
            if cut is not None and message.id == cut[0]:
                said = [part for part in said if part.id < cut[1]]
            if message is exchange.question:
                draft.ask(message, said)
            else:
                draft.answer(message, said)
            if cut is not None and message.id == cut[0]:
                break
        kept = by_message.get(text(mapping(draft.compaction).get("tail_start_id")))
        # A compaction that keeps everything from the first turn on summarizes nothing.
        first_kept = kept.key if kept is not None and kept.parent is not None else None
        key = Key(f"{session.id}/{len(self.turns)}")
        turn = draft.turn(key, parent, first_kept, is_last=is_last)
        if turn is not None:
            self.turns.append(turn)
            self.used.update(turn.records)
            # A truncated turn is another reading of the same messages.
            self.tokens += 0 if cut else sum(call.usage.total for call in turn.calls)
            for child, call, task in draft.begun:
                self.begun.setdefault(child, SpawnCall(key, call, task))
        return turn


def _session(
    session: Document, head: Key | None, tale: _ParseState, told: Mapping[str, Document]
) -> DraftSession:
    parent = text(session.told.get("parent_id")) or text(session.told.get("parentID"))
    spawn = None
    if parent in told and (begun := tale.begun.get(session.id)) is not None:
        spawn = DraftSpawn(parent, begun.turn, begun.call, "fresh", begun.task)
    details: dict[str, Json] = {
        name: tidy(session.told[name]) for name in _TOLD if session.told.get(name)
    }
    short = word(session.told.get("slug")) or session.id[-_LABEL_SIGNS:]
    label = _LABEL_UNFIT.sub("-", short).strip("-") or "session"
    title = text(session.told.get("title")) or None
    return DraftSession(session.id, f"opencode/{label}", head, title, spawn, details)
