"""Loads SQL statements by name: the only way from Python to a statement.

A file in ``queries/`` holds statements, each below a line such as ``-- name: thread_page``. No code
assembles SQL from pieces.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

_HERE = Path(__file__).parent
_NAME = b"-- name: "


def load_queries() -> Mapping[str, bytes]:
    """Return all named statements of the package."""
    queries: dict[str, bytes] = {}
    for path in _sorted("queries"):
        _, *pieces = (b"\n" + path.read_bytes()).split(b"\n" + _NAME)
        for piece in pieces:
            name, _, statement = piece.partition(b"\n")
            assert name.decode() not in queries, f"two statements are called {name.decode()}"
            queries[name.decode()] = statement.strip()
    return queries


def load_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each SQL file in a folder, ordered by name."""
    for path in _sorted(folder):
        yield path.name.removesuffix(".sql"), path.read_text(encoding="utf-8")


def _sorted(folder: str) -> list[Path]:
    return sorted((_HERE / folder).glob("*.sql"))


QUERIES = load_queries()
