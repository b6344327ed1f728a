"""Write a file that a user named: complete, or not at all."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from turntree.core.errors import InvalidOperation

CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@contextmanager
def output_file(name: str) -> Generator[BinaryIO]:
    """Open a file for writing; if the block raises, the file is as it was before.

    ``-`` is stdout. A device or a pipe is written to directly. A link stays a link.

    Raises:
        InvalidOperation: The file cannot be written.
    """
    is_stdout = name == "-"
    try:
        with nullcontext(sys.stdout.buffer) if is_stdout else _open(Path(name)) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        told = "stdout" if is_stdout else name
        raise InvalidOperation(f"{told} cannot be written: {error.strerror}") from error


@contextmanager
def _open(path: Path) -> Generator[BinaryIO]:
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    # What replaces a private file is private from its first byte.
    opened = os.open(fresh, CREATE, 0o666 if mode is None else mode)
    try:
        with os.fdopen(opened, "wb") as file:
            yield file
        if mode is not None:
            fresh.chmod(mode)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
