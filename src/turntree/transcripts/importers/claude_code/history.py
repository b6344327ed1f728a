"""Read the prompts that Claude Code keeps after it has deleted a session's transcript.

Its ``history.jsonl`` has one line for everything that was typed, in all sessions, and no answers. A
transcript is what one session's lines hold, if the session has no file of its own any more. Lines
of versions that named no session are left out: their session may be known in full.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from turntree.core.message import Message, Text
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftSession, DraftTurn, Key, Projection
from turntree.transcripts.importer import TranscriptRef
from turntree.transcripts.importers.claude_code.sessions import TITLE_MAX
from turntree.transcripts.importers.shared.lenient_json import (
    mapping,
    moment,
    parse,
    read_lines,
    text,
    word,
)

NAME: Final = "history.jsonl"
_ID_SHOWN: Final = 8
_PASTED: Final = re.compile(r"\[Pasted text #(\d+)(?: \+\d+ lines?)?\]")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9-]")


def is_prompts(bundle: TranscriptRef) -> bool:
    """Whether a transcript is what the history holds of a session."""
    return bundle.id.startswith(f"{NAME}/")


def list_prompts(file: Path, origin: str, written: Container[str]) -> Iterator[TranscriptRef]:
    """Yield the sessions of a history, except those that have a file of their own."""
    sessions: dict[str, _SessionLines] = {}
    for record in read_lines(file, NAME):
        if (session := _session_in(record)) is not None and session not in written:
            sessions.setdefault(session, _SessionLines()).take(record)
    for session, lines in sessions.items():
        # Not the file's own fingerprint: that changes with every prompt of any session.
        stamp = f"{lines.count}:{lines.size}"
        id = f"{NAME}/{session}"
        yield TranscriptRef(origin, id, (file,), stamp, lines.size, part_of=session)


@dataclass(slots=True)
class _SessionLines:
    count: int = 0
    size: int = 0

    def take(self, record: RawRecord) -> None:
        self.count += 1
        self.size += len(record.data) + 1


def read_prompts(bundle: TranscriptRef) -> Iterator[RawRecord]:
    """Yield the lines of one session."""
    (file,) = bundle.files
    session = bundle.id.removeprefix(f"{NAME}/")
    wanted = session.encode()
    for record in read_lines(file, NAME):
        if wanted in record.data and _session_in(record) == session:
            yield record


def project_prompts(bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
    """Return a turn for each prompt; what was answered is not known."""
    turns: list[DraftTurn] = []
    broken, project = 0, ""
    orphans: list[int] = []
    for place, record in enumerate(records):
        data = parse(record.data)
        at = None if data is None else moment(data.get("timestamp"))
        if data is None or at is None:
            broken += 1
            continue
        words = _words(data)
        if not words:
            orphans.append(place)
            continue
        project = text(data.get("project")) or project
        asked = Message("user", (Text(words),), "human", at)
        parent = turns[-1].key if turns else None
        key = Key(str(place))
        # Only a turn that did not complete may have no reply.
        turn = DraftTurn(key, parent, (asked,), (), at, at, "interrupted", records=(place,))
        turns.append(turn)
    session = bundle.id.removeprefix(f"{NAME}/")
    slug = _UNFIT.sub("-", project) or "unnamed"
    head = turns[-1].key if turns else None
    draft = DraftSession(
        session,
        f"claude-code/{slug}/{_UNFIT.sub('-', session[:_ID_SHOWN])}",
        head,
        _title(turns),
        details={"prompts_only": True, **({"cwd": cwd} if (cwd := word(project)) else {})},
    )
    return Projection(turns, [draft], orphans=orphans, broken=broken)


def _session_in(record: RawRecord) -> str | None:
    data = parse(record.data)
    return None if data is None or "display" not in data else word(data.get("sessionId"))


def _words(data: Mapping[str, Any]) -> str:
    """Return what was typed, with what was pasted; a longer paste is stored elsewhere."""
    pasted = mapping(data.get("pastedContents"))

    def paste(found: re.Match[str]) -> str:
        return text(mapping(pasted.get(found[1])).get("content")) or found[0]

    return _PASTED.sub(paste, text(data.get("display"))).strip()


def _title(turns: Sequence[DraftTurn]) -> str | None:
    if not turns:
        return None
    (said,) = turns[0].query[0].parts
    assert isinstance(said, Text)
    mark = " (prompts only)"
    return word(" ".join(said.text.split())[: TITLE_MAX - len(mark)] + mark)
