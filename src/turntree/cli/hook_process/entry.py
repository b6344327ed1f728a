"""The program that an agent's hook runs: hand over the agent's report, wait briefly, exit.

    hook_entry.py [--home FOLDER] TOOL KIND      with the tool's JSON on standard input

The agent waits for this program, so it is started by its path, in Python's isolated mode, and
imports only the standard library. It writes the report to a file
of the spool and notifies the hook daemon, which is already running and snapshots the workspace in a
few milliseconds. If there is no daemon, a child of this process becomes one. Another child waits
for the snapshot and becomes ``turntree hook sync``.

It must never print anything but a judge's answer, never use the database, and never end with an
error, except with 1 when the judge did not answer: the launcher then does what the mode needs.
"""

import errno
import os
import stat
import sys
import time

STARTED_NS = time.time_ns()
WAIT_MAX_S = 0.11
"""How long an agent may be delayed, so that its workspace is snapshotted before it continues.

Measured from the start of this process: on a busy machine, starting Python uses most of it.
"""
COLD_WAIT_MAX_S = 2.0
"""The same for the hook that had to start the daemon, once in a while, if the agent could change
files next: a fast one writes its first file before a daemon has come up.
"""
BOOT_S = 0.03
"""Assumed start-up time of Python where the system cannot tell."""
POLL_S = 0.002
STARTTIME = 19
"""Index, after the name, of a process's start time: field 22 of /proc/PID/stat."""
DRAIN_POLL_S = 0.05
STATE_MAX_S = 150
SAID_MAX_BYTES = 16 * 1024 * 1024
SPOOL = "spool"
FIFO = "daemon.fifo"
"""The FIFO on which the daemon is notified of reports."""
JUDGED = frozenset({"judge", "permit"})
"""Kinds of reports that are answered."""
JUDGE_WAIT_MAX_S = 2.2
"""How long an answer is waited for; then the tool asks its user."""
JUDGE_WAIT_LONG_S = 4.2
"""The same for Claude Code, which shows that a hook runs."""
ANSWER_MAX_BYTES = 4 * 1024 * 1024
DRAINING = frozenset({"session", "end", "close"})
"""Kinds of reports after which there is something to import."""
AWAITED = frozenset({"begin", "call", "return", "judge"})
"""Kinds of reports whose snapshot is complete only if the agent waited for it."""
PACKAGES = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)
"""The folder to import ``turntree`` from, in whatever environment this file was started."""


def main() -> None:
    """Hand over the tool's report and return at once, whatever happens."""
    home, words = _read_arguments(sys.argv[1:])
    if home is not None and words[:1] == ["--drain"]:
        _leave_behind()
        _drain_after(words[1])
    if len(words) != len(("TOOL", "KIND")):
        return
    # A project's settings may set variables, so this one does not switch off the judge.
    if os.environ.get("TURNTREE_HOOKS") == "off" and words[1] not in JUDGED:
        return
    said = sys.stdin.buffer.read(SAID_MAX_BYTES)
    home = home or find_home()
    spool = os.path.join(home, SPOOL)
    if not os.path.isdir(spool):
        _make_spool(home, spool)
    is_judged = words[1] in JUDGED
    # The answer is bound to a name that nothing else has or will have.
    stem = f"ask-{os.urandom(12).hex()}" if is_judged else f"{STARTED_NS:020d}-{os.getpid()}"
    # An agent works where it was started; its current directory may have changed.
    folder = os.environ.get("CLAUDE_PROJECT_DIR") or os.environ.get("GEMINI_PROJECT_DIR") or ""
    started_as = os.environ.get("CLAUDE_CODE_ENTRYPOINT") or ""
    judge_s = JUDGE_WAIT_LONG_S if words[0] == "claude-code" else JUDGE_WAIT_MAX_S
    # What is left of it now: the judge gives no answer that comes too late to be read.
    waits = f"{max(0.0, judge_s - _age_s()):.3f}"
    report = (words[0], words[1], folder, os.getcwd(), started_as, waits)
    head = "\0".join(report).encode("utf-8", "surrogateescape")
    path = os.path.join(spool, stem)
    write_whole(f"{path}.raw", head + b"\n" + said)
    is_heard = _tell(os.path.join(spool, FIFO), stem)
    if not is_heard and os.fork() == 0:
        _leave_behind()
        _attend(spool)
    if words[1] in DRAINING and os.fork() == 0:
        _leave_behind()
        _drain_after(path)
    is_awaited = words[1] in AWAITED
    longest_s = COLD_WAIT_MAX_S if is_awaited and not is_heard else WAIT_MAX_S
    _wait(path, longest_s - _age_s(), POLL_S)
    if is_judged:
        _wait(path, judge_s - _age_s(), POLL_S, f"{path}.answer")
    is_answered = is_judged and _print_answer(f"{path}.answer", stem)
    if is_awaited and os.path.exists(f"{path}.raw"):
        # The agent goes on now. The snapshot may already contain what it does.
        write_whole(f"{path}.late", b"")
    os._exit(1 if is_judged and not is_answered else 0)


