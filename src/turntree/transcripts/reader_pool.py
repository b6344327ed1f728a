"""Processes that read transcripts while this one stores them.

Reading is bound by Python, and one process runs Python on one processor at a time. A reader gets
tasks on its stdin and returns their results; it opens no connection, knows no password, and ends
with its stdin. If no process can be started, or one is lost, this process reads instead, and errors
in a transcript are then raised here too. Knows pipes, not a database.
"""

import contextlib
import pickle
import subprocess
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock
from typing import IO, Any, Final

from turntree.core.errors import DatabaseUnavailable
from turntree.transcripts.importer import Importer
from turntree.transcripts.incoming import Packing
from turntree.transcripts.pipeline import BundleRead, ReadTask, read_bundle

SIZE_BYTES: Final = 8


class Readers:
    """Reads transcripts, several at a time if there are processes for it. Thread-safe."""

    def __init__(self, packing: Packing, command: Sequence[str] = (), processes: int = 0) -> None:
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


def serve(
    find: Callable[[str], Importer | None],
    packing: Packing,
    stdin: IO[bytes],
    stdout: IO[bytes],
) -> None:
    """Read transcripts until there are no more. One that cannot be read ends the process."""
    known: dict[str, Importer | None] = {}
    try:
        while True:
            origin, version, task = _receive(stdin)
            if origin not in known:
                known[origin] = find(origin)
            importer = known[origin]
            # The caller may use an importer of its own under the name of an installed one.
            same = importer is not None and importer.version == version
            _send(stdout, _try(importer, task, packing) if importer and same else None)
    except EOFError:
        return


def _try(importer: Importer, task: ReadTask, packing: Packing) -> BundleRead | None:
    """Return the content of a transcript; None if it cannot be opened, which the caller retries."""
    try:
        return read_bundle(importer, task, packing)
    except OSError:
        return None


def _ask(process: subprocess.Popen[bytes], importer: Importer, task: ReadTask) -> BundleRead | None:
    assert process.stdin is not None, "asked for a pipe"
    assert process.stdout is not None, "asked for a pipe"
    _send(process.stdin, (importer.origin, importer.version, task))
    found: BundleRead | None = _receive(process.stdout)
    return found


def _send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(SIZE_BYTES, "big"))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    size = int.from_bytes(_take(stream, SIZE_BYTES), "big")
    # Both ends are this module in processes of one version, and no other process has the pipe.
    return pickle.loads(_take(stream, size))  # noqa: S301


def _take(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
