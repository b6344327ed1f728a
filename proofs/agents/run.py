"""Run real agents, each on a stage of its own, and return what each of them did.

Knows all scenes and programs. Must never know what becomes of the histories.
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from proofs.agents import claude, codex, gemini, opencode
from proofs.agents.deeds import Deeds, Scene, Story, deeds_of
from proofs.agents.programs import Program, say
from proofs.agents.stage import AgentFailed, Stage
from turntree.testing.scripted.server import Failure, ScriptedModel

SCENES: dict[str, Scene] = {
    scene.agent: scene for scene in (claude.SCENE, codex.SCENE, opencode.SCENE, gemini.SCENE)
}
VERSION_TIMEOUT_S = 60


def run_agent(
    program: Program, folder: Path, play: Callable[[Stage, Story], None] | None = None
) -> Deeds:
    """Have one agent play its scene, or another one, in a folder that is emptied first.

    Beside the agent's home and work, the folder gets ``requests.jsonl``, which is the model's log,
    and ``deeds.json``, which is what is returned. When this returns or raises, no process of
    the agent is left.

    Raises:
        NotInstalled: The program is not there and could not be brought.
        AgentFailed: It did not play its scene to the end.
    """
    scene = SCENES[program.name]
    path = program.ensure()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ScriptedModel(rules=scene.rules, log=folder / "requests.jsonl") as model:
        stage = Stage(path, folder, model, scene.settings(model.url))
        stage.set_up()
        story = Story()
        try:
            scene.prepare(stage)
            version = stage.run("--version", timeout_s=VERSION_TIMEOUT_S).strip()
            say(f"running {program.name} {version} ...")
            started = time.monotonic()
            (play or scene.play)(stage, story)
            seconds = time.monotonic() - started
            _check_answers(stage)
        finally:
            left = stage.end_all()
        deeds = deeds_of(scene, stage, story, version, seconds, left)
    document = json.dumps(asdict(deeds), indent=1, default=str)
    (folder / "deeds.json").write_text(document + "\n", encoding="utf-8")
    return deeds


def _check_answers(stage: Stage) -> None:
    """A request that the script did not foresee would make every figure a guess."""
    answers = [one.answer for one in stage.model.exchanges]
    failures = [answer.message for answer in answers if isinstance(answer, Failure)]
    if failures:
        raise AgentFailed(f"{len(failures)} requests were not foreseen: {failures[0]}")
