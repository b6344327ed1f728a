"""What a person does in the first ten minutes, in that order."""

import re

import pytest

from tests.cli.conftest import Call

DIGITS = re.compile(r"\b[0-9a-f]{8}\b")


def test_an_empty_workspace_says_what_to_do_first(turntree: Call) -> None:
    answer = turntree("log")
    assert (answer.code, answer.out) == (0, "")
    assert "turntree demo" in answer.err
    assert "turntree session create main" in answer.err


def test_the_graph_draws_forks_subagents_compactions_and_failures(
    reader: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    drawn = reader("log", "--graph").lines
    signs = [line[: line.find("  ")] if "  " in line else line for line in drawn]
    assert signs == [
        "◉", "│ ○", "│ ●", "├╌╯", "●", "◆", "●", "●", "│ ×", "│ ●", "├─╯", "│ ○", "│ ┊", "├─╯",
        "●", "●",
    ]  # fmt: skip
    assert "(HEAD -> demo/fix-login, #to-review)" in drawn[0]
    assert "│ ┊  (4 turns)" in drawn
    assert "compaction: 3 turns summarised" in drawn[5]


def test_the_graph_can_be_drawn_in_ascii(reader: Call) -> None:
    answer = reader("log", "--graph", "--ascii")
    assert answer.out.isascii()
    assert answer.lines[0].startswith("@  ")
    assert "|~'" in answer.lines


def test_full_leaves_no_turn_out(reader: Call) -> None:
    drawn = reader("log", "--graph", "--full").lines
    assert len([line for line in drawn if DIGITS.search(line)]) == 16


def test_no_line_is_wider_than_the_terminal(planted: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    planted("tag", "HEAD", "a-rather-long-tag-that-leaves-no-room-for-anything")
    for columns in (60, 80, 130):
        monkeypatch.setenv("COLUMNS", str(columns))
        for words in (
            ["log", "--graph"],
            ["log", "--all"],
            ["diff", "--stat", "demo/opus", "HEAD"],
        ):
            assert max(map(len, planted(*words).lines)) <= columns


def test_show_says_who_what_how_and_what_next(reader: Call) -> None:
    told = reader("show", "HEAD").out
    assert "demo/fix-login (head)" in told
    assert "3,104 tokens (in 431 · cached 1,980 · out 693)" in told
    assert "bruno    Fix it in the resolver, keep the public signature" in told
    assert re.search(r"tools    1  fs\.read +src/resolver\.py +ok", told)
    assert "next     turntree fork" in told


def test_show_finds_parts(reader: Call) -> None:
    assert reader("show", "HEAD:tool/3").lines[0] == "runtime.exec"
    assert reader("show", "HEAD:msg/0").out.startswith("Fix it in the resolver")
    assert reader("show", "HEAD:tool/9").code == 3


def test_show_raw_prints_what_was_hashed(reader: Call) -> None:
    assert reader("show", "HEAD", "--raw").lines[0].startswith('{"agent_role":')


def test_a_fork_copies_nothing_and_can_be_switched_to(planted: Call) -> None:
    answer = planted("fork", "HEAD~2", "try-again", "--switch")
    assert "nothing was copied" in answer.out
    assert "undo with: turntree session archive try-again" in answer.err
    assert planted("status", "--json").document["session"]["label"] == "try-again"
    assert planted("status", "--json").document["turns"] == 16


def test_rewind_undo_and_reflog_tell_one_story(planted: Call) -> None:
    there, back = DIGITS.findall(planted("log", "HEAD", "--short").out)[:3:2]
    rewound = planted("rewind", "HEAD~2")
    assert rewound.out == (
        f"demo/fix-login moved {back} <- {there}   ({there} stays; nothing was deleted)\n"
    )
    assert "undo with: turntree undo demo/fix-login" in rewound.err
    undone = planted("undo")
    assert undone.out.startswith(f"demo/fix-login moved {there} <- {back}")
    kinds = [move["kind"] for move in planted("reflog", "--json").documents]
    assert kinds == ["undo", "rewind", *["advance"] * 7, "create"]
    assert planted("reflog").lines[1].startswith(f"demo/fix-login@{{1}}  {back}  rewind")


def test_what_an_undo_prints_takes_it_back(planted: Call) -> None:
    planted("rewind", "HEAD~2")
    before = planted("session", "show", "--json").document["head"]
    hint = planted("undo", "--json").document["undo"]
    assert planted(*hint.split()[1:]).code == 0
    assert planted("session", "show", "--json").document["head"] == before


def test_rewind_moves_the_session_its_revision_speaks_of(planted: Call) -> None:
    assert planted("rewind", "demo/opus~1").out.startswith("demo/opus moved ")
    assert planted("rewind", "demo/middleware", "demo/middleware~2").out.startswith("demo/mid")


def test_a_rewind_to_a_stranger_says_what_would_work(reader: Call) -> None:
    answer = reader("rewind", "demo/opus")
    assert answer.code == 1
    assert "is not an ancestor of demo/fix-login" in answer.err
    assert "next: turntree session reset demo/fix-login" in answer.err


def test_rewound_turns_are_found_with_all(planted: Call) -> None:
    planted("rewind", "HEAD~1")
    left = DIGITS.findall(planted("reflog").lines[1])[0]
    assert left not in planted("log", "--graph").out
    assert left in planted("log", "--graph", "--all").out


def test_a_short_graph_says_that_there_is_more(reader: Call) -> None:
    drawn = reader("log", "--graph", "-n", "5")
    assert len(DIGITS.findall(drawn.out)) == 5
    assert drawn.lines[-1] == "… older turns are not shown: -n 25"


def test_log_lists_ranges(reader: Call) -> None:
    titles = [one["title"] for one in reader("log", "HEAD..demo/opus", "--json").documents]
    assert titles == ["Now the same for SSO", "Fix it in the resolver"]
    assert len(reader("log", "HEAD...demo/opus", "--json").documents) == 7


def test_since_leaves_older_turns_out(reader: Call) -> None:
    # By the time of a turn, for the sample data grows older while other tests run.
    _, second, *_ = reader("log", "--json").documents
    assert len(reader("log", "--since", second["sealed_at"], "--json").documents) == 2


def test_diff_exits_with_one_if_something_differs(reader: Call) -> None:
    differ = reader("diff", "demo/opus", "HEAD")
    assert differ.code == 1
    assert "-  Now the same for SSO" in differ.lines
    assert reader("diff", "HEAD", "HEAD").code == 0
    assert "+  Try a middleware instead" in reader(
        "diff", "--thread", "demo/opus", "demo/middleware"
    ).lines  # fmt: skip


def test_compare_names_where_threads_part(reader: Call) -> None:
    told = reader("diff", "--stat", "demo/opus", "demo/middleware", "--json").document
    assert told["base"]["title"] == "Add a failing test for the redirect"
    assert (len(told["left"]), len(told["right"])) == (2, 5)


def test_tags_come_and_go(planted: Call) -> None:
    added = planted("tag", "HEAD", "good", "stuff", "--json").document
    assert "good" in planted("tag", "--list", "HEAD").out
    assert planted(*added["undo"].split()[1:]).code == 0
    assert "good" not in planted("tag").out


def test_sessions_are_renamed_merged_archived_and_restored(planted: Call) -> None:
    planted("session", "create", "one")
    assert "undo with: turntree session rename two one" in planted(
        "session", "rename", "one", "two"
    ).err  # fmt: skip
    planted("session", "alias", "two", "zwei")
    assert planted("session", "show", "zwei", "--json").document["aliases"] == ["one", "zwei"]
    planted("fork", "HEAD", "other")
    planted("session", "merge", "other", "two")
    assert planted("session", "show", "zwei", "--json").document["label"] == "other"
    planted("session", "archive", "other")
    assert "other" not in planted("session", "list").out
    assert "other" in planted("session", "list", "--all").out
    planted("session", "unarchive", "other")
    assert "other" in planted("session", "list").out


def test_usage_counts_shared_turns_once(planted: Call) -> None:
    alone = planted("stats", "--session", "HEAD", "--json").document
    planted("fork", "HEAD", "twin")
    both = planted("stats", "--session", "HEAD", "--session", "twin", "--json").document
    assert alone == both
    assert alone["calls"] == 7


def test_escape_sequences_in_a_turn_never_reach_the_terminal(planted: Call) -> None:
    planted("tag", "HEAD", "red\x1b[31m\x1b]0;owned\x07")
    assert "\x1b" not in planted("log", "--graph").out
    assert "\x1b" not in planted("show", "HEAD").out


def test_a_short_look_at_a_turn_is_shorter(planted: Call) -> None:
    short, normal = planted("show", "--short").lines, planted("show").lines
    assert len(short) <= 3 < len(normal)
    assert short[0] == normal[0]


def test_a_session_is_as_old_as_its_last_turn(planted: Call) -> None:
    listed = {one["label"]: one for one in planted("session", "list", "--json").documents}
    newest = planted("show", "demo/opus", "--json").document
    assert listed["demo/opus"]["worked_at"] == newest["sealed_at"]
