"""``erase``: asks a person, refuses without one, shows the receipt and says what stays."""

import json
import os
import sys

import pexpect
import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project

SECRET = "the word is xyzzy-plugh"


@pytest.fixture
def pasted(project: Project) -> str:
    """A turn with a message that has to go; its short digest."""
    return project.turn(SECRET).removeprefix("sha256:")[:8]


def test_erase_without_a_terminal_refuses_and_names_the_option(turntree: Call, pasted: str) -> None:
    answer = turntree("erase", "main:msg/0")
    assert answer.code == 1
    assert "cannot be undone, and there is no terminal to ask on" in answer.err
    assert f"next: turntree erase {pasted}:msg/0 --yes" in answer.err
    assert SECRET in turntree("show", "main").out


def test_erase_with_yes_prints_the_receipt_and_what_stays(turntree: Call, pasted: str) -> None:
    answer = turntree("erase", "main:msg/0", "--yes", "--reason", "a password was pasted")
    assert answer.code == 0
    assert answer.lines[0] == f"erased message 0 of {pasted}"
    assert answer.lines[1].startswith("receipt  human:ana at ")
    assert answer.lines[1].endswith(" UTC: a password was pasted")
    assert answer.lines[2].startswith("digest   sha256:")
    stays = answer.out.partition("What stays")[2]
    assert {"exports", "backups", "models", "summaries", "digest"} <= set(
        stays.replace(",", " ").replace(":", " ").split()
    )
    assert "undo with" not in answer.err
    assert max(map(len, answer.lines)) <= 80
    assert "xyzzy" not in turntree("show", "main", "--full").out
    assert turntree("search", "xyzzy", "--json").out == ""
    assert "erased   1 turn" in turntree("verify", "main").out


def test_erase_again_changes_nothing_and_shows_the_first_receipt(
    turntree: Call, pasted: str
) -> None:
    first = turntree("erase", "main:msg/0", "--yes", "--reason", "first", "--json").document
    again = turntree("erase", f"{pasted}:msg/0", "--reason", "second", "--json").document
    assert (first["erased"], again["erased"]) == (True, False)
    assert again["receipt"] == first["receipt"]
    assert again["message_digest"] == first["message_digest"]
    assert first["undo"] is None


def test_erase_of_a_turn_lists_its_messages(turntree: Call, pasted: str) -> None:
    answer = turntree("erase", "main")
    assert answer.code == 2
    assert f"{pasted}:msg/0  user      {SECRET}" in answer.err
    assert answer.err.endswith(f"next: turntree erase {pasted}:msg/0\n")
    missing = turntree("erase", "main:msg/9", "--yes")
    assert missing.code == 3


@pytest.mark.slow
def test_erase_on_a_terminal_asks_first(turntree: Call, pasted: str) -> None:
    def watch(answer: str) -> str:
        shown = pexpect.run(
            f"{sys.executable} -m turntree.cli.main erase main:msg/0",
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
            events={"erase it for good": answer},
            timeout=60,
            dimensions=(24, 80),
            encoding="utf-8",
        )
        return str(shown)

    refused = watch("n\n")
    assert SECRET in refused
    assert "This cannot be undone" in refused
    assert "nothing was erased" in refused
    assert SECRET in turntree("show", "main").out
    # Return alone is not consent.
    assert "nothing was erased" in watch("\n")
    agreed = watch("y\n")
    assert f"erased message 0 of {pasted}" in agreed
    assert "What stays" in agreed
    shown = turntree("show", "main:msg/0", "--json").document
    assert "erased" in json.dumps(shown)
