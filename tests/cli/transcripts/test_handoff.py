"""``checkout``, ``resume`` and the formats of ``export``."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import psycopg
import pytest

from tests.cli.conftest import Call, forging
from tests.cli.project import Project
from turntree.api import Tree
from turntree.boot.open import Settings, load_exporters, open_tree
from turntree.core.message import Message, Text, assistant, user
from turntree.core.session import Origin

COMMAND = "from turntree.cli.main import main; main()"
STAND_IN = '#!/bin/sh\necho "started in $PWD with $*"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which no tool has ever worked, and a path with no tool on it."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path / "home"


def record(conninfo: str, origin: Origin | None) -> None:
    async def act(tree: Tree) -> None:
        await tree.sessions.create("mine", origin=origin)
        system = Message("system", (Text("Be brief."),))
        await tree.turns.record("mine", [system, user("Hello?")], [assistant("Hello.")])

    async def opened() -> None:
        settings = Settings(Path(), conninfo, workspace="tests", user="ana")
        async with open_tree(settings) as tree:
            await act(tree)

    anyio.run(opened)


def test_every_exporter_goes_by_its_own_name() -> None:
    found = load_exporters()
    assert sorted(found) == ["claude-code", "codex", "gemini", "opencode"]


def test_a_checkout_is_a_new_file_and_says_how_to_go_on(planted: Call, home: Path) -> None:
    answer = planted("handoff", "demo/fix-login", "--to", "claude-code")
    assert answer.code == 0
    (file,) = (home / ".claude/projects").glob("*/*.jsonl")
    assert f"next: claude --resume {file.stem}" in answer.err
    assert f"rm {file}" in answer.err
    assert "is a session of claude-code now" in answer.out
    planted("handoff", "demo/fix-login", "--to", "claude-code")
    assert len(list((home / ".claude/projects").glob("*/*.jsonl"))) == 2


@pytest.mark.parametrize("flat", [(), ("--flatten",)])
def test_what_is_added_to_a_checkout_follows_its_turn(
    planted: Call, home: Path, flat: tuple[str, ...]
) -> None:
    made = planted("handoff", "demo/fix-login~2", "--to", "claude-code", "--json", *flat).document
    (file,) = (Path(path) for path in made["files"])
    last = json.loads(file.read_text().splitlines()[-2])["uuid"]
    answer = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "Onward."}]}
    frame = {"sessionId": made["session"], "timestamp": "2026-11-15T09:31:00.000Z"}
    asked = {"type": "user", "uuid": "q", "message": {"role": "user", "content": "And now?"}}
    with file.open("a") as added:
        for line in (
            {**frame, **asked, "parentUuid": last},
            {**frame, "type": "assistant", "uuid": "a", "parentUuid": "q", "message": answer},
        ):
            added.write(f"{json.dumps(line)}\n")
    before = planted("log", "--all", "--json").documents
    assert planted("import", "--json").document["turns_added"] == 1
    after = planted("log", "--all", "--json").documents
    (came,) = [turn for turn in after if turn not in before]
    assert came["parent"] == made["turn"]
    assert planted("fsck").code == 0


def test_a_checkout_that_cannot_be_noted_is_there_all_the_same(
    planted: Call, home: Path, tmp_path: Path
) -> None:
    with psycopg.connect(forging(), autocommit=True) as owner:
        owner.execute("REVOKE INSERT ON turntree.handoffs FROM turntree_app")
    answer = planted("handoff", "demo/fix-login", "--to", "claude-code")
    assert answer.code == 0
    assert "its origin was not recorded" in answer.err
    assert len(list((home / ".claude/projects").glob("*/*.jsonl"))) == 1


@pytest.mark.parametrize("tool", ["claude-code", "codex", "gemini", "opencode"])
def test_every_tool_gets_the_calls_of_the_thread(planted: Call, home: Path, tool: str) -> None:
    made = planted("handoff", "demo/fix-login~6", "--to", tool, "--json").document
    assert made["tool"] == tool
    assert made["tool_calls"] == 2
    (path,) = made["files"]
    text = Path(path).read_text(encoding="utf-8")
    assert text.count("fs_read") >= 1
    assert "7 matches" in text
    assert made["session"] in made["next"] or path in made["next"]


def test_a_flat_session_has_words_for_calls(planted: Call, home: Path) -> None:
    made = planted(
        "handoff", "demo/fix-login~6", "--to", "codex", "--flatten", "--json"
    ).document  # fmt: skip
    text = Path(made["files"][0]).read_text(encoding="utf-8")
    assert made["tool_calls"] == 0
    assert "function_call" not in text
    assert "[tool call: fs.read" in text


def test_a_checkout_reads_what_a_context_reads(planted: Call, home: Path) -> None:
    thread = planted("log", "demo/fix-login", "--json").documents
    assert "compaction" in [turn["kind"] for turn in thread]
    made = planted("handoff", "demo/fix-login", "--to", "claude-code", "--json").document
    text = Path(made["files"][0]).read_text(encoding="utf-8")
    assert '"isCompactSummary":true' in text
    assert "Why does login drop the query string?" not in text


def test_a_transcript_is_only_a_cache_of_its_thread(planted: Call, home: Path) -> None:
    def write() -> tuple[Path, list[tuple[str, str]]]:
        made = planted("handoff", "demo/fix-login", "--to", "claude-code", "--json").document
        (file,) = map(Path, made["files"])
        said = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return file, [
            (one["type"], json.dumps(one["message"]["content"], sort_keys=True))
            for one in said
            if "message" in one
        ]

    log = planted("log", "demo/fix-login", "--json").out
    file, first = write()
    head = json.loads(log.splitlines()[0])["id"]
    (noted,) = planted(
        "sql", "--json", "--whole",
        f"SELECT data FROM history('{head}') WHERE kind = 'snapshot_materialized'",  # noqa: S608
    ).documents  # fmt: skip
    assert noted["data"]["tool"] == "claude-code"
    assert noted["data"]["tool_session_id"] == file.stem
    file.unlink()
    assert planted("log", "demo/fix-login", "--json").out == log
    assert planted("fsck").code == 0
    _, again = write()
    assert [kind for kind, _ in again] == [kind for kind, _ in first]
    assert again == first


def test_another_folder_is_worked_in_when_asked(planted: Call, home: Path, tmp_path: Path) -> None:
    there = tmp_path / "else where"
    there.mkdir()
    made = planted(
        "handoff", "HEAD", "--to", "claude-code", "--into", str(there), "--json"
    ).document  # fmt: skip
    assert made["next"].startswith(f"cd '{there}' && claude --resume")
    assert "else-where" in made["files"][0]


def test_without_a_tool_the_origin_is_asked(turntree: Call, conninfo: str, home: Path) -> None:
    record(conninfo, Origin("codex", "abc"))
    made = turntree("handoff", "mine", "--json").document
    assert made["tool"] == "codex"
    assert "Be brief." not in Path(made["files"][0]).read_text(encoding="utf-8")
    turntree("fork", "mine", "branch")
    assert turntree("handoff", "branch", "--json").document["tool"] == "codex"


def test_without_an_origin_a_tool_has_to_be_named(
    turntree: Call, conninfo: str, home: Path
) -> None:
    record(conninfo, None)
    answer = turntree("handoff", "mine")
    assert answer.code == 2
    assert "claude-code, codex, gemini, opencode" in answer.err
    assert turntree("handoff", "mine", "--to", "paper").code == 2
    made = turntree("handoff", "mine", "--to", "codex", "--json").document
    assert "Be brief." in Path(made["files"][0]).read_text(encoding="utf-8")


def test_resume_says_what_to_install(planted: Call, home: Path) -> None:
    answer = planted("handoff", "--open", "HEAD", "--to", "claude-code")
    assert answer.code == 1
    assert "claude is not on the PATH; get it with: npm install" in answer.err
    assert "next: turntree handoff HEAD --to claude-code" in answer.err
    assert not (home / ".claude").exists(), "nothing was written that cannot be opened"


@pytest.mark.parametrize("tool", ["claude-code", "codex", "gemini", "opencode"])
def test_the_undo_of_a_handoff_leaves_no_folder(planted: Call, home: Path, tool: str) -> None:
    home.mkdir()
    (undo,) = [
        line.partition("     next:")[0].removeprefix("undo with: ")
        for line in planted("handoff", "demo/fix-login", "--to", tool).err.splitlines()
        if line.startswith("undo with: ")
    ]
    subprocess.run(["sh", "-c", undo], check=True)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("tool", ["claude-code", "codex"])
def test_a_handoff_that_was_not_opened_becomes_no_session(
    planted: Call, home: Path, tool: str
) -> None:
    before = planted("session", "list", "--json").out
    planted("handoff", "demo/fix-login", "--to", tool)
    done = planted("import", "--json").document
    assert (done["bundles_read"], done["turns_added"], done["sessions_begun"]) == (1, 0, 0)
    assert planted("session", "list", "--json").out == before


def test_a_handoff_is_no_sign_of_silent_hooks(
    planted: Call, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "ours"
    monkeypatch.setenv("TURNTREE_HOME", str(ours))
    planted("handoff", "demo/fix-login", "--to", "claude-code")
    assert not ours.exists(), "without hooks there is nothing to note"
    planted("hook", "install", "claude-code")
    os.utime(ours / "turntree-hook", (1, 1))
    assert len(planted("status", "--json").document["hooks"]["silent"]) == 1
    planted("handoff", "demo/fix-login", "--to", "claude-code")
    assert planted("status", "--json").document["hooks"]["silent"] == []


def test_a_handoff_that_cannot_be_written_leaves_no_worktree(
    project: Project, turntree: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.turn("Write it.", {"main.py": "1\n"})
    sessions = turntree("session", "list", "--json").out
    # A file where a folder of the tool should be.
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "codex").write_text("not a folder", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    answer = turntree("handoff", "main", "--to", "codex", "--files")
    assert answer.code == 1
    assert "cannot be written" in answer.err
    assert sorted(tmp_path.iterdir()) == before
    assert turntree("session", "list", "--json").out == sessions


@pytest.mark.slow
def test_resume_starts_the_tool_where_the_work_is(
    planted: Call, home: Path, tmp_path: Path
) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("claude", "opencode"):
        (bin / name).write_text(STAND_IN)
        (bin / name).chmod(stat.S_IRWXU)
    environ = {
        **os.environ,
        "PATH": f"{bin}:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    words = [sys.executable, "-c", COMMAND, "handoff", "--open", "HEAD", "--to"]
    started = {
        name: subprocess.run(
            [*words, name], env=environ, capture_output=True, text=True, check=True
        )
        for name in ("claude-code", "opencode")
    }
    assert started["claude-code"].stdout.startswith(f"started in {Path.cwd()} with --resume ")
    first, second = started["opencode"].stdout.splitlines()
    assert "with import /" in first
    assert "with --session ses_" in second


def test_an_export_can_be_read_by_people(reader: Call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert reader("export", "HEAD", "--format", "html", "-o", str(page)).err == "7 turns written\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert reader("export", "HEAD", "--format", "md").out.startswith("# Why does login drop")


def test_an_export_can_be_sent_to_a_model(reader: Call) -> None:
    chat = json.loads(reader("export", "HEAD~6", "--format", "openai").out)
    assert [said["role"] for said in chat][:3] == ["user", "assistant", "tool"]
    document = reader("export", "HEAD~6", "--format", "anthropic").document
    assert document["messages"][1]["content"][0]["name"] == "fs_read"


def test_only_jsonl_holds_everything(reader: Call) -> None:
    assert reader("export", "--all", "--format", "md").code == 2
    assert reader("export", "--all").code == 0
