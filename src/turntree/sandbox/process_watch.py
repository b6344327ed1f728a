"""Counting what lives in a sandbox from outside, and ending it when that is too much.

A limit of the kernel holds for one process; a command has many. Groups of the kernel's could count
them, where they may be made, which in a container they mostly may not. So the processes of the
sandbox's own namespace are counted here, often, and if there are too many or they hold too much
memory together, the first of them is killed: the kernel then ends all others at once.

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
    """Looks after the process that holds a sandbox."""

    status: IO[bytes]
    """Where bubblewrap writes which process is the first inside."""
    processes_max: int
    memory_bytes_max: int
    why: str | None = None
    """Why everything was ended, if it was."""

    async def __call__(self, process: Process) -> None:
        """Count until the process has ended."""
        first: int | None = None
        while process.returncode is None and self.why is None:
            first = first or _first_inside(self.status)
            if first is not None:
                self._judge(first)
            await anyio.sleep(INTERVAL_S)

    def _judge(self, first: int) -> None:
        inside = _members(first)
        if len(inside) > self.processes_max:
            self.why = f"it started more than {self.processes_max} processes"
        elif sum(map(_resident_bytes, inside)) > self.memory_bytes_max:
            self.why = f"it took more than {self.memory_bytes_max} bytes of memory"
        if self.why is not None:
            _kill(first)


def _first_inside(status: IO[bytes]) -> int | None:
    # Read without moving: bubblewrap writes through the same open file.
    said = os.pread(status.fileno(), 4096, 0).splitlines()
    try:
        pid: int = orjson.loads(said[0])["child-pid"]
    except (IndexError, KeyError, orjson.JSONDecodeError):
        return None
    return pid


def _members(first: int) -> list[Path]:
    """Return the processes that share the namespace of the first one inside."""
    namespace = _namespace(Path(f"/proc/{first}"))
    if namespace is None:
        return []
    return [path for path in Path("/proc").glob("[0-9]*") if _namespace(path) == namespace]


def _namespace(path: Path) -> str | None:
    try:
        return os.readlink(path / "ns" / "pid")  # noqa: PTH115  (the name is no path)
    except OSError:
        return None  # It has ended, or is none of ours.


def _resident_bytes(path: Path) -> int:
    try:
        return int((path / "statm").read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
