"""Print changed files: a table of paths, and their differences line by line.

Pure: it takes values and returns lines. Names and lines of files are as untrusted as the messages
of a turn, so none of them reaches a terminal unchanged.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from turntree.cli.command import Paint, Terminal
from turntree.cli.output.text import TAB_COLUMNS, cells, clean_block, counted, cut, pad
from turntree.resources.file_diff import FileDiff
from turntree.resources.line_diff import Hunk
from turntree.resources.resource import FileEntry

PATHS_SHOWN_MAX: Final = 40
BAR_MAX: Final = 24
PATH_WIDTH_MAX: Final = 64
SIGNS: Final[dict[str, str]] = {
    "added": "A", "changed": "M", "removed": "D", "mode": "T", "renamed": "R"
}  # fmt: skip
_PAINTS: Final[dict[str, Paint]] = {
    "added": "good", "changed": "warn", "removed": "bad", "mode": "note", "renamed": "note"
}  # fmt: skip
_LINES: Final[dict[str, Paint]] = {"+": "good", "-": "bad"}
_UNITS: Final = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))


def shown_path(path: str) -> str:
    """Return a printable path: unprintable characters are written as numbers."""
    named = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in named
    )


def shown_size(size: int) -> str:
    """Return a number of bytes in at most seven characters."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def draw_table(
    diffs: Sequence[FileDiff], terminal: Terminal, *, shown_max: int | None = None
) -> Iterator[str]:
    """Yield one line per path with its change, and a last one with the sums."""
    shown = diffs[:shown_max]
    names = [_name(diff) for diff in shown]
    widest = min(max(map(cells, names), default=0), PATH_WIDTH_MAX)
    most = max(((diff.added or 0) + (diff.removed or 0) for diff in shown), default=0)
    for diff, name in zip(shown, names, strict=True):
        sign = terminal.paint(SIGNS[diff.kind], _PAINTS[diff.kind])
        fitting = cut(name, widest, ellipsis=terminal.spell("…"))
        yield f"  {sign} {pad(fitting, widest)}  {_measure(diff, most, terminal)}".rstrip()
    if len(diffs) > len(shown):
        yield terminal.spell(f"  … and {counted(len(diffs) - len(shown), 'more path')}")
    yield f"  {summary(diffs)}"


def summary(diffs: Sequence[FileDiff]) -> str:
    """Return the sums of a table in one line."""
    added = sum(diff.added or 0 for diff in diffs)
    removed = sum(diff.removed or 0 for diff in diffs)
    return f"{counted(len(diffs), 'path')}, {counted(added, 'line')} in, {removed:,} out"


def draw_diffs(
    diffs: Iterable[FileDiff], terminal: Terminal, *, lines_max: int | None = None
) -> Iterator[str]:
    """Yield the differences of each path, up to a maximum number of lines."""
    lines = (line for diff in diffs for line in _draw_diff(diff, terminal))
    if lines_max is None:
        yield from lines
        return
    yield from islice(lines, lines_max)
    left = sum(1 for _ in lines)
    if left:
        yield terminal.paint(terminal.spell(f"… {counted(left, 'more line')}"), "dim")


def diff_document(diff: FileDiff, *, with_lines: bool = True) -> dict[str, Any]:
    """Return one changed path as a JSON document."""
    document: dict[str, Any] = {
        "path": shown_path(diff.path),
        "kind": diff.kind,
        "shape": diff.shape,
        "renamed_from": None if diff.renamed_from is None else shown_path(diff.renamed_from),
        "old": _entry_document(diff.old),
        "new": _entry_document(diff.new),
        "added": diff.added,
        "removed": diff.removed,
    }
    if with_lines:
        document["lines"] = [line for hunk in diff.hunks for line in _plain_hunk(hunk)]
    return document


def entry_document(entry: FileEntry) -> dict[str, Any]:
    """Return one path of a snapshot as a JSON document."""
    return {
        "path": shown_path(entry.path),
        "kind": entry.kind,
        "mode": f"{entry.mode:04o}",
        "size": entry.size,
        "digest": entry.digest,
    }


def _entry_document(entry: FileEntry | None) -> dict[str, Any] | None:
    return None if entry is None else entry_document(entry)


def _name(diff: FileDiff) -> str:
    tail = "/" if diff.shape == "folder" else ""
    moved = "" if diff.renamed_from is None else f"{shown_path(diff.renamed_from)} -> "
    return f"{moved}{shown_path(diff.path)}{tail}"


def _measure(diff: FileDiff, most: int, terminal: Terminal) -> str:
    """Return what to print beside a path: the number of lines, or why there is none."""
    mode = _mode_words(diff)
    match diff.shape:
        case "text":
            added, removed = diff.added or 0, diff.removed or 0
            put, taken = (_bar(count, most) for count in (added, removed))
            bar = terminal.paint("+" * put, "good") + terminal.paint("-" * taken, "bad")
            said = f"{f'+{added}':>5} {f'-{removed}':>5}  {bar}"
        case "binary" | "large":
            said = f"{diff.shape}, {_sizes(diff)}"
        case "link":
            said = "symlink"
        case "folder":
            said = "folder"
        case "same":
            said = "" if mode else "as it was"
    return f"{said}  {mode}" if said and mode else said or mode


def _bar(count: int, most: int) -> int:
    if count == 0:
        return 0
    return count if most <= BAR_MAX else max(1, count * BAR_MAX // most)


def _sizes(diff: FileDiff) -> str:
    sizes = [shown_size(side.size) for side in (diff.old, diff.new) if side is not None]
    return " -> ".join(dict.fromkeys(sizes))


def _mode_words(diff: FileDiff) -> str:
    if diff.old is None or diff.new is None or diff.old.mode == diff.new.mode:
        return ""
    return f"mode {diff.old.mode:04o} -> {diff.new.mode:04o}"


def _draw_diff(diff: FileDiff, terminal: Terminal) -> Iterator[str]:
    old = "/dev/null" if diff.old is None else f"a/{shown_path(diff.old.path)}"
    new = "/dev/null" if diff.new is None else f"b/{shown_path(diff.new.path)}"
    yield terminal.paint(f"--- {old}", "strong")
    yield terminal.paint(f"+++ {new}", "strong")
    if mode := _mode_words(diff):
        yield terminal.paint(f"({mode})", "note")
    match diff.shape:
        case "text" | "link":
            for hunk in diff.hunks:
                yield from _draw_hunk(hunk, terminal)
            if not diff.hunks:
                yield terminal.paint("(empty)", "note")
        case "binary" | "large":
            yield terminal.paint(f"({diff.shape}: {_sizes(diff)})", "note")
        case "folder":
            yield terminal.paint("(folder)", "note")
        case "same":
            pass


def _draw_hunk(hunk: Hunk, terminal: Terminal) -> Iterator[str]:
    head, *lines = _plain_hunk(hunk)
    yield terminal.paint(head, "head")
    for line in lines:
        yield terminal.paint(line, _LINES.get(line[:1], "plain"))


def _plain_hunk(hunk: Hunk) -> Iterator[str]:
    yield f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
    for sign, line in hunk.lines:
        yield f"{sign}{shown_line(line)}"
        if not line.endswith(b"\n"):
            yield "\\ no newline at the end"


def shown_line(line: bytes) -> str:
    """Return a printable line of a file; a carriage return at its end is visible."""
    body = line.removesuffix(b"\n")
    text = body.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    (shown,) = clean_block(text.expandtabs(TAB_COLUMNS))
    return f"{shown}^M" if body.endswith(b"\r") else shown
