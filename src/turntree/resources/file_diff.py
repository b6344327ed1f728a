"""Compute how files differ between two states: the kind of difference, and which lines.

It says when both sides have to be read and when reading is pointless: binary files, files too
large to show. Pure: the caller supplies the bytes. It knows no driver, terminal or path on disk.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from turntree.core.ids import Digest
from turntree.core.message_context import ChangeKind
from turntree.core.value import value
from turntree.resources.line_diff import Hunk, hunks_of, is_binary, split_lines
from turntree.resources.resource import FileChange, FileEntry

LARGE_BYTES_MAX: Final = 1_000_000
"""Of a larger file only the size is shown."""
DiffKind = ChangeKind | Literal["renamed"]
Shape = Literal["text", "binary", "large", "link", "folder", "same"]
"""text: compared by line. same: only the name or the permissions differ."""


@value
class FileDiff:
    """One path, before and after."""

    path: str
    kind: DiffKind
    shape: Shape
    old: FileEntry | None
    new: FileEntry | None
    hunks: tuple[Hunk, ...] = ()

    @property
    def added(self) -> int | None:
        """Number of added lines; None if the content was not compared by line."""
        return self._count("+")

    @property
    def removed(self) -> int | None:
        """Number of removed lines; None if the content was not compared by line."""
        return self._count("-")

    @property
    def renamed_from(self) -> str | None:
        """The path it had before."""
        return self.old.path if self.kind == "renamed" and self.old is not None else None

    def _count(self, sign: str) -> int | None:
        if self.shape != "text":
            return None
        return sum(one == sign for hunk in self.hunks for one, _ in hunk.lines)


def pair_renames(changes: Sequence[FileChange]) -> list[FileChange | tuple[FileChange, FileChange]]:
    """Return changes in path order, with each pure move as one pair: (from, to).

    Only equal bytes prove a move; an empty file proves nothing. A folder that appears or vanishes
    together with its contents is left out.
    """
    changes = _without_implied(changes)
    gone: dict[Digest, list[FileChange]] = {}
    for change in changes:
        if (digest := _moved_digest(change.old)) is not None and change.kind == "removed":
            gone.setdefault(digest, []).append(change)
    pairs: dict[str, FileChange] = {}
    for change in changes:
        digest = _moved_digest(change.new)
        if change.kind == "added" and digest is not None and gone.get(digest):
            pairs[change.path] = gone[digest].pop(0)
    moved = {change.path for change in pairs.values()}
    kept = sorted(changes, key=lambda change: change.path)
    return [
        (pairs[change.path], change) if change.path in pairs else change
        for change in kept
        if not (change.kind == "removed" and change.path in moved)
    ]


def _without_implied(changes: Sequence[FileChange]) -> list[FileChange]:
    above = {
        change.path[:place]
        for change in changes
        for place, sign in enumerate(change.path)
        if sign == "/"
    }
    return [
        change
        for change in changes
        if not (change.path in above and _shape_of(change.old, change.new) == "folder")
    ]


def has_to_be_read(change: FileChange) -> bool:
    """Return whether the bytes of both sides are needed to compare a path."""
    return _shape_of(change.old, change.new) in ("text", "link")


def diff_file(
    change: FileChange,
    old: bytes | None,
    new: bytes | None,
    *,
    moved_from: FileChange | None = None,
) -> FileDiff:
    """Return how one path differs, given the bytes of its sides if they have to be read."""
    if moved_from is not None:
        return FileDiff(change.path, "renamed", "same", moved_from.old, change.new)
    shape = _shape_of(change.old, change.new)
    if shape == "text" and (is_binary(old or b"") or is_binary(new or b"")):
        shape = "binary"
    hunks: Iterable[Hunk] = ()
    if shape in ("text", "link"):
        hunks = hunks_of(split_lines(old or b""), split_lines(new or b""))
    return FileDiff(change.path, change.kind, shape, change.old, change.new, tuple(hunks))


def _shape_of(old: FileEntry | None, new: FileEntry | None) -> Shape:
    sides = [side for side in (old, new) if side is not None]
    kinds = {side.kind for side in sides}
    if kinds == {"directory"}:
        return "folder"
    if old is not None and new is not None and (old.kind, old.digest) == (new.kind, new.digest):
        return "same"
    if "symlink" in kinds:
        return "link"
    return "large" if any(side.size > LARGE_BYTES_MAX for side in sides) else "text"


def _moved_digest(entry: FileEntry | None) -> Digest | None:
    return entry.digest if entry is not None and entry.kind == "file" and entry.size else None
