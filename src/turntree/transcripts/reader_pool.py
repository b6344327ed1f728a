"""Processes that read transcripts while this one stores them.

Reading is bound by Python, and one process runs Python on one processor at a time. A reader gets
tasks on its stdin and returns their results; it opens no connection, knows no password, and ends
with its stdin. If no process can be started, or one is lost, this process reads instead, and errors
in a transcript are then raised here too. Knows pipes, not a database.
"""

import contextlib
import pickle
import subprocess
from collections.abc import Sequence
from queue import SimpleQueue
from threading import Lock
from typing import IO, Any, Final

from turntree.core.errors import DatabaseUnavailable
from turntree.transcripts.importer import Importer
from turntree.transcripts.packing import Packer
from turntree.transcripts.pipeline import BundleRead, ReadTask, read_bundle

SIZE_BYTES: Final = 8


class Readers:
    """Reads transcripts, several at a time if there are processes for it. Thread-safe."""

    def __init__(self, packing: Packer, command: Sequence[str] = (), processes: int = 0) -> None:
        """Start the processes."""
        self._packing = packing
        self._closed = False
        self._reading_here = Lock()
        """Importers may have state, so no two threads share one at the same time."""
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        for _ in range(processes):
            try:
                # In a session of its own: Ctrl-C reaches this process alone, which ends the reader.
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                break
            self._started.append(process)
            self._idle.put(process)
        if not self._started:
            self._idle.put(None)

    @property
    def count(self) -> int:
        """How many transcripts can be read at a time."""
        return max(len(self._started), 1)

    def read(self, importer: Importer, task: ReadTask) -> BundleRead:
        """Return the content of a transcript.

        Raises:
            DatabaseUnavailable: The pool was closed meanwhile.
        """
        process = self._idle.get()
        try:
            found = None if process is None else _ask(process, importer, task)
        except (pickle.PicklingError, AttributeError, TypeError):
            # An importer that cannot be sent, such as one defined inside a function.
            found = None
        except (OSError, EOFError, ValueError):
            # ValueError: the pipe was closed.
            found, process = None, None
        finally:
            self._idle.put(process)
        if self._closed:
            raise DatabaseUnavailable("the import was given up")
        if found is not None:
            return found
        with self._reading_here:
            return read_bundle(importer, task, self._packing)

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for process in self._started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                # Unsent data for a lost process is dropped.
                with contextlib.suppress(OSError):
                    assert pipe is not None, "asked for pipes"
                    pipe.close()


def serve(packing: Packer, stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Read transcripts until there are no more. One that cannot be read ends the process.

    Answers None where the caller has to read for itself.
    """
    with contextlib.suppress(EOFError):
        while True:
            _send(stdout, _try(_receive(stdin), packing))


def _try(asked: bytes, packing: Packer) -> BundleRead | None:
    try:
        importer, task = _load(asked)
    except (ImportError, AttributeError):
        return None  # An importer that only the caller can import.
    try:
        return read_bundle(importer, task, packing)
    except OSError:
        return None  # The caller finds the same, and reports why.


def _ask(process: subprocess.Popen[bytes], importer: Importer, task: ReadTask) -> BundleRead | None:
    assert process.stdin is not None, "asked for a pipe"
    assert process.stdout is not None, "asked for a pipe"
    _send(process.stdin, (importer, task))
    found: BundleRead | None = _load(_receive(process.stdout))
    return found


def _send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(SIZE_BYTES, "big"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    return _take(stream, int.from_bytes(_take(stream, SIZE_BYTES), "big"))


def _load(data: bytes) -> Any:
    # Both ends are this module in processes of one version, and no other process has the pipe.
    return pickle.loads(data)  # noqa: S301


def _take(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
