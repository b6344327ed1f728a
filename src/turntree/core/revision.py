"""Parses revisions: ``main``, ``e9177``, ``main~3``, ``main@{yesterday}``, ``a..b``.

This module knows the syntax of revisions, but not what exists. Whether ``e9177`` is a label or a
prefix of a digest, and which day yesterday was, is resolved elsewhere.

::

    range    = revision | [revision] ".." [revision] | revision "..." revision
    revision = ":/" words | base ["@{" (number | date) "}"] step* [part]
    base     = "HEAD" | name | "@(" program ")" | "sha256:" hex | "turn:" id
             | "session:" label "/turn:" id
    step     = "~" [number] | "^"
    part     = ":tool/" number | ":msg/" number

A label that could be read as another kind of revision is refused, so no text is ambiguous.
``@{2}`` alone is ``HEAD@{2}``, ``^`` is ``~1``, and words reach to the end of the text.
"""

import re
import unicodedata
from enum import StrEnum
from typing import Final, TypeAlias

from turntree.core.errors import InvalidRevision
from turntree.core.ids import Label, find_long_id
from turntree.core.pattern import pattern
from turntree.core.value import value

LABEL_CHARS_MAX: Final = 200
# Longer than any path of operators that a person types; the parser's patterns are never run on
# more.
REVISION_CHARS_MAX: Final = 1000
# PostgreSQL's integer. A larger count is an error of the user, not of the database.
NUMBER_MAX: Final = 2**31 - 1
_LABEL_FAULTS: Final = tuple(
    (pattern(offence), reason)
    for offence, reason in (
        (r"\A\Z", "a label has at least one character"),
        (r"(?<=\A.{200}).", f"a label has at most {LABEL_CHARS_MAX} characters"),
        (r"\A[@:.-]", "a label does not begin with @, :, - or a dot"),
        (r"[\x00-\x7f](?<![A-Za-z0-9_./:+-])", "a label is made of letters, digits and -_./:+"),
        (r"\.\.", "two dots would make the label a range"),
        (r"\.\Z", "a label does not end with a dot"),
        (r"\A(?:HEAD\Z|sha256:|turn:|session:)", "this word begins another kind of revision"),
        (r":(?:tool|msg)/[0-9]+\Z", "this ending points at a part of a turn"),
    )
)
# Letters that are drawn as nothing: two labels that differ by one of them look the same. Characters
# that format text (Cf), such as those that reorder it, are not letters anyway.
_INVISIBLE: Final = pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# The alphabets whose letters look alike: a word of one of them has no letter of another.
_ALPHABETS: Final = ("LATIN ", "GREEK ", "CYRILLIC ", "ARMENIAN ", "CHEROKEE ")
# What is not ASCII may be part of a name here; which of it is allowed is checked with the label.
_NAME: Final = pattern(r"[A-Za-z0-9_./:+\-\u0080-\U0010ffff]+")
_TURN: Final = pattern(
    r"(?P<digest>sha256:[0-9a-f]{1,64})"
    r"|(?:session:(?P<session>.+)/)?turn:(?P<id>sha256:[0-9a-f]{1,64}|[0-9a-z_-]{1,200})",
    re.IGNORECASE,
)
_WHOLE_DIGEST: Final = pattern(r"[0-9a-f]{64}", re.IGNORECASE)
_TURN_LIKE: Final = pattern(
    r"[0-9a-f]{7,}|(?=.*[0-9])[0-9a-hjkmnp-tv-z-]{4,}"
    # What providers begin the ids of their responses with.
    r"|(?:msg|resp|chatcmpl|cmpl|gen|req)[_-][0-9A-Za-z_-]{8,}"
)
_STEP: Final = pattern(r"~([0-9]*)|\^(?![0-9])")
_PART: Final = pattern(r":(tool|msg)/([0-9]+)\Z")
_NUMBER: Final = pattern(r"[0-9]+")
_DOTS: Final = pattern(r"\.{2,3}")
_AT_OPEN: Final = "@{"
_PROGRAM_OPEN: Final = "@("
_WORDS_OPEN: Final = ":/"
_SHOWN_MAX: Final = 72


@value
class Head:
    """The head of the current session."""

    def __str__(self) -> str:
        return "HEAD"


@value
class Name:
    """A label, a prefix of a turn's id or digest, or a response's id, in this order."""

    text: str

    def __str__(self) -> str:
        return self.text


