"""The attendant: a process that hooks leave behind, so that the next hook need not wait for one.

It holds what takes time to load, listens at a FIFO of the spool for the names of files in which
hooks have left what a tool said, and makes of each a sighting and a state of the workspace. After
a while in which nobody has said anything it goes. Whatever it leaves undone, when it is killed, the
next one finds.

It must never talk to a database, and never keep what was said: only names and places.
"""

import json
import os
import select
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from turntree.cli.hook_process.entry import FIFO, write_whole
from turntree.core.errors import TurntreeError
from turntree.hooks.spool import SIGHTING, STATE, VERSION, Spool
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.system.processes import lock_file

IDLE_S: Final = 600
WORKERS: Final = 4
LINE_MAX_BYTES: Final = 4096
LOCK: Final = "daemon.lock"
"""Held by the attendant, whose process it names."""


def attend(folder: str) -> None:
    """Deal with what hooks have said and go on listening, unless somebody else does."""
    # A process that stays must not hold anybody's folder.
    os.chdir("/")
    attendant = HookDaemon(Spool(Path(folder)))
    with _alone(Path(folder)) as is_alone:
        if is_alone:
            attendant.listen()
        else:
            attendant.take_all()


def take_left(spool: Spool) -> None:
    """Deal with what was said to an attendant that is no more."""
    if not spool.list_said():
        return
    with _alone(spool.folder) as is_alone:
        if is_alone:
            HookDaemon(spool).take_all()


class HookDaemon:
    """Makes sightings and states of what was said."""

    def __init__(self, spool: Spool) -> None:
        """Serve one spool."""
        self._spool = spool
        self._home = spool.folder.parent
        self._keeper = DirectoryDriver(self._home)
        self._places: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._busy: set[str] = set()

    def listen(self) -> None:
        """Take whatever is said until nobody says anything any more."""
        fifo = self._spool.folder / FIFO
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o600)
        # Open for writing too: so it stays open when the last hook has gone.
        pipe = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        born = Path(__file__).stat().st_mtime_ns
        with ThreadPoolExecutor(WORKERS) as workers:
            self.take_all(workers)
            while select.select([pipe], [], [], IDLE_S)[0]:
                os.read(pipe, LINE_MAX_BYTES)
                # What a line names is in the folder, and so is what a line was lost of.
                self.take_all(workers)
                if not _is_still(Path(__file__), born):
                    break
            # Who has written to it until now has left a file before, which is found here.
            fifo.unlink(missing_ok=True)
            self.take_all(workers)

    def take_all(self, workers: ThreadPoolExecutor | None = None) -> None:
        """Take everything that nobody has taken, each place in the order of what was said."""
        for path in self._spool.list_said():
            if path.name in self._busy:
                continue
            self._busy.add(path.name)
            if workers is None:
                self._take(path)
            else:
                workers.submit(self._take, path)

    def _take(self, path: Path) -> None:
        try:
            with suppress(FileNotFoundError):
                self._note(path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._spool.complain(f"hook: what was said is not understood: {error!r}")
        finally:
            path.unlink(missing_ok=True)
            self._busy.discard(path.name)

    def _note(self, path: Path) -> None:
        sighting = read_said(path, str(self._home))
        place, at_ns = sighting["place"], path.stat().st_mtime_ns
        stem = str(path.with_name(f"{at_ns:020d}-{path.stem}"))
        write_whole(f"{stem}{SIGHTING}", json.dumps(sighting).encode())
        if place is not None:
            write_whole(f"{stem}{STATE}", json.dumps(self._keep(place)).encode())

    def _keep(self, place: str) -> dict[str, Any]:
        """Have the state of a folder kept and return what it is known by."""
        started = time.monotonic()
        try:
            with self._places[place]:
                taken = self._keeper.snapshot(place)
        except (TurntreeError, OSError) as error:
            return {"error": f"{place} was not kept: {error}"}
        return {**asdict(taken), "seconds": round(time.monotonic() - started, 3)}


def read_said(path: Path, home: str) -> dict[str, Any]:
    """Return the sighting that a file of what a tool said amounts to.

    Raises:
        FileNotFoundError: Somebody has looked at it already.
        ValueError, KeyError, TypeError, AttributeError: It is not understood.
    """
    head, _, said = path.read_bytes().partition(b"\n")
    tool, kind, folder, stands = head.decode("utf-8", "surrogateescape").split("\0")
    told: dict[str, Any] = json.loads(said or b"{}")
    return {
        "version": VERSION,
        "tool": tool,
        "kind": kind,
        "at_ms": path.stat().st_mtime_ns // 1_000_000,
        "session": told["session_id"],
        "agent": told.get("agent_id"),
        "transcript": told.get("transcript_path"),
        "place": find_place(folder or told.get("cwd") or stands, home),
        "pid": os.getpid(),
    }


def find_place(folder: str, home: str) -> str | None:
    """Return the folder whose state is kept: the repository's top, or the folder itself.

    None where that would be everything somebody has: their home, what is above it, or what holds
    Turntree's own files.
    """
    start = Path(folder).resolve()
    spared = (Path.home().resolve(), Path(home).resolve())
    top = next((at for at in (start, *start.parents) if os.path.lexists(at / ".git")), start)
    for place in (top, start):
        if not any(path == place or place in path.parents for path in spared):
            return str(place)
    return None


def _is_still(path: Path, born: int) -> bool:
    """Say whether the program is the one that runs; another one was installed otherwise."""
    try:
        return path.stat().st_mtime_ns == born
    except FileNotFoundError:
        return False


@contextmanager
def _alone(folder: Path) -> Generator[bool]:
    with (folder / LOCK).open("a+") as lock:
        if not lock_file(lock.fileno()):
            yield False
            return
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield True
        lock.truncate(0)
