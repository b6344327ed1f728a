"""Files of turns: what a snapshot holds, how it differs, and which turn wrote a line."""

from typing import Literal

from turntree.core.value import value

PathChange = Literal["added", "changed", "removed"]


@value
class FileListEntry:
    """A file of a snapshot, or one that its turn removed."""

    path: str
    change: PathChange | None
    """What the turn did to it; null if it left it as it was."""
    bytes: int
    mode: int
    """Permission bits."""


@value
class FileList:
    """The files that a turn left."""

    snapshot: str | None
    """The digest of the snapshot; null if no turn up to here has one."""
    nearest: str | None
    """The turn whose snapshot it is: the one that was asked for, or the nearest before it."""
    entries: tuple[FileListEntry, ...]
    is_cut: bool
    """Whether unchanged files were left out because there are too many."""
    folder: str | None


@value
class DiffLine:
    """A line of a hunk."""

    op: Literal[" ", "+", "-"]
    text: str


@value
class DiffHunk:
    """Lines that differ, with a few lines of context."""

    old_start: int
    new_start: int
    lines: tuple[DiffLine, ...]


@value
class DiffSide:
    """A file on one side of a difference."""

    path: str
    bytes: int
    mode: int


@value
class PathDiff:
    """How one file differs."""

    path: str
    old: DiffSide | None
    new: DiffSide | None
    hunks: tuple[DiffHunk, ...]
    is_binary: bool
    is_cut: bool
    """Whether lines are missing because there are too many, or because the file is too large."""


@value
class FileContent:
    """What a file of a snapshot contains."""

    path: str
    text: str | None
    """Null if it is binary."""
    bytes: int
    is_binary: bool
    is_cut: bool


@value
class BlameLine:
    """A line and the turn that wrote it."""

    number: int
    text: str
    turn: str | None
    """Null if it was written outside any turn, before the first one, or by one of several."""
    title: str | None
    by: str
    """The turn's principal, or ``outside``, ``earlier`` or ``mixed``."""
    at: str | None


@value
class BlameDocument:
    """The lines of a file with their turns."""

    path: str
    lines: tuple[BlameLine, ...]
    is_cut: bool
    """Whether older snapshots were not read, or lines are missing."""