@value
class TurnRef:
    """Always a turn: a prefix of a digest after ``sha256:``, or of an id after ``turn:``.

    After ``turn:``, it may also be the id that a provider gave to one of the turn's responses.

    With a session, the turn must be one that the session has held.
    """

    text: str
    session: Label | None = None

    def __str__(self) -> str:
        if self.session is not None:
            return f"session:{self.session}/turn:{self.text}"
        return self.text if self.text.startswith("sha256:") else f"turn:{self.text}"


@value
class TextMatch:
    """The newest turn that contains these words."""

    text: str

    def __str__(self) -> str:
        return f"{_WORDS_OPEN}{self.text}"


@value
class ProgramRef:
    """A program, and with it the head of its session."""

    id: str

    def __str__(self) -> str:
        return f"{_PROGRAM_OPEN}{self.id})"


@value
class Ancestor:
    """The ancestor ``n`` turns towards the root."""

    n: int

    def __str__(self) -> str:
        return f"~{self.n}"


@value
class AtMove:
    """The head of the session ``n`` moves ago."""

    n: int

    def __str__(self) -> str:
        return f"{_AT_OPEN}{self.n}}}"


@value
class AtTime:
    """The head of the session at a time; the caller, who has a clock, parses the date."""

    text: str

    def __str__(self) -> str:
        return f"{_AT_OPEN}{self.text}}}"


@value
class ToolPart:
    """One tool call of the turn, by the number it is shown with."""

    n: int

    def __str__(self) -> str:
        return f":tool/{self.n}"


@value
class MessagePart:
    """One message of the turn, by its sequence."""

    n: int

    def __str__(self) -> str:
        return f":msg/{self.n}"


Base: TypeAlias = Head | Name | TurnRef | TextMatch | ProgramRef
Step: TypeAlias = Ancestor | AtMove | AtTime
Part: TypeAlias = ToolPart | MessagePart


@value
class Revision:
    """A base, steps from there in order, and possibly a part of the turn.

    ``format`` and ``str`` give the text that parses to an equal revision.
    """

    base: Base
    steps: tuple[Step, ...] = ()
    part: Part | None = None

    def __str__(self) -> str:
        return "".join(map(str, (self.base, *self.steps, self.part or "")))


class RangeKind(StrEnum):
    """How a range between two revisions is meant."""

    TWO_DOTS = ".."
    """The ancestry of the right one without that of the left one."""
    THREE_DOTS = "..."
    """The ancestry of both without what they share."""


@value
class Range:
    """Turns between two revisions; without a left one, from the root."""

    left: Revision | None
    right: Revision
    kind: RangeKind

    def __str__(self) -> str:
        return f"{self.left or ''}{self.kind}{self.right}"


def parse_revision(text: str) -> Revision:
    """Parse a revision.

    Raises:
        InvalidRevision: it is not a revision; the message shows where it fails, and an example.
    """
    _check_chars(text)
    dots = _find_dots(text)
    if dots is not None:
        raise _bad(text, dots.start(), "a range is given where one turn is expected", "main~3")
    return _parse_side(text, 0, len(text))


def parse_range(text: str) -> Range | Revision:
    """Parse a range, or a single revision.

    ``a..`` ends at HEAD and ``..b`` starts at the root.

    Raises:
        InvalidRevision: it is neither; the message shows where it fails, and an example.
    """
    _check_chars(text)
    dots = _find_dots(text)
    if dots is None:
        return _parse_side(text, 0, len(text))
    kind = RangeKind(dots.group())
    start, end = dots.span()
    if len(text) == len(kind) or (kind is RangeKind.THREE_DOTS and start == 0):
        raise _bad(text, start, "a range needs a revision beside its dots", "main~3..main")
    second = _find_dots(text, end)
    if second is not None:
        raise _bad(text, second.start(), "a range has two ends, not three", "main~3..main")
    left = _parse_side(text, 0, start) if start > 0 else None
    right = _parse_side(text, end, len(text)) if end < len(text) else Revision(Head())
    for side, place in ((left, start - 1), (right, len(text) - 1)):
        if side is not None and side.part is not None:
            raise _bad(text, place, "a range spans turns, not parts of them", "main~3..main")
    return Range(left, right, kind)


