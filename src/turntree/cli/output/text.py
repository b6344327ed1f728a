"""Text for terminals: cut, pad, clean and abbreviate.

Pure: it takes values and returns lines. Messages of a turn may contain escape sequences, so none of
them reaches a terminal except through ``clean`` or ``clean_block``.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from turntree.cli.command import Paint, Terminal
from turntree.cli.harmless import ESCAPES
from turntree.core.ids import Digest, Timestamp, TurnId, unix_ms
from turntree.core.principal import Principal
from turntree.core.turn import Turn
from turntree.core.usage import Usage
from turntree.transcripts.display import tool_title

DIGITS_SHOWN: Final = 8
TAB_COLUMNS: Final = 4
_PREFIX: Final = "sha256:"
_WORDS: Final = re.compile(r"\s+|\S+")
_AGES: Final = (
    (365 * 86400, "y"),
    (30 * 86400, "mo"),
    (7 * 86400, "w"),
    (86400, "d"),
    (3600, "h"),
    (60, "m"),
)


class Span(NamedTuple):
    """Some text in one colour."""

    text: str
    paint: Paint = "plain"


def clean(text: str) -> str:
    """Return text as one line without anything a terminal would obey."""
    return " ".join(_visible(text).split())


def clean_block(text: str) -> list[str]:
    """Return the lines of a text without anything a terminal would obey."""
    return [_visible(line.expandtabs(TAB_COLUMNS)) for line in text.split("\n")]


def _visible(text: str) -> str:
    # Most text is this plain, and to look at each of its characters takes thirty times as long.
    if text.isascii() and text.isprintable():
        return text
    # Cc moves the cursor; Cf hides and reorders (U+202E); Zl and Zp break lines on some terminals.
    return "".join(
        " " if sign.isspace() else sign
        for sign in ESCAPES.sub("", text)
        if sign.isspace() or unicodedata.category(sign) not in {"Cc", "Cf", "Cs", "Co", "Cn"}
    )


def cells(text: str) -> int:
    """Return how many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(sign) for sign in text)


def _cells_of(sign: str) -> int:
    if sign.isascii():
        return 1
    if unicodedata.combining(sign) or unicodedata.category(sign) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def cut(text: str, width: int, *, ellipsis: str = "…") -> str:
    """Return as much of a text as fits, with an ellipsis if something is missing."""
    if cells(text) <= width:
        return text
    kept, left = "", width - cells(ellipsis)
    for sign in text:
        left -= _cells_of(sign)
        if left < 0:
            break
        kept += sign
    return (kept.rstrip() + ellipsis)[: max(width, 0)]


def cut_path(text: str, width: int, *, ellipsis: str = "…") -> str:
    """Return as much of a text as fits; of a path, the end, where the file's name is."""
    if cells(text) <= width or "/" not in text or " " in text:
        return cut(text, width, ellipsis=ellipsis)
    parts = text.split("/")
    for first in range(1, len(parts)):
        shown = "/".join((ellipsis, *parts[first:]))
        if cells(shown) <= width:
            return shown
    return cut(parts[-1], width, ellipsis=ellipsis)


def wrap(line: str, width: int, *, first: int | None = None) -> list[str]:
    """Return a line as lines that fit, broken between words where possible.

    ``first`` is the width of the first one. A word without room is broken: an address or a text
    without spaces must not run out of the screen.
    """
    lines, left = [""], width if first is None else first
    for word in _WORDS.findall(line):
        # Code keeps its indentation: a word that follows it is broken instead.
        may_break = lines[-1].strip() or (first is not None and lines == [""])
        taken = cells(word)
        if may_break and left < taken <= width and not word.isspace():
            lines[-1] = lines[-1].rstrip()
            lines.append("")
            left = width
        if taken <= left:
            lines[-1] += word
            left -= taken
            continue
        for sign in word:
            size = _cells_of(sign)
            if size > left:
                if sign.isspace():
                    continue  # A space that separates two lines is not shown.
                lines.append("")
                left = width
            lines[-1] += sign
            left -= size
    return lines


def wrap_block(text: str, width: int, *, first: int | None = None) -> list[str]:
    """Return a text as lines that fit, without anything a terminal would obey."""
    begin, *rest = clean_block(text)
    return [
        *wrap(begin, width, first=first),
        *(part for line in rest for part in wrap(line, width)),
    ]


def pad(text: str, width: int) -> str:
    """Return text padded to a number of columns; longer text is not cut."""
    return text + " " * (width - cells(text))


