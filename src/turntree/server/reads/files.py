"""``/turns/{revision}/files`` and ``/blame``: what a turn left, how it differs, who wrote a line.

A turn without a snapshot of its own has the files of the nearest turn above it.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from turntree.api import Tree
from turntree.core.errors import NotFound
from turntree.core.ref import ExtRef
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.resources.file_diff import FileDiff
from turntree.resources.line_diff import is_binary
from turntree.resources.resource import FileChange, FileEntry, ResolvedTurnSnapshot, Resource
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.parts import one_line
from turntree.server.route import ApiRoute
from turntree.wire.files import (
    BlameDocument,
    BlameLine,
    DiffHunk,
    DiffLine,
    DiffSide,
    FileContent,
    FileList,
    FileListEntry,
    PathChange,
    PathDiff,
)

ENTRIES_MAX: Final = 5_000
LINES_MAX: Final = 5_000
LINE_CHARS_MAX: Final = 2_000
CONTENT_BYTES_MAX: Final = 512 * 1024
_CHANGES: Final[dict[str, PathChange]] = {
    "added": "added",
    "changed": "changed",
    "removed": "removed",
    "mode": "changed",
}


@value
class FilesQuery:
    """The turn whose files are asked for."""

    revision: str


@value
class PathQuery:
    """A file of a turn, as its snapshot names it or by its whole path."""

    revision: str
    path: str


@value
class TurnFolder:
    """A folder as a turn left it, and as the turn found it."""

    nearest: ThreadTurn
    pin: ResolvedTurnSnapshot
    before: ExtRef | None
    """None if nothing is known of the folder before the turn."""
    is_own: bool
    """Whether the turn that was asked for has this snapshot itself."""

    @property
    def resource(self) -> Resource:
        """The folder."""
        return self.pin.resource

    @property
    def after(self) -> ExtRef:
        """The state that the turn left."""
        return self.pin.after.external


async def find_folders(tree: Tree, revision: str) -> list[TurnFolder]:
    """Return the folders of a turn; empty if no turn up to it has a snapshot."""
    asked = await tree.turns.get(revision)
    try:
        nearest, pins = await tree.resources.nearest(asked.turn.id)
    except NotFound:
        return []
    is_own = nearest.turn.id == asked.turn.id
    above: Sequence[ResolvedTurnSnapshot] = ()
    if is_own and nearest.parent is not None and any(pin.before is None for pin in pins):
        above = await tree.resources.pins_along(nearest.parent)
    return [
        TurnFolder(nearest, pin, _state_before(pin, above), is_own)
        for pin in sorted(pins, key=lambda pin: pin.resource.place)
    ]


def _state_before(
    pin: ResolvedTurnSnapshot, above: Sequence[ResolvedTurnSnapshot]
) -> ExtRef | None:
    if pin.before is not None:
        return pin.before.external
    same = (one for one in above if one.resource.id == pin.resource.id)
    found = next(same, None)
    return None if found is None else found.after.external


async def list_changes(tree: Tree, folder: TurnFolder) -> list[FileChange]:
    """Return what a turn changed; nothing if its files before are unknown."""
    if not folder.is_own or folder.before is None:
        return []
    return await tree.files.compare(folder.resource, folder.before, folder.after)


def spell_path(path: str) -> str:
    """Return a path as text that can travel: bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def change_word(change: FileChange | FileDiff) -> PathChange:
    """Return what happened to a path."""
    return "changed" if change.kind == "renamed" else _CHANGES[change.kind]


async def list_files(context: ServerContext, asked: FilesQuery) -> FileList:
    """Return the files of a turn, those that it changed first."""
    tree = context.tree
    folders = await find_folders(tree, asked.revision)
    if not folders:
        return FileList(None, None, (), is_cut=False, folder=None)
    changed: list[FileListEntry] = []
    same: list[FileListEntry] = []
    for folder in folders:
        changes = {change.path: change for change in await list_changes(tree, folder)}
        for change in changes.values():
            entry = change.new or change.old
            if entry is not None and entry.kind != "directory":
                changed.append(_entry(entry, change_word(change)))
        same += [
            _entry(entry, None)
            for entry in await tree.files.list_entries(folder.resource, folder.after)
            if entry.kind != "directory" and entry.path not in changes
        ]
    first = folders[0]
    entries = [*changed, *same][: max(ENTRIES_MAX, len(changed))]
    return FileList(
        snapshot=first.after.id,
        nearest=first.nearest.turn.id,
        entries=tuple(entries),
        is_cut=len(entries) < len(changed) + len(same),
        folder=spell_path(first.resource.place),
    )


def _entry(entry: FileEntry, change: PathChange | None) -> FileListEntry:
    return FileListEntry(spell_path(entry.path), change, entry.size, entry.mode)


