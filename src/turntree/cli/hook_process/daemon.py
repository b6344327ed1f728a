"""The hook daemon: a process that hooks leave running, so that the next hook need not start one.

It has the slow imports loaded, listens on a FIFO in the spool for the names of files in which hooks
left a tool's report, and turns each into a hook event and a snapshot of the workspace. It exits
after a while without reports. Work it left undone when it was killed is found by the next daemon.

It must never use the database, and never store message contents: only names and paths.
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import anyio

from turntree.cli.hook_process.entry import FIFO, PACKAGES, is_listening, write_whole
from turntree.core.errors import InvalidOperation, TurntreeError
from turntree.hooks.board import FOLDER as BOARD
from turntree.hooks.board import Board
from turntree.hooks.coding_agents import CODEX, TOOLS
from turntree.hooks.events import HOOK_KINDS, JUDGE_KINDS
from turntree.hooks.hook_judge import HookAnswer, HookJudge
from turntree.hooks.spool import SIGHTING, STATE, VERSION, Spool
from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision
from turntree.policy.evaluate import Evaluator
from turntree.policy.local import FOLDER as JUDGE
from turntree.policy.local import shipped_policy
from turntree.policy.policy import Policy
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.sandbox.monty import MontyLane
from turntree.sandbox.sandbox import Sandbox
from turntree.system.processes import lock_file

IDLE_S: Final = 600
WORKERS: Final = 4
LINE_MAX_BYTES: Final = 4096
LOCK: Final = "daemon.lock"
"""Lock file of the daemon; it holds the daemon's process id."""
BOARD_FIELDS: Final = ("kind", "tool", "session", "at_ms", "place", "transcript")
WAITING: Final = frozenset({
    "permission_prompt", "elicitation_dialog", "agent_needs_input", "ToolPermission",
})  # fmt: skip
"""Types of notifications that wait for the user; others tell that a tool is idle, or greet."""
STOP: Final = b"stop\n"
"""What the FIFO is sent to end the daemon. Not a signal: after a crash, or in another container,
the process id may be that of another program.
"""
ANSWER: Final = ".answer"
ANSWER_MARGIN_S: Final = 0.15
"""How long before a hook stops waiting an answer is given up: it would use up an approval."""
ANSWER_KEPT_S: Final = 60
"""How old an answer is when no hook reads it any more."""
TOUCHED_MIN_MS: Final = 20
"""A snapshot that took longer than this may contain what the agent did meanwhile."""
STOP_MAX_S: Final = 30
START_MAX_S: Final = 20
STOP_POLL_S: Final = 0.02


def attend(folder: str) -> None:
    """Process the reports of hooks and keep listening, unless another daemon does."""
    # A long-lived process must not keep a project's folder busy as its working directory.
    os.chdir("/")
    attendant = HookDaemon(Spool(Path(folder)))
    with _alone(Path(folder)) as is_alone:
        if is_alone:
            attendant.listen()
        else:
            attendant.take_all()


def take_left(spool: Spool) -> None:
    """Process the reports that a dead daemon left behind."""
    if not spool.list_said():
        return
    with _alone(spool.folder) as is_alone:
        if is_alone:
            HookDaemon(spool).take_all()


def stop_daemon(spool: Spool) -> int | None:
    """End the hook daemon and return its process id; None if none is running.

    It finishes what it has begun; the next report of a hook starts another one.

    Raises:
        InvalidOperation: It is still busy with a snapshot.
    """
    pid = find_daemon(spool)
    if pid is None:
        return None
    pipe = os.open(spool.folder / FIFO, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, STOP)
    finally:
        os.close(pipe)
    until = time.monotonic() + STOP_MAX_S
    while time.monotonic() < until:
        with (spool.folder / LOCK).open("a+") as lock:
            if lock_file(lock.fileno()):
                return pid
        time.sleep(STOP_POLL_S)
    raise InvalidOperation(f"the hook daemon (process {pid}) is still taking a snapshot")


def find_daemon(spool: Spool) -> int | None:
    """Return the process id of the running hook daemon, or None."""
    # Windows has no FIFOs, and no hooks.
    if not ((spool.folder / FIFO).exists() and is_listening(str(spool.folder))):
        return None
    return int((spool.folder / LOCK).read_text(encoding="utf-8") or 0)


