"""Open other tools' SQLite files for reading, while the tool may be writing.

Opens a file and loads the statements for it from a ``.sql`` file next to the importer. Never
writes, and never creates a file next to the tool's own.
"""

import re
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from turntree.ledger.raw_codec import RECORD_BYTES_MAX

# The tool may be writing. Waiting longer would hold up the import of everything else.
BUSY_TIMEOUT_S: Final = 5.0
KEYS_MAX: Final = 200
"""Most keys in one statement."""

Row: TypeAlias = tuple[Any, ...]
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MAGIC: Final = b"SQLite format 3\x00"


def load_statements(name: str) -> Mapping[str, str]:
    """Return the named statements of the ``.sql`` file in a tool's folder."""
    text = (files("turntree.transcripts.importers") / name / f"{name}.sql").read_text(
        encoding="utf-8"
    )
    _, *pieces = _NAME.split(text)
    return dict(zip(pieces[::2], (piece.strip() for piece in pieces[1::2]), strict=True))


def is_database(path: Path) -> bool:
    """Return whether a file has SQLite's signature."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """Open a database for reading; texts are returned as bytes.

    A file whose write-ahead log cannot be opened, as on a read-only disk, is read without it.

    Raises:
        OSError: It cannot be read, or not to its end.
    """
    try:
        with closing(_opened(path)) as connection:
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # sqlite3 raises a decoding error itself if its message quotes damaged bytes.
        raise OSError(f"{path} cannot be read: {error}") from error


def value_of(value: object) -> bytes | None:
    """Return the value of a column, whatever its type, as bytes."""
    match value:
        case None | bytes():
            return value
        case _:
            return str(value).encode("utf-8", "replace")


def after(prefix: str) -> tuple[str, str]:
    """Return the range of all keys with a prefix that ends in a colon."""
    assert prefix.endswith(":"), "the sign after a colon is a semicolon"
    return prefix, prefix[:-1] + ";"


def _opened(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path, "mode=ro")
    except sqlite3.OperationalError:
        # A database with a write-ahead log needs a file for shared memory beside it. In a folder
        # that we cannot write to, SQLite can open it only as a file that never changes.
        return _connect(path, "mode=ro&immutable=1")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{how}", uri=True, timeout=BUSY_TIMEOUT_S
    )
    connection.text_factory = bytes
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, RECORD_BYTES_MAX)
    try:
        # Opening reads nothing; the first statement shows whether the file can be read.
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
