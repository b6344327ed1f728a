"""Take back parts of a history by the command line, and compare with the oracle.

Knows Turntree and the figures of ``revert``. Must never know a single agent.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import turntree
from proofs.agents.editing import Editing
from proofs.agents.hooked import COMMAND, DRAIN_TIMEOUT_S, Hooked
from proofs.agents.stage import AgentFailed
from proofs.figures import DURABLE, Proof
from proofs.revert_story import AWAY, Case, Event, count_lost, read, replay
from proofs.rewind import differ, look
from turntree.db.embedded.server import EmbeddedServer

POLL_S: Final = 0.5
NOWHERE: Final = "postgresql://nobody@127.0.0.1:1/nothing"


def take_back_offline(
    proof: Proof,
    agent: str,
    told: Hooked,
    history: Sequence[Event],
    turns: Mapping[str, str],
    cases: Sequence[Case],
) -> None:
    """Do the same while the database refuses connections, and compare with the ledger after."""
    settings = {**told.stage.settings, "TURNTREE_DATABASE_URL": NOWHERE}
    stopped = replace(told, stage=replace(told.stage, settings=settings))
    before = len(asyncio.run(list_operations(told)))
    chosen = cases[:1] if proof.quick else cases
    done = take_back(proof, f"{agent}, stopped", stopped, history, turns, chosen)
    told.call("session", "list")
    after = asyncio.run(list_operations(told))
    known = len(after) - before
    missed = abs(done - known) + len(after) - len({*after})
    proof.note(f"{agent}, operations while PostgreSQL was stopped", done, "operations")
    proof.at_most(f"{agent}, of these not in the ledger once", missed, "operations", 0)


def act_while_stopped(
    proof: Proof, agent: str, told: Hooked, editing: Editing, history: Sequence[Event], server: Path
) -> None:
    """Have an agent take a turn while PostgreSQL is stopped, and take that back meanwhile."""
    before = len(asyncio.run(list_operations(told)))
    with stopped(server):
        editing.begin(told.stage, f"{AWAY.by} now.")
        turn = wait_for_unread(told, AWAY.by)
        name = f"{agent}, acted while stopped"
        cases = [Case("a turn that no ledger has", AWAY.by)]
        done = take_back(proof, name, told, [*history, AWAY], {AWAY.by: turn}, cases)
    told.call("session", "list")
    told.wait_until_read()
    recorded = asyncio.run(list_operations(told))
    missed = abs(before + done - len(recorded)) + len(recorded) - len({*recorded})
    proof.at_most(f"{name}, operations not in the ledger once", missed, "operations", 0)
    known = asyncio.run(find_turns(told))
    proof.at_least(f"{name}, turns in the ledger", int(AWAY.by in known), "turns", 1)


def wait_for_unread(told: Hooked, word: str) -> str:
    """Return the turn that was begun by a word, as soon as the command line lists it.

    Raises:
        AgentFailed: It does not.
    """
    until, listed = time.monotonic() + DRAIN_TIMEOUT_S, list[str]()
    while time.monotonic() < until:
        listed = told.call("revert", "--json").splitlines()
        for document in map(json.loads, listed):
            if document["title"].startswith(word):
                return str(document["turn"])
        time.sleep(POLL_S)
    raise AgentFailed(f"no turn that begins with {word} is listed: {listed}")


@contextmanager
def stopped(server: Path) -> Generator[None]:
    """Stop the server of a folder for a while."""
    ours = EmbeddedServer(server / "home", DURABLE)
    ours.stop()
    try:
        yield
    finally:
        ours.ensure_running()


async def list_operations(told: Hooked) -> list[str]:
    """Return the plans of the ledger."""
    async with turntree.open(told.settings) as tree:
        return [str(state.plan.id) for state in await tree.plans.list_newest(10_000)]


def take_back(
    proof: Proof,
    agent: str,
    told: Hooked,
    history: Sequence[Event],
    turns: Mapping[str, str],
    cases: Sequence[Case],
) -> int:
    """Take back each case, compare with the oracle, undo, redo, undo; return how often."""
    work, done = told.stage.work, 0
    proof.at_most(
        f"{agent}, paths unlike the story", differ(replay(history), read(work)), "paths", 0
    )
    present, git = look(work), look(work / ".git")
    wrong = undone = redone = human = 0
    for number, case in enumerate(cases):
        revert(told, turns[case.turn], *case.words, answers=case.answers)
        found, expected = read(work), replay(history, case)
        wrong += differ(expected, found)
        human += count_lost(found, replay(history))
        after = look(work)
        told.call("undo", "--yes")
        undone += differ(present, look(work))
        done += 2
        if number == 0 or not proof.quick:
            told.call("redo", "--yes")
            redone += differ(after, look(work))
            told.call("undo", "--yes")
            undone += differ(present, look(work))
            done += 2
    proof.note(f"{agent}, parts taken back", len(cases), "parts")
    proof.at_most(f"{agent}, paths unlike the oracle's", wrong, "paths", 0)
    proof.at_most(f"{agent}, edits of a person that were lost", human, "edits", 0)
    proof.at_most(f"{agent}, paths unlike the present after an undo", undone, "paths", 0)
    proof.at_most(f"{agent}, paths unlike the revert after a redo", redone, "paths", 0)
    touched = differ(git, look(work / ".git"))
    proof.at_most(f"{agent}, files of .git that changed", touched, "files", 0)
    return done


def revert(told: Hooked, turn: str, *words: str, answers: str = "") -> None:
    """Run the command, and answer what it asks.

    Raises:
        AgentFailed: It was refused.
    """
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "revert", "--yes", turn, *words],
        cwd=told.stage.work,
        env={**told.stage.environment(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        input=answers,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AgentFailed(f"turntree revert {turn} {words}: {done.stderr}")


async def find_turns(told: Hooked) -> dict[str, str]:
    """Return the turns with files by the word of their prompt."""
    found: dict[str, str] = {}
    async with turntree.open(told.settings) as tree:
        for placed in await tree.turns.list_newest():
            word = (placed.turn.title or "").split(" ")[0]
            if await tree.resources.pins_of(placed.turn.id):
                found.setdefault(word, str(placed.turn.id))
    return found
