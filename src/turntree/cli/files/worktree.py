"""``worktree``: a new folder with the files of any turn.

Knows the folders that were created this way. Must never remove one that holds unsaved changes
unless forced.
"""

from functools import partial
from pathlib import Path
from typing import Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.fork_files import find_privacy
from turntree.cli.common.turn_files import TurnFiles, note_standing, nothing_known, stand
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import shown_path, shown_size
from turntree.cli.output.fork_plan import fork_document
from turntree.cli.output.progress import spinner
from turntree.cli.output.text import age, clean, counted, digits, table
from turntree.cli.param_types import REVISION
from turntree.core.errors import DataMissing, InvalidOperation, NotFound, PathExists, UnsavedChanges
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.resources.plans.fork import ForkPlan
from turntree.resources.service import settled
from turntree.resources.worktrees import RemovedWorktree, Worktree, name_some
from turntree.system.head_file import write_own_head
from turntree.system.shell_words import joined, quoted


@value
class NewWorktree:
    """A worktree that was created, and of which turn."""

    standing: TurnFiles
    plan: ForkPlan
    label: str
    """The session that works there."""
    before: bool = False
    """Whether it holds what the turn found, not what it left."""
    privacy: tuple[str, ...] = ()
    """What to print about who can see the session."""

    @property
    def removal(self) -> str:
        """The command that removes it again."""
        removals = [f"turntree worktree --remove {quoted(place)}" for place in self.places]
        return " && ".join([*removals, f"turntree session archive {self.label}"])

    @property
    def places(self) -> list[str]:
        """The folders."""
        return self.plan.places


@verb()
@click.argument("revision", metavar="[REV]", required=False, type=REVISION)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path())
@click.option("--before", is_flag=True, help="Files as the turn found them, not as it left them.")
@click.option("--list", "-l", "lists", is_flag=True, help="Worktrees of this machine, as a list.")
@click.option("--remove", metavar="DIR", type=click.Path(), help="Worktree to remove.")
@click.option("--force", is_flag=True,
              help="Removal even if that loses unsaved changes, "
                   "or files that no snapshot holds.")  # fmt: skip
@click.option("--restore", metavar="NAME|DIR",
              help="Removed worktree to restore, in its last state.")  # fmt: skip
def worktree(
    terminal: Terminal,
    revision: str | None,
    folder: str | None,
    before: bool,
    lists: bool,
    remove: str | None,
    force: bool,
    restore: str | None,
) -> None:
    """Create a folder with the files as a turn left them; your current files stay as they are.

    DIR is by default a new folder beside the one the turn worked in. It gets a session of its own,
    named after the folder, so that a rewind there changes nothing else. This is not a git worktree:
    no .git is touched or copied.
    """
    if sum((revision is not None, lists, remove is not None, restore is not None)) > 1:
        raise click.UsageError("one thing at a time: REV, --list, --remove or --restore")
    if remove is not None:
        _remove(terminal, settled(remove), force=force)
    elif restore is not None:
        _restore(terminal, restore)
    elif revision is None:
        _list(terminal)
    else:
        try:
            made = make_worktree(terminal, revision, folder, before=before)
        except PathExists as error:
            words = ["turntree", "worktree", revision, error.free, *["--before"] * before]
            raise InvalidOperation(str(error), hint=command_hint(joined(words))) from error
        _tell_made(terminal, made)


def make_worktree(
    terminal: Terminal, revision: str, folder: str | None, *, before: bool = False
) -> NewWorktree:
    """Create a folder with the files a turn left or found, and a session that works there.

    Raises:
        NotFound: The revision names nothing, or no turn up to it has a snapshot.
        InvalidOperation: The folder already exists.
    """
    with spinner(terminal, "making a worktree"):
        made = with_ledger(
            terminal, partial(_make, revision=revision, folder=folder, before=before)
        )
    for place in made.places:
        # Commands run there must never move the session of another folder.
        write_own_head(Path(place), made.label)
    return made


async def _make(
    opened: CliContext, *, revision: str, folder: str | None, before: bool
) -> NewWorktree:
    standing = await stand(opened, revision)
    place = None if folder is None else settled(folder)
    try:
        plan = await opened.tree.plans.propose_worktree(revision, place, before=before)
    except DataMissing:
        raise
    except NotFound as error:
        short = digits(standing.asked.turn.digest)
        if not before:
            hint = command_hint(f"turntree files {short}")
            raise NotFound(str(error), hint=hint) from error
        words = ["turntree", "worktree", short, *([] if folder is None else [folder])]
        raise nothing_known(short, joined(words)) from error
    (await opened.tree.plans.carry_out(plan)).check()
    assert plan.session is not None, "a session was asked for"
    assert plan.label is not None, "it has a name"
    session = await opened.tree.sessions.ledger.get(plan.session)
    return NewWorktree(standing, plan, plan.label, before, await find_privacy(opened, session))


