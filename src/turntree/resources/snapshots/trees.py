"""Trees: what a folder holds, as one object that names the objects below it.

Equal folders are equal objects, whenever and wherever they stood, so that comparing two states
reads only what differs. A *state* is a tree of one entry called ``.``: the place itself. Knows the
bytes of a tree. Must never know the file system.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from turntree.core.errors import NotFound

FILE: Final = 1
LINK: Final = 2
FOLDER: Final = 3
PLACE_NAME: Final = b"."
"""What the place itself is called inside its state."""

_HEAD: Final = b"tree/1\n"
MODE: Final = 0o777
"""What is kept of a mode: who may read, write and enter.

Not setuid, setgid and sticky: a file that comes back belongs to whoever asked for it, and would
lend their rights, root's perhaps, to everyone who runs it. Trees of before may hold such bits, and
they are not read.
"""
_ENTRY: Final = struct.Struct(">BHQI32sH")

Fetch = Callable[[bytes], bytes]
"""Returns an object's bytes by its digest."""


class TreeEntry(NamedTuple):
    """One entry of a tree."""

    name: bytes
    kind: int
    mode: int
    """Permission bits; 0 for a link, which has none of its own."""
    size: int
    """Bytes, of everything below for a folder."""
    files: int
    """How many files and links: 1, or those below."""
    digest: bytes


OpenFolder = Callable[[bytes], Mapping[bytes, TreeEntry]]
"""Returns what a folder holds, by name, given its digest."""


class TreeDiff(NamedTuple):
    """One path that is not the same in two states."""

    path: bytes
    old: TreeEntry | None
    new: TreeEntry | None


def write_tree(nodes: Iterable[TreeEntry]) -> tuple[bytes, bytes]:
    """Return the digest and the bytes of the tree that has these entries."""
    lines = [
        _ENTRY.pack(kind, mode, size, files, digest, len(name)) + name
        for name, kind, mode, size, files, digest in sorted(nodes)
    ]
    data = _HEAD + b"".join(lines)
    return hashlib.sha256(data).digest(), data


def read_tree(data: bytes) -> list[TreeEntry]:
    """Return the entries of a tree, in the order of their names.

    Raises:
        NotFound: The bytes are none.
    """
    if not data.startswith(_HEAD):
        raise NotFound("what is kept there is no tree")
    nodes: list[TreeEntry] = []
    at, end = len(_HEAD), len(data)
    while at < end:
        kind, mode, size, files, digest, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        nodes.append(TreeEntry(data[at : at + length], kind, mode & MODE, size, files, digest))
        at += length
    return nodes


def read_state(fetch: Fetch, state: bytes) -> TreeEntry:
    """Return the place itself as it was in a state.

    Raises:
        NotFound: It is not kept here.
    """
    nodes = read_tree(fetch(state))
    if len(nodes) != 1 or nodes[0].name != PLACE_NAME:
        raise NotFound(f"sha256:{state.hex()} is no state of a place")
    return nodes[0]


def walk_nodes(fetch: Fetch, top: TreeEntry) -> Iterator[tuple[bytes, TreeEntry]]:
    """Yield every path below a folder, in the order of paths as bytes."""
    # A folder's own line comes where its name does, and what it holds where its name with a
    # slash does: between the two there may be `a.txt`, which comes after `a` and before `a/b`.
    waiting = [(b"", top, True)]
    while waiting:
        path, node, opened = waiting.pop()
        if not opened:
            yield path, node
            continue
        below: list[tuple[bytes, TreeEntry, bool]] = []
        for one in read_tree(fetch(node.digest)):
            below.append((path + one.name, one, False))
            if one.kind == FOLDER:
                below.append((path + one.name + b"/", one, True))
        waiting += sorted(below, key=_by_path, reverse=True)


def find_node(open_folder: OpenFolder, top: TreeEntry, path: bytes) -> TreeEntry:
    """Return what stands at a path below a place.

    Raises:
        NotFound: Nothing does.
    """
    node = top
    for name in path.split(b"/") if path != PLACE_NAME else ():
        found = open_folder(node.digest).get(name) if node.kind == FOLDER else None
        if found is None:
            raise NotFound(f"there is no {path.decode(errors='replace')} in that state")
        node = found
    return node


def compare_nodes(fetch: Fetch, old: TreeEntry | None, new: TreeEntry | None) -> list[TreeDiff]:
    """Return how two places differ, in the order of paths; None is one without anything."""
    found: list[TreeDiff] = []
    waiting: list[tuple[bytes, TreeEntry | None, TreeEntry | None]] = [(b"", old, new)]
    while waiting:
        path, before, after = waiting.pop()
        # A place that comes or goes is told by what it holds; a file holds itself.
        told = path or _is_file(before) or _is_file(after) or (before and after)
        if told and _differ(before, after):
            found.append(TreeDiff(path or PLACE_NAME, before, after))
        if _same_below(before, after):
            continue
        prefix = path + b"/" if path else b""
        olds, news = _below(fetch, before), _below(fetch, after)
        waiting += [
            (prefix + name, olds.get(name), news.get(name)) for name in olds.keys() | news.keys()
        ]
    return sorted(found, key=lambda difference: difference.path)


def _by_path(entry: tuple[bytes, TreeEntry, bool]) -> bytes:
    return entry[0]


def _below(fetch: Fetch, node: TreeEntry | None) -> dict[bytes, TreeEntry]:
    if node is None or node.kind != FOLDER:
        return {}
    return {one.name: one for one in read_tree(fetch(node.digest))}


def _is_file(node: TreeEntry | None) -> bool:
    return node is not None and node.kind != FOLDER


def _same_below(old: TreeEntry | None, new: TreeEntry | None) -> bool:
    olds = old.digest if old is not None and old.kind == FOLDER else None
    news = new.digest if new is not None and new.kind == FOLDER else None
    return olds == news


def _differ(old: TreeEntry | None, new: TreeEntry | None) -> bool:
    if old is None or new is None:
        return True
    if old.kind == FOLDER and new.kind == FOLDER:
        return old.mode != new.mode
    return (old.kind, old.mode, old.digest) != (new.kind, new.mode, new.digest)
