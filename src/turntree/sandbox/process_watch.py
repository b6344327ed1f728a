"""Counts the processes of a sandbox from outside, and kills it above a limit.

A resource limit applies to one process; a command has many. A cgroup could count them, but inside a
container one can rarely be created. So this module polls the processes of the sandbox's PID
namespace. If there are too many, or they use too much memory together, it kills the namespace's
first process: the kernel then kills all others at once.

Knows ``/proc``. Must never know what a command is for.
"""

import mmap
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import anyio
import orjson
from anyio.abc import Process

INTERVAL_S: Final = 0.05
_PAGE_BYTES: Final = mmap.PAGESIZE


@dataclass(slots=True)
class NamespaceWatch:
    """Watches the process that holds a sandbox."""

    status: IO[bytes]
    """The file in which bubblewrap writes the PID of the first process inside."""
    processes_max: int
    memory_bytes_max: int
    why: str | None = None
    """Why the sandbox was killed, if it was."""

    async def __call__(self, process: Process) -> None:
        """Poll until the process has ended."""
        first: int | None = None
        while process.returncode is None and self.why is None:
            first = first or _first_inside(self.status)
            if first is not None:
                inside = _members(first)
                if len(inside) > self.processes_max:
                    self.why = f"it started more than {self.processes_max} processes"
                elif sum(map(_resident_bytes, inside)) > self.memory_bytes_max:
                    self.why = f"it took more than {self.memory_bytes_max} bytes of memory"
                if self.why is not None:
                    _kill(first)
            await anyio.sleep(INTERVAL_S)


def _first_inside(status: IO[bytes]) -> int | None:
    # ``pread`` keeps the file offset, through which bubblewrap writes.
    said = os.pread(status.fileno(), 4096, 0).splitlines()
    try:
        pid: int = orjson.loads(said[0])["child-pid"]
    except (IndexError, KeyError, orjson.JSONDecodeError):
        # Bubblewrap has not written it yet.
        return None
    return pid


def _members(first: int) -> list[Path]:
    """Return the processes in the PID namespace of the first one inside."""
    namespace = _namespace(Path(f"/proc/{first}"))
    if namespace is None:
        return []
    return [path for path in Path("/proc").glob("[0-9]*") if _namespace(path) == namespace]


def _namespace(path: Path) -> str | None:
    try:
        return os.readlink(path / "ns" / "pid")  # noqa: PTH115  (the target is not a path)
    except OSError:
        return None  # It has ended, or belongs to another user.


def _resident_bytes(path: Path) -> int:
    try:
        return int((path / "statm").read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        # It ended between the listing and this read.
        return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        # It ended by itself.
        return
