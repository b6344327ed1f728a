"""``gc``: kept states that nothing needs any more are removed from the disk.

Knows what is needed: what turns pin, in every workspace of this ledger, and what is young. Must
never guess what another ledger needs.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from turntree.boot import list_kept_states, list_other_ledgers, load_keepers
from turntree.cli.change_text import counted, shown_size
from turntree.cli.opening import Opened, with_ledger
from turntree.cli.server import spinner
from turntree.cli.verb import Terminal, verb
from turntree.domain.errors import Refused
from turntree.domain.ids import instant, unix_ms
from turntree.ports.keepers import Sweeper, Swept
from turntree.runtime.resources import in_thread
from turntree.store.database import place_of

DAYS_DEFAULT: Final = 30
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed, and what was looked at."""

    swept: Swept
    states: int


@verb()
@click.option("--older", "days", metavar="DAYS", type=click.IntRange(1), default=DAYS_DEFAULT,
              show_default=True, help="Leave alone what is younger.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and stop.")
def gc(terminal: Terminal, days: int, dry_run: bool) -> None:
    """Remove kept states of files that no turn pins any more.

    Those are what moves with files and comparisons have kept on the way. Whatever a turn has pinned
    stays, and so does everything younger than --older: until then an undo brings files back.
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
    then = ("carry it out with: turntree gc",) if dry_run and swept.removed else ()
    terminal.tell(sentence, document, undo=None, then=then)


async def _collect(opened: Opened, *, days: int, dry_run: bool) -> Collected:
    home, database = opened.settings.home, opened.database
    others = list_other_ledgers(home, place_of(database.conninfo))
    if others:
        listed = "\n".join(f"  {name}   (noted in {path})" for path, name in others.items())
        raise Refused(
            f"other ledgers pin states that are kept in {home}, and cannot be asked:\n{listed}\n"
            "remove the note of one that is gone for good"
        )
    since = instant(unix_ms(opened.now) - days * DAY_S * 1000)
    swept, states = Swept(0, 0, 0), 0
    sweepers = [one for one in load_keepers(home).values() if isinstance(one, Sweeper)]
    # Keepers of several kinds may share a store.
    for kind, sweeper in {one.external_kind: one for one in sweepers}.items():
        keep = await list_kept_states(database, kind, since)
        sweep = partial(sweeper.sweep, keep, grace_s=days * DAY_S, dry_run=dry_run)
        found = await in_thread(sweep)
        swept = Swept(
            swept.removed + found.removed, swept.freed + found.freed, swept.left + found.left
        )
        states += len(keep)
    return Collected(swept, states)
