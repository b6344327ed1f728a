"""The claim: any single turn can be taken back, and nobody else's bytes with it.

Real Claude Code, Codex, opencode and Gemini CLI, against a scripted model on loopback, take turns
in one repository: with their edit tools, with rm, mv, sed, ln and chmod in the shell, and with a
subagent. A person edits the same files in between. Then single turns are taken back, the last one
and ones in the middle, whole, by file and by hunk. The files have to be what they would be without
that part of the history, byte by byte and mode by mode. The oracle does not know Turntree: it
replays the same history on a dictionary and leaves the part out. Undo, redo and undo again have to
be exact. Then the same with PostgreSQL stopped: the ledger, once it is back, has to know every
operation once. Then an agent takes a turn while PostgreSQL is stopped, and that is taken back
before any ledger has it. Last, two agents work in the folder at the same time: two sessions of
each, and two different agents, whose calls take turns, overlap, and leave room for a person.

Beside it, without a bar, the same history is played for what the agents and others offer to take
it back: Claude Code's `/rewind`, opencode's `/undo`, and takeback.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from proofs.agents.editing import Editing
from proofs.agents.hooked import TOOLS, Hooked, hooked
from proofs.agents.programs import PROGRAMS, NotInstalled, Program
from proofs.agents.stage import Stage
from proofs.figures import Proof, run, temporary_server
from proofs.revert_cases import act_while_stopped, find_turns, take_back, take_back_offline
from proofs.revert_pairs import PAIRS, prove_pair, skip
from proofs.revert_rivals import show_rivals
from proofs.revert_script import DRIVEN, HANDS
from proofs.revert_story import Event, begin_repository, list_cases, play, story
from proofs.rewind import differ, look, on_path
from turntree.testing.scripted.server import ScriptedModel


async def prove(proof: Proof) -> None:
    """Have each agent take its turns, and take back all kinds of parts of them."""
    with (
        temporary_server() as (server, place),
        tempfile.TemporaryDirectory(prefix="turntree-revert-") as folder,
    ):
        for program in PROGRAMS:
            if program.name not in DRIVEN or not proof.wants(program.name):
                continue
            if proof.quick and proof.only is None and program.name != "claude":
                continue
            await asyncio.to_thread(
                prove_agent, proof, program, Path(folder) / program.name, (server, place)
            )
        for pair in PAIRS:
            # Two agents that start, wait for each other and end cost more than a quick run has.
            if proof.wants("+".join(pair)) and (not proof.quick or proof.only is not None):
                await asyncio.to_thread(prove_pair, proof, pair, Path(folder), server)
        if not proof.quick and proof.wants("rivals"):
            await asyncio.to_thread(show_rivals, proof, Path(folder) / "rivals")


def prove_agent(proof: Proof, program: Program, folder: Path, database: tuple[str, Path]) -> None:
    """Show it for one agent."""
    try:
        path = program.ensure()
    except NotInstalled as error:
        skip(proof, program, error)
        return
    server, place = database
    editing, hands = DRIVEN[program.name], HANDS[program.name]
    with ScriptedModel(rules=hands.rules()) as model:
        stage = Stage(path, folder, model, editing.scene.settings(model.url))
        stage.set_up()
        told = hooked(stage, server, program.name, on_path(program.name, path, folder / "bin"))
        editing.scene.prepare(told.stage)
        trust = ("--trust",) if program.name == "codex" else ()
        told.call("hook", "install", TOOLS[program.name], *trust)
        begin_repository(told.stage.work)
        try:
            history = [
                event
                for event in story(quick=proof.quick)
                if hands.delegate or event.by != "DELEGATE"
            ]
            take_turns(told, editing, history)
            turns = asyncio.run(find_turns(told))
            played = {event.by for event in history}
            asked = [case for case in list_cases(quick=proof.quick) if case.turn in played]
            cases = [case for case in asked if case.turn in turns]
            lacking = len(asked) - len(cases)
            proof.at_most(f"{program.name}, parts whose turn has no files", lacking, "parts", 0)
            take_back(proof, program.name, told, history, turns, cases)
            take_back_offline(proof, program.name, told, history, turns, cases)
            if not proof.quick:
                act_while_stopped(proof, program.name, told, editing, history, place)
                work_at_once(proof, program.name, told, editing)
        finally:
            told.stage.end_all()


def take_turns(told: Hooked, editing: Editing, history: Sequence[Event]) -> None:
    """Play the history, and wait after each turn until it is recorded."""
    begun = ""
    if any(event.by == "LAST" for event in history):
        # Codex acts within milliseconds, and the first hook of all has to start the hook daemon.
        begun = editing.begin(told.stage, "Hello.")
        told.wait_until_read()

    def ask(session: str, text: str) -> str:
        known = session or begun
        answered = (
            editing.resume(told.stage, known, text) if known else editing.begin(told.stage, text)
        )
        told.wait_until_read()
        return answered

    play(told.stage.work, history, ask)


def work_at_once(proof: Proof, agent: str, told: Hooked, editing: Editing) -> None:
    """Have two sessions work in the folder at the same time, and take back one of them."""
    work = told.stage.work

    async def both() -> None:
        await asyncio.gather(
            asyncio.to_thread(editing.begin, told.stage, "LEFT now."),
            asyncio.to_thread(editing.begin, told.stage, "RIGHT now."),
        )

    asyncio.run(both())
    told.wait_until_read()
    present = look(work)
    turns = asyncio.run(find_turns(told))
    shown = told.ask("revert", turns["LEFT"], "--yes")
    after = look(work)
    unclear = {path for place in shown["places"] for path in place["unclear"]}
    theirs = {path for path in present if path.startswith("right")}
    ours = {path for path in present if path.startswith("left")}
    lost = sum(after.get(path) != present[path] for path in theirs)
    kept = sum(path in after and path not in unclear for path in ours)
    proof.at_most(f"{agent}, at once: paths of the other agent that changed", lost, "paths", 0)
    proof.at_most(f"{agent}, at once: own paths neither taken back nor reported", kept, "paths", 0)
    proof.note(f"{agent}, at once: paths that cannot be told apart", len(unclear), "paths")
    told.call("undo", "--yes")
    undone = differ(present, look(work))
    proof.at_most(f"{agent}, at once: paths unlike the present after an undo", undone, "paths", 0)


if __name__ == "__main__":
    run(prove, __doc__ or "")
