"""The spool: hook events that are not reconciled yet, as files in one folder.

    spool/*.raw            what a tool sent; deleted once it is parsed
    spool/<ns>-*.event     an event: which tool, which session, which folder
    spool/<ns>-*.snapshot  the snapshot of the workspace that was taken then
    spool/*.late           the agent did not wait for the snapshot of this event
    spool/board/           the state of each session; see ``board``
    spool/daemon.fifo      the FIFO on which the hook daemon listens
    spool/drain.lock       held by the process that reads the spool
    spool/errors.log       errors, newest last
    spool/errors_cleared   the time of the last success; earlier errors no longer count
    spool/last.json        what was read last
    spool/heard-<tool>     empty; its time is that of the tool's last report

The hook process writes the first file and the hook daemon the next two. Nothing here knows a
ledger.
"""

import json
import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

from turntree.core.ids import Timestamp, instant
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.db.embedded.account import make_home
from turntree.hooks.events import SIGHTING_KINDS, AgentStream, HookEvent
from turntree.resources.driver import TakenSnapshot
from turntree.system.processes import lock_file

FOLDER: Final = "spool"
VERSION: Final = 1
SAID: Final = ".raw"
SIGHTING: Final = ".event"
STATE: Final = ".snapshot"
LATE: Final = ".late"
HEARD: Final = "heard-"
# A hook that fails on every call must not fill the disk.
ERRORS_MAX_BYTES: Final = 256 * 1024
PENDING_MAX_S: Final = 600
"""A snapshot that takes longer than this will never be finished."""
_CONSISTENCIES: Final = ("exact", "crash_consistent", "inconsistent")


@value
class SpooledEvent:
    """A hook event, and the snapshot that was taken with it."""

    sighting: HookEvent
    taken: TakenSnapshot | None
    error: str | None
    """Why the snapshot is missing."""
    is_pending: bool
    """Whether the snapshot is still being taken."""


