"""SQL by name: the only way from Python to a statement.

A file in ``queries/`` holds statements, each under a line ``-- name: thread_page``. Nothing
here or elsewhere puts SQL together from pieces.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

_HERE = Path(__file__).parent
_NAME = b"-- name: "


def load_queries() -> Mapping[str, bytes]:
    """Return every named statement of the package."""
    queries: dict[str, bytes] = {}
    for path in _sorted("queries"):
        _, *pieces = (b"\n" + path.read_bytes()).split(b"\n" + _NAME)
        for piece in pieces:
            name, _, statement = piece.partition(b"\n")
            assert name.decode() not in queries, f"two statements are called {name.decode()}"
            queries[name.decode()] = statement.strip()
    return queries


def load_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each SQL file of a folder, in order of their names."""
    for path in _sorted(folder):
        yield path.name.removesuffix(".sql"), path.read_text(encoding="utf-8")


def _sorted(folder: str) -> list[Path]:
    return sorted((_HERE / folder).glob("*.sql"))


QUERIES = load_queries()
