"""``stats``: tokens and cost over time, each model call once."""

from collections import Counter
from pathlib import Path

import pytest

from proofs.corpus import Corpus
from proofs.sample_home import write_sample_home
from tests.cli.conftest import Call
from turntree.cli.output.text import cells


@pytest.fixture
def imported(turntree: Call, tmp_path: Path) -> Call:
    """A workspace with imported sample data."""
    files = write_sample_home(tmp_path / "person", Corpus(7), 1, 2)
    assert turntree("import", *map(str, files)).code == 0
    return turntree


def test_nothing_is_said_to_be_nothing(turntree: Call) -> None:
    answer = turntree("stats")
    assert (answer.code, answer.out) == (0, "")
    assert "no model call is recorded" in answer.err


def test_a_call_that_stands_in_two_sessions_is_one_call(imported: Call) -> None:
    rows = imported("stats", "--json").documents
    assert sum(row["calls"] for row in rows) == 8
    by_session = imported("stats", "--by", "session", "--json").documents
    assert sum(row["calls"] for row in by_session) == 8
    calls: Counter[str] = Counter()
    for row in by_session:
        calls[row["session"]] += row["calls"]
    # The copy's own turn alone: what it shares belongs to the older session.
    assert sorted(calls.values()) == [1, 1, 2, 4]


def test_bars_and_small_plots_are_drawn(imported: Call) -> None:
    shown = imported("stats")
    assert shown.lines[0] == "tokens and cost a month"
    assert "█" in shown.out
    assert any(line.startswith("Claude Code  claude-sonnet-4-5") for line in shown.lines)
    plain = imported("stats", "--ascii", "--by", "model").out
    assert plain.isascii()
    assert "####" in plain


def test_only_what_came_since_is_counted(imported: Call) -> None:
    assert sum(row["calls"] for row in imported("stats", "--since", "1y", "--json").documents) == 4
    assert imported("stats", "--since", "whenever").code == 2


@pytest.mark.parametrize("by", ["agent", "session"])
def test_days_before_and_from_a_moment_are_all_days(imported: Call, by: str) -> None:
    def calls(*period: str) -> int:
        rows = imported("stats", *period, "--by", by, "--json").documents
        return sum(row["calls"] for row in rows)

    days = sorted({row["day"] for row in imported("stats", "--json").documents})
    assert len(days) > 1
    for day in days:
        assert calls("--until", day) + calls("--since", day) == 8
    assert calls("--since", days[0], "--until", days[-1]) == calls("--until", days[-1]) < 8
    nothing = imported("stats", "--until", days[0])
    assert (nothing.code, nothing.out) == (0, "")
    assert f"no model call is recorded until {days[0]}" in nothing.err
    assert imported("stats", "--until", "whenever").code == 2


def test_a_price_that_nobody_knows_is_said_to_be_unknown(reader: Call) -> None:
    pytest.importorskip("genai_prices")
    shown = reader("stats").out
    assert "unknown" in shown or "$" in shown
    rows = reader("stats", "--json").documents
    unpriced = {row["model"] for row in rows if row["cost_usd"] is None}
    assert ("of unknown price" in shown) == bool(unpriced)


def test_costs_are_shown_and_an_unknown_price_is_called_unknown(imported: Call) -> None:
    shown = imported("stats")
    assert "$" in shown.out
    assert "at the list prices of genai-prices" in " ".join(shown.out.split())
    assert "install" not in shown.err


@pytest.mark.parametrize("columns", ["60", "80", "100", None])
def test_stats_and_log_fit_the_terminal_or_80_columns(
    imported: Call, monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    for words in (("stats",), ("stats", "--by", "session"), ("log", "--all"), ("log", "-ag")):
        lines = imported(*words).lines
        assert lines
        assert max(map(cells, lines)) <= int(columns or 80), words
