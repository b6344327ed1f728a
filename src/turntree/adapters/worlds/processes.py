"""Processes of this machine: a name for this one, and whether one of that name still runs.

A process id is given out again after its process ended, so a name holds the moment of its start as
well, where the system tells it.
"""

import os
from pathlib import Path

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
