"""Folders that Hypothesis draws: odd names, odd modes, links, empty folders, large files."""

import os
import random
import shutil
from pathlib import Path
from typing import TypeAlias

from hypothesis import strategies as st

Drawn: TypeAlias = "tuple[str, int, bytes] | tuple[str, int, dict[bytes, Drawn]]"
"""A file's or link's mode and bytes, or a folder's mode and what it holds."""

MODES = [0o644, 0o600, 0o755, 0o400, 0o000, 0o777, 0o4755, 0o2750, 0o1777]
FOLDER_MODES = [0o755, 0o700, 0o711, 0o1777, 0o500]
RESERVED = {b".", b"..", b".git", b".turntree", b".gitignore", b".turntreeignore", b".turntreekeep"}
PIECE = 1 << 20

names = st.one_of(
    st.sampled_from([b"a", b"a.txt", b"ab", b"b", b" ", b"a b", b"\xff", b"\n", b"\xc3\xa9", b"*"]),
    st.binary(min_size=1, max_size=20),
).map(lambda name: name.replace(b"/", b"-").replace(b"\x00", b"0")).filter(
    lambda name: name not in RESERVED and not name.startswith(b".turntree-")
)  # fmt: skip


class Large(bytes):
    """Bytes that nobody wants to see printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


def large(seed: int) -> bytes:
    """Bytes that take up more than one piece, and hardly compress."""
    return Large(random.Random(seed).randbytes(PIECE + seed % 3 * PIECE + seed))


contents = st.one_of(
    st.binary(max_size=300),
    st.binary(min_size=1, max_size=9).map(lambda word: word * 400),
    st.integers(0, 4).map(large),
)
files = st.tuples(st.just("file"), st.sampled_from(MODES), contents)
links = st.tuples(
    st.just("symlink"),
    st.just(0),
    st.binary(min_size=1, max_size=30).map(lambda target: target.replace(b"\x00", b"0")),
)


def _folders(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    return st.tuples(
        st.just("directory"),
        st.sampled_from(FOLDER_MODES),
        st.dictionaries(names, inner, max_size=5),
    )


holdings: st.SearchStrategy[dict[bytes, Drawn]] = st.dictionaries(
    names, st.recursive(st.one_of(files, links), _folders, max_leaves=8), max_size=6
)


def write(place: Path, holding: dict[bytes, Drawn]) -> None:
    """Make a folder hold exactly what was drawn."""
    if place.exists():
        for name in os.listdir(place):
            path = place / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    place.mkdir(exist_ok=True)
    _fill(os.fsencode(place), holding)


def _fill(folder: bytes, holding: dict[bytes, Drawn]) -> None:
    for name, (kind, mode, held) in holding.items():
        path = folder + b"/" + name
        if isinstance(held, dict):
            os.mkdir(path)
            _fill(path, held)
            os.chmod(path, mode)
        elif kind == "symlink":
            os.symlink(held, path)
        else:
            with open(path, "wb") as file:
                file.write(held)
            os.chmod(path, mode)
