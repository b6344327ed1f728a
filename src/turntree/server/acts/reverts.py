"""Take back what one turn did to files: show the plan, carry it out, undo and redo it."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal

from turntree.core.errors import Conflict, InvalidOperation, NotFound
from turntree.core.ids import PlanId, TurnId
from turntree.resources.file_merge import Choice, above_of
from turntree.resources.plans.merge import (
    MergeChoices,
    MergeItem,
    MergePlan,
)
from turntree.resources.plans.merge_log import sort_merges
from turntree.resources.resource import FileChange
from turntree.resources.service import in_thread
from turntree.server.access.rights import INVOKE, READ
from turntree.server.acts.file_steps import count_files, name_paths, step_of_change, steps_of_diff
from turntree.server.commands import decide, short, spell, spell_in
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute
from turntree.wire.acts import (
    ActResult,
    ActUndo,
    FileStep,
    MergeChoice,
    RevertAct,
    RevertConflict,
    RevertPlan,
    RevertPlanAct,
    RevertUndoAct,
)

Way = Literal["undo", "redo"]
NO_SNAPSHOTS: Final = "No snapshot shows the files before and after this turn."
NO_CHANGES: Final = "This turn changed no files."
CHOICES: Final[tuple[MergeChoice, ...]] = ("keep", "exact", "mark")
DONE_ALREADY: Final = "Every file is as it was before this turn already."


async def plan_revert(context: ServerContext, act: RevertPlanAct) -> RevertPlan:
    """Return what taking back a turn's file changes would do; later changes stay."""
    placed = await context.tree.turns.get(act.at)
    digest = short(placed.turn.digest)
    plan: MergePlan | None = None
    try:
        plan = await _propose(context, placed.turn.id, act.files, act.conflicts)
    except NotFound:
        why: str | None = NO_SNAPSHOTS
    else:
        why = _why_nothing(plan)
    items = () if plan is None else plan.items
    steps = [await _list_steps(context, item) for item in items]
    return RevertPlan(
        turn=placed.turn.id,
        digest=digest,
        title=placed.turn.title,
        files=tuple(dict.fromkeys(one.path for item in items for one in item.asked)),
        goes_back=tuple(step for goes_back, _ in steps for step in goes_back),
        stays=tuple(step for _, stays in steps for step in stays),
        conflicts=tuple([one for item in items for one in await _list_conflicts(context, item)]),
        done=tuple(path for item in items for path in item.done),
        unclear=tuple(path for item in items for path in item.unclear),
        folder=next((item.resource.place for item in items), None),
        why_nothing=why,
        command=_spell_revert(context, digest, items, act.files, act.conflicts),
        expected_changes=_fingerprint(items),
    )


async def revert(context: ServerContext, act: RevertAct) -> ActResult:
    """Take back what a turn did to files, and keep everything later.

    Raises:
        NotFound: No snapshot shows the files before and after the turn.
        Conflict: The files changed since the client saw the plan.
        Refusal: A later change is in the same lines, and the client did not decide.
        InvalidOperation: There is nothing to take back, or it failed; everything is as it was.
    """
    placed = await context.tree.turns.get(act.at)
    digest = short(placed.turn.digest)
    plan = await _propose(context, placed.turn.id, act.files, act.conflicts)

    def command(choice: MergeChoice) -> str:
        return _spell_revert(context, digest, plan.items, act.files, choice)

    _check_decided(plan, command)
    if _fingerprint(plan.items) != act.expected_changes:
        raise Conflict("the files changed since this page showed the plan")
    if not plan.acts:
        raise InvalidOperation(f"nothing to take back from {digest}")
    return await _carry_out(context, plan, f"Took back {digest}", command(act.conflicts), "undo")


async def undo_revert(context: ServerContext, act: RevertUndoAct) -> ActResult:
    """Bring back what a revert took; what was changed since stays.

    Raises:
        NotFound: No such revert.
        Conflict: Another revert or pick of these files came later.
        Refusal: A later change is in the same lines, and the client did not decide.
    """
    return await _go_back(context, act, "undo")


async def redo_revert(context: ServerContext, act: RevertUndoAct) -> ActResult:
    """Take back again what the undo of a revert brought back.

    Raises:
        NotFound: No such undo.
        Conflict: Another revert or pick of these files came later.
        Refusal: A later change is in the same lines, and the client did not decide.
    """
    return await _go_back(context, act, "redo")


async def _go_back(context: ServerContext, act: RevertUndoAct, verb: Way) -> ActResult:
    tree = context.tree
    state = await tree.plans.get(PlanId(act.plan))
    (resource, *_) = state.plan.resources
    done, undone = sort_merges(await tree.plans.list_merges(resource))
    newest = (done if verb == "undo" else undone)[-1:]
    if [one.id for one in newest] != [state.plan.id]:
        raise Conflict("another revert or pick of these files came later")
    propose = tree.plans.propose_undo if verb == "undo" else tree.plans.propose_redo
    plan = await propose(resource, MergeChoices(default=_chosen(act.conflicts)))
    place = plan.items[0].resource.place

    def command(choice: MergeChoice) -> str:
        return spell_in(context, place, verb, *decide(choice))

    _check_decided(plan, command)
    digest = short((await tree.turns.get(plan.turns[0])).turn.digest)
    said = f"Brought back {digest}" if verb == "undo" else f"Took back {digest} again"
    other: Way = "redo" if verb == "undo" else "undo"
    return await _carry_out(context, plan, said, command(act.conflicts), other)


