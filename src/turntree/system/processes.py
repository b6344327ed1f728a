"""Processes of this machine: names for them, whether they still run, and locks between them.

A process id is given out again after its process ended, so a name holds the moment of its start as
well, where the system tells it.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from turntree.core.errors import Unsupported

_STARTED = 19
"""Where the start stands in /proc/PID/stat, counted from behind the program's name."""


class SystemProcesses:
    """Processes as this machine knows them. See ``ports.world``."""

    @property
    def me(self) -> str:
        """The name of this process."""
        return f"{os.getpid()}.{_started(os.getpid())}"

    def is_running(self, name: str) -> bool:
        """Say whether the process of that name still runs."""
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
        return True  # It runs, as somebody else.
    return True


def _started(pid: int) -> str:
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # Not every system has this folder.
    return said.rpartition(")")[2].split()[_STARTED]


def require_file_locks() -> None:
    """Do nothing where files can be locked as hooks and snapshots need it.

    Raises:
        Unsupported: This system cannot; Windows is one.
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
        return False
    return True


def _file_locks() -> Any:
    # Not imported with this module: Windows has no `fcntl`, and most commands need no locks.
    try:
        return import_module("fcntl")
    except ModuleNotFoundError as error:
        raise Unsupported("hooks and file snapshots need Linux or macOS") from error
