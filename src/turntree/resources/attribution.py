"""Whose a change is: a turn's, nobody's turn's, or one of several that cannot be told apart.

What differs between the states in which a turn found and left a place was changed while it was at
work. What differs between two turns was changed by whoever was still at work then, such as a
subagent that its turn did not wait for, or else outside of any. When several turns were at work at
the same time, a path belongs to the one whose own tool calls say that it wrote it.

This module also says what going back may touch. It must never know how states are kept or
compared: it is handed the paths.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from turntree.core.ids import Timestamp, TurnId
from turntree.core.value import value
from turntree.resources.resource import FileChange

Side = Literal["ours", "others", "unclear"]
"""Whose a change is to somebody who goes back: of the turns left behind, of others, or of both."""


@value
class TurnActivity:
    """A turn at work in a place: when, what changed meanwhile, and what it says it wrote."""

    turn: TurnId
    began_at: Timestamp
    ended_at: Timestamp
    changed: frozenset[str]
    written: frozenset[str] = frozenset()


@value
class ChangedByTurn:
    """A turn changed it."""

    turn: TurnId


@value
class ChangedOutside:
    """It was changed while no turn was at work."""


@value
class ChangedByUnknown:
    """Several turns were at work, and nothing tells which of them changed it."""

    turns: tuple[TurnId, ...]


By: TypeAlias = ChangedByTurn | ChangedOutside | ChangedByUnknown


def attribute(
    works: Sequence[TurnActivity],
) -> dict[TurnId, dict[str, ChangedByTurn | ChangedByUnknown]]:
    """Return for each turn whose the changes are that were made while it was at work."""
    found: dict[TurnId, dict[str, ChangedByTurn | ChangedByUnknown]] = {}
    for work in works:
        rivals = [other for other in works if other.turn != work.turn and _overlap(work, other)]
        found[work.turn] = {path: _whose(path, work, rivals) for path in sorted(work.changed)}
    return found


def attribute_gap(paths: Collection[str], at_work: Sequence[TurnActivity]) -> dict[str, By]:
    """Return whose the changes are that were made between two turns while others were at work."""
    found: dict[str, By] = {}
    for path in sorted(paths):
        involved = [work for work in at_work if path in work.changed]
        found[path] = _among(path, involved) if involved else ChangedOutside()
    return found


def _whose(
    path: str, work: TurnActivity, rivals: Sequence[TurnActivity]
) -> ChangedByTurn | ChangedByUnknown:
    # Who changed nothing here is no rival, whatever it says; what it wrote was overwritten.
    return _among(path, [work, *(rival for rival in rivals if path in rival.changed)])


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
    # Whoever begins as the other ends was not at work with it: turns pinned by hand do so.
    return left.began_at < right.ended_at and right.began_at < left.ended_at


def sides(changes: Mapping[str, By], ours: Collection[TurnId]) -> dict[str, Side]:
    """Return whose each path is to somebody who leaves some turns behind."""
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
    """What going back does to each path that differs."""

    applied: tuple[FileChange, ...] = ()
    """These become what they were."""
    kept: tuple[FileChange, ...] = ()
    """These stay, for only others changed them."""
    conflicts: tuple[FileChange, ...] = ()
    """Turns that are left behind changed these, and so did others."""
    paths: frozenset[str] = field(default_factory=frozenset[str])
    """The paths of what is applied."""


def settle(
    differences: Sequence[FileChange],
    deeds: Sequence[Mapping[str, Side]],
    wanted: Collection[str] = frozenset(),
) -> RestoreDecision:
    """Decide, path by path, how to get from the present to the state that is wanted.

    ``differences`` lead from the present to that state. ``deeds`` say who changed which paths
    since the two parted, in any order. ``wanted`` are the paths that the state itself changed since
    then: going back to an ancestor changes none.
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
    """Let a folder stand in which something stays, and nothing come below what stays."""
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
    """Return the changes of some paths, and of the folders above them that came for their sake.

    A folder that goes takes part if nothing else stands in it. None means all paths.
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
    """Return the paths that can be taken back without losing what somebody did in between.

    ``differences`` lead from the present to the state that is wanted; ``known`` are the digests
    that a path had in the worlds a plan leads from and to. A path whose bytes are in neither was
    changed by somebody else, and so is whatever lies below or above it.
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
