"""A child process that checks turns: ``python -m turntree.integrity.check_process``.

Checking turns is bound by Python, and one process runs Python on one core at a time. The child
receives rows and returns findings. It connects to nothing, so it starts fast and needs no password.
It ends when its stdin closes.
"""

import marshal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any, Final

from turntree.integrity.turn_checker import TurnChecker, examine

COMMAND: Final = (sys.executable, "-P", "-m", "turntree.integrity.check_process")
SIZE_BYTES: Final = 8


class CheckProcess:
    """Checks turns in a child process, or in this one if the child fails."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        """Start the process."""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            # A machine without room for another process checks the pages in this one, only slower.
            return

    def examine(self, rows: Sequence[Sequence[Any]]) -> TurnChecker:
        """Return the findings of a page of stored turns."""
        if self._process is not None:
            assert self._process.stdin is not None, "asked for a pipe"
            assert self._process.stdout is not None, "asked for a pipe"
            try:
                _send(self._process.stdin, list(rows))
                return TurnChecker(*_receive(self._process.stdout))
            except (OSError, EOFError):
                # The process died. Its page is checked here again, so that a lack of memory costs
                # time and no findings.
                self.close()
        return examine(rows)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def main() -> None:
    """Check pages until stdin closes."""
    try:
        while True:
            read = examine(_receive(sys.stdin.buffer))
            _send(sys.stdout.buffer, [getattr(read, name) for name in TurnChecker.__slots__])
    except EOFError:
        # The parent closed the pipe: it is done, or it died.
        return


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
