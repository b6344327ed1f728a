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
from turntree.cli.output.text import cells
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
    # No coding agent of this machine; only what a test puts here.
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
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


def test_the_card_leads_with_what_the_user_can_do_each_with_a_command_that_works(
    turntree: Call, lived_in: Path
) -> None:
    lines = turntree("up", "--yes").lines
    card = lines[lines.index("what you can do now") + 1 : lines.index("what came home") - 1]
    assert [line.split("  ")[0] for line in card[::2]] == [
        "find", "read", "see cost", "continue", "take back",
    ]  # fmt: skip
    assert "$" in card[4]
    assert max(map(cells, card)) <= 80
    for line in card[1::2]:
        words = line.replace("WORDS", "rounding").split()[1:]
        assert turntree(*words).code in (0, 1), line


def type_up(*words: str) -> "pexpect.spawn[str]":
    """Type ``turntree up`` in a terminal."""
    return pexpect.spawn(
        sys.executable,
        ["-m", "turntree.cli.main", "up", *words],
        env={**os.environ, "TERM": "xterm-256color"},
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 80),
    )


def read_on(screen: "pexpect.spawn[str]") -> str:
    """Wait for the end and return the rest of the screen."""
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0
    return screen.before or ""


def test_a_person_is_asked_and_may_say_no(turntree: Call, lived_in: Path) -> None:
    asked = type_up()
    asked.expect_exact("import them?")
    asked.sendline("n")
    asked.expect_exact("nothing was imported")
    asked.expect_exact("record Claude Code from now on?")
    asked.sendline("n")
    assert "next: turntree hook install" in read_on(asked)
    assert turntree("status", "--json").document["turns"] == 0
    assert not (lived_in / ".claude" / "settings.json").exists()


def test_up_in_a_terminal_imports_then_offers_hooks_then_says_how_to_undo(
    turntree: Call, lived_in: Path
) -> None:
    (lived_in / ".codex").mkdir()
    asked = type_up()
    asked.expect_exact("import them?")
    asked.sendline("")
    asked.expect_exact("what came home")
    asked.expect_exact("record Claude Code and Codex from now on?")
    asked.sendline("")
    shown = read_on(asked)
    settings = lived_in / ".claude" / "settings.json"
    assert f"Claude Code tells Turntree what it does: {settings}" in shown
    assert "review 7 hooks in Codex with /hooks" in shown
    (undo,) = [line for line in shown.splitlines() if line.startswith("undo with:")]
    assert undo == "undo with: turntree hook uninstall     (everything: turntree uninstall)"
    assert "next: turntree search WORDS" in shown
    again = read_on(type_up())
    assert "from now on?" not in again, "there is nothing left to offer"
    assert turntree("hook", "uninstall").code == 0
    assert not settings.exists()
    assert not (lived_in / ".codex" / "hooks.json").exists()


@pytest.mark.parametrize("words", [(), ("--yes",), ("--yes", "--no-hooks"), ("--json",)])
def test_up_without_a_terminal_asks_nothing_and_installs_no_hooks(
    turntree: Call, lived_in: Path, words: tuple[str, ...]
) -> None:
    answer = turntree("up", *words)
    assert answer.code == 0
    assert "from now on?" not in answer.err
    assert not (lived_in / ".claude" / "settings.json").exists()


def test_up_with_yes_points_to_the_hooks_it_did_not_install(turntree: Call, lived_in: Path) -> None:
    assert "turntree hook install" in turntree("up", "--yes").err
    assert "turntree hook install" not in turntree("up", "--yes", "--hooks").err


def test_up_with_hooks_installs_them_without_a_question(turntree: Call, lived_in: Path) -> None:
    document = turntree("up", "--hooks", "--json").document
    settings = lived_in / ".claude" / "settings.json"
    assert [hook["changed"] for hook in document["hooks"]] == [[str(settings)]]
    assert document["undo"] == "turntree hook uninstall"
    assert settings.exists()
    assert turntree("up", "--hooks", "--json").document["hooks"] == []


def test_up_in_a_terminal_with_no_hooks_offers_none(turntree: Call, lived_in: Path) -> None:
    asked = type_up("--no-hooks")
    asked.expect_exact("import them?")
    asked.sendline("n")
    assert "from now on?" not in read_on(asked)


def test_an_empty_log_points_to_up(turntree: Call, home: Path) -> None:
    assert "next: turntree up " in turntree("log").err


def test_importers_say_where_they_look(home: Path) -> None:
    places = ToolPaths(home, {"CODEX_HOME": "/srv/codex"})
    looks = {
        n: i.usual_places(places)
        for n, i in load_importers().items()
        if isinstance(i, HasDefaultPaths)
    }
    assert looks["codex"] == [Path("/srv/codex")]
    assert {"claude-code", "cursor", "gemini", "opencode"} < looks.keys()
