"""Reports of real agents, judged by the shipped policy as the hook daemon does it."""

import json
from pathlib import Path
from typing import Any

import pytest

from turntree.cli.hook_process.daemon import take_left
from turntree.hooks.judge_files import JudgeFiles
from turntree.hooks.spool import Spool

WAITS_S = 60


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("project/.git", "project/sub", "other", "home/spool", "home/judge"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "project"


def judge(work: Path, tool: str, **told: Any) -> dict[str, Any] | None:
    """Return what the daemon answers to a report of a hook that runs in ``work``.

    None leaves the call to the tool's own rules.
    """
    spool = Spool(work.parent / "home/spool")
    report = spool.folder / "ask-1.raw"
    folder = str(work) if tool == "claude-code" else ""
    head = "\0".join((tool, "judge", folder, str(work), "sdk-cli", str(WAITS_S)))
    said = {"session_id": "s1", "cwd": str(work), "tool_use_id": "c1", **told}
    report.write_text(f"{head}\n{json.dumps(said)}", encoding="utf-8")
    take_left(spool)
    answer = report.with_suffix(".answer")
    bound, _, text = answer.read_text(encoding="utf-8").partition("\n")
    answer.unlink()
    assert bound == report.stem
    document: dict[str, Any] | None = json.loads(text)["hookSpecificOutput"] if text else None
    return document


def run(work: Path, tool: str, line: str, **told: Any) -> str:
    """Return the word for a line of the shell; a call of Codex that is let be has none."""
    found = judge(work, tool, tool_name="Bash", tool_input={"command": line}, **told)
    return "allow" if found is None else str(found["permissionDecision"])


@pytest.mark.parametrize("tool", ["claude-code", "codex"])
@pytest.mark.parametrize(
    "line",
    [
        # To approve its own request.
        "turntree approve --yes", "env -u CLAUDECODE turntree approve",
        "CLAUDECODE= turntree approve", "env -i turntree approve",
        "unset CLAUDECODE; turntree approve", "python3 -m turntree approve",
        "curl http://127.0.0.1:4000/", "echo '{}' > {home}/judge/decided/x.json",
        "echo '{}' > ../home/judge/decided/x.json", "cp a.json up/home/judge/decided/x.json",
        # To decide by another policy, or by none.
        "turntree policy activate 1", "cp a.json {home}/judge/policy.json",
        "rm -r ../home/judge", "cd .. && rm -r home", "TURNTREE_HOME=. turntree approve",
        "chmod 666 ../home/judge/policy.json",
        # To switch the judge off, or to make it late.
        "turntree hook uninstall claude-code --judge", "echo '{}' > ~/.claude/settings.json",
        "cp a.json .claude/settings.local.json", "sed -i s/a/b/ ~/.codex/config.toml",
        "echo x > .CLAUDE/settings.json", "pkill -f attend", "kill -STOP 1",
        "rm ../home/turntree-hook",
        # To have another agent do it.
        "claude -p x --dangerously-skip-permissions", "codex exec x", "crontab a",
        "echo x > .mcp.json",
    ],
)  # fmt: skip
def test_shipped_policy_lets_no_agent_decide_about_itself(work: Path, tool: str, line: str) -> None:
    (work / "up").symlink_to(work.parent)
    said = line.replace("{home}", str(work.parent / "home"))
    assert run(work, tool, said) == "deny"
    (_, request), *more = JudgeFiles(work.parent / "home").list_requests()
    assert not more
    assert request["args"] == {"command": said}


@pytest.mark.parametrize(
    "path",
    ["{home}/judge/decided/x.json", "../home/judge/policy.json", "up/home/judge/policy.json",
     "~/.claude/settings.json", ".claude/settings.json", ".mcp.json"],
)  # fmt: skip
def test_shipped_policy_lets_no_agent_write_its_own_settings(work: Path, path: str) -> None:
    (work / "up").symlink_to(work.parent)
    told = {"file_path": path.replace("{home}", str(work.parent / "home")), "content": "{}"}
    found = judge(work, "claude-code", tool_name="Write", tool_input=told)
    assert found is not None
    assert found["permissionDecision"] == "deny"


def test_codex_call_in_a_folder_of_the_project_is_let_be(work: Path) -> None:
    assert run(work, "codex", "cat a.txt", cwd=str(work / "sub")) == "allow"


def test_codex_call_whose_model_chose_a_folder_outside_asks(work: Path) -> None:
    # So Codex 0.166 reports ``workdir``: the folder is the call's, and the hook runs in the turn's.
    assert run(work, "codex", "cat a.txt", cwd=str(work.parent / "other")) == "deny"
    ((_, request),) = JudgeFiles(work.parent / "home").list_requests()
    assert request["folder"] == str(work)
    assert request["reason"].startswith(f"it leaves the folder: {work.parent / 'other'}")
