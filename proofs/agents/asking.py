"""A real agent that asks the past: it finds a decision by our MCP server and forks there.

The server is added by ``turntree mcp install`` in a home that has nothing else, and the agent
starts it. The model is a script, so what it asks is known; which turn it forks from is what the
answer to its search cites first.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from proofs.agents import codex
from proofs.agents.programs import Program
from proofs.agents.run import SCENES
from proofs.agents.stage import AgentFailed, Stage
from turntree.testing.scripted.server import Call, MatchedRule, Reply, Rule, ScriptedModel

PROMPT = "RECALL what was decided, and begin there."
SERVER = "mcp__turntree"
CITED = r"\[([0-9a-f]{12})\]"
COMMAND = "from turntree.cli.main import main; main()"


@dataclass(frozen=True, slots=True)
class Asking:
    """How long an agent took, and how many processes it left behind."""

    seconds: float
    left_running: int


def ask_past(
    program: Program, folder: Path, settings: Mapping[str, str], query: str, label: str
) -> Asking:
    """Have an agent search for something and fork, under a label, where it stands.

    ``settings`` are those of the ledger.

    Raises:
        NotInstalled, AgentFailed: It could not be done.
    """
    scene, path = SCENES[program.name], program.ensure()
    forked = {"turn": MatchedRule(CITED), "label": label}
    rules = [
        Rule(
            (
                LOOKS[program.name],
                Reply("Let me ask.", (_call(program, "search", {"query": query}),)),
                Reply("There.", (_call(program, "fork", forked),)),
                Reply("I begin there."),
            ),
            prompt="RECALL",
        ),
        Rule((Reply("Scripted"),)),
    ]
    with ScriptedModel(rules=rules) as model:
        # Claude Code's own wait is short, and a loaded machine starts a server slowly.
        waits = {"MCP_CONNECTION_NONBLOCKING": "false"}
        stage = Stage(path, folder, model, {**scene.settings(model.url), **waits})
        stage.set_up()
        scene.prepare(stage)
        try:
            for name, value in settings.items():
                _turntree(stage, "config", "set", name, value)
            _turntree(stage, "mcp", "install", CLIENTS[program.name])
            began = time.monotonic()
            ASK[program.name](stage)
            seconds = time.monotonic() - began
        finally:
            left = stage.end_all()
    return Asking(seconds, left)


def _call(program: Program, tool: str, arguments: Mapping[str, object]) -> Call:
    if program.name == "codex":
        return Call(tool, arguments, namespace=SERVER)
    return Call(f"{SERVER}__{tool}", arguments)


def _turntree(stage: Stage, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        cwd=stage.work,
        env={**stage.environment(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AgentFailed(f"turntree {words} ended with {done.returncode}: {done.stderr}")


def _ask_claude(stage: Stage) -> None:
    allowed = f"{SERVER}__search,{SERVER}__fork"
    stage.run("-p", PROMPT, "--output-format", "json", "--allowedTools", allowed)


def _ask_codex(stage: Stage) -> None:
    codex.run(stage, PROMPT)


CLIENTS = {"claude": "claude-code", "codex": "codex"}
ASK: Mapping[str, Callable[[Stage], None]] = {"claude": _ask_claude, "codex": _ask_codex}
# An agent asks the model at once, while its servers start, and offers their tools later. Looking
# for what a server has waits for it.
LOOKS: Mapping[str, Reply] = {
    "claude": Reply(
        "What can I ask?",
        (Call("ToolSearch", {"query": f"select:{SERVER}__search,{SERVER}__fork"}),),
    ),
    "codex": Reply("What can I ask?", (Call("list_mcp_resources", {"server": "turntree"}),)),
}
