"""``demo``: create and remove the sample data."""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from turntree.boot.open import Settings, connect, embedded_conninfo, tree_on
from turntree.cli.command import Terminal, verb
from turntree.cli.context import load_settings
from turntree.cli.hints import command_hint
from turntree.cli.output.text import counted
from turntree.core.errors import InvalidOperation
from turntree.demo.planting import FILES_FOLDER, list_acts, plant_demo
from turntree.demo.story import ORIGIN, PREFIX, STORY
from turntree.system.clock import SystemClock
from turntree.system.head_file import (
    DEMO_WORKSPACE,
    FOLDER,
    list_demo_folders,
    remove_head,
    write_demo_folders,
    write_own_head,
)

SUBFOLDER: Final = "turntree-demo"


@verb()
@click.option("--remove", "removes", is_flag=True,
              help="Removal of the sample data, and of everything made from it.")  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="No confirmation before turns of yours go too.")
def demo(terminal: Terminal, removes: bool, yes: bool) -> None:
    """Create sample data to explore: a month of work on five projects.

    It has forks, compactions, subagents, failed turns, tags and files, in sessions whose labels
    begin with demo/. Running it again changes nothing.

    The sample data has a workspace of its own, which the commands use that you type in an empty
    folder: this one, or else turntree-demo below it. --remove deletes it.
    """
    settings = load_settings().in_workspace(DEMO_WORKSPACE)
    if removes:
        _remove(terminal, settings, yes=yes)
        return
    folder = _find_folder(Path.cwd(), settings.home)
    labels, turns = asyncio.run(_plant(terminal, settings))
    first, is_new = STORY[0].label, folder not in list_demo_folders(settings.home)
    if is_new:
        folder.mkdir(exist_ok=True)
        write_own_head(folder, first)
        write_demo_folders(settings.home, [*list_demo_folders(settings.home), folder])
    undo = "turntree demo --remove"
    if terminal.as_json:
        document = {"sessions": labels, "turns": turns, "workspace": settings.workspace}
        terminal.document({**document, "folder": str(folder), "undo": undo})
        return
    if turns:
        terminal.say(
            f"planted {counted(turns, 'turn')} of sample data in "
            f"{counted(len(labels), 'session')} ({PREFIX}...)"
        )
    else:
        terminal.say(
            f"the sample data is already here, in {counted(len(labels), 'session')} ({PREFIX}...)"
        )
    steps = ["turntree log --graph", "turntree show HEAD"]
    if folder == Path.cwd():
        if is_new:
            terminal.note(f"HEAD is {first} now")
    elif folder not in Path.cwd().parents:
        terminal.note(f"this folder is not empty, so the sample data is shown in {folder.name}")
        steps.insert(0, f"cd {folder.name}")
    for step, command in enumerate(steps):
        terminal.note(f"{'      ' if step else 'next: '}{command}")
    terminal.note(f"undo with: {undo}")
    for name in ("TURNTREE_WORKSPACE", "TURNTREE_SESSION"):
        if os.environ.get(name):
            terminal.note(f"but {name} is set, so commands in this shell show something else")


async def _plant(terminal: Terminal, settings: Settings) -> tuple[list[str], int]:
    world = SystemClock()
    async with connect(settings, world, report=terminal.note, is_brief=True) as database:
        tree = tree_on(database, settings, world)
        before = await tree.turns.index.count()
        labels = await plant_demo(tree, settings.home / FILES_FOLDER)
        return labels, await tree.turns.index.count() - before


def _find_folder(here: Path, home: Path) -> Path:
    """Return where the sample data is shown: never in a folder that has anything else in it.

    A choice in a home directory would be the current session of every project below it.

    Raises:
        InvalidOperation: There is no such folder here.
    """
    shown = list_demo_folders(home)
    for folder in (here, *here.parents, here / SUBFOLDER):
        if folder in shown and (folder / FOLDER / "HEAD").exists():
            return folder
    for folder in (here, here / SUBFOLDER):
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return folder
    raise InvalidOperation(
        f"{here / SUBFOLDER} is not empty, and neither is this folder",
        hint=command_hint("cd $(mktemp -d) && turntree demo"),
    )


def _remove(terminal: Terminal, settings: Settings, *, yes: bool) -> None:
    own, turns = asyncio.run(_count(terminal, settings))
    is_asked = terminal.is_live and sys.stdin.isatty() and sys.stdout.isatty()
    what = f"{counted(own, 'session')} with turns of yours"
    if own and not yes and not is_asked:
        raise InvalidOperation(
            f"{what} would be deleted with the sample data",
            hint=command_hint("turntree demo --remove --yes"),
        )
    if own and not yes and not click.confirm(f"delete the sample data, and {what}?", err=True):
        terminal.note("nothing was changed")
        return
    asyncio.run(_delete(terminal, settings))
    shutil.rmtree(settings.home / FILES_FOLDER, ignore_errors=True)
    folders = list_demo_folders(settings.home)
    left = [folder for folder in folders if not _clear(folder)]
    write_demo_folders(settings.home, [])
    terminal.tell(
        "the sample data is deleted" if turns else "there is no sample data",
        {"removed": bool(turns), "folders": [str(folder) for folder in folders]},
        undo="turntree demo" if turns else None,
        then=[f"this folder is empty now: cd .. && rmdir {one.name}" for one in left],
    )


def _clear(folder: Path) -> bool:
    """Delete the choice of a folder, and the folder if it was made for it; False if it stays."""
    remove_head(folder, is_own=True)
    if folder.name != SUBFOLDER or not folder.is_dir() or any(folder.iterdir()):
        return True
    if folder == Path.cwd():
        return False  # A shell cannot go on in a folder that is gone.
    folder.rmdir()
    return True


async def _count(terminal: Terminal, settings: Settings) -> tuple[int, int]:
    """Return the number of sessions that the user has continued, and of all turns."""
    world = SystemClock()
    sample = {act.label: len(act.scenes) for act in list_acts(with_files=True)}
    own = 0
    async with connect(settings, world, report=terminal.note, is_brief=True) as database:
        tree = tree_on(database, settings, world)
        async for session in tree.sessions.list_all(status=None):
            moves = await tree.sessions.list_moves(session.label, limit=1000)
            is_sample = session.origin is not None and session.origin.tool == ORIGIN
            expected = sample.get(session.label, 0) if is_sample else 0
            own += sum(move.kind == "advance" for move in moves) > expected
        return own, await tree.turns.index.count()


async def _delete(terminal: Terminal, settings: Settings) -> None:
    from turntree.db.database import delete_demo

    conninfo = settings.database_url or await embedded_conninfo(settings, terminal.note)
    await delete_demo(conninfo, settings.workspace)
