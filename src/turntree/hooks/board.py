"""The board: the state of each session on this machine, as its hooks reported it last.

    spool/board/<digest>.json   one session: what it does, since when, in which folder

The hook daemon writes it with every report, before it takes a snapshot. Reading it needs neither
the daemon nor a database, and a report that was imported and removed from the spool stays here.
"""

import json
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import orjson

from turntree.core.value import value
from turntree.hooks.events import HookKind

FOLDER: Final = "board"
TURNS_MAX: Final = 8
"""Turns of a session that are remembered: a long turn of another agent may have met several."""
KEPT_MAX_S: Final = 7 * 24 * 3600
"""A session that has reported nothing for this long is forgotten."""
GROWTH_MIN_MS: Final = 300
"""A tool may still be writing the request for which it waits."""

AgentState = Literal["open", "working", "waiting", "done", "closed"]
AGENT_STATES: Final[tuple[AgentState, ...]] = get_args(AgentState)


class TurnTimes(NamedTuple):
    """When a turn ran."""

    begun_ms: int
    ended_ms: int | None
    """None while it goes on."""

    def meets(self, other: "TurnTimes") -> bool:
        """Whether both ran at the same time."""
        begins_late = other.ended_ms is not None and other.ended_ms < self.begun_ms
        ends_early = self.ended_ms is not None and self.ended_ms < other.begun_ms
        return not (begins_late or ends_early)


@value
class BoardEntry:
    """One session, as its hooks reported it last."""

    tool: str
    session: str
    state: AgentState
    at_ms: int
    """The last report."""
    since_ms: int
    """When it got into this state."""
    turns: tuple[TurnTimes, ...] = ()
    """Its last turns, oldest first."""
    place: str | None = None
    transcript: str | None = None

    def follow(
        self, kind: HookKind, at_ms: int, place: str | None, transcript: str | None
    ) -> "BoardEntry":
        """Return the entry after a report; one that comes late changes nothing."""
        if at_ms < self.at_ms:
            return self
        state = _next_state(self.state, kind)
        turns = self.turns
        if kind == "begin" or state in ("done", "closed"):
            turns = _end_last(turns, at_ms)
        if kind == "begin":
            turns = (*turns, TurnTimes(at_ms, None))[-TURNS_MAX:]
        # It may have worked between two waits, and no hook has said so.
        is_news = state != self.state or kind in ("begin", "wait")
        since = at_ms if is_news else self.since_ms
        return replace(
            self, state=state, at_ms=at_ms, since_ms=since, turns=turns,
            place=place or self.place, transcript=transcript or self.transcript,
        )  # fmt: skip

    def with_growth(self, written_ms: int) -> "BoardEntry":
        """Return the entry, given when its transcript was last written.

        No hook reports that a person has agreed, but the transcript goes on.
        """
        if self.state != "waiting" or written_ms <= self.since_ms + GROWTH_MIN_MS:
            return self
        return replace(self, state="working", since_ms=written_ms)

    def with_interruption(self, at_ms: int) -> "BoardEntry":
        """Return the entry, given when a turn was interrupted, which no hook may have reported."""
        is_running = self.state in ("working", "waiting")
        if not is_running or not self.turns or at_ms < self.turns[-1].begun_ms:
            return self
        return replace(self, state="done", since_ms=at_ms, turns=_end_last(self.turns, at_ms))


@value
class Board:
    """The entries of one spool."""

    folder: Path

    def note(
        self,
        kind: HookKind,
        tool: str,
        session: str,
        at_ms: int,
        place: str | None,
        transcript: str | None,
    ) -> None:
        """Record a report. Only one process may do so at a time."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / f"{sha256(f'{tool}/{session}'.encode()).hexdigest()[:24]}.json"
        before = _read(path) or BoardEntry(tool, session, "open", 0, at_ms)
        after = before.follow(kind, at_ms, place, transcript)
        if after == before:
            return
        with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False) as fresh:
            json.dump(asdict(after), fresh)
        os.replace(fresh.name, path)  # noqa: PTH105  (the board is written with every report)

    def list_entries(self, known: dict[str, tuple[int, BoardEntry]]) -> list[BoardEntry]:
        """Return all sessions; ``known`` keeps what has not changed since the last call."""
        entries: list[BoardEntry] = []
        oldest = time.time() - KEPT_MAX_S
        try:
            found = list(os.scandir(self.folder))
        except FileNotFoundError:
            return []
        for file in found:
            # Another process may replace or remove it meanwhile.
            with suppress(FileNotFoundError):
                stat = file.stat()
                if stat.st_mtime < oldest:
                    Path(file.path).unlink()
                    known.pop(file.name, None)
                    continue
                before = known.get(file.name)
                if before is None or before[0] != stat.st_mtime_ns:
                    entry = _read(file.path) if file.name.endswith(".json") else None
                    if entry is None:
                        continue
                    known[file.name] = before = stat.st_mtime_ns, entry
                entries.append(before[1])
        return entries


def _next_state(state: AgentState, kind: HookKind) -> AgentState:
    match kind:
        case "session":
            # Some tools open a session again in the middle of a turn, after a compaction.
            return state if state in ("working", "waiting") else "open"
        case "begin" | "cut":
            return "working"
        case "call" | "return":
            # The user has agreed, or was not asked.
            return "working" if state == "waiting" else state
        case "wait":
            # A tool may also say that it is idle.
            return "waiting" if state in ("working", "waiting") else state
        case "end":
            return "done"
        case "close":
            return "closed"


def _end_last(turns: tuple[TurnTimes, ...], at_ms: int) -> tuple[TurnTimes, ...]:
    if not turns or turns[-1].ended_ms is not None:
        return turns
    return (*turns[:-1], turns[-1]._replace(ended_ms=at_ms))


def _read(path: Path | str) -> BoardEntry | None:
    try:
        # Unbuffered, and without a Path for the watcher: for a file this small they take longer
        # than reading it.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            told: dict[str, Any] = orjson.loads(file.read())
        turns = tuple(TurnTimes(*times) for times in told.pop("turns"))
        entry = BoardEntry(**told, turns=turns)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        # Written by another version. The next report of the session writes it anew.
        return None
    return entry if entry.state in AGENT_STATES else None
