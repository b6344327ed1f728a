"""Real agents on a stage: they run, they are ended, and the model knows what they were told."""

import json
import time
from pathlib import Path

import pytest

from proofs.agents.deeds import Story
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, npm
from proofs.agents.run import run_agent
from proofs.agents.stage import AgentFailed, Stage
from turntree.testing.scripted.server import ScriptedModel

CLAUDE = next(program for program in PROGRAMS if program.name == "claude")


def shell(model: ScriptedModel, folder: Path) -> Stage:
    stage = Stage(Path("/bin/sh"), folder, model)
    stage.set_up()
    return stage


def test_a_program_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        stage = shell(model, tmp_path)
        started = time.monotonic()
        with pytest.raises(AgentFailed, match="did not end"):
            stage.run("-c", "sleep 60 & sleep 60", timeout_s=0.3)
        assert time.monotonic() - started < 30
        assert stage.end_all() == 0


def test_what_leaves_its_group_is_found_by_its_mark(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        stage = shell(model, tmp_path)
        stage.run("-c", "setsid sleep 60 > /dev/null 2>&1 & sleep 0.2")
        assert len(stage.running()) == 1
        assert stage.end_all(patience_s=0) == 1
        until = time.monotonic() + 30
        while stage.running() and time.monotonic() < until:
            time.sleep(0.01)
        assert stage.running() == []


def test_a_program_sees_a_home_and_a_proxy_of_its_own(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        stage = shell(model, tmp_path)
        printed = stage.run("-c", 'echo "$HOME" "$HTTPS_PROXY" "$PWD"').split()
        assert printed == [str(tmp_path / "home"), model.url, str(tmp_path / "work")]


def test_a_program_that_fails_says_how(tmp_path: Path) -> None:
    with ScriptedModel() as model, pytest.raises(AgentFailed, match=r"ended with 3.*oh no"):
        shell(model, tmp_path).run("-c", "echo oh no >&2; exit 3")


def test_what_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    absent = Program("absent", npm("no-such-package", "no-such-command"), required=False)
    with pytest.raises(NotInstalled, match="needs npm"):
        absent.ensure()


@pytest.mark.slow
def test_claude_code_runs_against_the_scripted_model(tmp_path: Path) -> None:
    def one_prompt(stage: Stage, story: Story) -> None:
        words = ("--output-format", "json", "--allowedTools", "Bash")
        result = json.loads(stage.run("-p", "LOOK at two things.", *words))
        assert result["result"] == "Both are fine."
        story.add("prompt", result["session_id"], None, "LOOK at two things.")

    deeds = run_agent(CLAUDE, tmp_path / "claude", one_prompt)
    (transcript,) = (deeds.history / "projects").glob(f"*/{deeds.steps[0].session}.jsonl")
    written = transcript.read_text(encoding="utf-8")
    assert [call.arguments["command"] for call in deeds.tool_calls] == ["echo one", "echo two"]
    assert all(call.id in written for call in deeds.tool_calls)
    assert all(call.id in written for call in deeds.model_calls)
    assert deeds.left_running == 0
    log = (tmp_path / "claude" / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    bodies = [json.loads(line)["body"] for line in log if json.loads(line)["dialect"]]
    assert "LOOK at two things." in json.dumps(bodies[0]["messages"])
    # What the tools returned went back to the model.
    assert deeds.tool_calls[0].id in json.dumps(bodies[-1]["messages"])
