"""The claim: an agent that tells Turntree what it does hardly waits, and never for a database.

Hooks are installed by ``turntree hook install`` and called as an agent calls them, in a small
workspace and in one of 5,000 files that change in between: at the 95th percentile an agent waits
at most 150 ms. Then real Claude Code and real Codex take turns that change files, once while the
database runs and once while it is down: both end alike, and when the database is back, everything
is recorded and pinned, in the very same states.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

import turntree
from proofs.agents.claude import TOOLS as CLAUDE_TOOLS
from proofs.agents.codex import OPTIONS as CODEX_OPTIONS
from proofs.agents.editing import EDITING, PROMPTS
from proofs.agents.hooked import TOOLS, Hooked, hooked
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, say
from proofs.agents.stage import Stage
from proofs.figures import DURABLE, Proof, run, temporary_server
from turntree.core.message import Message
from turntree.db.embedded.server import EmbeddedServer
from turntree.system.clock import SystemClock
from turntree.testing.scripted.script import Reply, Rule
from turntree.testing.scripted.server import ScriptedModel

WAIT_MAX_MS = 150
FILES = 5_000
CALM_STARTS = 20
CALM_MAX_MS = 60
CALM_TIMEOUT_S = 90
CALM_QUICK_TIMEOUT_S = 30
PAUSE_S = 0.2
"""Before each piece of a model's first answer; there are about ten of them."""
KINDS = ("session", "begin", "end", "begin", "end", "begin", "end", "close")
EVENTS = {
    "session": "SessionStart", "begin": "UserPromptSubmit", "end": "Stop", "close": "SessionEnd",
}  # fmt: skip
"""A session of three turns, by the names that Claude Code has for it."""


async def prove(proof: Proof) -> None:
    """Measure, then have agents work with and without a database."""
    with tempfile.TemporaryDirectory(prefix="turntree-hooks-") as place:
        folder = _stand(Path(place))
        if proof.begins("wait"):
            with temporary_server() as (server, _):
                await asyncio.to_thread(prove_wait, proof, folder / "wait", server)
        for program in PROGRAMS:
            if program.name in EDITING and proof.begins(f"agents {program.name}"):
                await asyncio.to_thread(prove_down, proof, program, folder / program.name)
                if not proof.quick:
                    shipped = folder / f"{program.name}-shipped"
                    await asyncio.to_thread(prove_shipped, proof, program, shipped)


