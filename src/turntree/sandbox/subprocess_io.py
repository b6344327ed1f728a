"""Input and output of an untrusted process: read up to a limit, then killed.

Knows pipes and clocks. Must never know how the process is sandboxed.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
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
class ProcessOutput:
    """The output and exit code of a process."""

    out: bytes = b""
    err: bytes = b""
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
        room = patience.out_bytes - len(heard.out)
        heard.out += piece[:room]
        if len(piece) > room:
            heard.is_loud = True
            if patience.stops_when_loud:
                return


async def _hear_errors(
    stream: ByteReceiveStream | None, heard: ProcessOutput, bytes_max: int
) -> None:
    assert stream is not None, "it is a pipe"
    # Read to the end even above the limit: a full pipe would block the program.
    async for piece in stream:
        heard.err = (heard.err + piece)[-bytes_max:]
