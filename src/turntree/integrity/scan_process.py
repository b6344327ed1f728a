"""A child process that reads ranges: ``python -m turntree.integrity.scan_process``.

Checking is bound by Python, and one process runs Python on one core at a time. The child has a
connection of its own: rows that came through its parent cost the parent half of what checking them
costs. It is told where to connect through its stdin, so that no password is in its command line,
and it ends when its stdin closes.
"""

import marshal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any, Final
from uuid import UUID

from turntree.integrity.scan import RangeScanner, RowDiff, ScanResult
from turntree.integrity.shared_snapshot import SharedSnapshot

COMMAND: Final = (sys.executable, "-P", "-m", "turntree.integrity.scan_process")
SIZE_BYTES: Final = 8


class ScanProcess:
    """Reads ranges of one snapshot in a child process."""

    def __init__(self, moment: SharedSnapshot, command: Sequence[str] = COMMAND) -> None:
        """Start the process.

        Raises:
            OSError: The machine has no room for another process, or it ended at once.
        """
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            self._send([moment.conninfo, moment.workspace.bytes, moment.snapshot])
        except OSError:
            self.close()
            raise

    def read(self, after: UUID, last: UUID) -> ScanResult:
        """Return the findings of one range.

        Raises:
            OSError: The process died.
            EOFError: It died while it answered, or the database refused it.
        """
        self._send([after.bytes, last.bytes])
        assert self._process.stdout is not None, "asked for a pipe"
        turns, complaints, differences, *edges = _receive(self._process.stdout)
        return ScanResult(turns, complaints, [RowDiff(*one) for one in differences], *edges)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _send(self, value: list[Any]) -> None:
        assert self._process.stdin is not None, "asked for a pipe"
        _send(self._process.stdin, value)


def main() -> None:
    """Read ranges until stdin closes."""
    try:
        conninfo, workspace, snapshot = _receive(sys.stdin.buffer)
        moment = SharedSnapshot(conninfo, UUID(bytes=workspace), snapshot)
        with moment.joined() as connection:
            scanner = RangeScanner(connection, moment.workspace)
            while True:
                after, last = _receive(sys.stdin.buffer)
                _send(sys.stdout.buffer, _plain(scanner.read(UUID(bytes=after), UUID(bytes=last))))
    except EOFError:
        # The parent closed the pipe: it is done, or it died.
        return


def _plain(result: ScanResult) -> list[Any]:
    differences = [(one.table, one.turn, one.stored, one.follow) for one in result.differences]
    return [
        result.turns, result.complaints, differences, result.sources, result.substitutions,
    ]  # fmt: skip


def _send(stream: IO[bytes], value: list[Any]) -> None:
    data = marshal.dumps(value)
    stream.write(len(data).to_bytes(SIZE_BYTES, "big"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> list[Any]:
    size = int.from_bytes(_read(stream, SIZE_BYTES), "big")
    # Safe: both ends of the pipe are this module in the same version, and no other process has it.
    value: list[Any] = marshal.loads(_read(stream, size))  # noqa: S302
    return value


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


if __name__ == "__main__":
    main()
