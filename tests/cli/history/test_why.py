"""Why a turn is there: every kind of cause in plain words, as far back as was asked."""

import pytest

from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def wide(reader: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave room for whole titles; another test is about lines that do not fit."""
    monkeypatch.setenv("COLUMNS", "100")


def test_a_turn_is_told_with_who_asked_and_what_it_follows(reader: Call) -> None:
    answer = reader("why")
    assert answer.code == 0
    first, asked, tools, follows, *_ = answer.lines
    assert first.endswith("Fix it in the resolver, keep the public signature")
    assert asked.startswith("├─ bruno asked for it, ")
    assert asked.endswith("; sonnet-4.5 answered")
    assert tools == "├─ it made 3 tool calls: fs.read, fs.write, runtime.exec"
    assert follows.startswith("└─ it follows ")
    assert "Check every caller of redirect() · atlas on behalf of bruno, " in follows


def test_the_walk_says_where_it_was_stopped_and_how_to_go_on(reader: Call) -> None:
    near = reader("why", "--depth", "1")
    assert near.err == "stopped at 1 step; --depth 2 goes further\n"
    assert reader("why").err == "stopped at 3 steps; --depth 6 goes further\n"
    far = reader("why", "--depth", "6")
    assert far.err == ""
    assert "Why does login drop the query string?" in far.lines[-1]
    few = reader("why", "--depth", "6", "--limit", "2")
    assert few.err == "stopped after 2 steps in all; --limit 4 shows more\n"
    assert len(few.lines) == 3 + 2


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("demo/middleware~4", "it began demo/middleware, forked from "),
        ("demo/middleware~4", "Add a failing test for the redirect by ana, "),
        ("demo/worker-1~1", "spawned by the tool call agent.spawn (check-1) of "),
        ("demo/fix-login~2", "it summarises 3 turns, up to "),
        ("demo/fix-login~6", "└─ nothing came before it"),
        ("demo/fix-login:tool/2", "tool call 2: fs.write src/resolver.py, answered ok"),
        ("demo/fix-login:msg/0", "message 0, by the user: Fix it in the resolver"),
        ("demo/opus:msg/1", "message 1, by the assistant: calls db.migrate"),
    ],
)
def test_every_kind_of_cause_has_its_words(reader: Call, revision: str, words: str) -> None:
    assert words in reader("why", revision).out


def test_a_session_that_was_moved_says_so(planted: Call) -> None:
    assert "demo/fix-login was" not in planted("why").out
    planted("rewind", "HEAD~1")
    assert "├─ demo/fix-login was rewound there by ana, just now" in planted("why").lines


def test_a_terminal_without_lines_to_draw_gets_plain_ones(reader: Call) -> None:
    assert reader("why", "--ascii").out.isascii()


def test_the_document_is_the_same_tree(reader: Call) -> None:
    told = reader("why", "demo/worker-1~1", "--json").document
    assert told["recorded_in"] == "demo/worker-1"
    assert (told["tools"], told["stopped_by"]) == (["fs.grep"], "depth")
    (spawned,) = told["causes"]
    assert (spawned["how"], spawned["edge"], spawned["call_id"], spawned["tool"]) == (
        "spawned", "SPAWNED_FROM", "check-1", "agent.spawn",
    )  # fmt: skip
    assert spawned["task"] == "scan src/ for redirect("
    (follows,) = spawned["causes"]
    assert [cause["how"] for cause in follows["causes"]] == ["summarizes", "follows"]


def test_what_is_not_there_has_no_causes(reader: Call) -> None:
    assert reader("why", "nothing").code == 3
    assert reader("why", "HEAD:tool/9").code == 3
    assert reader("why", "--depth", "0").code == 2
