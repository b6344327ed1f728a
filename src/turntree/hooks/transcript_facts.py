"""What a session's transcript says at this moment: its question, what it edits, what it costs.

A transcript is read whole once, then only what was appended to it. Importers project records, so
the last turn is projected again with its new records. The turns before it are left out, once it was
tried that turns say the same without those before. A transcript of which that is not true, and one
of several files, is read whole every time. Now and then each one is: what follows may lead back to
a turn that was left out, as when a person rewinds a chat.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Final

from turntree.core.ids import Timestamp, unix_ms
from turntree.core.message_context import files_of
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.hooks.board import BoardEntry, TurnTimes
from turntree.hooks.session_transcripts import list_transcripts
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftTurn, Projection
from turntree.transcripts.importer import Importer, ToolPaths, TranscriptRef
from turntree.transcripts.importers.shared.lenient_json import read_lines

FindCost = Callable[[ModelCall, Timestamp], Decimal | None]
"""Returns the cost of a model call at list prices."""
TURNS_PROVEN: Final = 2
"""So many turns before the last tell whether one can be read without another."""
PATHS_MAX: Final = 1000
WHOLE_MIN_S: Final = 300.0
WHOLE_SHARE: Final = 1 / 5000
"""Of the time may go to reading a followed transcript whole again."""
REOPEN_MIN_S: Final = 20.0
REOPEN_SHARE: Final = 1 / 2000
"""Of the time may go to looking whether a transcript has got more files, as with a subagent.

