"""Write a file that a user named: complete, or not at all."""

import contextlib
import os
from collections.abc import Generator
from io import BufferedWriter
from pathlib import Path


@contextlib.contextmanager
def output_file(path: Path) -> Generator[BufferedWriter]:
    """Open a file for writing; if the block raises, the file is as it was before.

    A device or a pipe is written to directly. A link stays a link.
    """
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
