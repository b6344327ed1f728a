"""What the agents of this machine are doing: their states, files, cost, and where they collide.

The states come from the board. What a turn edits and what a session costs is in the transcripts,
which are read by the importers. One that took long to read is read again later, so that watching
stays cheap however long a transcript is.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Final

from turntree.core.canonical import Json
from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.core.message_context import files_of
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.hooks.board import Board, BoardEntry, TurnTimes
from turntree.hooks.session_transcripts import list_transcripts
from turntree.transcripts.drafts import DraftTurn, Projection
from turntree.transcripts.importer import Importer, ToolPaths

READ_SHARE: Final = 1 / 400
"""The share of the time that reading one transcript again and again may take."""
SHOWN_MAX_S: Final = 12 * 3600
"""A session that is done for longer is not shown."""


@value
class AgentAtWork:
    """One session of a coding agent."""

    entry: BoardEntry
    title: str | None = None
    """Its last question."""
    edits: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """Absolute paths that a turn has written with an edit tool, by the time it began."""
    cost: Decimal | None = None
    """In US dollars at list prices; None if unknown."""

    @property
    def files(self) -> tuple[str, ...]:
        """What its current or last turn has written."""
        return self.edits.get(self.entry.turns[-1].begun_ms, ()) if self.entry.turns else ()

    @property
    def is_in_turn(self) -> bool:
        """Whether its turn goes on."""
        return self.entry.state in ("working", "waiting")

    def to_json(self) -> dict[str, Json]:
        """Return the document for programs."""
        entry = self.entry
        return {
            "tool": entry.tool,
            "session": entry.session,
            "state": entry.state,
            "since": instant(entry.since_ms),
            "folder": entry.place,
            "title": self.title,
            "files": [*self.files],
            "cost": None if self.cost is None else str(self.cost),
        }


@value
class FileOverlap:
    """A file that several agents edited in turns that ran at the same time."""

    path: str
    agents: tuple[AgentAtWork, ...]

    @property
    def is_going_on(self) -> bool:
        """Whether two of them are in a turn that has edited it."""
        return sum(agent.is_in_turn and self.path in agent.files for agent in self.agents) > 1

    def to_json(self) -> dict[str, Json]:
        """Return the document for programs."""
        sessions: list[Json] = [
            {"tool": agent.entry.tool, "session": agent.entry.session} for agent in self.agents
        ]
        return {"path": self.path, "sessions": sessions, "going_on": self.is_going_on}


@value
class _TranscriptFacts:
    """What a transcript says, and when it was read."""

    written_ns: int
    read_at: float
    took_s: float
    title: str | None = None
    edits: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    cost: Decimal | None = None
    interrupted_ms: int | None = None
    """When its last turn was interrupted; some tools report no end of such a turn."""


@dataclass(slots=True)
class AgentWatch:
    """Looks at the agents again and again, and reads only what has changed."""

    board: Board
    importers: Mapping[str, Importer]
    places: ToolPaths
    find_cost: Callable[[ModelCall, Timestamp], Decimal | None]
    """Returns the cost of a model call at list prices."""
    _entries: dict[str, tuple[int, BoardEntry]] = field(
        default_factory=dict[str, tuple[int, BoardEntry]]
    )
    _facts: dict[tuple[str, str], _TranscriptFacts] = field(
        default_factory=dict[tuple[str, str], _TranscriptFacts]
    )

    def look(self, *, all_states: bool = False) -> list[AgentAtWork]:
        """Return the agents: first those that wait, then those that work, then the others."""
        now_ms = time.time_ns() // 1_000_000
        found: list[AgentAtWork] = []
        for entry in self.board.list_entries(self._entries):
            is_old = entry.state == "closed" or now_ms - entry.at_ms > SHOWN_MAX_S * 1000
            if all_states or not is_old:
                found.append(self._describe(entry))
        order = ("waiting", "working", "done", "open", "closed")
        return sorted(found, key=lambda a: (order.index(a.entry.state), -a.entry.since_ms))

    def _describe(self, entry: BoardEntry) -> AgentAtWork:
        written_ns = 0
        if entry.transcript is not None:
            # It is created with the first answer.
            with suppress(FileNotFoundError):
                written_ns = Path(entry.transcript).stat().st_mtime_ns
        entry = entry.with_growth(written_ns // 1_000_000)
        key = entry.tool, entry.session
        facts = self._facts.get(key)
        # Without a path, only the next report tells that there is more to read.
        written_ns = written_ns or entry.at_ms * 1_000_000
        if facts is None or (facts.written_ns != written_ns and _is_due(facts)):
            facts = self._facts[key] = self._read(entry, written_ns)
        if facts.interrupted_ms is not None:
            entry = entry.with_interruption(facts.interrupted_ms)
        return AgentAtWork(entry, facts.title, facts.edits, facts.cost)

    def _read(self, entry: BoardEntry, written_ns: int) -> _TranscriptFacts:
        started, spent = time.monotonic(), time.thread_time()
        importer = self.importers.get(entry.tool)
        projection: Projection | None = None
        if importer is not None:
            # It is being written, and may be gone.
            with suppress(OSError):
                for bundle in list_transcripts(
                    importer, entry.session, entry.transcript, self.places
                ):
                    projection = importer.project(bundle, list(importer.read(bundle)))
        took_s = time.thread_time() - spent
        if projection is None:
            return _TranscriptFacts(written_ns, started, took_s)
        turns = [turn for turn in projection.turns if turn.kind == "normal"]
        return _TranscriptFacts(
            written_ns, started, took_s, _title(turns), _list_edits(projection, entry),
            self._sum(projection.turns), _find_interruption(turns),
        )  # fmt: skip

    def _sum(self, turns: Iterable[DraftTurn]) -> Decimal | None:
        """Return what the calls cost; None if a price is unknown: a part would look like all."""
        total = Decimal(0)
        for turn in turns:
            for call in turn.calls:
                cost = self.find_cost(call, turn.started_at)
                if cost is None:
                    return None
                total += cost
        return total


def find_overlaps(agents: Sequence[AgentAtWork]) -> list[FileOverlap]:
    """Return the files that two or more agents edited in turns that ran at the same time.

    One of the turns is the last of its session; what met earlier is history.
    """
    editors: dict[str, list[tuple[AgentAtWork, TurnTimes]]] = {}
    for agent in agents:
        for turn in agent.entry.turns:
            for path in agent.edits.get(turn.begun_ms, ()):
                editors.setdefault(path, []).append((agent, turn))
    overlaps: list[FileOverlap] = []
    for path, found in sorted(editors.items()):
        meeting: dict[tuple[str, str], AgentAtWork] = {}
        for last, turn in found:
            if turn != last.entry.turns[-1]:
                continue
            for other, their_turn in found:
                if other is not last and turn.meets(their_turn):
                    for agent in (last, other):
                        meeting[agent.entry.tool, agent.entry.session] = agent
        if meeting:
            overlaps.append(FileOverlap(path, tuple(meeting.values())))
    return overlaps


def _is_due(facts: _TranscriptFacts) -> bool:
    return time.monotonic() - facts.read_at >= facts.took_s / READ_SHARE


def _title(turns: Sequence[DraftTurn]) -> str | None:
    said = " ".join(message.text for message in turns[-1].query) if turns else ""
    return " ".join(said.split()) or None


def _find_interruption(turns: Sequence[DraftTurn]) -> int | None:
    last = turns[-1] if turns else None
    if last is None or last.open or last.outcome != "interrupted":
        return None
    return unix_ms(last.sealed_at)


def _list_edits(projection: Projection, entry: BoardEntry) -> dict[int, tuple[str, ...]]:
    """Return what was written in each of the session's last turns."""
    told = next((draft.details.get("cwd") for draft in projection.sessions), None)
    folder = Path(str(told or entry.place or "/"))
    edits: dict[int, dict[str, None]] = {}
    for turn in projection.turns:
        for message in turn.reply:
            at_ms = unix_ms(message.at or turn.sealed_at)
            begun = [times.begun_ms for times in entry.turns if times.begun_ms <= at_ms]
            paths = [file.path for file in files_of(message) if file.kind == "written"]
            if begun and paths:
                seat = edits.setdefault(begun[-1], {})
                seat |= {str(folder / path): None for path in paths}
    return {begun: tuple(paths) for begun, paths in edits.items()}
