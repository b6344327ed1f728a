"""Print which turns used a file and which wrote its lines, as text and JSON. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from turntree.cli.command import Paint, Terminal
from turntree.cli.output.changes import shown_line, shown_path
from turntree.cli.output.text import (
    Span,
    age,
    cells,
    clean,
    cut,
    digest_spans,
    digits,
    lay,
    pad,
    title,
    who,
)
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.message_context import ChangeKind
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.resources.blame import FileLine
from turntree.resources.file_history import ChangeAuthor
from turntree.search.results import FileUseRecord
from turntree.search.service import Blame

WIDTH_MAX: Final = 120
NAMES_SHOWN_MAX: Final = 4
WHO_MAX: Final = 12
CHANGED: Final[Mapping[ChangeKind, str]] = {
    "added": "added",
    "changed": "changed",
    "removed": "removed",
    "mode": "changed the mode",
}


@value
class BlamedLines:
    """Some lines of a file, and the turns they name."""

    path: str
    shown: Sequence[FileLine]
    turns: Mapping[TurnId, ThreadTurn]
    now: Timestamp
    is_cut: bool
    late: Mapping[TurnId, int]
    """Turns that may have written a line before their folder was recorded, and when that was, in
    milliseconds after their beginning."""


def draw_blame(
    found: Sequence[Blame], unique: Mapping[Digest, int], now: Timestamp, terminal: Terminal
) -> Iterator[str]:
    """Yield the uses of a file; a path is printed once if there is only one."""
    width = min(terminal.width, WIDTH_MAX)
    paths = {touch.path for one in found for touch in one.touches}
    paths = paths or {change.path for one in found for change in one.changes}
    if len(paths) == 1:
        yield terminal.paint(clean(next(iter(paths))), "label")
    uses = [_uses(one, with_path=len(paths) > 1) for one in found]
    widest = min(max(map(cells, uses)), width // 2)
    for one, use in zip(found, uses, strict=True):
        turn = one.placed.turn
        names = ", ".join(clean(label) for label in one.sessions[:NAMES_SHOWN_MAX])
        right = f"{who(turn.header.by)}  {age(turn.header.sealed_at, now):>4}"
        spans = [*digest_spans(turn.digest, unique[turn.digest]), Span("  ")]
        spans += [Span(pad(cut(use, widest, ellipsis=terminal.spell("…")), widest), "strong")]
        spans += [Span(f"  ({names}) " if names else "  ", "dim"), Span(title(turn))]
        left = lay(spans, max(width - cells(right) - 2, 20), terminal)
        yield f"{left}  {terminal.paint(right, 'dim')}"


def _uses(one: Blame, *, with_path: bool) -> str:
    said: dict[str, list[str]] = {}
    for touch in one.touches:
        name = f"{touch.use} {clean(touch.path)}" if with_path else touch.use
        said.setdefault(name, []).extend(_lines(touch))
    for change in one.changes:
        perhaps = "" if change.is_certain else "perhaps "
        said.setdefault(f"{perhaps}{CHANGED[change.kind]} (pinned)", [])
    return ", ".join(f"{name} {' '.join(lines)}".rstrip() for name, lines in said.items())


def _lines(touch: FileUseRecord) -> list[str]:
    if touch.line_start is None:
        return []
    if touch.line_end is None or touch.line_end == touch.line_start:
        return [str(touch.line_start)]
    return [f"{touch.line_start}-{touch.line_end}"]


def blame_document(one: Blame) -> Iterator[dict[str, Any]]:
    """Yield each use of a file as a JSON document; uses known from snapshots are marked."""
    turn = one.placed.turn
    whose: dict[str, Any] = {
        "title": turn.title,
        "by": turn.header.by.to_json(),
        "model": turn.header.model,
        "started_at": turn.header.started_at,
        "sessions": list(one.sessions),
    }
    for touch in one.touches:
        yield {
            "id": turn.id,
            "digest": turn.digest,
            "path": touch.path,
            "use": touch.use,
            "known_by": "message",
            "certain": True,
            "line_start": touch.line_start,
            "line_end": touch.line_end,
            "message": touch.message,
            **whose,
        }
    for change in one.changes:
        yield {
            "id": turn.id,
            "digest": turn.digest,
            "path": change.path,
            "use": change.kind,
            "known_by": "pin",
            "certain": change.is_certain,
            "line_start": None,
            "line_end": None,
            "message": None,
            **whose,
        }


def draw_line(line: FileLine, blamed: BlamedLines, terminal: Terminal) -> Iterator[str]:
    """Yield one line, with details of who wrote it."""
    place = f"{shown_path(blamed.path)}:{line.number}"
    yield f"{terminal.paint(place, 'label')}  {shown_line(line.text)}"
    writer, turns = line.writer, [blamed.turns[turn] for turn in line.writer.turns]
    match writer.kind:
        case "turn":
            yield f"written by {_turn_words(turns[0], blamed.now)}"
        case "mixed" if len(turns) == 1:
            yield f"written by {_turn_words(turns[0], blamed.now)}"
            yield "or at about that time outside any turn"
        case "mixed":
            yield "mixed: written while several turns were at work, and none alone says it did so"
            yield from (f"  {_turn_words(turn, blamed.now)}" for turn in turns)
        case "outside":
            yield "written outside any turn" + ("" if not turns else ", after")
            yield from (f"  {_turn_words(turn, blamed.now)}" for turn in turns)
        case "earlier":
            yield "written before the first turn that pinned its files"
    if line.path != blamed.path:
        yield terminal.paint(f"the file was called {shown_path(line.path)} then", "dim")


def draw_lines(blamed: BlamedLines, terminal: Terminal) -> Iterator[str]:
    """Yield lines, each with its writer beside it."""
    rows = [(_short_writer(line.writer, blamed), line) for line in blamed.shown]
    names = max(cells(row[1]) for row, _ in rows)
    numbers = len(str(blamed.shown[-1].number))
    for (short, name, old, paint), line in rows:
        left = f"{terminal.paint(pad(short, 8), paint)}  {pad(name, names)}  {old:>4}"
        number = terminal.paint(f"{line.number:>{numbers}}", "dim")
        yield f"{left}  {number}  {shown_line(line.text)}".rstrip()


def line_document(line: FileLine, blamed: BlamedLines) -> dict[str, Any]:
    """Return one line and its writer as a JSON document."""
    turns = [blamed.turns[turn].turn for turn in line.writer.turns]
    return {
        "path": shown_path(blamed.path),
        "line": line.number,
        "text": line.text.decode("utf-8", "backslashreplace").rstrip("\n"),
        "by": line.writer.kind,
        "turns": [{"id": turn.id, "digest": turn.digest, "title": turn.title} for turn in turns],
        "path_then": shown_path(line.path),
        "late_ms": {blamed.turns[turn].turn.id: late_ms for turn, late_ms in blamed.late.items()},
    }


def _short_writer(writer: ChangeAuthor, blamed: BlamedLines) -> tuple[str, str, str, Paint]:
    """Return what to print beside a line: a word, a name, an age, and the word's colour."""
    if writer.kind in ("turn", "mixed") and writer.turns:
        header = blamed.turns[writer.turns[0]].turn.header
        name = cut(who(header.by), WHO_MAX)
        if writer.kind == "turn":
            digest = blamed.turns[writer.turns[0]].turn.digest
            return digits(digest), name, age(header.sealed_at, blamed.now), "strong"
        return "mixed", f"{len(writer.turns)} turns", age(header.sealed_at, blamed.now), "warn"
    return writer.kind, "", "", "note" if writer.kind == "outside" else "dim"


def _turn_words(placed: ThreadTurn, now: Timestamp) -> str:
    turn = placed.turn
    ago = age(turn.header.sealed_at, now)
    name = who(turn.header.by)
    return f"{digits(turn.digest)} {title(turn)}  ({f'{name}, ' if name else ''}{ago})"