async def diff_file_of_turn(context: ServerContext, asked: PathQuery) -> PathDiff:
    """Return how a turn changed a file."""
    tree = context.tree
    for folder in await find_folders(tree, asked.revision):
        wanted = inside(folder.resource, asked.path)
        chosen = [
            change
            for change in await list_changes(tree, folder)
            if spell_path(change.path) == wanted
        ]
        if chosen:
            diffs = await tree.files.diff(folder.resource, folder.before, folder.after, only=chosen)
            return diff_document(diffs[0])
    raise NotFound(f"the turn did not change {asked.path}")


async def read_content(context: ServerContext, asked: PathQuery) -> FileContent:
    """Return what a file contained when a turn ended."""
    tree = context.tree
    folder, path = await find_file(tree, asked)
    data = await tree.files.read(folder.resource, folder.after, path)
    if is_binary(data):
        return FileContent(spell_path(path), None, len(data), is_binary=True, is_cut=False)
    shown = data[:CONTENT_BYTES_MAX]
    text = shown.decode("utf-8", "ignore" if len(shown) < len(data) else "replace")
    return FileContent(
        spell_path(path), text, len(data), is_binary=False, is_cut=len(shown) < len(data)
    )


async def blame_file(context: ServerContext, asked: PathQuery) -> BlameDocument:
    """Return which turn wrote each line of a file."""
    tree = context.tree
    folder, path = await find_file(tree, asked)
    found = await tree.blame(folder.resource, path, at=folder.pin)
    turns = {
        placed.turn.id: placed.turn
        for placed in await tree.revisions.threads.list_turns(found.turns)
    }
    lines: list[BlameLine] = []
    for line in found.lines[:LINES_MAX]:
        writer = line.writer
        turn = turns.get(writer.turns[0]) if writer.kind == "turn" else None
        lines.append(
            BlameLine(
                line.number,
                shown_line(line.text),
                None if turn is None else turn.id,
                None if turn is None else one_line(turn.title),
                writer.kind if turn is None else turn.header.by.id,
                None if turn is None else turn.header.sealed_at,
            )
        )
    is_cut = found.is_cut or len(lines) < len(found.lines)
    return BlameDocument(spell_path(path), tuple(lines), is_cut)


async def find_file(tree: Tree, asked: PathQuery) -> tuple[TurnFolder, str]:
    """Return the folder that holds a file, and the file's path in it.

    Raises:
        NotFound: No snapshot of the turn has such a file.
    """
    for folder in await find_folders(tree, asked.revision):
        wanted = inside(folder.resource, asked.path)
        for entry in await tree.files.list_entries(folder.resource, folder.after):
            if entry.kind != "directory" and spell_path(entry.path) == wanted:
                return folder, entry.path
    raise NotFound(f"no snapshot of this turn has {asked.path}")


def inside(resource: Resource, path: str) -> str:
    """Return a path relative to its folder; tools name their files by whole paths."""
    whole, place = PurePosixPath(path), PurePosixPath(spell_path(resource.place))
    if whole.is_absolute() and whole.is_relative_to(place):
        return whole.relative_to(place).as_posix()
    return path.removeprefix("./")


def diff_document(diff: FileDiff) -> PathDiff:
    """Return how a file differs, up to a number of lines."""
    left = LINES_MAX
    hunks: list[DiffHunk] = []
    for hunk in diff.hunks:
        if left <= 0:
            break
        lines = tuple(DiffLine(op, shown_line(text)) for op, text in hunk.lines[:left])
        left -= len(hunk.lines)
        hunks.append(DiffHunk(hunk.old_start, hunk.new_start, lines))
    return PathDiff(
        spell_path(diff.path),
        None if diff.old is None else _side(diff.old),
        None if diff.new is None else _side(diff.new),
        tuple(hunks),
        is_binary=diff.shape == "binary",
        is_cut=left < 0 or diff.shape == "large",
    )


def _side(entry: FileEntry) -> DiffSide:
    return DiffSide(spell_path(entry.path), entry.size, entry.mode)


def shown_line(line: bytes) -> str:
    """Return a line without its end; of a very long one, the beginning."""
    text = line.removesuffix(b"\n").decode("utf-8", "replace")
    return text if len(text) <= LINE_CHARS_MAX else f"{text[:LINE_CHARS_MAX]}…"


ROUTES: Final = (
    ApiRoute(
        "GET", "/turns/{revision}/files", READ, list_files, "The files that a turn left.",
        FilesQuery, FileList,
    ),
    ApiRoute(
        "GET", "/turns/{revision}/files/diff", READ, diff_file_of_turn,
        "How a turn changed a file.",
        PathQuery, PathDiff,
    ),
    ApiRoute(
        "GET", "/turns/{revision}/files/content", READ, read_content,
        "What a file contained when a turn ended.", PathQuery, FileContent,
    ),
    ApiRoute(
        "GET", "/turns/{revision}/blame", READ, blame_file, "Which turn wrote each line of a file.",
        PathQuery, BlameDocument,
    ),
)  # fmt: skip
