"""``gc``: delete snapshots from the disk that nothing refers to.

What is needed: the snapshots of turns in every workspace of this ledger, those named by unread hook
events, and recent ones. Must never guess what another ledger needs.
"""

from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import click

from turntree.boot.open import list_trees, load_keepers
from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import shown_size
from turntree.cli.output.progress import spinner
from turntree.cli.output.text import counted
from turntree.core.errors import InvalidOperation, SnapshotIncomplete
from turntree.core.ids import Digest
from turntree.core.value import value
from turntree.db.database import place_of
from turntree.hooks.spool import FOLDER, Spool
from turntree.resources.driver import CollectsGarbage, GcResult
from turntree.resources.service import in_thread
from turntree.resources.snapshots.users import list_other_ledgers
from turntree.system.clock import SystemClock
from turntree.system.shell_words import quoted

DAYS_DEFAULT: Final = 30
DAY_S: Final = 86_400


@value
class GcReport:
    """What was removed, and what was examined."""

    swept: GcResult
    states: int


@verb()
@click.option("--older", "days", metavar="DAYS", type=click.IntRange(1), default=DAYS_DEFAULT,
              show_default=True, help="Minimum age in days of a snapshot to remove.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Preview: print what would be removed, and stop.")
def gc(terminal: Terminal, days: int, dry_run: bool) -> None:
    """Remove file snapshots that no turn refers to.

    These are snapshots that moves with files and comparisons took on the way. Snapshots of turns
    are never removed, nor those younger than --older: until then an undo can restore files. If
    anything that has to stay is missing, nothing is removed.
    """
    with spinner(terminal, "looking for what nothing needs"):
        done = with_ledger(terminal, partial(_collect, days=days, dry_run=dry_run))
    swept = done.swept
    document = {
        "removed": swept.removed,
        "freed": swept.freed,
        "left": swept.left,
        "states": done.states,
        "dry_run": dry_run,
    }
    verb_ = "would be removed" if dry_run else "removed"
    sentence = (
        f"{counted(swept.removed, 'object')} {verb_}, {shown_size(swept.freed)}; "
        f"{counted(swept.left, 'object')} of {counted(done.states, 'state')} stay"
    )
    command = "turntree gc" if days == DAYS_DEFAULT else f"turntree gc --older {days}"
    then = (f"carry it out with: {command}",) if dry_run and swept.removed else ()
    terminal.tell(sentence, document, undo=None, then=then)


@dataclass(slots=True)
class Claims:
    """The snapshots of one store that are needed, of any kind."""

    keep: set[Digest] = field(default_factory=set[Digest])
    elsewhere: set[Digest] = field(default_factory=set[Digest])
    """Needed too, but perhaps stored elsewhere, or lost before a turn referred to them."""


async def _collect(opened: CliContext, *, days: int, dry_run: bool) -> GcReport:
    home = opened.settings.home
    _refuse_other_ledgers(opened)
    sweepers = [one for one in load_keepers(home).values() if isinstance(one, CollectsGarbage)]
    stores = {one.store_name: one for one in sweepers}
    claims = await _list_claims(opened, sweepers)
    swept, states = GcResult(0, 0, 0), 0
    for name, sweeper in stores.items():
        unknown = await in_thread(sweeper.list_unknown, claims[name].keep)
        keep, elsewhere = claims[name].keep - unknown, claims[name].elsewhere | unknown
        sweep = partial(
            sweeper.sweep, keep, grace_s=days * DAY_S, elsewhere=elsewhere, dry_run=dry_run
        )
        try:
            found = await in_thread(sweep)
        except SnapshotIncomplete as error:
            way_on = _way_on(error.state, name, keep, elsewhere, days)
            raise InvalidOperation(f"{error}; {way_on}") from error
        swept = GcResult(
            swept.removed + found.removed, swept.freed + found.freed, swept.left + found.left
        )
        states += len(keep | elsewhere)
    return GcReport(swept, states)


def _way_on(
    state: Digest, store: str, keep: Collection[Digest], elsewhere: Collection[Digest], days: int
) -> str:
    """Return what to do about an incomplete snapshot, by what needs it."""
    if state in keep:
        return f"list what is missing with turntree fsck, then restore {store} from a backup"
    if state in elsewhere:
        return f"another ledger or a new hook event needs it: restore {store} from a backup"
    # No command: a smaller --older would remove more than this snapshot.
    return f"no turn needs it, so it is skipped once it is older than --older ({days} days)"


def _refuse_other_ledgers(opened: CliContext) -> None:
    home = opened.settings.home
    others = list_other_ledgers(home, place_of(opened.database.conninfo))
    if others:
        listed = "\n".join(f"  {name}   (noted in {path})" for path, name in others.items())
        raise InvalidOperation(
            f"other ledgers pin states that are kept in {home}, and cannot be asked:\n{listed}\n"
            "remove the note of one that is gone for good"
        )


async def _list_claims(
    opened: CliContext, sweepers: Sequence[CollectsGarbage]
) -> dict[str, Claims]:
    """Return what each store must retain: for unread hook events and for any workspace."""
    claims = {one.store_name: Claims() for one in sweepers}
    stores = {one.external_kind: one.store_name for one in sweepers}
    # Read before the ledger: an event processed meanwhile is then in at least one of the two.
    for one in Spool(opened.settings.home / FOLDER).read():
        if one.taken is not None and one.taken.external.kind in stores:
            name = stores[one.taken.external.kind]
            claims[name].elsewhere.add(Digest(one.taken.external.id))
    async with aclosing(list_trees(opened.database, opened.settings, SystemClock())) as trees:
        async for workspace, tree in trees:
            if left := await tree.plans.count_left():
                raise _unfinished(left, workspace, opened.settings.workspace)
            for kind, name in stores.items():
                pinned = await tree.resources.list_pinned_states(kind)
                claims[name].keep |= pinned.here
                claims[name].elsewhere |= pinned.elsewhere
    return claims


def _unfinished(count: int, workspace: str, own: str) -> InvalidOperation:
    """Return the error for unfinished plans: why nothing is removed, and what to do where."""
    command, where = "turntree plan resume", ""
    if workspace != own:
        command = f"TURNTREE_WORKSPACE={quoted(workspace)} {command}"
        where = f" of the workspace {workspace}"
    return InvalidOperation(
        f"{counted(count, 'plan')}{where} left unfinished may need any snapshot",
        hint=command_hint(command),
    )