@value
class Spool:
    """The spool of one data directory."""

    folder: Path

    def _make(self) -> None:
        make_home(self.folder.parent)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def reading(self) -> Generator[bool]:
        """Lock the spool for reading; yields False if another process holds the lock."""
        self._make()
        with (self.folder / "drain.lock").open("w") as lock:
            yield lock_file(lock.fileno())

    def read(self) -> list[SpooledEvent]:
        """Return the events, oldest first; unreadable ones are set aside."""
        found: list[SpooledEvent] = []
        for path in self.list_paths():
            try:
                found.append(_spooled(path, is_late=self.late_path(path.stem).exists()))
            except FileNotFoundError:
                # Another process read it first.
                continue
            except (ValueError, KeyError, TypeError) as error:
                # Set aside, not deleted: it may be all that is known of a turn's files, and another
                # version may be able to read it.
                self.complain(f"{path.name} is not a hook event and was set aside: {error!r}")
                path.replace(path.with_suffix(".unreadable"))
        return found

    def list_paths(self) -> list[Path]:
        """Return the files of events, oldest first."""
        return sorted(self.folder.glob(f"*{SIGHTING}")) if self.folder.is_dir() else []

    def list_said(self) -> list[Path]:
        """Return the raw files that are not parsed yet, oldest first."""
        return [path for _, path in self._said()]

    def first_said(self) -> str | None:
        """Return a name that sorts before the events of all unparsed raw files, or None."""
        return next((f"{at:020d}" for at, _ in self._said()), None)

    def _said(self) -> list[tuple[int, Path]]:
        found: list[tuple[int, Path]] = []
        for path in self.folder.glob(f"*{SAID}") if self.folder.is_dir() else ():
            # Another process read and removed it between the listing and this call.
            with suppress(FileNotFoundError):
                found.append((path.stat().st_mtime_ns, path))
        return sorted(found)

    def remove(self, sightings: Iterable[HookEvent]) -> None:
        """Delete events that have been read."""
        for sighting in sightings:
            for suffix in (SIGHTING, STATE):
                (self.folder / f"{sighting.id}{suffix}").unlink(missing_ok=True)
            self.late_path(sighting.id).unlink(missing_ok=True)

    def late_path(self, id: str) -> Path:
        """Return where a hook notes that its agent did not wait for the snapshot of an event.

        The event's id begins with a time that the hook does not know.
        """
        return self.folder / f"{id.partition('-')[2]}{LATE}"

    def complain(self, text: str) -> None:
        """Log an error; the file's size is bounded."""
        self._make()
        path = self.folder / "errors.log"
        # No log yet.
        with suppress(FileNotFoundError):
            if path.stat().st_size > ERRORS_MAX_BYTES:
                path.replace(path.with_suffix(".log.1"))
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{self.now()} {' '.join(text.split())}\n")

    def now(self) -> Timestamp:
        """Return the current time, as errors are stamped."""
        return instant(time.time_ns() // 1_000_000)

    def overcome(self, since: Timestamp) -> None:
        """Mark errors before a timestamp as resolved: everything since then was read.

        The timestamp is when the reading began, so errors during it still count.
        """
        fresh = self.folder / "errors_cleared.new"
        fresh.write_text(since, encoding="utf-8")
        fresh.replace(self.folder / "errors_cleared")

    def last_error(self) -> str | None:
        """Return the last error that is not resolved."""
        overcome = self._read("errors_cleared")
        for name in ("errors.log", "errors.log.1"):
            if lines := self._read(name).strip():
                last = lines.splitlines()[-1]
                return last if last.partition(" ")[0] >= overcome else None
        return None

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def note_heard(self, tool: str) -> None:
        """Record that all a tool has written so far is accounted for."""
        self._make()
        (self.folder / f"{HEARD}{tool}").touch()

    def heard_at(self, tool: str) -> float | None:
        """Return when a tool last reported, in seconds since 1970; None if it never has."""
        try:
            return (self.folder / f"{HEARD}{tool}").stat().st_mtime
        except FileNotFoundError:
            return None

    def note_last(self, told: Mapping[str, Any]) -> None:
        """Record what was read last."""
        fresh = self.folder / "last.json.new"
        fresh.write_text(json.dumps(told), encoding="utf-8")
        fresh.replace(self.folder / "last.json")

    def find_last(self) -> dict[str, Any] | None:
        """Return what was read last, or None."""
        try:
            found = json.loads((self.folder / "last.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            # Half a file: the writer was killed. What was read last is only information for people.
            return None
        return cast("dict[str, Any]", found)


def _spooled(path: Path, *, is_late: bool) -> SpooledEvent:
    told: dict[str, Any] = json.loads(path.read_bytes())
    kind = told["kind"]
    if told["version"] != VERSION or kind not in SIGHTING_KINDS:
        raise ValueError(f"version {told['version']}, kind {kind}")
    stream = AgentStream(str(told["tool"]), str(told["session"]), _text(told["agent"]))
    try:
        state: dict[str, Any] = json.loads(path.with_suffix(STATE).read_bytes())
    except FileNotFoundError:
        state = {}
    # Between the hook and the snapshot, the agent may have changed files; the daemon has looked.
    is_missing = is_late and state.get("is_touched", True)
    late_ms = state.get("at_ms", told["at_ms"]) - told["at_ms"] if is_missing else None
    sighting = HookEvent(
        path.stem, stream, kind, instant(told["at_ms"]), _text(told["place"]),
        _text(told["transcript"]), _text(told.get("call")), is_late, late_ms,
    )  # fmt: skip
    if not state:
        # The hook writes the event first and the snapshot's result later. Wait only while the
        # hook's process is alive, or a killed one would hold this event back for ever.
        is_pending = sighting.place is not None and _is_at_work(told["pid"], path)
        error = None if is_pending or sighting.place is None else "the snapshot was never finished"
        return SpooledEvent(sighting, None, error, is_pending)
    if "error" in state:
        return SpooledEvent(sighting, None, str(state["error"]), is_pending=False)
    return SpooledEvent(sighting, _taken(state), None, is_pending=False)


def _taken(state: Mapping[str, Any]) -> TakenSnapshot:
    external = ExtRef(str(state["external"]["kind"]), str(state["external"]["id"]))
    consistency = state["consistency"]
    if consistency not in _CONSISTENCIES:
        raise ValueError(f"no such consistency: {consistency}")
    size, files, stored = (int(state[name]) for name in ("size", "files", "stored"))
    return TakenSnapshot(external, size, files, stored, consistency)


def _text(value: object) -> str | None:
    return str(value) if value else None


def _is_at_work(pid: int, path: Path) -> bool:
    if time.time() - path.stat().st_mtime > PENDING_MAX_S:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # It runs under another account, so it is alive.
        return True
    return True
