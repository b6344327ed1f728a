"""Attribute file changes to turns: one turn, no turn, or several that cannot be distinguished.

A path that differs between a turn's before and after snapshots changed while that turn ran. A path
that differs between two turns was changed by a turn that was still running, such as a subagent its
parent did not wait for, or else outside Turntree. When several turns ran at once, the path belongs
to the one whose own tool calls report writing it.

This module also decides which paths a restore may touch. It gets paths only, so it does not depend
on how snapshots are stored or compared.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from turntree.core.ids import Timestamp, TurnId
from turntree.core.value import value
from turntree.resources.resource import FileChange

Side = Literal["ours", "others", "unclear"]
"""Who changed a path, seen from a restore: the turns it undoes, other writers, or both."""


@value
class TurnActivity:
    """The interval in which a turn ran, what changed in it, and what the turn reports writing."""

    turn: TurnId
    began_at: Timestamp
    ended_at: Timestamp
    changed: frozenset[str]
    written: frozenset[str] = frozenset()


@value
class ChangedByTurn:
    """One turn changed the path."""

    turn: TurnId


@value
class ChangedOutside:
    """The path changed while no turn was running."""


@value
class ChangedByUnknown:
    """Several turns were running, and nothing shows which of them changed the path."""

    turns: tuple[TurnId, ...]


By: TypeAlias = ChangedByTurn | ChangedOutside | ChangedByUnknown


def attribute(
    works: Sequence[TurnActivity],
) -> dict[TurnId, dict[str, ChangedByTurn | ChangedByUnknown]]:
    """Return, for each turn, who made the changes that happened while it ran."""
    found: dict[TurnId, dict[str, ChangedByTurn | ChangedByUnknown]] = {}
    for work in works:
        rivals = [other for other in works if other.turn != work.turn and _overlap(work, other)]
        # A turn that changed nothing here is not a rival: what it reports writing was
        # overwritten.
        found[work.turn] = {
            path: _among(path, [work, *(rival for rival in rivals if path in rival.changed)])
            for path in sorted(work.changed)
        }
    return found


def attribute_gap(paths: Collection[str], at_work: Sequence[TurnActivity]) -> dict[str, By]:
    """Return who made the changes between two turns, given the other turns running then."""
    found: dict[str, By] = {}
    for path in sorted(paths):
        involved = [work for work in at_work if path in work.changed]
        found[path] = _among(path, involved) if involved else ChangedOutside()
    return found


def _among(path: str, involved: Sequence[TurnActivity]) -> ChangedByTurn | ChangedByUnknown:
    if len(involved) == 1:
        return ChangedByTurn(involved[0].turn)
    named = [one for one in involved if path in one.written]
    if len(named) == 1:
        return ChangedByTurn(named[0].turn)
    return ChangedByUnknown(tuple(sorted(one.turn for one in involved)))


def _overlap(left: TurnActivity, right: TurnActivity) -> bool:
    if left.began_at == right.began_at or left.ended_at == right.ended_at:
        return True
    # A turn that begins when the other ends did not overlap it: manual snapshots look like that.
    return left.began_at < right.ended_at and right.began_at < left.ended_at


def sides(changes: Mapping[str, By], ours: Collection[TurnId]) -> dict[str, Side]:
    """Return who changed each path, seen from a restore that undoes the turns in ``ours``."""
    return {path: _side(by, ours) for path, by in changes.items()}


def _side(by: By, ours: Collection[TurnId]) -> Side:
    match by:
        case ChangedByTurn(turn):
            return "ours" if turn in ours else "others"
        case ChangedOutside():
            return "others"
        case ChangedByUnknown(turns):
            known = {turn in ours for turn in turns}
            return "unclear" if len(known) > 1 else _side(ChangedByTurn(turns[0]), ours)


@value
class RestoreDecision:
    """What a restore does to each path that differs."""

    applied: tuple[FileChange, ...] = ()
    """Paths that get their old content."""
    kept: tuple[FileChange, ...] = ()
    """Paths that stay, because only other writers changed them."""
    conflicts: tuple[FileChange, ...] = ()
    """Paths that both the undone turns and other writers changed."""
    paths: frozenset[str] = field(default_factory=frozenset[str])
    """The paths of ``applied``."""


def settle(
    differences: Sequence[FileChange],
    deeds: Sequence[Mapping[str, Side]],
    wanted: Collection[str] = frozenset(),
) -> RestoreDecision:
    """Decide, path by path, how to get from the present state to the target state.

    ``differences`` lead from the present to the target. ``deeds`` say who changed which paths since
    the two diverged, in any order. ``wanted`` are the paths that the target itself changed since
    then: restoring an ancestor changes none.
    """
    verdicts: dict[str, str] = {}
    for change in differences:
        who = {deed[change.path] for deed in deeds if change.path in deed}
        if who <= {"ours"}:
            verdicts[change.path] = "applied"
        elif who == {"others"} and change.path not in wanted:
            verdicts[change.path] = "kept"
        else:
            verdicts[change.path] = "conflicts"
    _spare_folders(differences, verdicts)

    def judged(word: str) -> tuple[FileChange, ...]:
        return tuple(one for one in differences if verdicts.get(one.path) == word)

    applied = judged("applied")
    paths = frozenset(change.path for change in applied)
    return RestoreDecision(applied, judged("kept"), judged("conflicts"), paths)


def _spare_folders(differences: Sequence[FileChange], verdicts: dict[str, str]) -> None:
    """Keep a folder that still holds something, and add nothing below a file that stays."""
    stays = {path for path, verdict in verdicts.items() if verdict != "applied"}
    within = {above for path in stays for above in _above(path)}
    files = {
        one.path
        for one in differences
        if one.path in stays and one.old is not None and one.old.kind != "directory"
    }
    for change in differences:
        if verdicts[change.path] != "applied":
            continue
        if change.path in within and change.old is not None and change.old.kind == "directory":
            if change.new is None:
                del verdicts[change.path]
            elif change.new.kind != "directory":
                verdicts[change.path] = "conflicts"
        elif any(above in files for above in _above(change.path)):
            verdicts[change.path] = "conflicts"


def of_paths(changes: Sequence[FileChange], only: Collection[str] | None) -> list[FileChange]:
    """Return the changes of some paths, and of the parent folders created for them.

    A folder that is removed is included if nothing else remains in it. None means all paths.
    """
    if only is None:
        return list(changes)
    above = {folder for path in only for folder in _above(path)}
    going = {one.path for one in changes if one.path in above and _goes(one)}
    stays = {one.path for one in changes if one.path not in only and one.path not in going}
    held = {folder for path in stays for folder in _above(path)}
    return [one for one in changes if one.path in only or one.path in going - held]


def _goes(change: FileChange) -> bool:
    return change.new is None and change.old is not None and change.old.kind == "directory"


def untouched_since(
    differences: Sequence[FileChange], known: Mapping[str, Collection[object]]
) -> frozenset[str]:
    """Return the paths that can be rolled back without losing another writer's work.

    ``differences`` lead from the present to the target state; ``known`` are the digests a path had
    before and after the plan. A path whose content matches neither was changed by another writer,
    which also protects the paths above and below it.
    """
    foreign = {
        one.path
        for one in differences
        if one.old is not None
        and one.old.digest is not None
        and one.old.digest not in known.get(one.path, ())
    }
    within = {above for path in foreign for above in _above(path)}
    return frozenset(
        one.path
        for one in differences
        if one.path not in foreign
        and (one.path not in within or _stays_folder(one))
        and not any(above in foreign for above in _above(one.path))
    )


def _stays_folder(change: FileChange) -> bool:
    return change.new is not None and change.new.kind == "directory"


def _above(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]
