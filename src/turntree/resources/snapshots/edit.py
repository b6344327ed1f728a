"""Make a state from another one by changing some of its paths.

Only the trees on the way to a changed path are written. Nothing outside the object store is read or
written.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from turntree.core.errors import InvalidOperation
from turntree.resources.snapshots.capture import CapturedState, log_state
from turntree.resources.snapshots.store import PIECE_BYTES, ObjectStore, ObjectWriter
from turntree.resources.snapshots.trees import (
    FOLDER,
    PLACE_NAME,
    TreeEntry,
    read_state,
    read_tree,
    write_tree,
)


class NewEntry(NamedTuple):
    """What a path becomes."""

    node: TreeEntry
    """Its name is that of the path; a folder keeps what it holds."""
    content: bytes | None = None
    """Bytes that may not be stored yet."""


FOLDER_MODE: Final = 0o755
"""The mode of a folder that is needed for a path and that no edit describes."""

EMPTY: Final = write_tree([])[0]

Edits = Mapping[bytes, NewEntry | None]
"""What each path becomes; None removes it, unless it is a folder that still holds something."""


def edit_state(store: ObjectStore, state: bytes, edits: Edits) -> CapturedState:
    """Store a state that differs from another one in some paths.

    Raises:
        NotFound: The other state is not stored here.
        InvalidOperation: A path would be below a file, or a folder with contents would become one.
    """
    with store.lock("store", exclusive=False):
        store.refresh()
        top = read_state(store.get, state)
        with store.begin() as writer:
            if PLACE_NAME in edits:
                new = edits[PLACE_NAME]
                if new is None:
                    raise InvalidOperation("a single file cannot be removed from its own state")
                top = _put(writer, new)._replace(name=PLACE_NAME)
            else:
                top = _edit(store, writer, top, edits)
            edited, data = write_tree([top])
            writer.put(edited, data)
            writer.finish()
        # Garbage collection spares recent states only if the log has them.
        log_state(store, edited)
        return CapturedState(edited, top.size, top.files, writer.written, "exact")


def _edit(store: ObjectStore, writer: ObjectWriter, folder: TreeEntry, edits: Edits) -> TreeEntry:
    """Return a folder after the edits of paths in it."""
    # A folder that was just made is not in the store yet, and is empty.
    held = [] if folder.digest == EMPTY else read_tree(store.get(folder.digest))
    nodes = {node.name: node for node in held}
    below: dict[bytes, dict[bytes, NewEntry | None]] = {}
    for path, new in edits.items():
        name, _, rest = path.partition(b"/")
        inside = below.setdefault(name, {})
        if rest:
            inside[rest] = new
    for name, inside in below.items():
        node = nodes.pop(name, None)
        if inside and any(inside.values()) and not _is_folder(node, edits.get(name)):
            raise InvalidOperation(f"{name.decode(errors='replace')} is in the way: not a folder")
        if inside and (node is None or node.kind != FOLDER) and any(inside.values()):
            node = _put_folder(writer, name, FOLDER_MODE, [])
        if inside and node is not None and node.kind == FOLDER:
            node = _edit(store, writer, node, inside)
        if name in edits:
            node = _replace(writer, node, edits[name])
        if node is not None:
            nodes[name] = node._replace(name=name)
    return _put_folder(writer, folder.name, folder.mode, list(nodes.values()))


def _is_folder(node: TreeEntry | None, new: NewEntry | None) -> bool:
    """Whether paths can be below an entry: it is a folder, becomes one, or does not exist."""
    return node is None or node.kind == FOLDER or (new is not None and new.node.kind == FOLDER)


def _replace(writer: ObjectWriter, old: TreeEntry | None, new: NewEntry | None) -> TreeEntry | None:
    is_full = old is not None and old.kind == FOLDER and old.digest != EMPTY
    if new is None:
        return old if is_full else None
    if new.node.kind != FOLDER:
        if is_full:
            raise InvalidOperation(f"{new.node.name.decode(errors='replace')} is a folder in use")
        return _put(writer, new)
    if old is not None and old.kind == FOLDER:
        return old._replace(mode=new.node.mode)
    return _put_folder(writer, new.node.name, new.node.mode, [])


def _put(writer: ObjectWriter, new: NewEntry) -> TreeEntry:
    content, digest = new.content, new.node.digest
    if content is not None and len(content) <= PIECE_BYTES:
        writer.put(digest, content)
    elif content is not None:
        pieces: list[bytes] = []
        for at in range(0, len(content), PIECE_BYTES):
            piece = content[at : at + PIECE_BYTES]
            pieces.append(hashlib.sha256(piece).digest())
            writer.put(pieces[-1], piece)
        writer.put_pieces(digest, pieces)
    return new.node


def _put_folder(writer: ObjectWriter, name: bytes, mode: int, nodes: list[TreeEntry]) -> TreeEntry:
    digest, data = write_tree(nodes)
    writer.put(digest, data)
    size, files = sum(node.size for node in nodes), sum(node.files for node in nodes)
    return TreeEntry(name, FOLDER, mode, size, files, digest)
