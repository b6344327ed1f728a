"""Processes of this machine: their names, whether they still run, and file locks between them.

The system reuses process ids, so a name also includes the start time of the process, where the
system provides it.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from turntree.core.errors import Unsupported

_STARTED = 19
"""Field of the start time in /proc/PID/stat, counted after the program's name."""


class SystemProcesses:
    """Processes of this machine. See ``core.clock.Processes``."""

    @property
    def me(self) -> str:
        """The name of this process."""
        return f"{os.getpid()}.{_started(os.getpid())}"

    def is_running(self, name: str) -> bool:
        """Return whether the process of that name is still running."""
        pid, _, started = name.partition(".")
        if not pid.isdecimal() or not _is_there(int(pid)):
            return False
        return _started(int(pid)) == started


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # It runs under another account.
    return True


def _started(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # Not every system has /proc.
    return text.rpartition(")")[2].split()[_STARTED]


def require_file_locks() -> None:
    """Require the file locks that hooks and snapshots use.

    Raises:
        Unsupported: This system has none; Windows is one.
    """
    _file_locks()


def lock_file(fd: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until it is closed; return False if another process holds the lock.

    Raises:
        Unsupported: This system has no such locks.
    """
    fcntl = _file_locks()
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        # Another process holds it.
        return False
    return True


def _file_locks() -> Any:
    # Not imported with this module: Windows has no `fcntl`, and most commands need no locks.
    try:
        return import_module("fcntl")
    except ModuleNotFoundError as error:
        raise Unsupported("hooks and file snapshots need Linux or macOS") from error
