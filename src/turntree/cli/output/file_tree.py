"""Print a tree of files: folders with their sums, collapsed below a depth. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turntree.cli.command import Terminal
from turntree.cli.output.changes import SIGNS, shown_path, shown_size
from turntree.cli.output.text import cells, counted, pad
from turntree.core.value import value
from turntree.resources.file_diff import DiffKind
from turntree.resources.resource import FileEntry

NAME_WIDTH_MAX: Final = 56
ENTRIES_SHOWN_MAX: Final = 200
"""Number of entries shown per folder, unless the whole tree was asked for."""


@dataclass(slots=True)
class _Folder:
    files: int = 0
    size: int = 0
    changed: int = 0
    folders: "dict[str, _Folder]" = field(default_factory=dict[str, "_Folder"])
    entries: list[tuple[str, FileEntry]] = field(default_factory=list[tuple[str, FileEntry]])


@value
class _Row:
    sign: str
    name: str
    size: str


def draw_tree(
    entries: Sequence[FileEntry],
    signs: Mapping[str, DiffKind],
    terminal: Terminal,
    *,
    depth_max: int | None = None,
) -> Iterator[str]:
    """Yield a tree, one line per file or folder; a folder below the depth is one line.

    Paths that a turn changed are marked.
    """
    rows = list(_rows(_plant(entries, signs), "", signs, terminal, depth_max))
    widest = min(max((cells(row.name) for row in rows), default=0), NAME_WIDTH_MAX)
    for row in rows:
        sign = terminal.paint(row.sign, "warn") if row.sign.strip() else row.sign
        yield f"  {sign} {pad(row.name, widest)}  {terminal.paint(row.size, 'dim')}".rstrip()


def _plant(entries: Sequence[FileEntry], signs: Mapping[str, DiffKind]) -> _Folder:
    root = _Folder()
    for entry in entries:
        *above, name = entry.path.split("/")
        at, way = root, [root]
        for part in above:
            at = at.folders.setdefault(part, _Folder())
            way.append(at)
        if entry.kind == "directory":
            at.folders.setdefault(name, _Folder())
            continue
        at.entries.append((name, entry))
        for folder in way:
            folder.files += 1
            folder.size += entry.size
            folder.changed += entry.path in signs
    return root


def _rows(
    folder: _Folder,
    margin: str,
    signs: Mapping[str, DiffKind],
    terminal: Terminal,
    depth_left: int | None,
) -> Iterator[_Row]:
    for name, below in sorted(folder.folders.items()):
        is_closed = depth_left == 0
        sums = f"{counted(below.files, 'file')}  {shown_size(below.size)}"
        changed = f"  {below.changed:,} changed" if is_closed and below.changed else ""
        yield _Row(" ", f"{margin}{shown_path(name)}/", f"{sums}{changed}")
        if not is_closed:
            deeper = None if depth_left is None else depth_left - 1
            yield from _rows(below, f"{margin}  ", signs, terminal, deeper)
    shown_max = len(folder.entries) if depth_left is None else ENTRIES_SHOWN_MAX
    for name, entry in folder.entries[:shown_max]:
        sign = SIGNS[signs[entry.path]] if entry.path in signs else " "
        yield _Row(sign, f"{margin}{shown_path(name)}{_tail(entry)}", shown_size(entry.size))
    if len(folder.entries) > shown_max:
        more = f"{margin}… {len(folder.entries) - shown_max:,} more"
        yield _Row(" ", terminal.spell(more), "")


def _tail(entry: FileEntry) -> str:
    if entry.kind == "symlink":
        return "@"
    return "*" if entry.mode & 0o100 else ""