def check_label(text: str) -> Label:
    """Return ``text`` as a label, if it cannot be mistaken for another kind of revision.

    Letters and digits of every alphabet are allowed, and are normalized (NFC), so that a label is
    the same however a keyboard composes it.

    Raises:
        InvalidRevision: it is not a valid label; the message says why.
    """
    text = unicodedata.normalize("NFC", text)
    _check_name(text, 0, len(text))
    if find_long_id(text) or _WHOLE_DIGEST.fullmatch(text):
        raise _bad(text, 0, "this would be read as the id of a turn", "fix-login")
    return Label(text)


def find_label(text: str) -> Label | None:
    """Return a text as a label if it is a bare name that a session may have, else None."""
    try:
        match parse_revision(text):
            case Revision(Name(name), (), None):
                return check_label(name)
            case _:
                return None
    except InvalidRevision:
        return None


def is_turn_like(label: Label) -> bool:
    """Return whether a label could also be a response's id, or the beginning of a turn's.

    A short word of letters is a name, even if all of them are hexadecimal digits.
    """
    return _TURN_LIKE.fullmatch(label) is not None


def _check_name(text: str, start: int, end: int) -> None:
    name = text[start:end]
    for offence, reason in _LABEL_FAULTS:
        found = offence.search(name)
        if found is not None:
            raise _bad(text, start + found.start(), reason, "fix-login or atlas:main")
    if name.isascii():
        return
    alphabet, before = None, ""
    for column, char in enumerate(name, start):
        kind = unicodedata.category(char)
        if kind[0] not in "LMN" and char not in "-_./:+":
            raise _bad(text, column, "a label is made of letters, digits and -_./:+", "fix-login")
        if (
            kind[0] == "M"
            and not before.isalnum()
            and not unicodedata.category(before or " ")[0] == "M"
        ):
            raise _bad(text, column, "an accent follows its letter", "fix-login")
        plain = unicodedata.normalize("NFKC", char)
        if _INVISIBLE.match(char) or (plain.isascii() and plain != char):
            raise _bad(text, column, "this character looks like another, or like none", "fix-login")
        if kind[0] == "L":
            own = next(
                (one for one in _ALPHABETS if unicodedata.name(char, "").startswith(one)), None
            )
            if alphabet is not None and own is not None and own != alphabet:
                raise _bad(text, column, "one word has letters of two alphabets", "fix-login")
            alphabet = own or alphabet
        elif kind[0] != "M":
            alphabet = None
        before = char


def _check_chars(text: str) -> None:
    if len(text) > REVISION_CHARS_MAX:
        what = f"a revision has at most {REVISION_CHARS_MAX} characters"
        raise _bad(text, REVISION_CHARS_MAX, what, "main")
    for column, char in enumerate(text):
        if unicodedata.category(char) in {"Cc", "Cs"}:
            raise _bad(text, column, "a control character has no place in a revision", "main")


def _find_dots(text: str, start: int = 0) -> re.Match[str] | None:
    """Return the dots that make ``text`` a range, or None. Dots in a date or in words do not."""
    if text.startswith(_WORDS_OPEN, start):
        return None
    at = start
    while at < len(text):
        if text.startswith(_AT_OPEN, at) and "}" in text[at:]:
            at = text.index("}", at)
        dots = _DOTS.match(text, at)
        if dots is not None:
            return dots
        at += 1
    return None


def _parse_side(text: str, start: int, end: int) -> Revision:
    """Return the revision between two columns of ``text``."""
    if text.startswith(_WORDS_OPEN, start, end):
        words = text[start + len(_WORDS_OPEN) : end].strip()
        if not words:
            raise _bad(text, end, "the words to look for are missing", ":/redirect")
        return Revision(TextMatch(words))
    ending = _PART.search(text, start, end)
    part = _read_part(text, ending) if ending else None
    end = ending.start() if ending else end
    base, at = _parse_base(text, start, end)
    steps: list[Step] = []
    while at < end:
        step, at = _parse_step(text, at, end)
        if not isinstance(step, Ancestor) and (steps or isinstance(base, TurnRef)):
            what = "only a session has moves: @{...} follows its name at once"
            raise _bad(text, text.rindex(_AT_OPEN, start, at), what, "main@{2}~1")
        steps.append(step)
    return Revision(base, tuple(steps), part)


def _read_part(text: str, ending: re.Match[str]) -> Part:
    n = _number(text, *ending.span(2))
    return ToolPart(n) if ending.group(1) == "tool" else MessagePart(n)


