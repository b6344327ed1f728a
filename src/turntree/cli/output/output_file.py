"""Write a file that a user named: complete, or not at all."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from turntree.core.errors import InvalidOperation


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
    try:
        with fresh.open("xb") as file:
            yield file
        if target.exists():
            fresh.chmod(target.stat().st_mode & 0o777)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
