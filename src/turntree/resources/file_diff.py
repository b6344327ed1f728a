"""How files differ between two states: what kind of difference it is, and which lines.

Knows when two states have to be read in order to say so, and when that would show nobody anything:
bytes that are no text, files too large to look at. Pure; whoever asks hands over the bytes. It must
never know a keeper, a terminal, or where the files lie.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from turntree.core.ids import Digest
from turntree.core.message_context import ChangeKind
from turntree.core.value import value
from turntree.resources.line_diff import Hunk, hunks_of, is_binary, split_lines
from turntree.resources.resource import FileChange, FileEntry

LARGE_BYTES_MAX: Final = 1_000_000
"""Of a larger file only its size is told."""
DiffKind = ChangeKind | Literal["renamed"]
Shape = Literal["text", "binary", "large", "link", "folder", "same"]
"""text: its lines are told. same: only the name or the permissions differ."""


@value
class FileDiff:
    """One path, as it was and as it is."""

    path: str
    kind: DiffKind
    shape: Shape
    old: FileEntry | None
    new: FileEntry | None
    hunks: tuple[Hunk, ...] = ()

    @property
    def added(self) -> int | None:
        """How many lines were put in; None where there are no lines to count."""
        return self._count("+")

    @property
    def removed(self) -> int | None:
        """How many lines were taken out; None where there are no lines to count."""
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
    """Return changes in the order of paths, with what was only moved as one: (from, to).

    Only equal bytes prove a move; an empty file says nothing. A folder that came or went with what
    lies in it is not told of.
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
    """Say whether the bytes of both sides are needed to tell how a path differs."""
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
