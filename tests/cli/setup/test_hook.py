"""``hook``: installed, asked about, and read when the database is back."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner
from turntree.cli.hook_process.entry import FIFO
from turntree.cli.hook_wait import SILENCE_MAX_S, WAIT_MAX_S, is_coming
from turntree.core.ids import unix_ms
from turntree.hooks.launcher import launcher_path
from turntree.hooks.spool import FOLDER, Spool
from turntree.system.clock import SystemClock


@pytest.fixture
def home(bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home, and one of ours in it."""
    person = tmp_path / "person"
    person.mkdir()
    monkeypatch.setenv("HOME", str(person))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    # No coding agent of this machine; only what a test puts here.
    monkeypatch.setenv("PATH", f"{person / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def attendant(home: Path) -> Generator[None]:
    """Somebody who listens to what hooks say."""
    fifo = home / FOLDER / FIFO
    fifo.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    yield
    os.close(pipe)


def leave(
    home: Path,
    kind: str,
    at_ms: int,
    session: str = "s1",
    agent: str | None = None,
    place: Path | None = None,
) -> None:
    """Leave a sighting, as the attendant does."""
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "version": 1, "tool": "claude-code", "kind": kind, "at_ms": at_ms, "session": session,
        "agent": agent, "transcript": str(home / "there" / f"{session}.jsonl"),
        "place": None if place is None else str(place), "pid": os.getpid(),
    }  # fmt: skip
    (folder / f"{at_ms:020d}-1.event").write_text(json.dumps(told), encoding="utf-8")


def say(home: Path, kind: str, folder: Path) -> Path:
    """Leave what a tool said, as a hook does."""
    said = home / FOLDER / f"{time.time_ns()}.raw"
    head = "\0".join(("claude-code", kind, "", str(folder)))
    said.write_text(f'{head}\n{{"session_id": "s3"}}', encoding="utf-8")
    return said


def test_installing_says_where_how_to_undo_it_and_what_is_next(bare: Call, home: Path) -> None:
    answer = bare("hook", "install", "claude-code")
    settings = home.parent / "person" / ".claude" / "settings.json"
    assert str(settings) in answer.out
    assert "undo with: turntree hook uninstall claude-code" in answer.err
    command = json.loads(settings.read_text(encoding="utf-8"))["hooks"]["Stop"][0]["hooks"][0]
    assert str(launcher_path(home)) in command["command"]
    again = bare("hook", "install", "claude-code")
    assert "nothing to change" in again.out
    assert bare("hook", "uninstall", "claude-code").code == 0
    assert not settings.exists()


@pytest.mark.parametrize("words", ["claude-code --judge", "codex --judge --trust"])
def test_uninstalling_a_judge_says_how_to_undo_it(bare: Call, home: Path, words: str) -> None:
    tool = words.split(maxsplit=1)[0]
    assert bare("hook", "install", *words.split()).code == 0
    answer = bare("hook", "uninstall", tool)
    assert answer.err == f"undo with: turntree hook install {words}\n"
    again = bare("hook", "uninstall", tool, "--judge")
    assert "does not ask the policy" in again.out


def test_installing_without_a_tool_installs_into_all_that_are_found(bare: Call, home: Path) -> None:
    person = home.parent / "person"
    (person / ".claude").mkdir()
    gemini = person / "bin" / "gemini"
    gemini.parent.mkdir()
    gemini.write_text("#!/bin/sh\n", encoding="utf-8")
    gemini.chmod(0o755)
    answer = bare("hook", "install")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        f"Claude Code tells Turntree what it does: {person}/.claude/settings.json",
        f"Gemini CLI tells Turntree what it does: {person}/.gemini/settings.json",
    ]
    assert answer.err == "undo with: turntree hook uninstall     next: turntree hook status\n"
    assert [one["tool"] for one in bare("hook", "install", "--json").documents] == [
        "claude-code", "gemini"
    ]  # fmt: skip
    assert "Gemini CLI tells Turntree nothing any more" in bare("hook", "uninstall").out
    assert not (person / ".gemini").exists(), "its folder was made for the hooks"
    assert bare("hook", "uninstall").out == "no hooks are installed\n"


