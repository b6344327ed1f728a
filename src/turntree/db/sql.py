"""Loads SQL from files: no code assembles a statement from pieces.

A store has its statements in the file beside it, ``store.sql`` beside ``store.py``, each below a
line such as ``-- name: thread_page``. A process reads only the files of the stores that it imports.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

_HERE = Path(__file__).parent
_NAME = b"\n-- name: "


def load_statements(module: str) -> Mapping[str, bytes]:
    """Return the statements of the SQL file beside a module, by name."""
    statements: dict[str, bytes] = {}
    _, *pieces = (b"\n" + Path(module).with_suffix(".sql").read_bytes()).split(_NAME)
    for piece in pieces:
        name, _, statement = piece.partition(b"\n")
        assert name.decode() not in statements, f"two statements are called {name.decode()}"
        statements[name.decode()] = statement.strip()
    return statements


def load_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each SQL file in a folder of ``db``, ordered by name."""
    for path in sorted((_HERE / folder).glob("*.sql")):
        yield path.name.removesuffix(".sql"), path.read_text(encoding="utf-8")
