"""Files beside turns, on the command line: listed, compared, pinned, and blamed line by line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project


@pytest.fixture
def shop(project: Project) -> Project:
    """Three turns and a person have worked on a small project."""
    project.write({"README.md": "# Shop\n", "src/cart.py": "total = 0\n", "logo.png": b"\0\1\2"})
    project.turn("Add up the cart", {"src/cart.py": "total = 0\ntotal += 1\n"})
    project.write({"README.md": "# Shop\n\nby hand\n"})
    project.turn("Move it", {"src/cart.py": None, "src/sum.py": "total = 0\ntotal += 1\n"})
    project.turn("Round it", {"src/sum.py": "total = 0\ntotal += 1\nround(total)\n"})
    return project


def test_files_shows_what_a_turn_left_and_what_it_changed(turntree: Call, shop: Project) -> None:
    answer = turntree("files")
    assert answer.code == 0
    assert "Round it" in answer.lines[0]
    assert str(shop.folder) in answer.out
    assert "3 files" in answer.out
    assert "M src/sum.py     +1    -0  +" in answer.out
    assert "next: turntree worktree" in answer.err


def test_a_turn_shows_which_place_it_worked_in(turntree: Call, shop: Project) -> None:
    shown = turntree("show")
    assert f"files    {shop.folder}, " in shown.out
    (pin,) = turntree("show", "--json").document["pins"]
    assert pin["before"] != pin["after"]


def test_files_prints_one_file_as_a_turn_left_it(turntree: Call, shop: Project) -> None:
    assert turntree("files", "main~2", "src/cart.py").out == "total = 0\ntotal += 1\n"
    absent = turntree("files", "main", "src/cart.py")
    assert absent.code == 3
    assert "next: turntree files " in absent.err


def test_a_program_reads_every_path(turntree: Call, shop: Project) -> None:
    (place,) = turntree("files", "main~1", "--json").document["resources"]
    assert [entry["path"] for entry in place["entries"] if entry["kind"] == "file"] == [
        "README.md", "logo.png", "src/sum.py"
    ]  # fmt: skip
    assert [(one["kind"], one["renamed_from"]) for one in place["changed"]] == [
        ("renamed", "src/cart.py")
    ]


def test_a_turn_that_pinned_nothing_stands_for_its_nearest_ancestor(
    turntree: Call, shop: Project
) -> None:
    shop.say("Thanks")
    answer = turntree("files")
    assert "pinned no files; these are those of" in answer.lines[0]
    assert "1 turn before it" in answer.lines[0]


def test_where_nothing_was_pinned_the_next_command_is_said(
    turntree: Call, project: Project
) -> None:
    project.say("Hello")
    for words in (["files"], ["diff", "main", "--files"], ["blame", "a.py:1"]):
        answer = turntree(*words)
        assert answer.code == 3
        assert answer.err.endswith("next: turntree on\n")
        assert "you can take one yourself: turntree snapshot" in answer.err


def test_two_turns_are_compared_file_by_file(turntree: Call, shop: Project) -> None:
    answer = turntree("diff", "main~1", "main", "--files")
    assert answer.code == 1
    assert answer.lines[:2] == ["--- a/src/sum.py", "+++ b/src/sum.py"]
    assert "+round(total)" in answer.lines
    stat = turntree("diff", "main~2", "main", "--files", "--stat")
    assert "R src/cart.py -> src/sum.py" not in stat.out
    assert "D src/cart.py" in stat.out
    assert turntree("diff", "main~1", "main~1", "--files").code == 0


def test_a_turn_is_compared_with_the_present(turntree: Call, shop: Project) -> None:
    assert turntree("diff", "main", "--files").code == 0
    shop.write({"notes.txt": "now\n"})
    answer = turntree("diff", "main", "--files", "--stat", "--json")
    assert answer.code == 1
    (place,) = answer.document["places"]
    assert [(one["path"], one["kind"]) for one in place["changes"]] == [("notes.txt", "added")]


def test_a_file_is_compared_with_the_present(turntree: Call, shop: Project) -> None:
    shop.write({"notes.txt": "now\n", "src/sum.py": "total = 2\n"})
    for path in ("src/sum.py", "./src/sum.py", f"../{shop.folder.name}/src/sum.py"):
        answer = turntree("diff", "main", path, "--files", "--stat")
        assert answer.code == 1
        assert "src/sum.py" in answer.out
        assert "notes.txt" not in answer.out
    assert turntree("diff", "main", "src/none.py", "--files").code == 3


def test_paths_narrow_a_comparison(turntree: Call, shop: Project) -> None:
    only = turntree("diff", "main~2", "main", "README.md", "--files", "--stat")
    assert "README.md" in only.out
    assert "src" not in only.out
    assert "src/sum.py" in turntree("diff", "main~2", "main", "src", "--files", "--stat").out
    assert turntree("diff", "main~2", "main", "*.txt", "--files").code == 0


def test_a_file_is_blamed_on_turns_that_say_so_and_on_those_that_only_did_it(
    turntree: Call, shop: Project
) -> None:
    shop.turn("Run the formatter", act=lambda _: shop.write({"src/sum.py": "total = 1\n"}))
    uses = turntree("blame", "src/sum.py", "--json").documents
    assert [(one["title"], one["use"], one["known_by"]) for one in uses] == [
        ("Run the formatter", "changed", "pin"),
        ("Round it", "written", "message"),
        ("Round it", "changed", "pin"),
        ("Move it", "written", "message"),
        ("Move it", "added", "pin"),
    ]
    told = turntree("blame", "src/sum.py").lines
    assert told[0] == "src/sum.py"
    assert "changed (pinned)" in told[1]
    assert "written, changed (pinned)" in told[2]
    assert turntree("blame", "README.md").code == 1, "a person did that, and no turn"


def test_a_line_is_blamed_on_the_turn_that_wrote_it(turntree: Call, shop: Project) -> None:
    assert "Round it" in turntree("blame", "src/sum.py:3").out
    second = turntree("blame", "src/sum.py:2").out
    assert "Add up the cart" in second
    assert "the file was called src/cart.py then" in second
    assert "before the first turn" in turntree("blame", "src/sum.py:1").out


def test_a_line_that_no_turn_wrote_is_said_to_be_outside(turntree: Call, shop: Project) -> None:
    assert "outside any turn" in turntree("blame", "README.md:3").out
    shop.write({"src/sum.py": "total = 0\ntotal += 1\nround(total)\nmine\n"})
    kinds = [line["by"] for line in turntree("blame", "src/sum.py", "--lines", "--json").documents]
    assert kinds == ["earlier", "turn", "turn", "outside"]


def test_every_line_is_shown_with_its_writer(turntree: Call, shop: Project) -> None:
    lines = turntree("blame", "src/sum.py", "--lines").lines
    assert lines[0].startswith("earlier ")
    assert lines[2].endswith("3  round(total)")


def test_a_line_beyond_the_end_is_answered_with_those_there_are(
    turntree: Call, shop: Project
) -> None:
    answer = turntree("blame", "src/sum.py:99")
    assert answer.code == 3
    assert "has only" in answer.err
    assert "next: turntree blame src/sum.py --lines" in answer.err
    shop.write({"a b.py": "one\n"})
    assert "turntree blame 'a b.py' --lines" in turntree("blame", "a b.py:99").err
    assert "next: turntree search 'a b.py'" in turntree("blame", "a b.py").err


def test_a_file_is_blamed_as_a_turn_left_it(turntree: Call, shop: Project) -> None:
    rows = turntree("blame", "src/cart.py", "--at", "main~2", "--json").documents
    assert [row["by"] for row in rows] == ["earlier", "turn"]


def test_lines_and_files_that_are_not_there_are_said_to_be_none(
    turntree: Call, shop: Project
) -> None:
    assert "has only 3 lines" in turntree("blame", "src/sum.py:9").err
    assert turntree("blame", "src/none.py:1").code == 3
    assert "not text" in turntree("blame", "logo.png:1").err
    assert turntree("blame", "src/sum.py:0").code == 2


def test_two_turns_at_once_are_told_apart_by_what_they_say(
    turntree: Call, project: Project
) -> None:
    def meanwhile(folder: Path) -> None:
        project.write({"b.py": "two\n", "c.py": "three\n"})

    project.write({"a.py": "one\n"})
    project.turn("outer", {"a.py": "one\nmore\n"}, act=meanwhile)
    assert "outer" in turntree("blame", "a.py:2").out
    assert "outer" in turntree("blame", "c.py:1").out


def test_a_hand_made_pin_keeps_what_is_there(turntree: Call, project: Project) -> None:
    project.say("First")
    project.write({"a.py": "one\n"})
    first = turntree("snapshot", ".")
    assert first.code == 0
    assert "1 file, " in first.out
    assert "nothing changed" in turntree("snapshot", ".").out
    project.write({"a.py": "one\ntwo\n"})
    assert "belong to no turn yet" in turntree("snapshot", ".").out
    project.say("Second")
    assert turntree("snapshot", ".", "--json").document["new"] is True
    assert "Second" in turntree("blame", "a.py:2").out


def test_a_pin_needs_a_turn(turntree: Call, project: Project) -> None:
    turntree("session", "create", "main")
    answer = turntree("snapshot", ".")
    assert answer.code == 3
    assert "has no turn yet" in answer.err


def test_nobody_keeps_a_whole_home_by_standing_in_it(
    turntree: Call, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.say("First")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    answer = turntree("snapshot")
    assert answer.code == 1
    assert answer.err.endswith("next: turntree snapshot DIR\n")
