"""The reverts and picks that were carried out: which are in effect, and which can be redone.

Pure, and apart from ``merge``, which proposes them: to list turns takes none of what that needs.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from turntree.core.event import Event
from turntree.core.ids import PlanId, ResourceId, Timestamp, TurnId
from turntree.core.value import value
from turntree.resources.plans.plan import PlanState, fold
from turntree.resources.plans.steps import RecordMerge

MERGES_READ_MAX: Final = 200
"""Of more reverts and picks, only the newest can be undone or redone."""


@value
class MergeOperation:
    """A revert or pick that was carried out."""

    state: PlanState
    at: Timestamp
    turns: tuple[TurnId, ...]
    undoes: PlanId | None

    @property
    def id(self) -> PlanId:
        """The id of its plan."""
        return self.state.plan.id


def read_merges(plans: Iterable[Sequence[Event]], resource: ResourceId) -> list[MergeOperation]:
    """Return the operations on a resource among the events of each plan, in the same order."""
    found: list[MergeOperation] = []
    for events in plans:
        state = fold(events)
        commit = state.plan.steps[-1]
        if resource in state.plan.resources and isinstance(commit, RecordMerge):
            found.append(MergeOperation(state, events[0].at, commit.turns, commit.undoes))
    return found


def sort_merges(
    merges: Sequence[MergeOperation],
) -> tuple[list[MergeOperation], list[MergeOperation]]:
    """Return the operations that are in effect, and the undone ones that can be redone.

    Takes all of them, oldest first. An operation that undoes an undo is a redo. A new one makes
    what was undone before it final.
    """
    done: list[MergeOperation] = []
    undone: list[MergeOperation] = []
    for one in merges:
        if one.undoes is None:
            done.append(one)
            undone.clear()
        elif any(other.id == one.undoes for other in done):
            done = [other for other in done if other.id != one.undoes]
            undone.append(one)
        else:
            undone = [other for other in undone if other.id != one.undoes]
            done.append(one)
    return done, undone
