"""The files of a revision: those snapshotted at its turn, or at its nearest ancestor that has any.

Knows how to find them, and the error where no snapshot exists. Must never know how files are
printed.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.cli.hints import command_hint
from turntree.cli.output.text import counted, digits
from turntree.core.errors import NotFound
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.resources.resource import ResolvedTurnSnapshot, Resource


@value
class TurnFiles:
    """A turn that was asked for, and the turn whose snapshots stand in for it."""

    asked: ThreadTurn
    pinned: ThreadTurn
    pins: tuple[ResolvedTurnSnapshot, ...]

    @property
    def distance(self) -> int:
        """Number of turns between the two."""
        return self.asked.depth - self.pinned.depth

    @property
    def sentence(self) -> str | None:
        """What to print if the turn itself has no snapshot."""
        if self.asked.turn.id == self.pinned.turn.id:
            return None
        before = counted(self.distance, "turn")
        asked, pinned = digits(self.asked.turn.digest), digits(self.pinned.turn.digest)
        return f"{asked} pinned no files; these are those of {pinned}, {before} before it"


async def stand(opened: CliContext, revision: str) -> TurnFiles:
    """Return the files of a revision.

    Raises:
        NotFound: The revision names nothing, or no turn up to it has pinned files.
    """
    asked = await opened.tree.turns.get(revision)
    try:
        pinned, pins = await opened.tree.resources.nearest(asked.turn.id)
    except NotFound as error:
        raise nothing_pinned(digits(asked.turn.digest)) from error
    return TurnFiles(asked, pinned, tuple(pins))


def nothing_pinned(short: str) -> NotFound:
    """Return the error for a turn without files; it says how snapshots are taken."""
    return NotFound(
        f"no turn up to {short} has a snapshot of its files\n"
        "an agent's hooks take one at every turn, and you can take one yourself: "
        "turntree snapshot",
        hint=command_hint("turntree on"),
    )


def nothing_known(short: str, command: str) -> NotFound:
    """Return the error for files that are unknown before a turn.

    The command asks for the same files as the turn left them.
    """
    return NotFound(
        f"no snapshot shows the files before {short}\n"
        "the earliest known state is what that turn left",
        hint=command_hint(command),
    )


def choose_pin(standing: TurnFiles, here: Path) -> ResolvedTurnSnapshot:
    """Return the snapshot of the current folder's resource, or the only one.

    Raises:
        NotFound: There are several, and none of them is of this folder.
    """
    around = [pinned for pinned in standing.pins if holds(pinned.resource, here)]
    if around:
        return max(around, key=lambda pinned: len(pinned.resource.place))
    if len(standing.pins) == 1:
        return standing.pins[0]
    short = digits(standing.pinned.turn.digest)
    raise NotFound(
        f"{short} has snapshots of several folders, and none of them is this one",
        hint=command_hint(f"turntree files {short}"),
    )


def holds(resource: Resource, here: Path) -> bool:
    """Whether a local path is inside a resource."""
    return here == Path(resource.place) or Path(resource.place) in here.parents


def relative(resource: Resource, path: str) -> str:
    """Return a path relative to its resource, whichever way the user wrote it.

    A path that leads into the resource from the current folder wins; otherwise it is taken as
    relative to the resource.
    """
    full = Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow symlinks)
    if holds(resource, full):
        return full.relative_to(resource.place).as_posix()
    return os.path.normpath(path).lstrip("/")


def note_standing(terminal: Terminal, standings: Sequence[TurnFiles]) -> None:
    """Print which turns have no snapshot of their own."""
    for sentence in dict.fromkeys(one.sentence for one in standings):
        if sentence is not None:
            terminal.note(sentence)
