"""The command line before a person: a real terminal, colours, a pager."""

import os
import sys

import click
import pexpect

from tests.cli.conftest import Call

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


def watch(*words: str, **variables: str) -> str:
    """Return what a terminal of 24 rows and 80 columns was sent."""
    environment = {**os.environ, "TERM": "xterm-256color", **variables}
    shown, code = pexpect.run(
        " ".join([sys.executable, "-m", "turntree.cli.main", *words]),
        env=environment,
        dimensions=(ROWS, COLUMNS),
        withexitstatus=True,
        encoding="utf-8",
    )
    assert code == 0, shown
    return str(shown)
