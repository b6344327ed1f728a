"""``archive`` and ``unarchive``: hide turns from lists and searches, and show them again."""

from functools import partial

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.annotations import list_sessions
from turntree.cli.output.text import digits
from turntree.cli.param_types import REVISION
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.thread import ThreadTurn
from turntree.core.value import value


@value
class ArchiveChange:
    """What a command has archived, or shown again."""

    turns: list[ThreadTurn]
    changed: list[ThreadTurn]
    """Those that were not as asked before."""
    sessions: list[str]
    """Active sessions whose heads are archived."""


@verb()
@click.argument("revisions", metavar="REV...", nargs=-1, required=True, type=REVISION)
def archive(terminal: Terminal, revisions: tuple[str, ...]) -> None:
    """Hide turns, and what follows them, from lists and searches.

    Nothing is removed: every address still leads to them, their sessions go on, and `log --all` and
    `search archived:yes` list them. An archived turn has the tag `archived`. To hide a session and
    keep its turns in the lists, use `session archive`.
    """
    change = with_ledger(terminal, partial(_archive, revisions=revisions))
    stay = f"next: turntree session archive {' '.join(change.sessions)}"
    then = (stay,) if change.sessions else ()
    _tell(terminal, change, "archived, with what follows", "unarchive", then)


@verb()
@click.argument("revisions", metavar="REV...", nargs=-1, required=True, type=REVISION)
def unarchive(terminal: Terminal, revisions: tuple[str, ...]) -> None:
    """Show archived turns again, and what follows them."""
    change = with_ledger(terminal, partial(_unarchive, revisions=revisions))
    _tell(terminal, change, "listed again, with what follows", "archive")


async def _archive(opened: CliContext, *, revisions: tuple[str, ...]) -> ArchiveChange:
    turns = opened.tree.turns
    # All of them first, so that a wrong revision changes nothing.
    asked = [await turns.get(revision) for revision in revisions]
    changed = [one for one in asked if await turns.archive(one.turn.id)]
    active = await list_sessions(opened, with_archived=False)
    hidden = await turns.list_archived([one.head for one in active if one.head is not None])
    return ArchiveChange(asked, changed, [one.label for one in active if one.head in hidden])


async def _unarchive(opened: CliContext, *, revisions: tuple[str, ...]) -> ArchiveChange:
    turns = opened.tree.turns
    asked = [await turns.get(revision) for revision in revisions]
    for one in asked:
        above = await turns.find_archive(one.turn.id)
        if above is not None and above != one.turn.id:
            hidden, by = digits(one.turn.digest), digits((await turns.get(above)).turn.digest)
            raise InvalidOperation(
                f"{hidden} is archived with {by}, which it follows",
                hint=Hint("turn.unarchive", {"turn": by}),
            )
    return ArchiveChange(asked, [one for one in asked if await turns.unarchive(one.turn.id)], [])


def _tell(
    terminal: Terminal, change: ArchiveChange, state: str, back: str, then: tuple[str, ...] = ()
) -> None:
    shorts = " ".join(digits(one.turn.digest) for one in change.turns)
    changed = " ".join(digits(one.turn.digest) for one in change.changed)
    terminal.tell(
        f"{shorts} {'is' if len(change.turns) == 1 else 'are'} {state}"
        + ("" if change.changed else "   (as before)"),
        {
            "turns": [one.turn.id for one in change.turns],
            "archived": back == "unarchive",
            "changed": bool(change.changed),
            "sessions": change.sessions,
        },
        undo=f"turntree {back} {changed}" if changed else None,
        then=then,
    )
