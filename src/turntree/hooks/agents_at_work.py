"""What the agents of this machine are doing: their states, files, cost, and where they collide.

The states come from the board, what a turn edits and what a session costs from the transcripts.
All sessions share the time that reading transcripts may take, so that watching stays cheap however
many there are and however long they get: then they are read later.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Final

from turntree.core.canonical import Json
from turntree.core.ids import Timestamp, instant
from turntree.core.value import value
from turntree.hooks.board import AgentState, Board, BoardEntry, TurnTimes
from turntree.hooks.transcript_facts import FindCost, FollowedTranscript, TranscriptFacts
from turntree.transcripts.importer import Importer, ToolPaths

SHORT_READ_MAX_S: Final = 0.01
"""A reading that takes longer is a long one: those share time of their own.

Otherwise one long transcript would keep all others waiting.
"""
SHORT_SHARE: Final = 1 / 250
"""The share of the time that short readings may take together."""
LONG_SHARE: Final = 1 / 600
"""The share of the time that long readings may take together."""
SESSION_SHARE: Final = 1 / 800
"""The share of the time that reading one transcript again and again may take."""
REST_AFTER_TURN: Final = 4
"""As many times longer may it take until what a session wrote after its turn is read.

That is what its last answer has cost; it edits no more files.
"""
CREDIT_MAX_S: Final = 2.0
"""As much unused time is kept for the next readings."""
SHOWN_MAX_S: Final = 12 * 3600
"""A session that is done for longer is not shown."""
MOMENTS_MAX: Final = 1000
ORDER: Final[tuple[AgentState, ...]] = ("waiting", "working", "done", "open", "closed")


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
            "since": _instant(entry.since_ms),
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


@dataclass(slots=True)
class ReadingPace:
    """Keeps what is spent on reading within a share of the time."""

    share: float
    free_at: float = 0.0
    """From when on there may be another reading."""

    def charge(self, now: float, took_s: float) -> None:
        """Count a reading."""
        self.free_at = max(self.free_at, now - CREDIT_MAX_S) + took_s / self.share


@dataclass(slots=True)
class _WatchedSession:
    """A session, and what was read of it."""

    entry: BoardEntry
    transcript: FollowedTranscript | None
    written_ns: int = 0
    """When its transcript was last written; 0 if there is none, or its path is unknown."""
    read_ns: int | None = None
    """What ``version`` was when it was read."""
    read_at: float = 0.0
    expected_s: float = 0.0
    """How long the next reading takes."""
    is_urgent: bool = False
    """Whether there is more to read that was written in a turn."""
    facts: TranscriptFacts = field(default_factory=TranscriptFacts)
    _agent: AgentAtWork | None = None

    @property
    def version(self) -> int:
        """A number that changes when there is more to read."""
        # Without a path, only the next report tells it.
        return self.written_ns or self.entry.at_ms * 1_000_000

    def see(self, entry: BoardEntry) -> None:
        """Look whether something has changed."""
        written_ns = 0
        if entry.transcript is not None:
            # It is created with the first answer.
            with suppress(FileNotFoundError):
                # For each session, twice a second: a Path would take longer than the call.
                written_ns = os.stat(entry.transcript).st_mtime_ns  # noqa: PTH116
        if entry is not self.entry or written_ns != self.written_ns:
            is_in_turn = entry.state in ("working", "waiting")
            self.is_urgent = self.is_urgent or (is_in_turn and written_ns != self.written_ns)
            self.entry, self.written_ns, self._agent = entry, written_ns, None

    def read(self) -> float:
        """Read what its transcript says, and return how long that took."""
        self.read_ns, self.read_at, self.is_urgent = self.version, time.monotonic(), False
        had_read = 0 if self.transcript is None else self.transcript.records_kept
        spent = time.thread_time()
        facts = TranscriptFacts()
        if self.transcript is not None:
            # It is being written, and may be gone.
            with suppress(OSError):
                facts = self.transcript.read(self.entry)
        if facts != self.facts:
            self.facts, self._agent = facts, None
        took_s = time.thread_time() - spent
        # Once it was read whole, only what was appended must be read.
        is_followed = self.transcript is not None and self.transcript.records_kept > 0
        self.expected_s = 0.0 if is_followed and not had_read else took_s
        return took_s

    def describe(self) -> AgentAtWork:
        """Return what it does; the same object as long as nothing has changed."""
        if self._agent is None:
            entry, facts = self.entry.with_growth(self.written_ns // 1_000_000), self.facts
            if facts.interrupted_ms is not None:
                entry = entry.with_interruption(facts.interrupted_ms)
            edits = facts.edits_by_turn(entry.turns)
            self._agent = AgentAtWork(entry, facts.title, edits, facts.cost)
        return self._agent


@dataclass(slots=True)
class AgentWatch:
    """Looks at the agents again and again, and reads only what has changed."""

    board: Board
    importers: Mapping[str, Importer]
    places: ToolPaths
    find_cost: FindCost
    short_pace: ReadingPace = field(default_factory=lambda: ReadingPace(SHORT_SHARE))
    long_pace: ReadingPace = field(default_factory=lambda: ReadingPace(LONG_SHARE))
    _entries: dict[str, tuple[int, BoardEntry]] = field(
        default_factory=dict[str, tuple[int, BoardEntry]]
    )
    _sessions: dict[tuple[str, str], _WatchedSession] = field(
        default_factory=dict[tuple[str, str], _WatchedSession]
    )
    _found: list[AgentAtWork] = field(default_factory=list[AgentAtWork])

    def look(self, *, all_states: bool = False) -> list[AgentAtWork]:
        """Return the agents: first those that wait, then those that work, then the others.

        It is the same list as the last time if nothing has changed.
        """
        now_ms = time.time_ns() // 1_000_000
        sessions: list[_WatchedSession] = []
        for entry in self.board.list_entries(self._entries):
            is_old = entry.state == "closed" or now_ms - entry.at_ms > SHOWN_MAX_S * 1000
            if all_states or not is_old:
                sessions.append(self._see(entry))
        self._read([session for session in sessions if session.read_ns != session.version])
        found = sorted((session.describe() for session in sessions), key=_place)
        if found != self._found:
            self._found = found
        return self._found

    def _see(self, entry: BoardEntry) -> _WatchedSession:
        key = entry.tool, entry.session
        session = self._sessions.get(key)
        if session is None:
            importer = self.importers.get(entry.tool)
            transcript = None
            if importer is not None:
                transcript = FollowedTranscript(importer, self.places, self.find_cost)
            session = self._sessions[key] = _WatchedSession(entry, transcript)
        session.see(entry)
        return session

    def _read(self, stale: Sequence[_WatchedSession]) -> None:
        """Read what there is time for; what was never read, and then what was read first."""
        for session in sorted(stale, key=lambda session: session.read_at):
            if session.read_ns is None:
                # Each is read once without delay, and then it is known how long that takes.
                session.read()
                continue
            rest_s = session.expected_s / SESSION_SHARE
            rested_at = session.read_at + rest_s * (1 if session.is_urgent else REST_AFTER_TURN)
            if time.monotonic() >= max(rested_at, self._pace(session.expected_s).free_at):
                took_s = session.read()
                self._pace(took_s).charge(session.read_at, took_s)

    def _pace(self, took_s: float) -> ReadingPace:
        return self.short_pace if took_s <= SHORT_READ_MAX_S else self.long_pace


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
        current = [(agent, turn) for agent, turn in found if turn == agent.entry.turns[-1]]
        if not current or len(found) == 1:
            continue
        # Most turns that are remembered ended before any of these began.
        since = min(turn.begun_ms for _, turn in current)
        recent = [pair for pair in found if pair[1].ended_ms is None or pair[1].ended_ms >= since]
        meeting: dict[tuple[str, str], AgentAtWork] = {}
        for last, turn in current:
            for other, their_turn in recent:
                if other is not last and turn.meets(their_turn):
                    for agent in (last, other):
                        meeting[agent.entry.tool, agent.entry.session] = agent
        if meeting:
            overlaps.append(FileOverlap(path, tuple(meeting.values())))
    return overlaps


@lru_cache(maxsize=MOMENTS_MAX)
def _instant(unix_ms: int) -> Timestamp:
    """Return a timestamp; most sessions are shown many times between two changes."""
    return instant(unix_ms)


def _place(agent: AgentAtWork) -> tuple[int, int]:
    return ORDER.index(agent.entry.state), -agent.entry.since_ms
