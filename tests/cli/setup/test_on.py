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
from turntree.hooks.launcher import launcher_path
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
    answer = turntree("on")
    assert answer.code == 0
    assert str(home / ".claude" / "projects") in answer.err
    assert str(home / ".codex") in answer.err
    assert "next: turntree import PATH" in answer.err
    document = turntree("on", "--json").document
    assert document["found"] == {}
    assert document["looked_in"]["opencode"] == [str(home / ".local/share/opencode")]


def test_without_a_terminal_nothing_is_imported_and_what_was_found_is_told(
    turntree: Call, lived_in: Path
) -> None:
    answer = turntree("on")
    assert answer.out.splitlines()[-1].split()[:3] == ["claude-code", "4", "transcripts"]
    assert answer.err.endswith("next: turntree on --yes\n")
    document = turntree("on", "--json").document
    assert document["found"]["claude-code"]["transcripts"] == 4
    assert document["imported"] is None
    assert turntree("status", "--json").document["turns"] == 0


def test_only_the_database_is_started_for_those_who_want_nothing_else(
    turntree: Call, lived_in: Path
) -> None:
    document = turntree("on", "--no-import", "--json").document
    assert (document["state"], document["found"]) == ("external", None)


def test_the_card_is_computed_from_what_was_imported(turntree: Call, lived_in: Path) -> None:
    document = turntree("on", "--yes", "--json").document
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
    whole = turntree("on", "--yes", "--json").document["tally"]
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
    first = turntree("on", "--yes", "--json").document
    again = turntree("on", "--yes", "--json").document
    assert again["imported"]["bundles_unchanged"] == 4
    sizes = {"bytes_after": None}
    assert {**first["tally"], **sizes} == {**again["tally"], **sizes}
    assert "what came home" in turntree("on", "--yes").out


def test_the_card_leads_with_what_the_user_can_do_each_with_a_command_that_works(
    turntree: Call, lived_in: Path
) -> None:
    lines = turntree("on", "--yes").lines
    card = lines[lines.index("what you can do now") + 1 : lines.index("what came home") - 1]
    assert [line.split("  ")[0] for line in card[::2]] == [
        "find", "read", "see cost", "continue", "take back",
    ]  # fmt: skip
    assert "$" in card[4]
    assert max(map(cells, card)) <= 80
    for line in card[1::2]:
        words = line.replace("WORDS", "rounding").split()[1:]
        assert turntree(*words).code in (0, 1), line


