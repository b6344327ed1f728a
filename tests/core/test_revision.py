"""The grammar by which people point at turns: examples, the way back, and the mistakes."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turntree.core.errors import InvalidRevision
from turntree.core.ids import Label
from turntree.core.revision import (
    LABEL_CHARS_MAX,
    NUMBER_MAX,
    Ancestor,
    AtMove,
    AtTime,
    Base,
    Head,
    MessagePart,
    Name,
    ProgramRef,
    Range,
    RangeKind,
    Revision,
    Step,
    TextMatch,
    ToolPart,
    TurnRef,
    check_label,
    parse_range,
    parse_revision,
)

UUID = "01890a5d-ac96-774b-bcce-b302099a8057"
SHORT = "01h45nvb4pexxbskxk08ctm05q"


def plain(text: str) -> Revision:
    return Revision(Name(text))


EXAMPLES = {
    "main": plain("main"),
    "e9177": plain("e9177"),
    "fix/login-2.1_b+c": plain("fix/login-2.1_b+c"),
    "atlas:main": plain("atlas:main"),
    "channel:slack:42": plain("channel:slack:42"),
    UUID: plain(UUID),
    SHORT: plain(SHORT),
    "f" * 64: plain("f" * 64),
    "HEAD": Revision(Head()),
    "sha256:e9177": Revision(TurnRef("sha256:e9177")),
    f"turn:{UUID}": Revision(TurnRef(UUID)),
    "turn:e9": Revision(TurnRef("e9")),
    "session:atlas:main/turn:e9": Revision(TurnRef("e9", Label("atlas:main"))),
    "session:a/b/turn:sha256:e9": Revision(TurnRef("sha256:e9", Label("a/b"))),
    "@(researcher)": Revision(ProgramRef("researcher")),
    ":/redirect drops the query": Revision(TextMatch("redirect drops the query")),
    ":/wait... what~3:msg/0": Revision(TextMatch("wait... what~3:msg/0")),
    "main~3": Revision(Name("main"), (Ancestor(3),)),
    "main~0": Revision(Name("main"), (Ancestor(0),)),
    "main~1~2": Revision(Name("main"), (Ancestor(1), Ancestor(2))),
    "main@{2}": Revision(Name("main"), (AtMove(2),)),
    "main@{yesterday}": Revision(Name("main"), (AtTime("yesterday"),)),
    "main@{3 days ago}": Revision(Name("main"), (AtTime("3 days ago"),)),
    "main@{2026-11-15T09:30..}": Revision(Name("main"), (AtTime("2026-11-15T09:30.."),)),
    "e9177:tool/2": Revision(Name("e9177"), (), ToolPart(2)),
    "atlas:main:msg/0": Revision(Name("atlas:main"), (), MessagePart(0)),
    "main@{1}~2:msg/0": Revision(Name("main"), (AtMove(1), Ancestor(2)), MessagePart(0)),
    "@(researcher)@{1}~2": Revision(ProgramRef("researcher"), (AtMove(1), Ancestor(2))),
    "sha256:e9177~1:tool/3": Revision(TurnRef("sha256:e9177"), (Ancestor(1),), ToolPart(3)),
    # Only the exact endings point at a part: these are labels.
    "main:tool/x": plain("main:tool/x"),
    "main:tool": plain("main:tool"),
    "main:message/0": plain("main:message/0"),
}

SHORTHANDS = {
    "main~": "main~1",
    "main^": "main~1",
    "main^^~2": "main~1~1~2",
    "main~007": "main~7",
    "@{2}": "HEAD@{2}",
    "@{yesterday}:msg/0": "HEAD@{yesterday}:msg/0",
    "main@{ 2 }": "main@{2}",
    ":/  redirect ": ":/redirect",
    "sha256:E9177": "sha256:e9177",
    f"turn:{SHORT.upper()}": f"turn:{SHORT}",
    "turn:sha256:e9177": "sha256:e9177",
}

RANGES = {
    "a..b": Range(plain("a"), plain("b"), RangeKind.TWO_DOTS),
    "a...b": Range(plain("a"), plain("b"), RangeKind.THREE_DOTS),
    "main~3..main": Range(parse_revision("main~3"), plain("main"), RangeKind.TWO_DOTS),
    "..b": Range(None, plain("b"), RangeKind.TWO_DOTS),
    "a.b..c.d": Range(plain("a.b"), plain("c.d"), RangeKind.TWO_DOTS),
    "a@{1..2}..b": Range(Revision(Name("a"), (AtTime("1..2"),)), plain("b"), RangeKind.TWO_DOTS),
    "a..:/see b..c": Range(plain("a"), Revision(TextMatch("see b..c")), RangeKind.TWO_DOTS),
    "@(x)...HEAD": Range(Revision(ProgramRef("x")), Revision(Head()), RangeKind.THREE_DOTS),
}

# Text, the column of the caret, a word of the reason.
MISTAKES = [
    ("", 0, "missing"),
    (":tool/2", 0, "missing"),
    ("~3", 0, "begins with a name"),
    (" main", 0, "begins with a name"),
    ("main ", 4, "continue"),
    ("main~x", 5, "continue"),
    ("main~3:tool/x", 6, "continue"),
    ("main^2", 5, "one parent"),
    ("main~3000000000", 5, "greater than"),
    ("main:tool/" + "9" * 500, 10, "greater than"),
    ("main@{", 4, "never closed"),
    ("main@{}", 6, "number of moves or a date"),
    ("main@{-1}", 6, "number of moves or a date"),
    ("main@{@{1}}", 6, "number of moves or a date"),
    ("main~2@{1}", 6, "only a session has moves"),
    ("main@{1}@{2}", 8, "only a session has moves"),
    ("turn:e9@{1}", 7, "only a session has moves"),
    ("@(x", 3, "between"),
    ("@()", 2, "between"),
    ("@main", 0, "begins with a name"),
    (":/", 2, "words"),
    (":/   ", 5, "words"),
    ("sha256:", 0, "not the id"),
    ("sha256:xyz", 0, "not the id"),
    ("turn:", 0, "not the id"),
    ("session:main", 0, "not the id"),
    ("session:.x/turn:e9", 8, "does not begin"),
    ("-rf", 0, "does not begin"),
    (".hidden", 0, "does not begin"),
    ("main.", 4, "end with a dot"),
    ("a\x00b", 1, "control character"),
    ("a\nb", 1, "control character"),
    ("\ud800", 0, "control character"),
    ("a..b", 1, "a range is given where one turn is expected"),
    ("a→b", 1, "made of"),
]
RANGE_MISTAKES = [
    ("..", 0, "needs a revision"),
    ("...", 0, "needs a revision"),
    ("...b", 0, "needs a revision"),
    ("a..b..c", 4, "two ends"),
    ("a....b", 4, "does not begin"),
    ("main~3..main~x", 13, "continue"),
    ("a:msg/0..b", 6, "spans turns"),
    ("a..b:tool/1", 10, "spans turns"),
]

# The labels of ASCII characters.
LABEL_PATTERN = (
    r"(?!HEAD$|sha256:|turn:|session:)(?!.*\.\.)(?!.*\.$)(?!.*:(?:tool|msg)/[0-9]+$)"
    r"[A-Za-z0-9_/+][A-Za-z0-9_./:+-]{0,199}"
)
labels = st.one_of(
    st.from_regex(LABEL_PATTERN, fullmatch=True),
    st.text("äßéłøžアの修正бвд", min_size=1, max_size=20).filter(
        lambda text: fault_of(text) is None
    ),
)
numbers = st.integers(0, NUMBER_MAX)
sentences = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="{}"), max_size=20
).filter(lambda text: text.strip() == text != "")
dates = sentences.filter(lambda text: not re.fullmatch("[0-9]+|-.*", text))
hexes = st.text("0123456789abcdef", min_size=1, max_size=64)
turn_names = st.one_of(
    hexes.map("sha256:{}".format), st.from_regex("[0-9a-z-]{1,36}", fullmatch=True)
)
movable: st.SearchStrategy[Base] = st.one_of(
    st.just(Head()), labels.map(Name), labels.map(ProgramRef)
)
turn_refs = st.builds(TurnRef, turn_names, st.one_of(st.none(), labels.map(Label)))
ancestors = st.lists(numbers.map(Ancestor), max_size=3)
moves = st.one_of(numbers.map(AtMove), dates.map(AtTime)).map(lambda move: [move])
parts = st.one_of(st.none(), numbers.map(ToolPart), numbers.map(MessagePart))


def join(base: Base, move: list[Step], steps: list[Step], part: ToolPart | None) -> Revision:
    return Revision(base, (*move, *steps), part)


def revisions(
    parts: st.SearchStrategy[ToolPart | MessagePart | None],
) -> st.SearchStrategy[Revision]:
    return st.one_of(
        st.builds(join, movable, st.one_of(st.just([]), moves), ancestors, parts),
        st.builds(join, turn_refs, st.just([]), ancestors, parts),
    )


words = sentences.map(TextMatch).map(Revision)
ends = revisions(st.none())
ranges = st.one_of(
    st.builds(Range, st.one_of(st.none(), ends), st.one_of(ends, words), st.just(RangeKind(".."))),
    st.builds(Range, ends, st.one_of(ends, words), st.just(RangeKind("..."))),
)


@pytest.mark.parametrize("text", EXAMPLES)
def test_revision_has_one_meaning_and_one_spelling(text: str) -> None:
    revision = parse_revision(text)
    assert revision == EXAMPLES[text]
    assert format(revision) == text


@pytest.mark.parametrize("text", SHORTHANDS)
def test_revision_shorthand_is_expanded(text: str) -> None:
    assert format(parse_revision(text)) == SHORTHANDS[text]


@pytest.mark.parametrize("text", RANGES)
def test_a_range_has_two_ends(text: str) -> None:
    assert parse_range(text) == RANGES[text]
    assert format(RANGES[text]) == text


def test_a_range_without_a_right_end_ends_at_head() -> None:
    assert parse_range("a..") == parse_range("a..HEAD")
    assert parse_range("a...") == parse_range("a...HEAD")


@given(st.one_of(revisions(parts), words))
def test_what_is_written_is_read_back(revision: Revision) -> None:
    assert parse_revision(format(revision)) == revision
    assert parse_range(format(revision)) == revision


@given(ranges)
def test_a_range_that_is_written_is_read_back(span: Range) -> None:
    assert parse_range(format(span)) == span


@given(
    st.text(
        st.sampled_from("HEAD main:/tool/msg/.~^@{}()0129turn:session:sha256: \n-é"), max_size=30
    )
)
@example("@{" * 400)
@example("~" * 1000)
@example("x" * 1001)
def test_any_text_parses_or_raises(text: str) -> None:
    try:
        understood = parse_range(text)
    except InvalidRevision:
        return
    assert parse_range(format(understood)) == understood


@pytest.mark.parametrize(("text", "column", "reason"), MISTAKES)
def test_revision_error_points_at_position(text: str, column: int, reason: str) -> None:
    with pytest.raises(InvalidRevision) as mistake:
        parse_revision(text)
    assert_shown(str(mistake.value), text, column, reason)


@pytest.mark.parametrize(("text", "column", "reason"), RANGE_MISTAKES)
def test_range_error_points_at_position(text: str, column: int, reason: str) -> None:
    with pytest.raises(InvalidRevision) as mistake:
        parse_range(text)
    assert_shown(str(mistake.value), text, column, reason)


def test_revision_error_message_is_exact() -> None:
    with pytest.raises(InvalidRevision) as mistake:
        parse_revision("fix-login^2")
    assert str(mistake.value) == (
        "a turn has one parent: steps are counted with ~\n"
        "  fix-login^2\n"
        "            ^\n"
        "for example: main~2"
    )


def test_revision_error_far_right_shows_excerpt() -> None:
    with pytest.raises(InvalidRevision) as mistake:
        parse_revision("a" * 150 + "~x")
    _, line, caret, _ = str(mistake.value).splitlines()
    assert line[caret.index("^")] == "x"
    assert len(line) < 80


def test_examples_in_revision_errors_are_valid() -> None:
    for text, *_ in (*MISTAKES, *RANGE_MISTAKES):
        with pytest.raises(InvalidRevision) as mistake:
            parse_revision(text)
        _, _, examples = str(mistake.value).rpartition("for example: ")
        for right in re.split(", | or ", examples):
            parse_range(right)


@pytest.mark.parametrize(
    "text",
    [
        "main",
        "atlas:main",
        "channel:slack:42",
        "fix/a-b_c.d+e",
        "7",
        "head",
        "x" * 200,
        "größe",
        "修正-api",
        "проект/api",
        "नमस्ते",
        "ทำงาน",
    ],
)
def test_label_parses_as_revision(text: str) -> None:
    assert check_label(text) == text
    assert parse_revision(text) == plain(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "at least one"),
        ("x" * (LABEL_CHARS_MAX + 1), "at most 200"),
        ("@main", "begin"),
        (":main", "begin"),
        ("-main", "begin"),
        (".main", "begin"),
        ("a b", "made of"),
        ("a~1", "made of"),
        ("a^", "made of"),
        ("a@{1", "made of"),
        ("a\n", "made of"),
        ("a→b", "made of"),
        ("a\u202eb", "made of"),
        ("a\u200bb", "made of"),
        ("a\ue000", "made of"),
        ("\u0301a", "accent"),
        ("a-\u0301", "accent"),
        ("m\u0430in", "two alphabets"),
        ("a\u3164b", "looks like another"),
        ("\uff4dain", "looks like another"),
        ("\U0001d426ain", "looks like another"),
        ("\ufb01x", "looks like another"),
        ("a..b", "range"),
        ("main.", "end with a dot"),
        ("HEAD", "another kind"),
        ("turn:a", "another kind"),
        ("session:a", "another kind"),
        ("sha256:a", "another kind"),
        ("main:tool/2", "part of a turn"),
        ("main:msg/0", "part of a turn"),
        (UUID, "id of a turn"),
        (UUID.replace("-", "").upper(), "id of a turn"),
        (SHORT, "id of a turn"),
        ("F" * 64, "id of a turn"),
    ],
)
def test_label_that_reads_as_revision_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRevision, match=reason):
        check_label(text)


@given(
    st.one_of(
        labels, st.text("aHEDturn:sion/ha256.~@-_+ tolmsg0\n", max_size=12), st.text(max_size=5)
    )
)
@example("HEAD\n")
@example("x" * 201)
def test_label_pattern_matches_check_label(text: str) -> None:
    if not text.isascii():
        return
    fits = re.fullmatch(LABEL_PATTERN, text) is not None
    assert fits == (fault_of(text) in {None, "this would be read as the id of a turn"})


def test_label_is_the_same_however_it_is_composed() -> None:
    assert check_label("gro\u0308ße") == "größe"
    assert parse_revision("gro\u0308ße~2") == parse_revision("größe~2")
    assert str(parse_revision("größe@{2}")) == "größe@{2}"


def fault_of(label: str) -> str | None:
    try:
        check_label(label)
    except InvalidRevision as mistake:
        return str(mistake).split("\n")[0]
    return None


def assert_shown(message: str, text: str, column: int, reason: str) -> None:
    what, line, caret, example = message.split("\n")
    assert reason in what
    assert caret.index("^") - 2 == column
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    assert line.removeprefix("  ") in shown
    assert example.startswith("for example: ")
