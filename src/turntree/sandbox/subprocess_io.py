"""Input and output of an untrusted process: read up to a limit, then killed.

Knows pipes and clocks. Must never know how the process is sandboxed.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process

from turntree.core.value import value

Watch = Callable[[Process], Coroutine[Any, Any, None]]
"""Watches a process until it has ended, and may kill it."""


@value
class IoLimits:
    """Limits of time and output."""

    wall_s: float
    out_bytes: int
    err_bytes: int
    stops_when_loud: bool = True
    """Whether more output kills the process; otherwise the rest is read and discarded."""


@dataclass(slots=True)
class OutputStream:
    """What a process wrote to one stream: its beginning and its end, up to a limit."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    def add(self, piece: bytes, bytes_max: int) -> None:
        """Add what was read."""
        self.total += len(piece)
        room = max(0, bytes_max // 2 - len(self.head))
        self.head, rest = self.head + piece[:room], piece[room:]
        if rest:
            self.tail = (self.tail + rest)[-(bytes_max - bytes_max // 2) :]

    @property
    def text(self) -> bytes:
        """What was kept; a line says how much is missing."""
        missing = self.total - len(self.head) - len(self.tail)
        gap = f"\n[{missing} bytes left out]\n".encode() if missing else b""
        return self.head + gap + self.tail


@dataclass(slots=True)
class ProcessOutput:
    """The output and exit code of a process."""

    out: OutputStream = field(default_factory=OutputStream)
    err: OutputStream = field(default_factory=OutputStream)
    code: int | None = None
    is_late: bool = False
    is_loud: bool = False


async def converse(
    process: Process, said: bytes, patience: IoLimits, watch: Watch | None = None
) -> ProcessOutput:
    """Write the input of a process, read its output, and make sure that it ends."""
    heard = ProcessOutput()
    try:
        with anyio.move_on_after(patience.wall_s) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(_hear_errors, process.stderr, heard, patience.err_bytes)
                group.start_soon(_tell, process, said)
                if watch is not None:
                    group.start_soon(watch, process)
                await _hear(process.stdout, heard, patience)
                if heard.is_loud and patience.stops_when_loud:
                    process.kill()
            heard.code = await process.wait()
        heard.is_late = scope.cancelled_caught
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()
    return heard


async def _tell(process: Process, said: bytes) -> None:
    assert process.stdin is not None, "it is a pipe"
    try:
        await process.stdin.send(said)
        await process.stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # A program need not read its input.


async def _hear(stream: ByteReceiveStream | None, heard: ProcessOutput, patience: IoLimits) -> None:
    assert stream is not None, "it is a pipe"
    async for piece in stream:
        heard.out.add(piece, patience.out_bytes)
        if heard.out.total > patience.out_bytes:
            heard.is_loud = True
            if patience.stops_when_loud:
                return


async def _hear_errors(
    stream: ByteReceiveStream | None, heard: ProcessOutput, bytes_max: int
) -> None:
    assert stream is not None, "it is a pipe"
    # Read to the end even above the limit: a full pipe would block the program.
    async for piece in stream:
        heard.err.add(piece, bytes_max)