Some tools have one folder for all their transcripts, and an importer reads each one's first line.
"""


@value
class FileEdit:
    """A file that was written with an edit tool."""

    at_ms: int
    path: str
    """Absolute."""


@value
class TranscriptFacts:
    """What a transcript, or a part of it, says."""

    title: str | None = None
    """The last question."""
    edits: tuple[FileEdit, ...] = ()
    cost: Decimal | None = None
    """None if a price is unknown: a part would look like all."""
    interrupted_ms: int | None = None
    """When its last turn was interrupted; some tools report no end of such a turn."""

    def followed_by(self, later: "TranscriptFacts") -> "TranscriptFacts":
        """Return the facts of both parts."""
        is_known = self.cost is not None and later.cost is not None
        return TranscriptFacts(
            later.title or self.title,
            (*self.edits, *later.edits),
            (self.cost or 0) + (later.cost or Decimal(0)) if is_known else None,
            later.interrupted_ms,
        )

    def since(self, at_ms: int) -> "TranscriptFacts":
        """Return the facts without older edits."""
        edits = tuple(edit for edit in self.edits if edit.at_ms >= at_ms)
        return TranscriptFacts(self.title, edits, self.cost, self.interrupted_ms)

    def edits_by_turn(self, turns: Sequence[TurnTimes]) -> dict[int, tuple[str, ...]]:
        """Return the paths that each turn has written, by the time it began."""
        found: dict[int, dict[str, None]] = {}
        for edit in self.edits:
            begun = [times.begun_ms for times in turns if times.begun_ms <= edit.at_ms]
            if begun:
                found.setdefault(begun[-1], {})[edit.path] = None
        return {begun: tuple(paths) for begun, paths in found.items()}


NO_TURNS: Final = TranscriptFacts(cost=Decimal(0))


@dataclass(slots=True)
class FollowedTranscript:
    """Reads one session's transcript again and again."""

    importer: Importer
    places: ToolPaths
    find_cost: FindCost
    _path: str | None = None
    """What the hooks have named."""
    _ref: TranscriptRef | None = None
    _records: list[RawRecord] = field(default_factory=list[RawRecord])
    """What begins the file, and those of the last turn; empty if it must be read whole."""
    _settled: TranscriptFacts = NO_TURNS
    """Of the turns before."""
    _is_proven: bool = False
    """Whether its turns say the same without those before."""
    _whole_at: float = 0.0
    _reopen_at: float = 0.0

    @property
    def records_kept(self) -> int:
        """Number of records that need not be read again; 0 if it must be read whole."""
        return len(self._records)

    def read(self, entry: BoardEntry) -> TranscriptFacts:
        """Return what it says now; nothing if it is not there.

        Raises:
            OSError: It cannot be read now: it is being written, or gone.
        """
        began, spent = time.monotonic(), time.thread_time()
        if began >= self._reopen_at or entry.transcript != self._path:
            self._reopen(entry)
        if self._ref is None:
            return TranscriptFacts()
        is_whole = began >= self._whole_at or not self._append(self._ref)
        if is_whole:
            self._records = list(self.importer.read(self._ref))
            self._settled, self._is_proven = NO_TURNS, False
        projection = self.importer.project(self._ref, self._records)
        facts = self._settled.followed_by(self._facts_of(projection, projection.turns, entry))
        self._settle(self._ref, projection, entry)
        if is_whole:
            took_s = time.thread_time() - spent
            self._whole_at = began + max(WHOLE_MIN_S, took_s / WHOLE_SHARE)
        return facts

    def _reopen(self, entry: BoardEntry) -> None:
        began, spent = time.monotonic(), time.thread_time()
        ref: TranscriptRef | None = None
        for found in list_transcripts(self.importer, entry.session, entry.transcript, self.places):
            ref = found
        if ref is None or self._ref is None or ref.files != self._ref.files:
            self._ref, self._records = ref, []
        self._path = entry.transcript
        took_s = time.thread_time() - spent
        if ref is not None:
            self._reopen_at = began + max(REOPEN_MIN_S, took_s / REOPEN_SHARE)

    def _append(self, ref: TranscriptRef) -> bool:
        """Read what is new; return False if the file does not just go on.

        The last record is read again, because its line may not have been complete.
        """
        if not self._records:
            return False
        last = self._records[-1]
        fresh = list(read_lines(ref.files[0], last.file, last.offset))
        if not fresh or not fresh[0].data.startswith(last.data):
            return False
        self._records[-1:] = fresh
        return True

    def _settle(self, ref: TranscriptRef, projection: Projection, entry: BoardEntry) -> None:
        """Leave out all turns but the last, if turns say the same without those before."""
        is_plain = len(ref.files) == 1 and ref.files[0].suffix == ".jsonl"
        if not is_plain or not projection.turns:
            self._records = []
            return
        *past, last = projection.turns
        if not past or (not self._is_proven and len(past) < TURNS_PROVEN):
            return
        if not self._is_proven:
            # The last turn may have just begun; the one before it has all that a turn has.
            *older, whole = past
            rest = self.importer.project(ref, self._without(older, [whole, last]))
            expected = self._facts_of(projection, [whole, last], entry)
            self._is_proven = self._facts_of(rest, rest.turns, entry) == expected
        kept = self._without(past, [last])
        # What is appended follows the last record of the file.
        if not self._is_proven or not kept or kept[-1] is not self._records[-1]:
            self._records = []
            return
        settled = self._settled.followed_by(self._facts_of(projection, past, entry))
        # Edits before the turns that the board remembers belong to none of them.
        self._settled = settled.since(entry.turns[0].begun_ms) if entry.turns else settled
        self._records = kept

    def _without(self, past: Sequence[DraftTurn], rest: Sequence[DraftTurn]) -> list[RawRecord]:
        """Return the records of the rest, and those before all turns, which say whose they are."""
        needed = {place for turn in rest for place in turn.records}
        dropped = {place for turn in past for place in turn.records} - needed
        first, start = min(dropped, default=0), min(needed, default=0)
        return [
            record
            for place, record in enumerate(self._records)
            if place < first or (place >= start and place not in dropped)
        ]

    def _facts_of(
        self, projection: Projection, turns: Sequence[DraftTurn], entry: BoardEntry
    ) -> TranscriptFacts:
        normal = [turn for turn in turns if turn.kind == "normal"]
        told = next((draft.details.get("cwd") for draft in projection.sessions), None)
        folder = str(told or entry.place or "/")
        edits = tuple(edit for turn in turns for edit in _list_edits(turn, folder))
        return TranscriptFacts(_title(normal), edits, self._sum(turns), _find_interruption(normal))

    def _sum(self, turns: Sequence[DraftTurn]) -> Decimal | None:
        total = Decimal(0)
        for turn in turns:
            for call in turn.calls:
                cost = self.find_cost(call, turn.started_at)
                if cost is None:
                    return None
                total += cost
        return total


def _title(turns: Sequence[DraftTurn]) -> str | None:
    said = " ".join(message.text for message in turns[-1].query) if turns else ""
    return " ".join(said.split()) or None


def _find_interruption(turns: Sequence[DraftTurn]) -> int | None:
    last = turns[-1] if turns else None
    if last is None or last.open or last.outcome != "interrupted":
        return None
    return unix_ms(last.sealed_at)


def _list_edits(turn: DraftTurn, folder: str) -> Iterator[FileEdit]:
    for message in turn.reply:
        for file in files_of(message):
            if file.kind == "written":
                at_ms = unix_ms(message.at or turn.sealed_at)
                yield FileEdit(at_ms, _absolute(folder, file.path))


@lru_cache(maxsize=PATHS_MAX)
def _absolute(folder: str, path: str) -> str:
    return str(Path(folder) / path)