def test_installing_where_no_tool_is_found_says_what_it_looked_for(bare: Call, home: Path) -> None:
    answer = bare("hook", "install")
    assert answer.code == 3
    assert "no coding agent found; looked for claude-code, codex, gemini, opencode" in answer.err
    assert "next: turntree hook install TOOL" in answer.err


def test_one_broken_settings_file_does_not_keep_the_other_tools_from_theirs(
    bare: Call, home: Path
) -> None:
    person = home.parent / "person"
    (person / ".claude").mkdir()
    (person / ".claude" / "settings.json").write_text("{bad", encoding="utf-8")
    (person / ".gemini").mkdir()
    answer = bare("hook", "install")
    assert answer.code == 1
    assert "settings.json was left alone" in answer.err
    assert (person / ".gemini" / "settings.json").exists()


def test_gemini_in_another_home_gets_its_hooks_there(
    bare: Call, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "other"))
    document = bare("hook", "install", "gemini", "--json").document
    assert document["path"] == str(tmp_path / "other" / ".gemini" / "settings.json")


def test_a_project_gets_hooks_of_its_own(
    bare: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path.cwd() / ".git").mkdir()
    deep = Path.cwd() / "deep"
    deep.mkdir()
    monkeypatch.chdir(deep)
    document = bare("hook", "install", "claude-code", "--project", "--json").document
    assert document["path"] == str(deep.parent / ".claude" / "settings.local.json")
    assert document["complete"]


def test_codex_waits_for_a_review_unless_told_otherwise(bare: Call, home: Path) -> None:
    assert "/hooks" in bare("hook", "install", "codex").err
    assert "wait for your review" in bare("hook", "status").out
    bare("hook", "install", "codex", "--trust")
    assert "your review" not in bare("hook", "status").out


def test_uninstalling_says_which_hooks_stay(bare: Call, home: Path) -> None:
    bare("hook", "install", "gemini", "--project")
    answer = bare("hook", "uninstall", "gemini")
    assert "those in this project stay" in answer.out
    assert "next: turntree hook uninstall gemini --project" in answer.err
    assert "nothing any more" in bare("hook", "uninstall", "gemini", "--project").out


def test_status_says_why_hooks_have_to_be_installed_again(bare: Call, home: Path) -> None:
    bare("hook", "install", "claude-code")
    launcher_path(home).unlink()
    answer = bare("hook", "status")
    assert f"what it calls is gone: {launcher_path(home)}" in answer.out
    assert "next: turntree hook install claude-code" in answer.err
    hooks = bare("doctor", "--json").documents[-1]
    assert (hooks["name"], hooks["verdict"]) == ("hooks", "warn")
    assert hooks["next"] == "turntree hook install claude-code"
    bare("hook", "install", "claude-code")
    assert "is gone" not in bare("hook", "status").out


def test_hooks_whose_python_is_gone_have_to_be_installed_again(bare: Call, home: Path) -> None:
    bare("hook", "install", "claude-code")
    launcher = launcher_path(home)
    text = launcher.read_text(encoding="utf-8").replace("python=", "python=/gone", 1)
    launcher.write_text(text, encoding="utf-8")
    hooks = bare("doctor", "--json").documents[-1]
    assert (hooks["verdict"], hooks["next"]) == ("warn", "turntree hook install claude-code")
    assert "the Python that it calls is gone: /gone/" in hooks["sentence"]
    bare("hook", "install", "claude-code")
    assert bare("doctor", "--json").documents[-1]["verdict"] == "ok"


def write_transcript(home: Path, hours_ago: float) -> None:
    """Write a transcript of Claude Code, as it is on the disk."""
    path = home.parent / "person" / ".claude" / "projects" / "-srv" / "s1.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"type":"user","sessionId":"s1","uuid":"u1"}\n', encoding="utf-8")
    set_time(path, hours_ago)


def set_time(path: Path, hours_ago: float) -> None:
    then = time.time() - hours_ago * 3600
    os.utime(path, (then, then))


