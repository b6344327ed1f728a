"""Processes that read bundles while this one stores what they found.

Reading is bound by Python, and one process runs Python on one processor at a time. A reader is
handed tasks by its stdin and hands back what they led to; it connects to nothing and knows no
password. It ends with its stdin. Where no process can be had, or one is lost, the reading is done
here instead, and what is wrong with a bundle is then raised here too.

Knows pipes. Must never know a database.
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
    """Reads bundles, several at a time if there are processes for it. Threads may share it."""

    def __init__(self, packing: Packing, command: Sequence[str] = (), processes: int = 0) -> None:
        """Start the processes."""
        self._packing = packing
        self._closed = False
        self._reading_here = Lock()
        """An importer may remember where it stands, so that no two threads read with it."""
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        for _ in range(processes):
            try:
                # In a session of its own, Ctrl-C reaches this process alone, which then ends it.
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
        """How many bundles can be read at a time."""
        return max(len(self._started), 1)

    def read(self, importer: Importer, task: ReadTask) -> BundleRead:
        """Return what a bundle holds.

        Raises:
            DatabaseUnavailable: It was closed meanwhile.
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
                # What a lost process was still to be told goes nowhere.
                with contextlib.suppress(OSError):
                    assert pipe is not None, "asked for pipes"
                    pipe.close()


def serve(
    find: Callable[[str], Importer | None],
    packing: Packing,
    stdin: IO[bytes],
    stdout: IO[bytes],
) -> None:
    """Read bundles until there are no more. A bundle that cannot be read ends the process."""
    known: dict[str, Importer | None] = {}
    try:
        while True:
            origin, version, task = _receive(stdin)
            if origin not in known:
                known[origin] = find(origin)
            importer = known[origin]
            # Somebody may hand over an importer of their own under a name that is installed.
            same = importer is not None and importer.version == version
            _send(stdout, _try(importer, task, packing) if importer and same else None)
    except EOFError:
        return


def _try(importer: Importer, task: ReadTask, packing: Packing) -> BundleRead | None:
    """Return what a bundle holds; what cannot be opened is for the other process to find out."""
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
    # Both ends are this module in processes of one version: nobody else holds the pipe.
    return pickle.loads(_take(stream, size))  # noqa: S301


def _take(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
