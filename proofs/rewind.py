"""The claim: whatever agents did to your files, you can stand in any of their turns again.

Real Claude Code and real Codex, against a scripted model on loopback, take five turns that create,
edit, rename, delete and chmod files, by their tools and by commands of the shell, in a repository
in which a teammate has changes of their own. Their hooks record it. Then the session is rewound to
each turn, files included: the tree has to be equal to what it was then, byte by byte and mode by
mode, what is the teammate's stays as it is, and an undo brings back the present. Last, the real
agent goes on from an old turn, in a folder that has that turn's files. No byte of ``.git`` changes.
"""

import asyncio
import json
import os
import stat
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import turntree
from proofs.agents.editing import EDITING, GO_ON, PROMPTS, Editing
from proofs.agents.hooked import TOOLS, Hooked, hooked
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, say
from proofs.agents.stage import AgentFailed, Stage
from proofs.figures import Proof, run, temporary_server
from turntree.core.message import Message
from turntree.core.thread import ThreadTurn
from turntree.testing.scripted.server import ScriptedModel

Tree = dict[str, tuple[int, bytes]]
"""What a folder holds: by path the mode, and the bytes or where a link leads."""
TEAM = "team"
"""The folder in which a teammate works."""
GO_ON_FROM = 2
"""The turn, counted from one, from whose files a fork goes on."""


async def prove(proof: Proof) -> None:
    """Have each agent take its turns, and go back to all of them."""
    with (
        temporary_server() as (server, _),
        tempfile.TemporaryDirectory(prefix="turntree-rewind-") as folder,
    ):
        for program in PROGRAMS:
            if program.name in EDITING and proof.wants(program.name):
                place = Path(folder) / program.name
                await asyncio.to_thread(prove_agent, proof, program, place, server)


def prove_agent(proof: Proof, program: Program, folder: Path, server: str) -> None:
    """Show it for one agent."""
    editing = EDITING[program.name]
    try:
        path = program.ensure()
    except NotInstalled as error:
        say(f"{program.name} is not installed: {error}")
        proof.at_least(f"{program.name}, turns", 0, "turns", len(PROMPTS))
        return
    with ScriptedModel(rules=editing.scene.rules) as model:
        stage = Stage(path, folder, model, editing.scene.settings(model.url))
        stage.set_up()
        told = hooked(stage, server, program.name, on_path(program.name, path, folder / "bin"))
        editing.scene.prepare(told.stage)
        trust = ("--trust",) if program.name == "codex" else ()
        told.call("hook", "install", TOOLS[program.name], *trust)
        begin_repository(told.stage.work)
        try:
            states = take_turns(told, editing)
            turns = asyncio.run(list_turns(told))
            proof.at_least(f"{program.name}, turns pinned", len(turns), "turns", len(PROMPTS))
            if len(turns) == len(PROMPTS):
                go_back(proof, program.name, told, turns, states)
                go_on(proof, program.name, told, editing, turns, states)
        finally:
            told.stage.end_all()


