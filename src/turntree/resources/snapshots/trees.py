"""Trees: the entries of a folder as one object that names the objects below it.

Equal folders are equal objects, so comparing two states reads only what differs. A *state* is a
tree of one entry called ``.``: the resource itself. Knows the encoding of a tree, not the file
system.
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
"""The name of the resource itself inside its state."""

_HEAD: Final = b"tree/1\n"
MODE: Final = 0o777
"""The permission bits that are stored: read, write and execute.

Not setuid, setgid and sticky: a restored file belongs to the user who restored it, and would give
that user's rights, perhaps root's, to every user who runs it. Older trees may hold such bits; they
are ignored.
"""
_ENTRY: Final = struct.Struct(">BHQI32sH")
_KINDS: Final = frozenset({FILE, LINK, FOLDER})
_NOT_NAMES: Final = frozenset({b"", b".", b".."})

Fetch = Callable[[bytes], bytes]
"""Returns an object's bytes by its digest."""


class TreeEntry(NamedTuple):
    """One entry of a tree."""

    name: bytes
    kind: int
    mode: int
    """Permission bits; 0 for a link, which has none of its own."""
    size: int
    """Bytes; for a folder, of everything below."""
    files: int
    """Number of files and links: 1, or those below."""
    digest: bytes


OpenFolder = Callable[[bytes], Mapping[bytes, TreeEntry]]
"""Returns a folder's entries by name, given its digest."""


class TreeDiff(NamedTuple):
    """One path that differs between two states."""

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
    """Return the entries of a folder, in name order.

    Raises:
        NotFound: The bytes are not a tree, or a name in them could lead out of the folder.
    """
    nodes = _read_entries(data)
    above = b""
    for node in nodes:
        # Trees come from archives and backups too, and every name becomes a part of a path.
        if node.name in _NOT_NAMES or b"/" in node.name or b"\0" in node.name:
            raise NotFound(f"corrupt object: {node.name!r} is not a name in a folder")
        # `write_tree` sorts. A forged tree could have a link and a folder of the same name: what is
        # restored below that folder would then follow the link.
        if node.name <= above:
            raise NotFound(f"corrupt object: {node.name!r} is twice or out of order in a folder")
        above = node.name
    return nodes


def read_state(fetch: Fetch, state: bytes) -> TreeEntry:
    """Return the root entry of a state.

    Raises:
        NotFound: It is not stored here.
    """
    nodes = _read_entries(fetch(state))
    if len(nodes) != 1 or nodes[0].name != PLACE_NAME:
        raise NotFound(f"sha256:{state.hex()} is not a snapshot")
    return nodes[0]


def walk_nodes(fetch: Fetch, top: TreeEntry) -> Iterator[tuple[bytes, TreeEntry]]:
    """Yield every path below a folder, in path order as bytes."""
    # A folder sorts by its name, and its contents by its name with a slash: `a.txt` sorts between
    # the two, after `a` and before `a/b`.
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
        waiting += sorted(below, key=lambda entry: entry[0], reverse=True)


def find_node(open_folder: OpenFolder, top: TreeEntry, path: bytes) -> TreeEntry:
    """Return the entry at a path below the root.

    Raises:
        NotFound: There is none.
    """
    node = top
    for name in path.split(b"/") if path != PLACE_NAME else ():
        found = open_folder(node.digest).get(name) if node.kind == FOLDER else None
        if found is None:
            raise NotFound(f"there is no {path.decode(errors='replace')} in that state")
        node = found
    return node


def compare_nodes(fetch: Fetch, old: TreeEntry | None, new: TreeEntry | None) -> list[TreeDiff]:
    """Return how two roots differ, in path order; None is an empty one."""
    found: list[TreeDiff] = []
    waiting: list[tuple[bytes, TreeEntry | None, TreeEntry | None]] = [(b"", old, new)]
    while waiting:
        path, before, after = waiting.pop()
        # A root that appears or vanishes is reported by its contents; a file is its own content.
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


def _read_entries(data: bytes) -> list[TreeEntry]:
    if not data.startswith(_HEAD):
        raise NotFound("corrupt object: not a tree")
    nodes: list[TreeEntry] = []
    at, end = len(_HEAD), len(data)
    while at < end:
        if end - at < _ENTRY.size:
            raise NotFound("corrupt object: a tree that was cut off")
        kind, mode, size, files, digest, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size + length
        if at > end or kind not in _KINDS:
            raise NotFound("corrupt object: an entry of a tree cannot be read")
        name = data[at - length : at]
        nodes.append(TreeEntry(name, kind, mode & MODE, size, files, digest))
    return nodes


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
