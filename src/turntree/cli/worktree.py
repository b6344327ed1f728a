"""``worktree``: a folder in the state that any turn left, beside the present one.

Knows the folders that were made this way. Must never remove one that holds anything which is kept
nowhere else, unless somebody insists.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from turntree.cli.change_text import counted, shown_path, shown_size
from turntree.cli.fork_files import Wanted, check_outcome, new_places, propose
from turntree.cli.names import REVISION
from turntree.cli.opening import Opened, with_ledger
from turntree.cli.place import write_head
from turntree.cli.plan_text import fork_document
from turntree.cli.render import age, clean, digits, table
from turntree.cli.server import spinner
from turntree.cli.standing import Standing, note_standing, stand
from turntree.cli.verb import Terminal, verb
from turntree.domain.errors import NotFound, Refused
from turntree.domain.ids import Instant
from turntree.runtime.fork_plans import Choice, ForkPlan
from turntree.runtime.resources import settled
from turntree.runtime.worktrees import Removed, Worktree


@dataclass(frozen=True, slots=True)
class Made:
    """A worktree that was made, and of which turn."""

    standing: Standing
    plan: ForkPlan

    @property
    def places(self) -> list[str]:
        """The folders."""
        return new_places(self.plan)


@verb()
@click.argument("revision", metavar="[REV]", required=False, type=REVISION)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path())
@click.option("--list", "-l", "lists", is_flag=True, help="List the worktrees of this machine.")
@click.option("--remove", metavar="DIR", type=click.Path(), help="Remove a worktree.")
@click.option("--force", is_flag=True, help="Remove it even if it holds unpinned changes.")
def worktree(
    terminal: Terminal,
    revision: str | None,
    folder: str | None,
    lists: bool,
    remove: str | None,
    force: bool,
) -> None:
    """Make a folder with the files as a turn left them; the present ones stay as they are.

    DIR is by default a new folder beside the one that the turn worked in. It is no git worktree:
    no .git is touched or copied.
    """
    if sum((revision is not None, lists, remove is not None)) > 1:
        raise click.UsageError("one thing at a time: REV, --list or --remove")
    if remove is not None:
        _remove(terminal, settled(remove), force=force)
    elif revision is None:
        _list(terminal)
    else:
        made = make_worktree(terminal, revision, folder)
        _tell_made(terminal, made)


def make_worktree(terminal: Terminal, revision: str, folder: str | None) -> Made:
    """Make a folder in the state that a turn left.

    Raises:
        NotFound: The revision names nothing, or no turn up to it has pinned files.
        Refused: There is something at the place.
    """
    with spinner(terminal, "making a worktree"):
        made, label = with_ledger(terminal, partial(_make, revision=revision, folder=folder))
    if label is not None:
        for place in made.places:
            # Whoever looks around there means the session that the turn was reached by.
            write_head(Path(place), label)
    return made


async def _make(opened: Opened, *, revision: str, folder: str | None) -> tuple[Made, str | None]:
    standing = await stand(opened, revision)
    place = None if folder is None else settled(folder)
    first = await propose(opened, Wanted(revision, None, None, {}))
    # Only what a turn says something of: not whatever else its session works on.
    others = [item.resource.id for item in first.items if item.pinned_by is None]
    choices: dict[str, Choice] = dict.fromkeys(others, "discard")
    plan = await propose(opened, Wanted(revision, None, place, choices))
    check_outcome(await opened.tree.plans.carry_out(plan))
    session = (await opened.tree.resolve(revision)).session
    return Made(standing, plan), None if session is None else session.label


def _tell_made(terminal: Terminal, made: Made) -> None:
    note_standing(terminal, [made.standing])
    short = digits(made.standing.pinned.turn.digest)
    for item in made.plan.items:
        if item.place is None or item.cost is None:
            continue
        size = f"{counted(item.cost.files, 'file')}, {shown_size(item.cost.size)}"
        terminal.tell(
            f"{shown_path(item.place)} holds what {short} left   ({size})",
            {**fork_document(made.plan), "places": made.places},
            undo=f"turntree worktree --remove {item.place}",
            then=(f"next: cd {item.place}",),
        )


def _list(terminal: Terminal) -> None:
    async def act(opened: Opened) -> tuple[list[tuple[Worktree, str]], Instant]:
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
    async def act(opened: Opened) -> tuple[Removed, str]:
        try:
            done = await opened.tree.worktrees.remove(place, force=force)
            turn = await opened.tree.turns.get(done.worktree.turn)
            return done, digits(turn.turn.digest)
        except NotFound as error:
            raise NotFound(f"{error}: see `turntree worktree --list`") from error
        except Refused as error:
            command = f"turntree worktree --remove {place} --force"
            raise Refused(f"{error}; its state would be kept: `{command}`") from error

    with spinner(terminal, "removing the worktree"):
        done, short = with_ledger(terminal, act)
    terminal.tell(
        f"{shown_path(place)} is gone",
        {**_document(done.worktree), "last": None if done.last is None else done.last.external.id},
        undo=f"turntree worktree {short} {place}",
    )


def _document(one: Worktree) -> dict[str, Any]:
    return {
        "resource": one.resource.id,
        "place": shown_path(one.resource.place),
        "turn": one.turn,
        "state": one.state.id,
        "sessions": [session.label for session in one.sessions],
        "created_at": one.resource.created_at,
        "liveness": one.liveness,
    }