def _tell_made(terminal: Terminal, made: NewWorktree) -> None:
    if made.before:
        told = f"what {digits(made.standing.asked.turn.digest)} found"
    else:
        note_standing(terminal, [made.standing])
        told = f"what {digits(made.standing.pinned.turn.digest)} left"
    for item in made.plan.items:
        if item.place is None or item.cost is None:
            continue
        size = f"{counted(item.cost.files, 'file')}, {shown_size(item.cost.size)}"
        at, is_folder = quoted(item.place), Path(item.place).is_dir()
        hints = (f"work there, in the session {made.label}, with: cd {at}",) if is_folder else ()
        terminal.tell(
            f"{shown_path(item.place)} holds {told}   ({size})",
            {**fork_document(made.plan), "places": made.places},
            undo=made.removal,
            then=(*hints, *made.privacy),
        )


def _list(terminal: Terminal) -> None:
    async def act(opened: CliContext) -> tuple[list[tuple[Worktree, str]], Timestamp]:
        found = await opened.tree.worktrees.list_all()
        named = [(one, (await opened.tree.turns.get(one.turn)).turn.digest) for one in found]
        return [(one, digits(digest)) for one, digest in named], opened.now

    found, now = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(_document(one) for one, _ in found)
    elif found:
        rows = [
            (
                shown_path(one.resource.place),
                short,
                ", ".join(clean(session.label) for session in one.sessions) or "(no session)",
                age(one.resource.created_at, now),
            )
            for one, short in found
        ]
        terminal.page(table(rows))
    else:
        terminal.note("there are no worktrees here.")
        terminal.note("next: turntree worktree REV     a folder with the files as a turn left them")


def _remove(terminal: Terminal, place: str, *, force: bool) -> None:
    async def act(opened: CliContext) -> tuple[RemovedWorktree, str]:
        try:
            done = await opened.tree.worktrees.remove(place, force=force)
            turn = await opened.tree.turns.get(done.worktree.turn)
            return done, digits(turn.turn.digest)
        except NotFound as error:
            raise NotFound(str(error), hint=command_hint("turntree worktree --list")) from error
        except UnsavedChanges as error:
            command = f"turntree worktree --remove {quoted(place)} --force"
            raise InvalidOperation(str(error), hint=command_hint(command)) from error

    with spinner(terminal, "removing the worktree"):
        done, short = with_ledger(terminal, act)
    # If its last state is unknown, it is restored as it was created.
    words = ["turntree", "worktree", short, place, *["--before"] * done.worktree.before]
    terminal.tell(
        f"{shown_path(place)} is gone",
        {
            **_document(done.worktree),
            "last": None if done.last is None else done.last.external.id,
            "changes": [shown_path(change.path) for change in done.changes],
            "left_out": [shown_path(path) for path in done.left_out],
        },
        undo=joined(words if done.last is None else [*words[:2], "--restore", place]),
        then=(
            *_list_lost(done),
            *(
                f"its session stays; put it away with: turntree session archive {session.label}"
                for session in done.worktree.sessions
            ),
        ),
    )


def _list_lost(done: RemovedWorktree) -> list[str]:
    """Return in words what cannot be restored; empty if nothing was lost."""
    if not done.left_out:
        return []
    shown = name_some([shown_path(path) for path in done.left_out])
    return [f"gone for good, as no snapshot held it: {shown}"]


def _restore(terminal: Terminal, asked: str) -> None:
    async def act(opened: CliContext) -> Worktree:
        try:
            return await opened.tree.worktrees.restore(await _find_gone(opened, asked))
        except NotFound as error:
            raise NotFound(str(error), hint=command_hint("turntree worktree REV DIR")) from error

    with spinner(terminal, "bringing the worktree back"):
        one = with_ledger(terminal, act)
    if one.sessions:
        write_own_head(Path(one.resource.place), one.sessions[0].label)
    at = quoted(one.resource.place)
    terminal.tell(
        f"{shown_path(one.resource.place)} is back in its last state",
        _document(one),
        undo=f"turntree worktree --remove {at}",
        then=(f"next: cd {at}",) if Path(one.resource.place).is_dir() else (),
    )


async def _find_gone(opened: CliContext, asked: str) -> str:
    """Return the removed worktree that a name or a path means."""
    place = settled(asked)
    if "/" in asked or Path(place).exists():  # noqa: ASYNC240
        return place
    found = await opened.tree.worktrees.find_gone(asked)
    if len(found) > 1:
        listed = "\n".join(f"  turntree worktree --restore {quoted(one)}" for one in found)
        raise InvalidOperation(
            f"{len(found)} worktrees were called {asked}; name one by its folder:\n{listed}"
        )
    return found[0] if found else place


def _document(one: Worktree) -> dict[str, Any]:
    return {
        "resource": one.resource.id,
        "place": shown_path(one.resource.place),
        "turn": one.turn,
        "before": one.before,
        "state": one.state.id,
        "sessions": [session.label for session in one.sessions],
        "created_at": one.resource.created_at,
        "liveness": one.liveness,
    }
