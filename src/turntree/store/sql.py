"""SQL by name: the only way from Python to a statement.

A file in ``queries/`` holds statements, each under a line ``-- name: thread_page``. Nothing
here or elsewhere puts SQL together from pieces.
"""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_queries() -> Mapping[str, bytes]:
    """Return every named statement of the package."""
    queries: dict[str, bytes] = {}
    for file in _sorted(files("turntree.store") / "queries"):
        for name, statement in _split(file.read_text(encoding="utf-8")):
            assert name not in queries, f"two statements are called {name}"
            queries[name] = statement.encode()
    return queries


def load_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each SQL file of a folder, in order of their names."""
    for file in _sorted(files("turntree.store") / folder):
        yield file.name.removesuffix(".sql"), file.read_text(encoding="utf-8")


def _sorted(folder: Traversable) -> list[Traversable]:
    return sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )


def _split(text: str) -> Iterator[tuple[str, str]]:
    _, *pieces = _NAME.split(text)
    yield from zip(pieces[::2], (piece.strip() for piece in pieces[1::2]), strict=True)


QUERIES = load_queries()