def is_silent(bare: Call) -> bool:
    """Return whether status, doctor and hook status say that hooks do not report; they agree."""
    told = [
        "but its hooks" in bare("hook", "status").err,
        "but its hooks" in bare("status").err,
        "but its hooks" in bare("doctor", "--json").documents[-1]["sentence"],
        bool(bare("status", "--json").document["hooks"]["silent"]),
    ]
    assert len(set(told)) == 1
    return told[0]


@pytest.fixture
def embedded(bare: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line with an embedded server that does not run."""
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.delenv("TURNTREE_USER")
    return bare


def test_hooks_that_never_reported_are_noticed(embedded: Call, home: Path) -> None:
    embedded("hook", "install", "claude-code")
    set_time(launcher_path(home), 5)
    assert not is_silent(embedded), "the tool was not used"
    write_transcript(home, 6)
    assert not is_silent(embedded), "it was used before"
    write_transcript(home, 2)
    assert is_silent(embedded)
    answer = embedded("status")
    assert (
        "Claude Code wrote a transcript 2h ago, but its hooks never reported; installed 5h ago"
        in answer.err
    )
    assert "next: turntree hook install claude-code" in answer.err
    assert "hooks      claude-code" in answer.out
    embedded("hook", "install", "claude-code")
    assert not is_silent(embedded), "installed again, they have another chance"


def test_hooks_that_stopped_reporting_are_noticed(embedded: Call, home: Path) -> None:
    embedded("hook", "install", "claude-code")
    set_time(launcher_path(home), 90)
    said = {"session_id": "s1", "cwd": str(Path.cwd())}
    command = ["sh", str(launcher_path(home)), "claude-code", "begin"]
    subprocess.run(command, input=json.dumps(said), text=True, check=True)
    heard = home / FOLDER / "heard-claude-code"
    until = time.monotonic() + 20
    while not heard.exists() and time.monotonic() < until:
        time.sleep(0.02)
    embedded("down")
    write_transcript(home, 0)
    assert not is_silent(embedded)
    set_time(heard, 3)
    assert not is_silent(embedded), "a turn may take three hours"
    set_time(heard, 80)
    assert is_silent(embedded)
    assert "but its hooks reported last 3d ago" in embedded("doctor").out
    write_transcript(home, 24 * 9)
    assert not is_silent(embedded), "the tool is no longer used"


def test_settings_that_are_no_json_are_left_alone(bare: Call, home: Path) -> None:
    settings = home.parent / "person" / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{bad", encoding="utf-8")
    answer = bare("hook", "install", "claude-code")
    assert answer.code == 1
    assert f"{settings} was left alone: it is not plain JSON" in answer.err
    assert "put it right, and try again" in answer.err
    assert settings.read_text(encoding="utf-8") == "{bad"


def test_hint_of_the_status_installs_hooks_of_the_tools_that_are_here(
    bare: Call, home: Path, hints: HintRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = home.parent / "person"
    monkeypatch.setenv("HOME", str(person))
    (person / ".claude" / "projects").mkdir(parents=True)
    status = bare("hook", "status")
    hints.follow_in_shell(status, "turntree hook install")
    assert any(hook["installed"] for hook in bare("hook", "status", "--json").document["hooks"])


def test_status_shows_what_waits_and_what_went_wrong(bare: Call, home: Path) -> None:
    assert "install claude-code" in bare("hook", "status").err
    leave(home, "begin", 1000)
    leave(home, "end", 2000)
    failed = bare("hook", "sync")
    assert failed.code == 5
    assert "2 sightings wait, and nothing is lost" in failed.err
    assert bare("hook", "sync", "--quietly").code == 0
    document = bare("hook", "status", "--json").document
    assert document["waiting"] == 2
    assert "sync" in document["error"]
    assert {hook["installed"] for hook in document["hooks"]} == {False}
    assert "2 sightings wait" in bare("hook", "status").out


@pytest.mark.usefixtures("attendant")
@pytest.mark.usefixtures("turntree")
def test_a_command_waits_for_a_turn_that_has_just_ended_and_says_so(home: Path) -> None:
    # As if it ended in a moment: starting a command takes long on a busy machine.
    ended_ms = time.time_ns() // 1_000_000 + 60_000
    leave(home, "end", ended_ms, place=Path.cwd())
    told = home / FOLDER / f"{ended_ms:020d}-1.event"
    with subprocess.Popen(
        [sys.executable, "-m", "turntree", "session", "list"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as listing:  # fmt: skip
        assert listing.stderr is not None
        said = listing.stderr.readline()
        assert said == "waiting for what your agent just did to be recorded …\n"
        assert listing.poll() is None, "it waits until the turn is recorded"
        told.unlink()
        recorded = time.monotonic()
        assert listing.wait(timeout=60) == 0
        assert time.monotonic() - recorded < WAIT_MAX_S - SILENCE_MAX_S, "and no longer"


@pytest.mark.usefixtures("attendant")
@pytest.mark.parametrize(
    "command", [("status",), ("doctor",), ("hook", "status"), ("token", "list")]
)
def test_what_reads_no_session_waits_for_nobody(
    turntree: Call, home: Path, command: tuple[str, ...]
) -> None:
    ended_ms = time.time_ns() // 1_000_000
    leave(home, "end", ended_ms, place=Path.cwd())
    assert "waiting" not in turntree(*command).err
    # The hint to record again would wait for a snapshot that this attendant never takes.
    (home / FOLDER / f"{ended_ms:020d}-1.event").unlink()


@pytest.mark.usefixtures("attendant")
def test_nobody_waits_where_the_database_does_not_answer(bare: Call, home: Path) -> None:
    leave(home, "end", time.time_ns() // 1_000_000, place=Path.cwd())
    answer = bare("session", "list")
    assert answer.code == 5
    assert "waiting" not in answer.err


@pytest.mark.usefixtures("attendant")
def test_nobody_waits_for_a_turn_that_is_being_taken_nor_for_what_ended_long_ago(
    home: Path,
) -> None:
    now_ms = time.time_ns() // 1_000_000
    leave(home, "begin", now_ms)
    leave(home, "end", now_ms - 60_000)
    leave(home, "end", now_ms - 1, agent="a1")
    spool = Spool(home / FOLDER)
    assert not is_coming(spool, Path.cwd(), SystemClock().now())
    leave(home, "end", now_ms + 1, "s2")
    assert is_coming(spool, Path.cwd(), SystemClock().now())


@pytest.mark.usefixtures("attendant")
def test_nobody_waits_for_a_turn_of_another_workspace(home: Path, tmp_path: Path) -> None:
    spool, now = Spool(home / FOLDER), SystemClock().now()
    leave(home, "end", unix_ms(now), place=tmp_path / "elsewhere")
    say(home, "end", tmp_path / "elsewhere")
    assert not is_coming(spool, Path.cwd(), now)
    below = Path.cwd() / "below"
    below.mkdir()
    leave(home, "end", unix_ms(now) + 1, place=Path.cwd())
    assert is_coming(spool, below, now)


def test_nobody_waits_where_nobody_brings_a_turn_in(home: Path) -> None:
    spool, now = Spool(home / FOLDER), SystemClock().now()
    leave(home, "end", unix_ms(now), place=Path.cwd())
    assert not is_coming(spool, Path.cwd(), now)
    said = say(home, "end", Path.cwd())
    assert is_coming(spool, Path.cwd(), now), "the attendant is being started"
    then = time.time() - 2
    os.utime(said, (then, then))
    assert not is_coming(spool, Path.cwd(), now)


def test_what_waited_is_read_when_the_database_is_back(turntree: Call, home: Path) -> None:
    leave(home, "session", 1000)
    answer = turntree("hook", "sync")
    assert answer.out == "1 sighting read, 0 turns added, 0 pinned; 0 sightings wait\n"
    assert "claude-code/there/s1" in turntree("session", "list").out
    last = turntree("hook", "status", "--json").document["last"]
    assert (last["tool"], last["kind"]) == ("claude-code", "session")
    assert turntree("hook", "sync", "--json").document["read"] == 0


def test_on_reads_what_waited_too(turntree: Call, home: Path) -> None:
    leave(home, "session", 1000, "s2")
    turntree("on", "--no-import", "--no-hooks")
    assert "claude-code/there/s2" in turntree("session", "list").out
