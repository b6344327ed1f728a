"""Text for terminals."""

import pytest

from turntree.cli.command import Terminal
from turntree.cli.output.log_line import short_label
from turntree.cli.output.text import (
    Span,
    age,
    cells,
    clean,
    clean_block,
    cut,
    duration,
    lay,
    tokens,
    wrap,
)
from turntree.cli.settings import hide_password
from turntree.core.ids import Timestamp, instant


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[31mred", "\x1b]0;title\x07red", "\x1b]8;;http://x\x1b\\red", "\x9b31mred", "\u202ered"],
)
def test_no_text_can_command_a_terminal(hostile: str) -> None:
    assert clean(hostile).endswith("red")
    assert not set(clean(hostile)) & set("\x1b\x9b\x07\u202e")
    assert clean_block(f"{hostile}\r\n\tx")[1] == "    x"


def test_width_is_counted_in_columns() -> None:
    assert [cells(text) for text in ("abc", "日本", "é", "e\u0301", "…")] == [3, 4, 1, 1, 1]
    assert cut("日本語", 5) == "日本…"
    assert cut("abcdef", 4, ellipsis="...") == "a..."
    assert cut("abc", 0) == ""


def test_lines_are_wrapped_between_words_and_within_a_word_that_is_too_long() -> None:
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("one two three", 7, first=3) == ["one", "two", "three"]
    assert wrap("  indented code", 9) == ["  indente", "d code"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("日本語", 4) == ["日本", "語"]
    assert wrap("", 4) == [""]


@pytest.mark.parametrize("width", range(1, 14))
def test_a_line_is_exactly_as_wide_as_asked(width: int) -> None:
    spans = [Span("abc"), Span(" "), Span("(日本)"), Span(" "), Span("title")]
    assert cells(lay(spans, width, Terminal())) == width


def test_a_line_that_fits_is_whole() -> None:
    assert lay([Span("abc"), Span("def")], 6, Terminal()) == "abcdef"
    assert lay([Span("abc"), Span("def")], 5, Terminal()) == "abcd…"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "now"), (59, "now"), (60, "1m"), (3600, "1h"), (86_400, "1d"), (604_800, "1w"),
     (40 * 86_400, "1mo"), (800 * 86_400, "2y"), (-5, "now")],
)  # fmt: skip
def test_ages_are_short(seconds: int, told: str) -> None:
    now = 1_800_000_000_000
    assert age(instant(now - seconds * 1000), instant(now)) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, ""), (40, "40"), (420, "420"), (3104, "3.1k"), (9999, "10.0k"), (12_040, "12k"),
     (148_000, "148k"), (999_999, "1000k"), (1_500_000, "1.5M"), (25_000_000, "25M")],
)  # fmt: skip
def test_tokens_take_five_signs_at_most(number: int, told: str) -> None:
    assert tokens(number) == told
    assert len(told) <= 5


def test_durations_are_told_in_their_own_size() -> None:
    start = Timestamp("2026-11-15T09:30:00.000Z")
    assert duration(start, Timestamp("2026-11-15T09:30:06.200Z")) == "6.2 s"
    assert duration(start, Timestamp("2026-11-15T09:31:02.000Z")) == "1 min 2 s"
    assert duration(start, Timestamp("2026-11-15T11:35:02.000Z")) == "2 h 5 min"


def test_passwords_are_hidden() -> None:
    assert hide_password("postgresql://u:pw@h/d") == "postgresql://u:***@h/d"
    assert hide_password("host=h password=pw user=u") == "host=h password=*** user=u"
    assert hide_password("postgresql://u@h:5432/d") == "postgresql://u@h:5432/d"


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("demo/main", "demo/main"),
        ("claude-code/-home-me-some-long-project/09adc03a", "claude-code/…/09adc03a"),
        ("codex/2026/11/15/a-thread-of-its-own/sub", "codex/…/sub"),
        ("x" * 40, "x" * 40),
        (f"a/{'b' * 40}", f"a/{'b' * 40}"),
    ],
)
def test_a_long_label_leaves_room_for_the_title(label: str, shown: str) -> None:
    assert short_label(label, "…") == shown
