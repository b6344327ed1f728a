import json
from pathlib import Path
from typing import Any

import pytest

from proofs.bash_runs import ENDLESS, find_unforeseen, make_place, run_line
from turntree.policy.shell import (
    COMMANDS_MAX,
    LINE_CHARS_MAX,
    ShellCommand,
    list_words_of_paths,
    read_commands,
)

LINES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "shell_lines.json").read_text(encoding="utf-8")
)
"""Lines in /w, with what they run there; the folder is /w where none is named."""


def described(command: ShellCommand) -> dict[str, Any]:
    folders = None if command.folders is None else [*command.folders]
    document: dict[str, Any] = {"words": [*command.words]}
    if folders != ["/w"]:
        document["folders"] = folders
    for name in ("reads", "writes", "variables"):
        if found := [*getattr(command, name)]:
            document[name] = found
    return document


@pytest.mark.parametrize("row", LINES, ids=[row["line"] for row in LINES])
def test_line_of_table_gives_its_commands(row: dict[str, Any]) -> None:
    commands = read_commands(row["line"], "/w", "/home/u")
    assert (None if commands is None else [*map(described, commands)]) == row["commands"]


def test_table_has_300_lines_that_differ() -> None:
    assert len({row["line"] for row in LINES}) >= 300


@pytest.mark.slow
def test_whatever_bash_runs_was_foreseen(tmp_path: Path) -> None:
    work = make_place(tmp_path)
    count = 0
    for row in LINES:
        commands = read_commands(row["line"], str(work), str(tmp_path / "home"))
        if commands is None or ENDLESS.search(row["line"]):
            continue
        ran = run_line(row["line"], work)
        count += len(ran)
        assert find_unforeseen(commands, ran) == [], row["line"]
    assert count > 300


@pytest.mark.parametrize(
    "line",
    [
        "ls\x00rm x",
        "ls\rrm x",
        "ls\x1b[2K",
        "ls \u202e x",
        "x" * (LINE_CHARS_MAX + 1),
        "( " * 200 + "ls" + " )" * 200,
        "ls; " * (COMMANDS_MAX + 2),
        "x='a[$(rm x)]'; echo $((x))",
        "$(" * 100 + "ls" + ")" * 100,
        # What may become -v a[$(…)], and then runs a command.
        "x=$(cat a); [ $x ]",
        "[ a = $x ]",
        "[ -n a$x ]",
        "test a = $x",
        'test "$a" "$b"',
        "[ * ]",
        "test -n x -a -? *",
        # A file may be called a[$(…)].
        "let *",
        "unset *",
        "export *",
        "declare [a-z]*",
        "read *",
        "printf *",
        'wait -p "$x" -n',
        "wait $x",
        # It may stand for a number and a command.
        "timeout * ls",
        "nice -n * ls",
        "env -* ls",
    ],
)
def test_line_that_hides_something_is_not_understood(line: str) -> None:
    assert read_commands(line, "/w") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cat a.txt", []),
        ("cat ../a.txt", ["../a.txt"]),
        ("cat /etc/passwd", ["/etc/passwd"]),
        ("cat ..", [".."]),
        ("cat < /etc/passwd > ../x 2>/dev/null", ["/etc/passwd", "../x"]),
        ("cc -I/usr/include a.c", ["/usr/include"]),
        ("dd if=/dev/sda", ["/dev/sda"]),
        ("grep --file=/etc/x a", ["/etc/x"]),
        ("scp a.txt host:/srv/x", ["/srv/x", "host:/srv/x"]),
        ("curl http://127.0.0.1/x", []),
        ("./run.sh", ["./run.sh"]),
        ("cat $X", [None]),
    ],
)
def test_words_of_paths_leave_out_what_stays(line: str, words: list[str | None]) -> None:
    commands = read_commands(line, "/w")
    assert commands is not None
    found = [word for command in commands for word in list_words_of_paths(command)]
    assert [word for word in found if word not in ("-I/usr/include", "if=/dev/sda",
                                                   "--file=/etc/x")] == words  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["[ $# -gt 0 ]", "[ $? -eq 0 ]", '[ "$x" = a ]', '[ -f "$x" ]', "[ -f *.txt ]", "[[ $x = a ]]",
     "for i in 1 2; do [ $i -eq 1 ]; done", "printf '%s' *", "test -f a", "wait", "env A=b ls"],
)  # fmt: skip
def test_line_whose_words_stay_words_is_understood(line: str) -> None:
    assert read_commands(line, "/w") is not None


def test_pattern_is_told_from_a_quoted_word() -> None:
    commands = read_commands("""rg '*' "?" \\* [a]* b"*"* {c,*} ./*""", "/w")
    assert commands is not None
    assert commands[0].patterns == {"[a]*", "b**", "*", "./*"}
    quoted = read_commands("""rg '*' "?" \\[a]""", "/w")
    assert quoted is not None
    assert quoted[0].patterns == frozenset()


def test_home_that_is_not_known_leaves_its_words_unknown() -> None:
    commands = read_commands("cat ~/x $HOME/y && cd && ls", "/w")
    assert commands is not None
    assert commands[0].words == ("cat", None, None)
    assert commands[-1].folders is None


def test_command_as_document_names_its_program() -> None:
    commands = read_commands("A=1 /usr/bin/git log > x", "/w")
    assert commands is not None
    assert commands[0].to_json() == {
        "program": "git", "words": ["/usr/bin/git", "log"], "folders": ["/w"], "reads": [],
        "writes": ["x"], "variables": ["A"],
    }  # fmt: skip
