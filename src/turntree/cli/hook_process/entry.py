"""What an agent's hook runs: it hands over what the agent said, waits a moment, and is gone.

    hook_entry.py [--home FOLDER] TOOL KIND      with the tool's JSON on standard input

The agent waits for this program, so it is started by its path, in Python's isolated mode, and
imports nothing but what Python has at hand. What was said goes into a file of the spool, and a word
about it to the *attendant*, a process of ours that is there already and keeps the state of the
workspace in a few milliseconds. Where there is none, a child of this process becomes one. Another
child waits for the state and becomes ``turntree hook drain``.

It must never print, never talk to a database, and never end with an error.
"""

import errno
import os
import stat
import sys
import time

STARTED_NS = time.time_ns()
WAIT_MAX_S = 0.11
"""So long an agent may be held up, so that its workspace is kept before it goes on.

It counts from the birth of this process: on a busy machine most of it is gone when Python runs.
"""
BOOT_S = 0.03
"""What Python takes to start where nobody can tell."""
POLL_S = 0.002
STARTTIME = 19
"""Which field behind the name tells when a process was born: the 22nd of all."""
DRAIN_POLL_S = 0.05
STATE_MAX_S = 150
SAID_MAX_BYTES = 16 * 1024 * 1024
SPOOL = "spool"
FIFO = "daemon.fifo"
"""The number is that of what is said through it."""
DRAINING = frozenset({"session", "end", "close"})
"""After these there is something to import."""
PACKAGES = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)
"""Where the product is, whichever environment this file was started in."""


def main() -> None:
    """Hand over what the tool says and return to it at once, whatever happens."""
    home, words = _read_arguments(sys.argv[1:])
    if home is not None and words[:1] == ["--drain"]:
        _leave_behind()
        _drain_after(words[1])
    if len(words) != len(("TOOL", "KIND")) or os.environ.get("TURNTREE_HOOKS") == "off":
        return
    said = sys.stdin.buffer.read(SAID_MAX_BYTES)
    spool = os.path.join(home or find_home(), SPOOL)
    os.makedirs(spool, mode=0o700, exist_ok=True)
    stem = f"{STARTED_NS:020d}-{os.getpid()}"
    # Where an agent was started, it works; where it stands, it may have gone.
    folder = os.environ.get("CLAUDE_PROJECT_DIR") or os.environ.get("GEMINI_PROJECT_DIR") or ""
    head = "\0".join((words[0], words[1], folder, os.getcwd())).encode("utf-8", "surrogateescape")
    path = os.path.join(spool, stem)
    write_whole(f"{path}.raw", head + b"\n" + said)
    if not _tell(os.path.join(spool, FIFO), stem) and os.fork() == 0:
        _leave_behind()
        _attend(spool)
    if words[1] in DRAINING and os.fork() == 0:
        _leave_behind()
        _drain_after(path)
    _wait(path, WAIT_MAX_S - _age_s(), POLL_S)
    os._exit(0)


def _age_s() -> float:
    """Return how long this process has been there, as Linux tells it."""
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
    """Return the home that the settings name, when nobody has said which."""
    _find_packages()
    from turntree.cli.settings import merged_environment
    from turntree.db.embedded.server import default_home

    return merged_environment().get("TURNTREE_HOME") or str(default_home())


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    fresh = f"{path}.{os.getpid()}.new"
    with open(fresh, "wb") as file:
        file.write(data)
    os.replace(fresh, path)


def _tell(fifo: str, stem: str) -> bool:
    """Tell the attendant; False if there is none, or none that listens."""
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
    """Say whether an attendant listens to what hooks say."""
    try:
        os.close(os.open(os.path.join(spool, FIFO), os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _wait(path: str, timeout_s: float, poll_s: float) -> None:
    """Return when what was said has been dealt with, or time is up."""
    until = time.monotonic() + timeout_s
    while os.path.exists(f"{path}.raw") and time.monotonic() < until:
        time.sleep(poll_s)


def _leave_behind() -> None:
    """Let go of everything that the agent might be waiting for."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, 256)


def _find_packages() -> None:
    if sys.path[0] != PACKAGES:
        sys.path.insert(0, PACKAGES)


def _attend(spool: str) -> None:
    """Become the attendant, or do what it would have done and be gone."""
    _become("from turntree.cli.hook_process.daemon import attend; attend(sys.argv[1])", spool)


def _drain_after(path: str) -> None:
    """Become the command that reads the spool, as soon as what was said has been dealt with.

    If somebody reads it already, that command ends at once.
    """
    spool = os.path.dirname(path)
    until = time.monotonic() + STATE_MAX_S
    while os.path.exists(f"{path}.raw") and time.monotonic() < until and _is_attended(spool):
        time.sleep(DRAIN_POLL_S)
    os.environ["TURNTREE_HOME"] = os.path.dirname(spool)
    os.nice(5)
    _become("from turntree.cli.main import main; main()", "hook", "drain", "--quietly")


def _become(program: str, *words: str) -> None:
    """Go on as another program of the product."""
    found = f"import sys; sys.path.insert(0, {PACKAGES!r}); {program}"
    os.execv(sys.executable, [sys.executable, "-I", "-c", found, *words])  # noqa: S606  (no shell)


def _is_attended(spool: str) -> bool:
    """Say whether there is an attendant, or will be in a moment."""
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
