"""``snapshot``: snapshot the files for a turn, by hand.

For people without hooks. Knows which folder is meant by default. Must never snapshot a whole home
directory because the command ran in it.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import shown_path, shown_size
from turntree.cli.output.progress import spinner
from turntree.cli.output.text import counted, digits
from turntree.cli.param_types import SESSION
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.session import Session
from turntree.core.value import value
from turntree.resources.driver import TakenSnapshot
from turntree.resources.lineage import origin_of
from turntree.resources.resource import ResolvedTurnSnapshot, Resource, Snapshot
from turntree.resources.service import in_thread

PINS_LOOKED_AT_MAX = 50


@value
class PinnedNow:
    """The result of a snapshot."""

    session: Session
    resource: Resource
    taken: TakenSnapshot
    is_new: bool
    already: Snapshot | None
    """The snapshot that the turn had before."""


@verb()
@click.argument("folder", metavar="[DIR]", required=False,
                type=click.Path(exists=True, path_type=Path))  # fmt: skip
@click.option("--session", "-s", "label", metavar="SESSION", default="HEAD", type=SESSION,
              help="Session whose newest turn gets the snapshot.")  # fmt: skip
def snapshot(terminal: Terminal, folder: Path | None, label: str) -> None:
    """Snapshot the files as they are now, for the newest turn of the current session.

    Hooks do this at the end of every turn. DIR is by default the repository around the current
    folder. Changes since the session's last snapshot count as that turn's work.
    """
    place = find_folder(Path.cwd()) if folder is None else folder.resolve()
    with spinner(terminal, f"snapshotting {shown_path(place.name)}"):
        done = with_ledger(terminal, partial(_pin, place=place, label=label))
    short = digits(done.session.head_digest)
    document = {
        "session": done.session.label,
        "turn": done.session.head,
        "digest": done.session.head_digest,
        "resource": done.resource.id,
        "place": shown_path(done.resource.place),
        "state": done.taken.external.id,
        "files": done.taken.files,
        "size": done.taken.size,
        "stored": done.taken.stored,
        "new": done.is_new,
    }
    back = f"turntree rewind {done.session.label}~1 --files --dry-run"
    hint = () if done.session.depth < 2 else (f"go back with: {back}",)  # noqa: PLR2004
    terminal.tell(_sentence(done, short), document, undo=None, then=("next: turntree files", *hint))


def _sentence(done: PinnedNow, short: str) -> str:
    place = shown_path(done.resource.place)
    if done.is_new:
        sizes = f"{shown_size(done.taken.size)}, {shown_size(done.taken.stored)} added to the store"
        files = counted(done.taken.files, "file")
        return f"{short} has a snapshot of {place}: {files}, {sizes}"
    if done.already is not None and done.already.external == done.taken.external:
        return f"{short} already has a snapshot of {place}, and nothing changed"
    return f"{short} already has a snapshot of {place}; later changes belong to no turn yet"


async def _pin(opened: CliContext, *, place: Path, label: str) -> PinnedNow:
    tree = opened.tree
    session = await tree.sessions.get(label)
    if session.head is None:
        raise NotFound(
            f"{session.label} has no turn yet that a snapshot could belong to",
            hint=command_hint("turntree on"),
        )
    kind = "file" if await in_thread(place.is_file) else "directory"
    await _check_taken_there(opened, session, kind, place)
    agent = None
    # A folder of an agent's session is the agent's, unless it is one that this user may not invoke.
    with suppress(PermissionDenied):
        agent = await tree.runs.find_agent(await tree.runs.route(session.label))
    resource = await tree.resources.ensure(kind, str(place), session=session.label, agent=agent)
    along = await tree.resources.pins_along(session.head, PINS_LOOKED_AT_MAX)
    here = [pinned for pinned in along if pinned.resource.id == resource.id]
    taken = await in_thread(tree.resources.keeper_of(resource).snapshot, resource.place)
    now = tree.revisions.world.now()
    last = here[0] if here else None
    if last is not None and last.pin.turn == session.head:
        return PinnedNow(session, resource, taken, is_new=False, already=last.after)
    before, began = await _find_beginning(opened, session, resource, last)
    is_new = await tree.resources.pin(session.head, resource, before, taken, min(now, began), now)
    return PinnedNow(session, resource, taken, is_new, None)


async def _check_taken_there(opened: CliContext, session: Session, kind: str, place: Path) -> None:
    """Refuse a turn that ended before the worktree existed: it cannot have worked there."""
    resource = await opened.tree.resources.find(kind, str(place))
    if resource is None or origin_of(resource) is None:
        return
    turn = await opened.tree.turns.get(session.label)
    if turn.turn.header.sealed_at < resource.created_at:
        raise InvalidOperation(
            f"{digits(turn.turn.digest)} ended before {shown_path(resource.place)} was made, and a "
            f"pin belongs to a turn that worked there\n{session.label} has taken none there yet"
        )


async def _find_beginning(
    opened: CliContext, session: Session, resource: Resource, last: ResolvedTurnSnapshot | None
) -> tuple[TakenSnapshot | None, Timestamp]:
    """Return the snapshot that the work began with, if known, and its time.

    A session's last snapshot is what its next turn found; a worktree begins with what it was
    created from.
    """
    if last is not None:
        state = last.after
        return TakenSnapshot(state.external, state.size, 0, 0, state.consistency), last.pin.ended_at
    origin = origin_of(resource)
    if origin is not None:
        try:
            entries = await opened.tree.files.list_entries(resource, origin[1])
        except NotFound:
            return None, resource.created_at  # No turn refers to that snapshot, and gc removed it.
        return TakenSnapshot(origin[1], sum(one.size for one in entries), 0, 0), resource.created_at
    return None, (await opened.tree.turns.get(session.label)).turn.header.started_at


def find_folder(here: Path) -> Path:
    """Return the default folder: the repository around the current folder, or that folder itself.

    Raises:
        InvalidOperation: That would be a whole home directory, or the whole machine.
    """
    here, home = here.resolve(), Path.home().resolve()
    # A home directory can be a repository; it still is not one project.
    around = [at for at in (here, *here.parents) if at != home and at not in home.parents]
    if not around:
        hint = command_hint("turntree snapshot DIR")
        raise InvalidOperation(f"{here} is not a project: name the folder", hint=hint)
    return next((at for at in around if (at / ".git").exists()), here)