def _stand(folder: Path) -> Path:
    """Make a folder that the server's account can pass through."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    return folder


def prove_wait(proof: Proof, folder: Path, server: str) -> None:
    """Call the hooks as an agent does, and show how long it waits."""
    sessions, calm_s = (3, CALM_QUICK_TIMEOUT_S) if proof.quick else (40, CALM_TIMEOUT_S)
    with ScriptedModel(rules=[]) as model:
        stage = Stage(Path("/bin/true"), folder, model)
        stage.set_up()
        told = hooked(stage, server, "wait", {})
        told.call("hook", "install", "claude-code")
        settings = json.loads((stage.home / ".claude/settings.json").read_text(encoding="utf-8"))
        for name, files in (("small", 20), ("large", FILES)):
            place = folder / name
            _plant(place, files)
            proof.note(f"a bare Python, {name}, median", wait_for_calm(calm_s), "ms")
            waits = [
                wait
                for number in range(sessions)
                for wait in _session(told, settings, place, f"{name}-{number}")
            ]
            _show_waits(proof, name, waits)
        told.stage.end_all()


def wait_for_calm(timeout_s: float) -> float:
    """Return how long starting Python takes, once the machine is not busy with somebody else.

    What an agent waits on a machine where nothing starts in time says nothing about hooks.
    """
    until = time.monotonic() + timeout_s
    while True:
        took: list[float] = []
        for _ in range(CALM_STARTS):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", ""], check=True)
            took.append((time.perf_counter() - started) * 1000)
        if max(took) < CALM_MAX_MS or time.monotonic() > until:
            return statistics.median(took)
        time.sleep(1)


def _plant(place: Path, files: int) -> None:
    for number in range(files):
        path = place / f"folder-{number // 100}" / f"file-{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number}\n" * (number % 40), encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", place], check=True)


def _session(told: Hooked, settings: dict[str, Any], place: Path, name: str) -> list[float]:
    """Play one session of an agent and return how long each hook took, in milliseconds."""
    transcript = told.stage.home / ".claude/projects/-work" / f"{name}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    said = json.dumps({
        "session_id": name, "cwd": str(place), "transcript_path": str(transcript),
    })  # fmt: skip
    environment = told.stage.environment()
    waits: list[float] = []
    for number, kind in enumerate(KINDS):
        if kind == "end":
            # What ended is written down, as agents do: a reader of the spool would wait for it.
            _write_turn(transcript, name, number)
        command = settings["hooks"][EVENTS[kind]][0]["hooks"][0]["command"]
        started = time.perf_counter()
        done = subprocess.run(
            ["sh", "-c", command], input=said.encode(), capture_output=True, env=environment,
            cwd=place, check=False,
        )  # fmt: skip
        waits.append((time.perf_counter() - started) * 1000)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
        _work(place, number)
        # An agent that has ended its turn waits for a person, and not with both processors busy.
        _wait_for_readers(told)
    return waits


def _write_turn(transcript: Path, session: str, number: int) -> None:
    """Write a turn down as Claude Code does."""
    frame = {"sessionId": session, "isSidechain": False, "timestamp": SystemClock().now()}
    asked = {"role": "user", "content": f"Change number {number}."}
    answer = {
        "id": f"msg_{session}_{number}", "role": "assistant", "model": "scripted-1",
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }  # fmt: skip
    after = None if number < len(("session", "begin", "end")) else f"a-{number - 2}"
    records = (
        {**frame, "type": "user", "uuid": f"q-{number}", "parentUuid": after, "message": asked},
        {**frame, "type": "assistant", "uuid": f"a-{number}", "parentUuid": f"q-{number}",
         "message": answer},
    )  # fmt: skip
    with transcript.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def _work(place: Path, number: int) -> None:
    path = place / f"folder-{number % 2}" / "changed.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{number} {time.monotonic_ns()}\n", encoding="utf-8")


def _wait_for_readers(told: Hooked) -> None:
    until = time.monotonic() + 30
    while told.unfinished() and time.monotonic() < until:
        time.sleep(0.02)


def _show_waits(proof: Proof, name: str, waits: Sequence[float]) -> None:
    ordered = sorted(waits)
    proof.note(f"hooks called, {name}", len(waits), "hooks")
    proof.note(f"wait, {name}, median", statistics.median(ordered), "ms")
    p95 = ordered[int(len(ordered) * 0.95)]
    proof.at_most(f"wait, {name}, 95th percentile", p95, "ms", WAIT_MAX_MS, of="time")
    proof.note(f"wait, {name}, longest", ordered[-1], "ms")


def prove_down(proof: Proof, program: Program, folder: Path) -> None:
    """Have an agent take turns with a database and without, and compare what is known after."""
    name = program.name
    try:
        program.ensure()
    except NotInstalled as error:
        say(f"{name} is not installed: {error}")
        proof.at_least(f"{name}, turns", 0, "turns", 1)
        return
    server = EmbeddedServer(_stand(folder) / "server", DURABLE)
    try:
        prompts = PROMPTS[:3] if proof.quick else PROMPTS
        address = server.ensure_running()
        up = _take_turns(proof, program, folder / "up", address, prompts)
        up.wait_until_read()
        server.stop()
        down = _take_turns(proof, program, folder / "down", address, prompts)
        proof.at_least(f"{name}, down: sightings that wait", len(down.spool.read()), "sightings", 1)
        proof.at_most(f"{name}, down: connections made", _answers(address), "connections", 0)
        server.ensure_running()
        started = time.monotonic()
        down.call("hook", "sync")
        down.wait_until_read()
        proof.note(f"{name}, back: time to catch up", time.monotonic() - started, "s")
        proof.at_most(f"{name}, back: sightings left", len(down.spool.read()), "sightings", 0)
        _compare(proof, name, up, down, len(prompts))
        for told in (up, down):
            told.stage.end_all()
    finally:
        server.stop(mode="immediate")


def prove_shipped(proof: Proof, program: Program, folder: Path) -> None:
    """Have an agent take a turn with what is shipped for it, and nothing installed."""
    editing = EDITING[program.name]
    shipped = Path(turntree.__file__).parent / "plugins" / TOOLS[program.name]
    found = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (
        temporary_server() as (server, _),
        ScriptedModel(rules=editing.scene.rules) as model,
    ):
        stage = Stage(program.ensure(), folder, model, editing.scene.settings(model.url))
        stage.set_up()
        told = hooked(stage, server, "shipped", {"PATH": found})
        editing.scene.prepare(told.stage)
        if program.name == "claude":
            words = ["-p", PROMPTS[0], "--plugin-dir", str(shipped), "--allowedTools", CLAUDE_TOOLS]
        else:
            settings = (shipped / "hooks.json").read_text(encoding="utf-8")
            (told.stage.home / ".codex/hooks.json").write_text(settings, encoding="utf-8")
            words = ["exec", *CODEX_OPTIONS, "--dangerously-bypass-hook-trust", PROMPTS[0]]
        told.stage.run(*words)
        told.wait_until_read()
        known = asyncio.run(_known(told))
        proof.at_least(f"{program.name}, shipped: turns pinned", len(known), "turns", 1)
        told.stage.end_all()


def _unhurried(rule: Rule) -> Rule:
    """Return a rule that answers a prompt at a real model's pace.

    One that answered at once would change files before anybody could have looked at them.
    """
    first, *others = rule.answers
    assert isinstance(first, Reply)
    return replace(rule, answers=(replace(first, pause_s=PAUSE_S), *others))


def _answers(address: str) -> int:
    """Return 1 if the server of an address lets anybody in."""
    try:
        psycopg.connect(address, connect_timeout=2).close()
    except psycopg.OperationalError:
        return 0
    return 1


def _take_turns(
    proof: Proof, program: Program, folder: Path, address: str, prompts: Sequence[str]
) -> Hooked:
    """Return what an agent told while it took turns; it has to end them as it always does."""
    editing = EDITING[program.name]
    with ScriptedModel(rules=map(_unhurried, editing.scene.rules)) as model:
        stage = Stage(program.ensure(), folder, model, editing.scene.settings(model.url))
        stage.set_up()
        told = hooked(stage, address, folder.name, {})
        editing.scene.prepare(told.stage)
        tool = TOOLS[program.name]
        trust = ("--trust",) if tool == "codex" else ()
        told.call("hook", "install", tool, *trust)
        started = time.monotonic()
        session = editing.begin(told.stage, prompts[0])
        for prompt in prompts[1:]:
            editing.resume(told.stage, session, prompt)
        where = f"{program.name}, {folder.name}"
        proof.note(f"{where}: time for {len(prompts)} turns", time.monotonic() - started, "s")
        ended = sum(one.rule is not None for one in model.exchanges)
        proof.at_least(f"{where}: turns that ended normally", len(prompts), "turns", len(prompts))
        proof.note(f"{where}: requests to the model", ended, "requests")
    return told


def _compare(proof: Proof, name: str, up: Hooked, down: Hooked, turns: int) -> None:
    one, other = asyncio.run(_known(up)), asyncio.run(_known(down))
    proof.at_least(f"{name}, up: turns recorded and pinned", len(one), "turns", turns)
    proof.at_least(f"{name}, back: turns recorded and pinned", len(other), "turns", turns)
    differ = sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))
    proof.at_most(f"{name}, turns or states that differ", differ, "turns", 0)


async def _known(told: Hooked) -> list[tuple[str, str | None, str]]:
    """Return what was asked in each turn that is pinned, and the states it is pinned in."""
    found: list[tuple[str, str | None, str]] = []
    async with turntree.open(told.settings) as tree:
        for placed in reversed(await tree.turns.list_newest()):
            said = [one for one in placed.turn.messages if isinstance(one, Message)]
            asked = " ".join(one.text for one in said if one.role == "user")[-40:]
            for pinned in await tree.resources.pins_of(placed.turn.id):
                before = None if pinned.before is None else pinned.before.digest
                found.append((asked, before, pinned.after.digest))
    return found


if __name__ == "__main__":
    run(prove, __doc__ or "")