def ensure_daemon(spool: Spool) -> bool:
    """Start the hook daemon unless it runs; return whether it answers.

    An agent that is resumed asks the judge at once, and would not wait until one has come up.
    """
    if find_daemon(spool) is None:
        program = "import sys; sys.path.insert(0, sys.argv[2]); "
        program += "from turntree.cli.hook_process.daemon import attend; attend(sys.argv[1])"
        subprocess.Popen(
            [sys.executable, "-I", "-c", program, str(spool.folder), PACKAGES],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    # A report without content: the daemon works once it is gone.
    probe = spool.folder / f"probe-{os.getpid()}.raw"
    write_whole(str(probe), b'probe\0wait\0\0/\n{"session_id":"","notification_type":"probe"}')
    until = time.monotonic() + START_MAX_S
    while probe.exists() and time.monotonic() < until:
        _wake(spool)
        time.sleep(STOP_POLL_S)
    is_up = not probe.exists()
    probe.unlink(missing_ok=True)
    return is_up


def _wake(spool: Spool) -> None:
    # It has just ended, or is not there yet.
    with suppress(OSError):
        pipe = os.open(spool.folder / FIFO, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, b"probe\n")
        finally:
            os.close(pipe)


class HookDaemon:
    """Turns reports into hook events and snapshots."""

    def __init__(self, spool: Spool) -> None:
        """Serve one spool."""
        self._spool = spool
        self._home = spool.folder.parent
        self._board = Board(spool.folder / BOARD)
        self._keeper = DirectoryDriver(self._home)
        self._places: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._busy: set[str] = set()
        self._evaluator = Evaluator(MontyLane(), _find_sandbox)
        self._judge = HookJudge(self._home, self._decide)

    def listen(self) -> None:
        """Process reports until none has come for a while."""
        fifo = self._spool.folder / FIFO
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o600)
        # Open for writing too, so that the FIFO stays open when the last hook exits.
        pipe = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        born = Path(__file__).stat().st_mtime_ns
        self._tidy()
        with ThreadPoolExecutor(WORKERS) as workers:
            self.take_all(workers)
            if (self._home / JUDGE).is_dir():
                # The first decision loads the interpreter of policies; no agent should wait for it.
                self._decide(shipped_policy(), JudgedCall("warm", {}))
            while select.select([pipe], [], [], IDLE_S)[0]:
                said = os.read(pipe, LINE_MAX_BYTES)
                # Every report is a file in the folder, also one whose line in the FIFO was lost.
                self.take_all(workers)
                if STOP in said or not _is_still(Path(__file__), born):
                    break
            # A hook leaves its file before it writes to the FIFO, so this pass finds them all.
            fifo.unlink(missing_ok=True)
            self.take_all(workers)

    def take_all(self, workers: ThreadPoolExecutor | None = None) -> None:
        """Process all pending reports, for each workspace in order."""
        for path in self._spool.list_said():
            if path.name in self._busy:
                continue
            self._busy.add(path.name)
            # Not in a worker: a snapshot of a large workspace must not delay the board.
            sighting = self._see(path)
            if sighting is None:
                self._finish(path)
            elif workers is None:
                self._take(path, sighting)
            else:
                workers.submit(self._take, path, sighting)

    def _decide(self, policy: Policy, call: JudgedCall) -> PolicyDecision:
        return anyio.run(self._evaluator.decide, policy, call)

    def _answer(self, path: Path, sighting: dict[str, Any]) -> None:
        """Answer a hook that asks, and file its report as what it also is: a call, or a wait.

        Every failure leaves the question to the tool.
        """
        kind, tool = sighting["kind"], sighting["tool"]
        answer = HookAnswer()
        try:
            head, _, said = path.read_bytes().partition(b"\n")
            told: dict[str, Any] = json.loads(said)
            started_as, waits = head.decode("utf-8", "surrogateescape").split("\0")[4:]
            until = path.stat().st_mtime + float(waits) - ANSWER_MARGIN_S
            answer = self._judge.answer(
                kind, tool, told, sighting["place"], started_as,
                lambda: time.time() < until,
            )  # fmt: skip
            if answer.is_decided:
                # Without a document the tool's own rules decide, which is an answer too.
                text = "" if answer.document is None else f"{json.dumps(answer.document)}\n"
                write_whole(str(path.with_suffix(ANSWER)), f"{path.stem}\n{text}".encode())
            # A call that is not made changes no files.
            is_call = kind == "judge" and TOOLS[tool].is_writing(str(told["tool_name"]))
            sighting["kind"] = "call" if is_call and answer.goes_on else None
        except (TurntreeError, OSError, ValueError, KeyError, TypeError, IndexError) as error:
            self._spool.complain(f"judge: {error!r}")
            sighting["kind"] = "call" if kind == "judge" else "wait"
        if kind == "permit" and answer.document is None:
            sighting["kind"] = "wait"

    def _tidy(self) -> None:
        """Remove answers that a hook did not wait for, and names that it took."""
        for path in self._spool.folder.glob("ask-*"):
            with suppress(FileNotFoundError):
                is_old = time.time() - path.stat().st_mtime > ANSWER_KEPT_S
                if is_old and path.suffix in ("", ANSWER):
                    path.unlink()

    def _see(self, path: Path) -> dict[str, Any] | None:
        """Put a report on the board; None if there is nothing else to do about it."""
        try:
            sighting = read_said(path, str(self._home))
            if sighting["kind"] in JUDGE_KINDS:
                self._answer(path, sighting)
            # The name comes from outside and becomes part of a path.
            if sighting["tool"] in TOOLS:
                self._spool.note_heard(sighting["tool"])
            if sighting["agent"] is None and sighting["kind"] in HOOK_KINDS:
                self._board.note(*(sighting[name] for name in BOARD_FIELDS))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._spool.complain(f"hook: what was said is not understood: {error!r}")
            return None
        return None if sighting["kind"] in (None, "wait") else sighting

    def _take(self, path: Path, sighting: dict[str, Any]) -> None:
        try:
            with suppress(FileNotFoundError):
                self._note(path, sighting)
        finally:
            self._finish(path)

    def _finish(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._busy.discard(path.name)

    def _note(self, path: Path, sighting: dict[str, Any]) -> None:
        place, at_ns = sighting["place"], path.stat().st_mtime_ns
        stem = str(path.with_name(f"{at_ns:020d}-{path.stem}"))
        write_whole(f"{stem}{SIGHTING}", json.dumps(sighting).encode())
        if place is not None:
            state = self._keep(place, at_ns if sighting["kind"] == "begin" else None)
            write_whole(f"{stem}{STATE}", json.dumps(state).encode())

    def _keep(self, place: str, since_ns: int | None) -> dict[str, Any]:
        """Take a snapshot of a folder and return its id, and whether files changed since a time."""
        started = time.monotonic()
        try:
            with self._places[place]:
                taken = self._keeper.snapshot(place)
        except (TurntreeError, OSError) as error:
            return {"error": f"{place} was not kept: {error}"}
        at_ms = time.time_ns() // 1_000_000
        state = {**asdict(taken), "seconds": round(time.monotonic() - started, 3), "at_ms": at_ms}
        if since_ns is not None and at_ms - since_ns // 1_000_000 > TOUCHED_MIN_MS:
            state["is_touched"] = self._keeper.is_touched(place, since_ns)
        return state


def read_said(path: Path, home: str) -> dict[str, Any]:
    """Return the hook event described by a report file.

    Raises:
        FileNotFoundError: Another process has handled it already.
        ValueError, KeyError, TypeError, AttributeError: The report is malformed.
    """
    head, _, said = path.read_bytes().partition(b"\n")
    tool, kind, folder, stands, *_ = head.decode("utf-8", "surrogateescape").split("\0")
    told: dict[str, Any] = json.loads(said or b"{}")
    # The names of Claude Code, which most tools have taken over; then those of Cursor and Copilot.
    roots: list[str] = told.get("workspace_roots") or []
    # Of a call, Codex reports the folder that its model chose, and runs the hook in the turn's.
    is_chosen = tool == CODEX.name and "tool_name" in told
    at = stands if is_chosen else folder or told.get("cwd") or (*roots, stands)[0]
    return {
        "version": VERSION,
        "tool": tool,
        "kind": kind if told.get("notification_type", "permission_prompt") in WAITING else None,
        "at_ms": path.stat().st_mtime_ns // 1_000_000,
        "session": told.get("session_id") or told.get("conversation_id") or told["sessionId"],
        "agent": told.get("agent_id"),
        "transcript": told.get("transcript_path") or told.get("transcriptPath"),
        "call": told.get("tool_use_id"),
        "place": find_place(at, home),
        "pid": os.getpid(),
    }


def find_place(folder: str, home: str) -> str | None:
    """Return the folder to snapshot: the repository's root, or the folder itself.

    None where that would be too much: a home directory, a folder above one, or one that holds
    Turntree's own files.
    """
    start = Path(folder).resolve()
    spared = (Path.home().resolve(), Path(home).resolve())
    top = next((at for at in (start, *start.parents) if os.path.lexists(at / ".git")), start)
    for place in (top, start):
        if not any(path == place or place in path.parents for path in spared):
            return str(place)
    return None


def _find_sandbox() -> Sandbox:
    # Only a policy that is a process needs one, and finding it loads much.
    from turntree.boot.open import CODE_SANDBOX, find_sandboxes

    return find_sandboxes()[CODE_SANDBOX]


def _is_still(path: Path, born: int) -> bool:
    """Whether the installed program is the running one; an upgrade replaces it."""
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