def on_path(name: str, program: Path, folder: Path) -> dict[str, str]:
    """Return an environment in which an agent is found by its name."""
    folder.mkdir(parents=True)
    (folder / name).symlink_to(program)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def begin_repository(work: Path) -> None:
    """Make a repository with a past, and a teammate who is in the middle of something."""
    for name, text in (
        ("README.md", "# Ours\n"),
        (f"{TEAM}/plan.md", "one\n"),
        ("lib.py", "x=1\n"),
    ):
        path = work / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git = ["git", "-C", str(work), "-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "begin"], check=True)
    (work / TEAM / "plan.md").write_text("one\ntwo, not committed\n", encoding="utf-8")
    (work / TEAM / "new.txt").write_text("untracked\n", encoding="utf-8")
    (work / TEAM / "staged.txt").write_text("staged\n", encoding="utf-8")
    subprocess.run([*git, "add", f"{TEAM}/staged.txt"], check=True)


def take_turns(told: Hooked, editing: Editing) -> list[Tree]:
    """Have the agent take its turns and return the tree as each of them left it."""
    work = told.stage.work
    states: list[Tree] = []
    session = ""
    for number, prompt in enumerate(PROMPTS):
        if number == 0:
            session = editing.begin(told.stage, prompt)
        else:
            editing.resume(told.stage, session, prompt)
        told.wait_until_read()
        states.append(look(work))
        if number == GO_ON_FROM:
            # Nobody's turn: a teammate goes on with what they were doing.
            (work / TEAM / "plan.md").write_text("one\nthree, later\n", encoding="utf-8")
            (work / TEAM / "later.txt").write_text("untracked, later\n", encoding="utf-8")
            (work / TEAM / "new.txt").unlink()
    return states


async def list_turns(told: Hooked) -> list[ThreadTurn]:
    """Return the turns that are pinned, oldest first."""
    async with turntree.open(told.settings) as tree:
        turns = reversed(await tree.turns.list_newest())
        return [one for one in turns if await tree.resources.pins_of(one.turn.id)]


def go_back(
    proof: Proof, name: str, told: Hooked, turns: list[ThreadTurn], states: list[Tree]
) -> None:
    """Rewind to each turn and come back, and show what differed."""
    work = told.stage.work
    (session,) = (one["label"] for one in asyncio.run(list_sessions(told)))
    present = look(work)
    git = look(work / ".git")
    wrong = teams = undone = shown = touched = 0
    numbers = range(0, len(turns) - 1, 2 if proof.quick else 1)
    for number in reversed(numbers):
        target = turns[number].turn.id
        told.call("rewind", session, target, "--files", "--dry-run")
        shown += differ(present, look(work))
        try:
            told.call("rewind", session, target, "--files", "--yes")
        except AgentFailed as error:
            # Refused, because an earlier rewind and its undo left files that it does not expect.
            say(str(error))
            wrong += 1
            break
        found = look(work)
        wrong += differ(without_team(states[number]), without_team(found))
        teams += differ(only_team(present), only_team(found))
        try:
            told.call("undo", session, "--yes")
        except AgentFailed as error:
            # Refused, because the rewind left other files than it recorded. No later one is better.
            say(str(error))
            undone += 1
            break
        undone += differ(present, look(work))
        touched += differ(git, look(work / ".git"))
    proof.note(f"{name}, turns gone back to", len(numbers), "turns")
    proof.at_most(f"{name}, paths that a dry run changed", shown, "paths", 0)
    proof.at_most(f"{name}, paths unlike those of their turn", wrong, "paths", 0)
    proof.at_most(f"{name}, paths of the teammate that changed", teams, "paths", 0)
    proof.at_most(f"{name}, paths unlike the present after an undo", undone, "paths", 0)
    proof.at_most(f"{name}, files of .git that changed", touched, "files", 0)
    if not proof.quick:
        go_back_in_steps(proof, name, told, session, turns, states)


def go_back_in_steps(
    proof: Proof, name: str, told: Hooked, session: str, turns: list[ThreadTurn], states: list[Tree]
) -> None:
    """Rewind turn by turn as far as one can, then take every step back."""
    work = told.stage.work
    present = look(work)
    git = look(work / ".git")
    wrong = 0
    for number in reversed(range(len(turns) - 1)):
        told.call("rewind", session, turns[number].turn.id, "--files", "--yes")
        wrong += differ(without_team(states[number]), without_team(look(work)))
    for _ in turns[1:]:
        told.call("undo", session, "--yes")
    proof.at_most(f"{name}, step by step: paths unlike those of their turn", wrong, "paths", 0)
    undone = differ(present, look(work))
    proof.at_most(f"{name}, step by step: paths unlike the present", undone, "paths", 0)
    touched = differ(git, look(work / ".git"))
    proof.at_most(f"{name}, step by step: files of .git that changed", touched, "files", 0)


def go_on(
    proof: Proof,
    name: str,
    told: Hooked,
    editing: Editing,
    turns: list[ThreadTurn],
    states: list[Tree],
) -> None:
    """Have the real agent go on from an old turn, in a folder with its files."""
    work = told.stage.work
    present, git = look(work), look(work / ".git")
    old = turns[GO_ON_FROM - 1].turn.id
    made = told.ask("handoff", old, "--files", "--open", "--to", TOOLS[name])
    place = Path(made["folder"])
    differs = differ(states[GO_ON_FROM - 1], look(place))
    proof.at_most(f"{name}, paths in a worktree unlike those of its turn", differs, "paths", 0)
    away = replace(told.stage, works_in=place)
    editing.resume(away, str(made["session"]), GO_ON)
    told.wait_until_read()
    grown = {path for path in look(place) if path not in states[GO_ON_FROM - 1]}
    proof.at_most(
        f"{name}, paths a fork did not write", len({"fork.txt", "copy.py"} - grown), "paths", 0
    )
    is_old = look(place)["copy.py"][1] == states[GO_ON_FROM - 1]["app.py"][1]
    proof.at_least(f"{name}, forks that went on from old files", int(is_old), "forks", 1)
    after = asyncio.run(list_turns(told))
    asked = [turn for turn in after if GO_ON in said(turn)]
    proof.at_least(f"{name}, turns of the fork that are pinned", len(asked), "turns", 1)
    known = [turn for turn in asked if turn.parent == old]
    proof.at_least(f"{name}, turns of the fork that follow the old one", len(known), "turns", 1)
    proof.at_most(
        f"{name}, paths of the present changed by a fork", differ(present, look(work)), "paths", 0
    )
    proof.at_most(
        f"{name}, files of .git changed by a fork", differ(git, look(work / ".git")), "files", 0
    )
    *_, summary = told.call("fsck", "--json", codes=(0, 1)).splitlines()
    proof.at_most(f"{name}, faults that fsck finds", json.loads(summary)["faults"], "faults", 0)


async def list_sessions(told: Hooked) -> list[dict[str, Any]]:
    """Return the sessions that there are."""
    async with turntree.open(told.settings) as tree:
        return [{"label": one.label} async for one in tree.sessions.list_all()]


def said(placed: ThreadTurn) -> str:
    """Return what was asked in a turn."""
    messages = [one for one in placed.turn.messages if isinstance(one, Message)]
    return " ".join(one.text for one in messages if one.role == "user")


def look(folder: Path) -> Tree:
    """Return what a folder holds, without its repository and the note of its session."""
    found: Tree = {}
    for at, folders, files in os.walk(folder):
        if Path(at) == folder:
            folders[:] = [name for name in folders if name not in {".git", ".turntree"}]
        for name in (*folders, *files):
            path = Path(at) / name
            mode = path.lstat().st_mode
            content = b""
            if stat.S_ISLNK(mode):
                content = os.fsencode(path.readlink())
            elif stat.S_ISREG(mode):
                content = path.read_bytes()
            found[path.relative_to(folder).as_posix()] = mode, content
    return found


def differ(one: Tree, other: Tree) -> int:
    """Return how many paths are not the same in two trees, and tell of the first ones."""
    paths = sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
    for path in paths[:5]:
        say(f"differs: {path}: {one.get(path)} and {other.get(path)}")
    return len(paths)


def without_team(tree: Tree) -> Tree:
    """Return what is not the teammate's."""
    return {path: found for path, found in tree.items() if path.split("/")[0] != TEAM}


def only_team(tree: Tree) -> Tree:
    """Return what is the teammate's."""
    return {path: found for path, found in tree.items() if path.split("/")[0] == TEAM}


if __name__ == "__main__":
    run(prove, __doc__ or "")