async def _carry_out(
    context: ServerContext, plan: MergePlan, said: str, command: str, back: Way
) -> ActResult:
    outcome = await context.tree.plans.carry_out(plan)
    outcome.check()
    place = plan.items[0].resource.place
    changed = count_files(sum(len(item.changes) for item in plan.items))
    return ActResult(
        f"{said}: {changed} in {place}",
        command,
        ActUndo(spell_in(context, place, back), f"/acts/revert/{back}", {"plan": outcome.plan.id}),
        turn=plan.turns[0],
        folder=place,
        notes=tuple(f"{path} changed meanwhile and was left as it is" for path in outcome.left),
    )


async def _propose(
    context: ServerContext, turn: TurnId, files: Sequence[str] | None, conflicts: MergeChoice
) -> MergePlan:
    choices = MergeChoices(
        paths=None if files is None else frozenset(files),
        default=_chosen(conflicts),
    )
    return await context.tree.plans.propose_revert(turn, choices)


def _why_nothing(plan: MergePlan) -> str | None:
    if plan.acts or any(item.conflicts for item in plan.items):
        return None
    return DONE_ALREADY if any(item.asked for item in plan.items) else NO_CHANGES


def _check_decided(plan: MergePlan, command: Callable[[MergeChoice], str]) -> None:
    if plan.undecided:
        paths = [one.path for one in plan.undecided]
        raise Refusal(
            HTTPStatus.CONFLICT,
            "files-in-conflict",
            f"changed since, in the same places: {name_paths(paths)}",
            *(command(choice) for choice in CHOICES),
        )


def _chosen(conflicts: MergeChoice) -> Choice | None:
    return None if conflicts == "ask" else conflicts


def _spell_revert(
    context: ServerContext,
    digest: str,
    items: Sequence[MergeItem],
    files: Sequence[str] | None,
    conflicts: MergeChoice,
) -> str:
    """Return the command; it names files by their whole paths, because it is typed anywhere."""
    words = ["revert", digest, *decide(conflicts)]
    if files is None:
        return spell(context, *words)
    named = [
        str(Path(item.resource.place, path))
        for item in items
        for path in files
        if any(path in (one.path, *above_of(one.path)) for one in item.asked)
    ]
    return spell(context, *words, "--", *named)


async def _list_steps(
    context: ServerContext, item: MergeItem
) -> tuple[list[FileStep], list[FileStep]]:
    """Return the files that change, and those that were changed since the turn and stay."""
    tree, place = context.tree, item.resource.place
    files = tree.resources.file_keeper_of(item.resource)
    since = await in_thread(files.compare, item.base, item.present)
    others = {one.path for one in since}
    diffs = await tree.files.diff(item.resource, item.present, item.target.external)
    goes_back = [
        replace(step, merged=step.path in others)
        for diff in diffs
        for step in steps_of_diff(place, diff)
    ]
    meant = {one.path for one in (*item.changes, *item.asked)}
    meant |= {one.path for one in item.conflicts}
    stays = [
        step_of_change(place, one) for one in since if one.path not in meant and not _is_folder(one)
    ]
    return goes_back, stays


def _is_folder(change: FileChange) -> bool:
    entry = change.new or change.old
    return entry is not None and entry.kind == "directory"


async def _list_conflicts(context: ServerContext, item: MergeItem) -> list[RevertConflict]:
    """Return the conflicts, with the turns that are in the way."""
    return [
        RevertConflict(
            one.path,
            item.resource.place,
            one.why,
            tuple([short((await context.tree.turns.get(id)).turn.digest) for id in one.turns]),
            one.outside,
            decided=one not in item.undecided,
        )
        for one in item.conflicts
    ]


def _fingerprint(items: Sequence[MergeItem]) -> str:
    """Return a digest of all that a plan would write, and of what it leaves open."""
    what = [
        [
            item.resource.place,
            [
                [one.path, one.kind, one.new and one.new.digest, one.new and one.new.mode]
                for one in item.changes
            ],
            [[one.path, one.why, one.lines] for one in item.conflicts],
        ]
        for item in items
    ]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/acts/revert/plan", READ, plan_revert,
        "Show what taking back a turn's file changes would do; nothing is done.",
        RevertPlanAct, RevertPlan, is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/revert", INVOKE, revert,
        "Take back what a turn did to files, and keep everything later.",
        RevertAct, ActResult, "write", is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/revert/undo", INVOKE, undo_revert, "Bring back what a revert took.",
        RevertUndoAct, ActResult, "write", is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/revert/redo", INVOKE, redo_revert, "Repeat a revert that was undone.",
        RevertUndoAct, ActResult, "write", is_local=True,
    ),
)  # fmt: skip
