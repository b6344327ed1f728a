"""The first run: what is found, asked, imported and told; and what was spent."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from proofs.corpus import Corpus
from proofs.sample_home import write_sample_home
from tests.cli.conftest import Call
from turntree.boot.open import load_importers
from turntree.transcripts.importer import HasDefaultPaths, ToolPaths

TOOL_FOLDERS = (
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
    "APPDATA",
)  # fmt: skip
CALL_TOKENS = 14_719
"""What every call of the remembered session used."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home."""
    for name in TOOL_FOLDERS:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "person"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def lived_in(home: Path) -> Path:
    """A home with transcripts in it; sample data."""
    write_sample_home(home, Corpus(7), 1, 2)
    return home


def test_where_nothing_is_found_one_is_told_where_it_was_looked_for(
    turntree: Call, home: Path
) -> None:
    answer = turntree("up")
    assert answer.code == 0
    assert str(home / ".claude" / "projects") in answer.err
    assert str(home / ".codex") in answer.err
    assert "next: turntree import PATH" in answer.err
    document = turntree("up", "--json").document
    assert document["found"] == {}
    assert document["looked_in"]["opencode"] == [str(home / ".local/share/opencode")]


def test_without_a_terminal_nothing_is_imported_and_what_was_found_is_told(
    turntree: Call, lived_in: Path
) -> None:
    answer = turntree("up")
    assert answer.out.splitlines()[-1].split()[:3] == ["claude-code", "4", "transcripts"]
    assert answer.err.endswith("next: turntree up --yes\n")
    document = turntree("up", "--json").document
    assert document["found"]["claude-code"]["transcripts"] == 4
    assert document["imported"] is None
    assert turntree("status", "--json").document["turns"] == 0


def test_only_the_database_is_started_for_those_who_want_nothing_else(
    turntree: Call, lived_in: Path
) -> None:
    document = turntree("up", "--no-import", "--json").document
    assert (document["state"], document["found"]) == ("external", None)


def test_the_card_is_computed_from_what_was_imported(turntree: Call, lived_in: Path) -> None:
    document = turntree("up", "--yes", "--json").document
    tally = document["tally"]
    assert (tally["transcripts"], tally["sessions"]) == (4, 4)
    # Two of one session, one turn of its copy that is not shared, one that broke off.
    assert tally["turns"] == 2 + 1 + 1 + 1
    assert tally["bytes_before"] > 0
    after = tally["bytes_after"]
    assert after["total"] == after["raw"] + after["search"] + after["rest"]
    assert (tally["sessions_repaired"], tally["calls_repaired"]) == (1, 1)
    assert tally["sessions_deleted_soon"] == 3
    assert document["imported"]["turns_known"] == 1


def test_tokens_that_stand_again_are_neither_lost_nor_counted(
    turntree: Call, lived_in: Path
) -> None:
    whole = turntree("up", "--yes", "--json").document["tally"]
    # Nine lines of the three sessions tell of four calls: one for each block of an answer, and the
    # copy tells all of it again. An answer of the other session has a line a block too.
    (other,) = (lived_in / ".claude" / "projects" / "-srv-project-0").glob("*.jsonl")
    messages = [json.loads(line).get("message", {}) for line in other.read_text().splitlines()]
    told = [(said["id"], _total(said["usage"])) for said in messages if "usage" in said]
    once = sum(dict(told).values())
    assert whole["tokens"] == 4 * CALL_TOKENS + once
    repeated = 5 * CALL_TOKENS + sum(tokens for _, tokens in told) - once
    assert whole["tokens_repeated"] == {"claude-code": repeated}


def _total(usage: dict[str, Any]) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(int(usage[name]) for name in (*names, "output_tokens"))


def test_the_card_says_the_same_the_next_time(turntree: Call, lived_in: Path) -> None:
    first = turntree("up", "--yes", "--json").document
    again = turntree("up", "--yes", "--json").document
    assert again["imported"]["bundles_unchanged"] == 4
    sizes = {"bytes_after": None}
    assert {**first["tally"], **sizes} == {**again["tally"], **sizes}
    assert "what came home" in turntree("up", "--yes").out


def test_a_person_is_asked_and_may_say_no(turntree: Call, lived_in: Path) -> None:
    asked = pexpect.spawn(
        sys.executable,
        ["-m", "turntree.cli.main", "up"],
        env={**os.environ, "TERM": "xterm-256color"},
        encoding="utf-8",
        timeout=60,
    )
    asked.expect_exact("import them?")
    asked.sendline("n")
    asked.expect_exact("nothing was imported")
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == 0
    assert turntree("status", "--json").document["turns"] == 0


def test_importers_say_where_they_look(home: Path) -> None:
    places = ToolPaths(home, {"CODEX_HOME": "/srv/codex"})
    looks = {
        n: i.usual_places(places)
        for n, i in load_importers().items()
        if isinstance(i, HasDefaultPaths)
    }
    assert looks["codex"] == [Path("/srv/codex")]
    assert {"claude-code", "cursor", "gemini", "opencode"} < looks.keys()