def _age_s() -> float:
    """Return the age of this process in seconds, as Linux reports it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        born = int(fields[STARTTIME]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - born
    except (OSError, AttributeError):
        return BOOT_S + (time.time_ns() - STARTED_NS) / 1e9


def _read_arguments(given: list[str]) -> tuple[str | None, list[str]]:
    if given[:1] == ["--home"]:
        return given[1], given[2:]
    return None, given


def find_home() -> str:
    """Return the home folder from the settings, if none was given."""
    _find_packages()
    from turntree.cli.settings import merged_environment
    from turntree.db.embedded.server import default_home

    return merged_environment().get("TURNTREE_HOME") or str(default_home())


def _make_spool(home: str, spool: str) -> None:
    """Create the spool in a home that may not exist either: a plugin reports before `on`."""
    _find_packages()
    from pathlib import Path

    from turntree.db.embedded.account import make_home

    make_home(Path(home))
    os.makedirs(spool, mode=0o700, exist_ok=True)


def write_whole(path: str, data: bytes) -> None:
    """Write a file atomically."""
    fresh = f"{path}.{os.getpid()}.new"
    with open(fresh, "wb") as file:
        file.write(data)
    os.replace(fresh, path)


def _tell(fifo: str, stem: str) -> bool:
    """Notify the daemon; False if none is listening."""
    try:
        pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return False
        os.write(pipe, f"{stem}\n".encode())
    except (BrokenPipeError, BlockingIOError):
        return False
    finally:
        os.close(pipe)
    return True


def is_listening(spool: str) -> bool:
    """Whether a daemon is listening."""
    try:
        os.close(os.open(os.path.join(spool, FIFO), os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _wait(path: str, timeout_s: float, poll_s: float, answer: str = "") -> None:
    """Return when the report has been processed or answered, or time is up."""
    until = time.monotonic() + timeout_s
    while os.path.exists(f"{path}.raw") and time.monotonic() < until:
        if answer and os.path.exists(answer):
            return
        time.sleep(poll_s)


def _print_answer(path: str, stem: str) -> bool:
    """Print the judge's answer to this very report; return whether there is one."""
    try:
        with open(path, "rb") as file:
            bound, _, answer = file.read(ANSWER_MAX_BYTES).partition(b"\n")
        os.unlink(path)
    except OSError:
        return False
    if bound != stem.encode():
        return False
    os.write(1, answer)
    return True


def _leave_behind() -> None:
    """Detach from everything that the agent might be waiting for."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, 256)


def _find_packages() -> None:
    if sys.path[0] != PACKAGES:
        sys.path.insert(0, PACKAGES)


def _attend(spool: str) -> None:
    """Become the daemon, or do its work once and exit."""
    _become("from turntree.cli.hook_process.daemon import attend; attend(sys.argv[1])", spool)


def _drain_after(path: str) -> None:
    """Become the command that reads the spool, once the report has been processed.

    If another process is reading it already, that command ends at once.
    """
    spool = os.path.dirname(path)
    until = time.monotonic() + STATE_MAX_S
    while os.path.exists(f"{path}.raw") and time.monotonic() < until and _is_attended(spool):
        time.sleep(DRAIN_POLL_S)
    os.environ["TURNTREE_HOME"] = os.path.dirname(spool)
    os.nice(5)
    _become("from turntree.cli.main import main; main()", "hook", "sync", "--quietly")


def _become(program: str, *words: str) -> None:
    """Replace this process by another program of the package."""
    found = f"import sys; sys.path.insert(0, {PACKAGES!r}); {program}"
    os.execv(sys.executable, [sys.executable, "-I", "-c", found, *words])  # noqa: S606  (no shell)


def _is_attended(spool: str) -> bool:
    """Whether a daemon runs, or is about to."""
    try:
        with open(os.path.join(spool, "daemon.lock"), "rb") as file:
            os.kill(int(file.read() or b"0"), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


if __name__ == "__main__":
    main()