def lay(spans: Sequence[Span], width: int | None, terminal: Terminal) -> str:
    """Return spans as one line; with a width it is cut or padded to exactly that."""
    if width is None:
        return "".join(terminal.paint(*span) for span in spans)
    line, left = "", width
    for place, span in enumerate(spans):
        following = sum(cells(later.text) for later in spans[place + 1 :])
        # Cut here if this span does not fit, or if nothing after it would.
        room = left if left > cells(span.text) or not following else left - 1
        shown = cut(span.text, room, ellipsis=terminal.spell("…"))
        line += terminal.paint(shown, span.paint)
        left -= cells(shown)
        if shown != span.text or left <= 0:
            break
    return line + " " * max(left, 0)


def digits(digest: Digest | None) -> str:
    """Return the short form of a digest."""
    return "(empty)" if digest is None else digest.removeprefix(_PREFIX)[:DIGITS_SHOWN]


def digest_spans(digest: Digest, unique: int = DIGITS_SHOWN) -> list[Span]:
    """Return a short digest whose distinguishing digits are bold."""
    shown = digest.removeprefix(_PREFIX)[: max(unique, DIGITS_SHOWN)]
    return [Span(shown[:unique], "strong"), Span(shown[unique:], "dim")]


def age(then: Timestamp, now: Timestamp) -> str:
    """Return the age of a timestamp in at most four characters."""
    seconds = (unix_ms(now) - unix_ms(then)) // 1000
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return "now"


def duration(start: Timestamp, end: Timestamp) -> str:
    """Return how long something took."""
    ms = unix_ms(end) - unix_ms(start)
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days = hours // 24
    if days > 1:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{ms / 1000:.1f} s"


def tokens(number: int) -> str:
    """Return a number of tokens in at most five characters: ``420``, ``12k``, ``1.5M``."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if number >= size * 10:
            return f"{number / size:.0f}{unit}"
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number or "")


def usage_sentence(usage: Usage) -> str:
    """Return the tokens used, without zero counts."""
    named = (
        ("in", usage.input),
        ("cached", usage.cached_input),
        ("cache write", usage.cache_write),
        ("out", usage.output),
        ("of it reasoning", usage.reasoning),
    )
    parts = " · ".join(f"{name} {number:,}" for name, number in named if number)
    return f"{usage.total:,} tokens ({parts})" if parts else "no tokens recorded"


def who(principal: Principal) -> str:
    """Return the name of the principal; the system's is not worth a column."""
    return "" if principal.kind == "system" else clean(principal.id)


def tool_of(principal: Principal) -> str:
    """Return the tool that a turn was imported from; empty for every other principal."""
    # An agent of a session here acts on behalf of a person, and its turns name that person.
    is_tool = principal.kind == "agent" and principal.on_behalf_of is None
    return tool_title(clean(principal.id)) if is_tool else ""


def asker(turn: Turn, askers: Mapping[TurnId, str]) -> str:
    """Return the person who asked for a turn; empty if that is not known."""
    person = turn.header.by.person
    return clean(askers.get(turn.id, "")) if person is None else clean(person.id)


def asked_by(turn: Turn, askers: Mapping[TurnId, str]) -> str:
    """Return who asked for a turn, and with which tool."""
    tool = tool_of(turn.header.by)
    if not tool:
        return actor(turn.header.by)
    person = asker(turn, askers)
    return f"{person} with {tool}" if person else tool


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 turn``, ``2,483 turns``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def actor(principal: Principal) -> str:
    """Return who acts, and on whose behalf."""
    chain = [principal]
    while (behind := chain[-1].on_behalf_of) is not None:
        chain.append(behind)
    first, *others = [who(one) or "the system" for one in chain]
    return f"{first} on behalf of {', '.join(others)}" if others else first


def title(turn: Turn) -> str:
    """Return the one-line title of a turn."""
    compaction = turn.header.compaction
    if compaction is None:
        return clean(turn.title) or f"({turn.header.outcome}, without words)"
    said = f"compaction: {counted(compaction.turns_summarized, 'turn')} summarised"
    if compaction.tokens_before is None or compaction.tokens_after is None:
        return said
    before, after = tokens(compaction.tokens_before), tokens(compaction.tokens_after)
    return f"{said}, {before} to {after} tokens"


def table(rows: Iterable[Sequence[str]], *, gap: str = "  ") -> list[str]:
    """Return rows as lines with aligned columns; the last column is not padded."""
    kept = [list(row) for row in rows]
    widths = [max(cells(cell) for cell in column) for column in zip(*kept, strict=True)]
    return [
        gap.join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in kept
    ]


def late_sentence(late_ms: int) -> str:
    """Return what to say about a turn whose folder was recorded too late."""
    return (
        f"the folder was first recorded {late_ms / 1000:.1f} s after the turn began; "
        "earlier changes of this turn may be missing"
    )
