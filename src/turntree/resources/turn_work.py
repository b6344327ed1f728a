"""Find what a turn itself changed, from the states around its tool calls.

What changed while one of its calls ran, and while no call of another turn did, is the turn's. What
changed between its calls was made by others. What changed while calls of two turns ran, or while a
turn ran but none of its calls did, cannot be told apart, and is reported.

It compares states through a driver, and knows no ledger.
"""

from collections.abc import Sequence
from dataclasses import replace

from turntree.core.ids import Timestamp, unix_ms
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.driver import HasFiles
from turntree.resources.resource import CallStates, FileChange, ResolvedTurnSnapshot


@value
class Patch:
    """The changes from one state to another that are to be merged."""

    base: ExtRef
    wanted: ExtRef
    changes: Sequence[FileChange]
    unclear: tuple[str, ...] = ()
    """Paths that others may have changed too; they are not among the changes."""


@value
class TurnWork:
    """What a turn did to a resource."""

    whole: Patch
    """From the state that it found to the state that it left."""
    patches: tuple[Patch, ...]
    """The same in parts, oldest first, without what others did in between."""


@value
class Rival:
    """Another turn that ran at the same time or later, and its calls, as far as observed."""

    pinned: ResolvedTurnSnapshot
    calls: tuple[CallStates, ...]


def find_work(
    files: HasFiles, whole: Patch, calls: Sequence[CallStates], rivals: Sequence[Rival]
) -> TurnWork:
    """Return a turn's own changes, given its calls and the turns that may have overlapped them."""
    stretches = _join(sorted(calls, key=lambda call: unix_ms(call.began_at)))
    patches: list[Patch] = []
    explained: set[str] = set()
    for stretch in stretches:
        changes = files.compare(stretch.before, stretch.after)
        contested = _list_contested(files, stretch, rivals)
        mine = [one for one in changes if one.path not in contested]
        unclear = tuple(one.path for one in changes if one.path in contested)
        patches.append(Patch(stretch.before, stretch.after, mine, unclear))
        explained |= {one.path for one in changes}
    theirs = {path for rival in rivals for path in _list_changed(files, rival)}
    # A hook may have missed a call, so such a change may still be the turn's.
    lost = {one.path for one in whole.changes} | {*whole.unclear}
    unclear = tuple(sorted(lost - explained - theirs))
    named = {one.path for patch in patches for one in patch.changes}
    every = files.compare(whole.base, whole.wanted)
    own = replace(whole, changes=[one for one in every if one.path in named])
    if not patches:
        return TurnWork(own, (replace(own, changes=(), unclear=unclear),))
    patches[-1] = replace(patches[-1], unclear=(*patches[-1].unclear, *unclear))
    return TurnWork(own, tuple(patches))


def _join(calls: Sequence[CallStates]) -> list[CallStates]:
    """Return calls as stretches: those that overlap, or between which nothing changed, are one."""
    stretches: list[CallStates] = []
    for call in calls:
        last = stretches[-1] if stretches else None
        if last is None or (_ended(last) < unix_ms(call.began_at) and last.after != call.before):
            stretches.append(call)
        elif unix_ms(call.ended_at) >= _ended(last):
            stretches[-1] = replace(last, ended_at=call.ended_at, after=call.after)
    return stretches


def _ended(call: CallStates) -> int:
    return unix_ms(call.ended_at)


def _list_contested(
    files: HasFiles, stretch: CallStates, rivals: Sequence[Rival]
) -> frozenset[str]:
    """Return the paths that calls of other turns changed at the same time."""
    found: set[str] = set()
    for rival in rivals:
        for call in rival.calls or _as_calls(rival.pinned):
            if _overlap(stretch, call.began_at, call.ended_at):
                found |= {one.path for one in files.compare(call.before, call.after)}
    return frozenset(found)


def _list_changed(files: HasFiles, rival: Rival) -> set[str]:
    calls = rival.calls or _as_calls(rival.pinned)
    return {one.path for call in calls for one in files.compare(call.before, call.after)}


def _as_calls(pinned: ResolvedTurnSnapshot) -> tuple[CallStates, ...]:
    """Return a turn whose calls were not observed as one long call."""
    pin, before = pinned.pin, pinned.before
    if before is None:
        return ()
    return (CallStates(pin.began_at, pin.ended_at, before.external, pinned.after.external),)


def _overlap(stretch: CallStates, began_at: Timestamp, ended_at: Timestamp) -> bool:
    is_after = unix_ms(began_at) > unix_ms(stretch.ended_at)
    return not is_after and unix_ms(ended_at) >= unix_ms(stretch.began_at)
