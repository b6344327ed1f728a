"""The command line before a person: a real terminal, colours, a pager."""

import os
import sys

import click
import pexpect
import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project

pytestmark = pytest.mark.slow

ROWS, COLUMNS = 24, 80


def test_a_person_gets_colours_and_a_pager(reader: Call) -> None:
    # The pager puts a mark before each line, so that it can be told from no pager.
    shown = watch("log", "--graph", TURNTREE_PAGER="sed s/^/>/")
    assert "\x1b[36m" in shown
    lines = click.unstyle(shown).splitlines()
    assert lines[0].startswith(">◉  ")
    assert max(map(len, lines)) <= COLUMNS + len(">")


def test_a_person_may_refuse_both(reader: Call) -> None:
    shown = watch("log", "--graph", "--no-pager", TURNTREE_PAGER="sed s/^/>/", NO_COLOR="1")
    assert shown.startswith("◉  ")
    assert "\x1b" not in shown


def test_a_check_shows_how_far_it_is_and_leaves_only_its_verdict(reader: Call) -> None:
    shown = watch("fsck", NO_COLOR="1")
    assert shown.splitlines()[-1].strip().endswith("no faults (everything was hashed)")


def test_a_person_is_shown_the_difference_and_asked_before_files_go_back(project: Project) -> None:
    project.write({"a.py": "one\n"})
    project.turn("First", {"a.py": "one\ntwo\n"})
    project.turn("Second", {"a.py": "three\n"})
    refused = watch("rewind", "main~1", "--files", answers={"go back": "n\n"})
    assert "\x1b[32m+two" in refused
    assert "M a.py" in click.unstyle(refused)
    assert "nothing was changed" in refused
    assert (project.folder / "a.py").read_text() == "three\n"
    agreed = watch("rewind", "main~1", "--files", answers={"go back": "y\n"})
    assert "undo with: turntree undo main" in agreed
    assert (project.folder / "a.py").read_text() == "one\ntwo\n"


def watch(*words: str, answers: dict[str, str] | None = None, **variables: str) -> str:
    """Return what a terminal of 24 rows and 80 columns was sent."""
    environment = {**os.environ, "TERM": "xterm-256color", **variables}
    shown, code = pexpect.run(
        " ".join([sys.executable, "-m", "turntree.cli.main", *words]),
        env=environment,
        events=answers,
        timeout=60,
        dimensions=(ROWS, COLUMNS),
        withexitstatus=True,
        encoding="utf-8",
    )
    assert code == 0, shown
    return str(shown)
