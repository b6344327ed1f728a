"""Move sessions, with their files or without: show the plan, carry it out, undo it."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, TypedDict

from turntree.core.errors import DataMissing, InvalidOperation, NotFound
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.resources.plans.restore import RestoreItem, RestoreKind, RestorePlan
from turntree.resources.resource import FileChange
from turntree.server.access.rights import INVOKE, READ
from turntree.server.acts.file_steps import (
    count_files,
    name_paths,
    step_of_change,
    steps_of_diff,
)
from turntree.server.acts.heads import check_head, moving
from turntree.server.commands import decide, short, spell
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute
from turntree.wire.acts import (
    ActResult,
    ActUndo,
    ConflictChoice,
    FileStep,
    RewindAct,
    RewindPlan,
    RewindPlanAct,
    UndoAct,
)


async def plan_rewind(context: ServerContext, act: RewindPlanAct) -> RewindPlan:
    """Return what moving a session back would do to it and to its files.

    Raises:
        InvalidOperation: The turn is not an ancestor of the session's head.
    """
    tree = context.tree
    session = await tree.sessions.get(act.session)
    asked = await _get_ancestor(context, session, act.to)
    target = asked.parent if act.before else asked.turn.id
    landing = None if target is None else await tree.turns.get(target)
    plan, why = None, None
    try:
        plan = await tree.plans.propose_restore(
            session.label, asked.turn.id, **_choose(act.conflicts), before=act.before
        )
    except DataMissing:
        raise
    except NotFound:
        why = "No turn up to there has a snapshot of its files."
    except InvalidOperation as error:
        why = f"The files stay: {error}."
    goes_back, untouched = await _read_steps(context, plan)
    items = () if plan is None else plan.items
    words = ["rewind", session.label, short(asked.turn.digest), *["--before"] * act.before]
    return RewindPlan(
        plan=None if plan is None else plan.plan.id,
        session=session.label,
        turn=target,
        digest=short(None if landing is None else landing.turn.digest),
        title="" if landing is None else landing.turn.title,
        turns_left=session.depth - (0 if landing is None else landing.depth),
        goes_back=goes_back,
        stays=_steps_of(items, [item.kept for item in items]),
        conflicts=_steps_of(items, [item.conflicts for item in items]),
        untouched=untouched,
        folder=next((item.resource.place for item in items), None),
        notes=() if plan is None else tuple(_notes_of(plan)),
        why_no_files=why,
        command=spell(context, *words, "--files", *decide(act.conflicts)),
        command_without_files=spell(context, *words),
        expected_head=session.head,
    )


async def rewind(context: ServerContext, act: RewindAct) -> ActResult:
    """Move a session back to an earlier turn; nothing is deleted."""
    session = await context.tree.sessions.get(act.session)
    await _get_ancestor(context, session, act.to)
    return await _move(context, session, act, "rewind")


async def reset(context: ServerContext, act: RewindAct) -> ActResult:
    """Move a session to any turn, as the undo of an undo does."""
    return await _move(context, await context.tree.sessions.get(act.session), act, "reset")


async def undo(context: ServerContext, act: UndoAct) -> ActResult:
    """Take back the last move of a session, with its files if it had some.

    Raises:
        InvalidOperation: There is nothing to undo.
    """
    tree = context.tree
    session = await tree.sessions.get(act.session)
    words = ["undo", session.label, *decide(act.conflicts)]
    async with moving(context, session, act.expected_head) as head:
        plan = await tree.plans.propose_restore(
            session.label, kind="undo", **_choose(act.conflicts)
        )
        if plan.items:
            notes = await _carry_out(context, plan, act.expected_head, words)
        else:
            await tree.sessions.undo(session.label, expected_head=head)
            notes = ()
    after = await tree.sessions.ledger.get(session.id)
    return ActResult(
        f"Undone: {after.label} is back at {short(after.head_digest)}{_count(plan)}",
        spell(context, *words),
        await _find_way_again(context, session, after, with_files=bool(plan.items)),
        session=after.label,
        turn=after.head,
        notes=notes,
    )


async def _move(
    context: ServerContext, session: Session, act: RewindAct, kind: RestoreKind
) -> ActResult:
    tree = context.tree
    asked = await tree.turns.get(act.to)
    words = ["rewind"] if kind == "rewind" else ["session", "reset"]
    words += [session.label, short(asked.turn.digest), *["--before"] * act.before]
    plan, notes = None, tuple[str, ...]()
    async with moving(context, session, act.expected_head) as head:
        if act.with_files:
            plan = await tree.plans.propose_restore(
                session.label, asked.turn.id, kind=kind, before=act.before,
                **_choose(act.conflicts),
            )  # fmt: skip
            words += ["--files", *decide(act.conflicts)]
            notes = await _carry_out(context, plan, act.expected_head, words)
        elif head == asked.turn.id and not act.before:
            raise InvalidOperation(
                f"nothing to do: {session.label} is at {short(asked.turn.digest)} already"
            )
        elif kind == "rewind":
            await tree.sessions.rewind(
                session.label, asked.turn.id, before=act.before, expected_head=head
            )
        else:
            await tree.sessions.replay(session.label, asked.turn.id, expected_head=head)
    after = await tree.sessions.ledger.get(session.id)
    return ActResult(
        f"Moved {after.label} to {short(after.head_digest)}{_count(plan)}",
        spell(context, *words),
        ActUndo(
            spell(context, "undo", after.label),
            "/acts/undo",
            {"session": after.label, "expected_head": after.head},
        ),
        session=after.label,
        turn=after.head,
        folder=next((item.resource.place for item in plan.items), None) if plan else None,
        notes=notes,
    )


async def _carry_out(
    context: ServerContext, plan: RestorePlan, expected: str | None, words: Sequence[str]
) -> tuple[str, ...]:
    """Move a session with its files, and return what the user should know about it.

    Raises:
        HeadMoved: The session has another head than the client saw.
        Refusal: A turn and another writer changed the same files, and the client did not decide.
        InvalidOperation: The plan could not be completed; everything is as it was.
    """
    check_head(plan.session, expected)
    if plan.undecided:
        paths = [change.path for _, change in plan.conflicts]
        raise Refusal(
            HTTPStatus.CONFLICT,
            "files-in-conflict",
            f"changed by a turn and outside it: {name_paths(paths)}",
            spell(context, *words, "--keep"),
            spell(context, *words, "--exact"),
        )
    outcome = await context.tree.plans.carry_out(plan)
    outcome.check()
    left = tuple(f"{path} changed meanwhile and was left as it is" for path in outcome.left)
    return (*_notes_of(plan), *left)


async def _get_ancestor(context: ServerContext, session: Session, revision: str) -> ThreadTurn:
    asked = await context.tree.turns.get(revision)
    threads = context.tree.threads
    if session.head is None or not await threads.is_ancestor(asked.turn.id, session.head):
        raise InvalidOperation(
            f"not an ancestor of {session.label}: {short(asked.turn.digest)}; fork it instead"
        )
    return asked


async def _find_way_again(
    context: ServerContext, before: Session, after: Session, *, with_files: bool
) -> ActUndo | None:
    """Return how to repeat the move that was undone."""
    body = {"session": after.label, "with_files": with_files, "expected_head": after.head}
    files = ["--files"] * with_files
    if before.head is not None:
        words = ["session", "reset", after.label, short(before.head_digest), *files]
        return ActUndo(spell(context, *words), "/acts/reset", {**body, "to": before.head})
    if after.head is None:
        return None
    # It had led to no turn at all; only the first turn of the thread can name that point.
    first = (await context.tree.turns.get(f"{after.head}~{after.depth - 1}")).turn
    words = ["rewind", after.label, short(first.digest), "--before", *files]
    return ActUndo(spell(context, *words), "/acts/rewind", {**body, "to": first.id, "before": True})


class _FileChoice(TypedDict):
    """How a plan decides about files that a turn and another writer changed."""

    exact: bool
    keep_conflicts: bool


def _choose(conflicts: ConflictChoice) -> _FileChoice:
    return {"exact": conflicts == "exact", "keep_conflicts": conflicts == "keep"}


async def _read_steps(
    context: ServerContext, plan: RestorePlan | None
) -> tuple[tuple[FileStep, ...], int]:
    """Return the files that go back, and how many are already as they were."""
    steps: list[FileStep] = []
    untouched, files = 0, context.tree.files
    for item in () if plan is None else plan.items:
        if not item.supported or item.present is None:
            continue
        diffs = await files.diff(
            item.resource, item.present, item.target.external, only=item.changes
        )
        place = item.resource.place
        steps += [step for diff in diffs for step in steps_of_diff(place, diff)]
        entries = await files.list_entries(item.resource, item.target.external)
        changed = {change.path for change in (*item.changes, *item.kept, *item.conflicts)}
        untouched += sum(one.kind != "directory" and one.path not in changed for one in entries)
    return tuple(steps), untouched


def _steps_of(
    items: Sequence[RestoreItem], changes: Sequence[Sequence[FileChange]]
) -> tuple[FileStep, ...]:
    return tuple(
        step_of_change(item.resource.place, one)
        for item, listed in zip(items, changes, strict=True)
        for one in listed
    )


def _notes_of(plan: RestorePlan) -> list[str]:
    """Return what happens to whole folders, in sentences."""
    notes: list[str] = []
    for item in plan.items:
        place = item.resource.place
        if not item.supported:
            notes.append(f"{place} cannot be brought back and stays as it is")
        elif item.present is None:
            notes.append(f"{place} is gone and is made anew")
        elif item.fate == "goes":
            notes.append(f"{place} was made anew and is removed again")
        elif item.fate == "outlives":
            notes.append(f"{place} was made anew, has changed since, and stays")
    notes += [f"{one.place} stays: no turn says how it was then" for one in plan.unknown]
    return notes


def _count(plan: RestorePlan | None) -> str:
    count = 0 if plan is None else sum(len(item.changes) for item in plan.items if item.supported)
    return "" if not count else f", and {count_files(count)} with it"


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/acts/rewind/plan", READ, plan_rewind,
        "Show what moving a session back would change; nothing is done.",
        RewindPlanAct, RewindPlan, is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/rewind", INVOKE, rewind, "Move a session back to an earlier turn.",
        RewindAct, ActResult, "write", is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/reset", INVOKE, reset, "Move a session to any turn.",
        RewindAct, ActResult, "write", is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/undo", INVOKE, undo, "Undo the last move of a session.",
        UndoAct, ActResult, "write", is_local=True,
    ),
)  # fmt: skip