def _parse_base(text: str, start: int, end: int) -> tuple[Base, int]:
    """Return the base that starts at ``start``, and the column after it."""
    if text.startswith(_AT_OPEN, start, end):
        return Head(), start
    if text.startswith(_PROGRAM_OPEN, start, end):
        return _parse_program(text, start, end)
    name = _NAME.match(text, start, end)
    if name is None:
        what = "a revision begins with a name" if start < end else "a revision is missing here"
        raise _bad(text, start, what, "main, e9177 or HEAD")
    if name.group() == "HEAD":
        return Head(), name.end()
    if name.group().startswith(("sha256:", "turn:", "session:")):
        return _read_turn(text, name), name.end()
    # A list may have cut a label: what is left of it can be typed with its ellipsis.
    start, stop = name.span()
    cut = name.group()
    _check_name(text, start + cut.startswith("…"), stop - cut.endswith("…"))
    return Name(unicodedata.normalize("NFC", name.group())), name.end()


def _parse_program(text: str, start: int, end: int) -> tuple[ProgramRef, int]:
    name = _NAME.match(text, start + len(_PROGRAM_OPEN), end)
    close = name.end() if name else start + len(_PROGRAM_OPEN)
    if name is None or not text.startswith(")", close, end):
        raise _bad(text, close, "a program is an id between @( and )", "@(researcher)")
    return ProgramRef(unicodedata.normalize("NFC", name.group())), close + 1


def _read_turn(text: str, name: re.Match[str]) -> TurnRef:
    turn = _TURN.fullmatch(name.group())
    if turn is None:
        what = "this is not the id of a turn, or its beginning"
        example = "sha256:e9177, turn:e9177 or session:main/turn:e9177"
        raise _bad(text, name.start(), what, example)
    session = turn.group("session")
    if session is not None:
        _check_name(text, name.start() + turn.start("session"), name.start() + turn.end("session"))
    id = turn.group("digest") or turn.group("id")
    # Providers distinguish capital letters in the ids of their responses.
    id = id.lower() if ":" in id or find_long_id(id.lower()) else id
    label = None if session is None else Label(unicodedata.normalize("NFC", session))
    return TurnRef(id, label)


def _parse_step(text: str, at: int, end: int) -> tuple[Step, int]:
    """Return the step that starts at ``at``, and the column after it."""
    if text.startswith(_AT_OPEN, at, end):
        return _parse_at(text, at, end)
    step = _STEP.match(text, at, end)
    if step is None:
        if text.startswith("^", at, end):
            raise _bad(text, at + 1, "a turn has one parent: steps are counted with ~", "main~2")
        raise _bad(
            text, at, "a revision does not continue like this", "main~3, main@{2} or main:tool/2"
        )
    return Ancestor(_number(text, *step.span(1)) if step.group(1) else 1), step.end()


def _parse_at(text: str, at: int, end: int) -> tuple[AtMove | AtTime, int]:
    start = at + len(_AT_OPEN)
    close = text.find("}", start, end)
    if close < 0:
        raise _bad(text, at, "this brace is never closed", "main@{2}")
    then = text[start:close].strip()
    if not then or "{" in then or then.startswith("-"):
        what = "the braces enclose a number of moves or a date"
        raise _bad(text, start, what, "main@{2} or main@{yesterday}")
    if _NUMBER.fullmatch(then):
        return AtMove(_number(text, start, close)), close + 1
    return AtTime(then), close + 1


def _number(text: str, start: int, end: int) -> int:
    # Checked before converting: Python refuses to convert more than 4300 digits.
    digits = text[start:end].strip().lstrip("0")
    if len(digits) > len(str(NUMBER_MAX)) or int(digits or "0") > NUMBER_MAX:
        raise _bad(text, start, f"no number here is greater than {NUMBER_MAX}", "main~3")
    return int(digits or "0")


def _bad(text: str, column: int, what: str, example: str) -> InvalidRevision:
    """Return the error that shows ``text`` with a caret below the column at fault."""
    first = max(0, column - _SHOWN_MAX // 2)
    shown = text[first : first + _SHOWN_MAX]
    # A character that moves the cursor would separate the caret from its column.
    line = "".join(char if char.isprintable() else "?" for char in shown)
    caret = " " * (column - first) + "^"
    return InvalidRevision(f"{what}\n  {line}\n  {caret}\nfor example: {example}")
