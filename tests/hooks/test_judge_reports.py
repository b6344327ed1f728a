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


def test_codex_call_in_a_folder_of_the_project_is_let_be(work: Path) -> None:
    assert run(work, "codex", "cat a.txt", cwd=str(work / "sub")) == "allow"


def test_codex_call_whose_model_chose_a_folder_outside_asks(work: Path) -> None:
    # So Codex 0.166 reports ``workdir``: the folder is the call's, and the hook runs in the turn's.
    assert run(work, "codex", "cat a.txt", cwd=str(work.parent / "other")) == "deny"
    ((_, request),) = JudgeFiles(work.parent / "home").list_requests()
    assert request["folder"] == str(work)
    assert request["reason"].startswith(f"it leaves the folder: {work.parent / 'other'}")