def type_on(*words: str) -> "pexpect.spawn[str]":
    """Type ``turntree on`` in a terminal."""
    return pexpect.spawn(
        sys.executable,
        ["-m", "turntree.cli.main", "on", *words],
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


def test_a_person_is_asked_about_the_import_and_may_say_no(turntree: Call, lived_in: Path) -> None:
    asked = type_on()
    asked.expect_exact("Claude Code tells Turntree what it does")
    asked.expect_exact("import them?")
    asked.sendline("n")
    asked.expect_exact("nothing was imported")
    assert "undo with: turntree off" in read_on(asked)
    assert turntree("status", "--json").document["turns"] == 0
    assert (lived_in / ".claude" / "settings.json").exists()


def test_on_in_a_terminal_installs_hooks_then_offers_the_import_then_says_how_to_undo(
    turntree: Call, lived_in: Path
) -> None:
    (lived_in / ".codex").mkdir()
    asked = type_on()
    asked.expect_exact("review 10 hooks in Codex with /hooks")
    asked.expect_exact("import them?")
    settings = lived_in / ".claude" / "settings.json"
    assert settings.exists()
    asked.sendline("")
    asked.expect_exact("what came home")
    shown = read_on(asked)
    (undo,) = [line for line in shown.splitlines() if line.startswith("undo with:")]
    assert undo == "undo with: turntree off     (everything: turntree uninstall)"
    assert "next: turntree search WORDS" in shown
    assert "Claude Code tells Turntree what it does" in read_on(type_on("--no-import"))
    assert turntree("off").code == 0
    assert not settings.exists()
    assert not (lived_in / ".codex" / "hooks.json").exists()


@pytest.mark.parametrize("words", [(), ("--yes",), ("--no-import",), ("--json",)])
def test_on_without_a_terminal_asks_nothing_and_installs_hooks(
    turntree: Call, lived_in: Path, words: tuple[str, ...]
) -> None:
    answer = turntree("on", *words)
    assert answer.code == 0
    assert "?" not in answer.err
    assert (lived_in / ".claude" / "settings.json").exists()


def test_on_names_what_it_changed_and_nothing_the_second_time(
    turntree: Call, lived_in: Path
) -> None:
    document = turntree("on", "--json").document
    settings = lived_in / ".claude" / "settings.json"
    assert [hook["changed"] for hook in document["hooks"]] == [[str(settings)]]
    assert document["undo"] == "turntree off"
    again = turntree("on", "--json").document
    assert [hook["changed"] for hook in again["hooks"]] == [[]]
    assert again["undo"] is None


def test_on_with_no_hooks_leaves_the_settings_alone(turntree: Call, lived_in: Path) -> None:
    assert turntree("on", "--no-hooks", "--json").document["hooks"] == []
    assert not (lived_in / ".claude" / "settings.json").exists()


def test_on_without_a_coding_agent_says_what_it_looked_for(turntree: Call, home: Path) -> None:
    assert "no coding agent found; looked for claude-code, codex" in turntree("on").err


def test_on_with_broken_settings_reports_them_and_goes_on(turntree: Call, lived_in: Path) -> None:
    (lived_in / ".codex").mkdir()
    (lived_in / ".claude" / "settings.json").write_text("{", encoding="utf-8")
    answer = turntree("on", "--yes")
    assert answer.code == 1
    assert "settings.json was left alone" in answer.err
    assert (lived_in / ".codex" / "hooks.json").exists()
    assert "what came home" in answer.out


def test_the_earlier_name_of_on_still_works(turntree: Call, lived_in: Path) -> None:
    answer = turntree("up", "--no-import")
    assert answer.code == 0
    assert answer.err.startswith("up is called on now\n")


def test_off_removes_every_hook_and_on_brings_them_back(
    turntree: Call, lived_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = lived_in / ".claude" / "settings.json"
    settings.write_text('{ "model":"opus" }', encoding="utf-8")
    project = tmp_path / "shop"
    (project / ".git").mkdir(parents=True)
    turntree("on", "--no-import")
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(project)
        turntree("hook", "install", "claude-code", "--project")
    answer = turntree("off")
    assert answer.code == 0
    assert len(answer.lines) == 2
    assert f"Claude Code tells Turntree nothing any more: {settings}" in answer.lines
    assert "undo with: turntree on" in answer.err
    assert settings.read_text(encoding="utf-8") == '{ "model":"opus" }'
    assert not (project / ".claude").exists()
    assert not launcher_path(tmp_path / "home").exists(), "an agent that runs reports no more"
    assert turntree("off").out == "no hooks are installed\n"
    assert turntree("off", "--json").document == {"hooks": [], "undo": None}
    turntree("on", "--no-import")
    assert turntree("status", "--json").document["hooks"]["installed"] == ["claude-code"]


def test_an_empty_log_points_to_on(turntree: Call, home: Path) -> None:
    assert "next: turntree on " in turntree("log").err


def test_importers_say_where_they_look(home: Path) -> None:
    places = ToolPaths(home, {"CODEX_HOME": "/srv/codex"})
    looks = {
        n: i.usual_places(places)
        for n, i in load_importers().items()
        if isinstance(i, HasDefaultPaths)
    }
    assert looks["codex"] == [Path("/srv/codex")]
    assert {"claude-code", "cursor", "gemini", "opencode"} < looks.keys()
