"""Create sessions at any turn, with files of their own or without, and folders with a turn's files.

Each can be looked at before it is made, and removed afterwards.
"""

from pathlib import Path
from typing import Final

from turntree.core.errors import Conflict, InvalidOperation, PathExists, TurntreeError
from turntree.core.ids import TurnId
from turntree.core.session import Session
from turntree.resources.plans.fork import ForkPlan
from turntree.resources.service import in_thread, settled
from turntree.server.access.rights import CREATE, READ
from turntree.server.acts.folders import whole_path
from turntree.server.acts.heads import check_revision
from turntree.server.commands import short, spell, spell_fork, spell_removal
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.system.head_file import write_own_head
from turntree.wire.acts import (
    ActResult,
    ActUndo,
    ForkAct,
    ForkedPlace,
    ForkPreview,
    WorktreeAct,
    WorktreeRemoval,
)

NO_FILES: Final = "No turn up to here has a snapshot of its files."


async def plan_fork(context: ServerContext, act: ForkAct) -> ForkPreview:
    """Return the name that a fork would get, and the folders that it would create."""
    found = await check_revision(context, act.at, act.expected_head)
    turn = (await context.tree.turns.get(found.turn)).turn
    label = act.label or await _free_label(context, found.turn, found.session)
    places: tuple[ForkedPlace, ...] = ()
    try:
        plan = await context.tree.plans.propose_fork(act.at, None, place=_place(act.folder))
        places = _places_of(plan)
        why = None if places else NO_FILES
    except TurntreeError as error:
        why = _sentence(error)
    command = spell_fork(
        context, short(turn.digest), label, with_files=act.with_files, folder=act.folder
    )
    return ForkPreview(label, turn.id, short(turn.digest), turn.title, places, why, command)


async def fork(context: ServerContext, act: ForkAct) -> ActResult:
    """Create a session at a turn; nothing is copied unless it gets files of its own.

    Raises:
        Conflict: The name is taken.
        PathExists: Something exists at the given folder.
    """
    tree = context.tree
    found = await check_revision(context, act.at, act.expected_head)
    label = act.label or await _free_label(context, found.turn, found.session)
    folders: list[str] = []
    if act.with_files:
        plan = await tree.plans.propose_fork(act.at, label, place=_place(act.folder))
        folders = plan.places
        if not folders:
            raise InvalidOperation(NO_FILES)
        session = await _carry_out(context, plan)
    else:
        session = await tree.sessions.fork(act.at, label)
    undo = ActUndo(
        spell_removal(context, folders, session.label),
        "/acts/worktree/remove" if folders else "/acts/archive",
        {"session": session.label, **({"folders": folders} if folders else {})},
    )
    return ActResult(
        f"Forked {short(session.head_digest)} as {session.label}"
        + (f", in {', '.join(folders)}" if folders else "; nothing was copied"),
        spell_fork(
            context, short(session.head_digest), session.label,
            with_files=act.with_files, folder=folders[0] if len(folders) == 1 else None,
        ),
        undo,
        session=session.label,
        turn=session.head,
        folder=next(iter(folders), None),
    )  # fmt: skip


async def plan_worktree(context: ServerContext, act: WorktreeAct) -> ForkPreview:
    """Return the folder that a worktree would be, and the name of its session, or why not."""
    found = await check_revision(context, act.at, act.expected_head)
    turn = (await context.tree.turns.get(found.turn)).turn
    label, places, why = "", tuple[ForkedPlace, ...](), None
    try:
        plan = await context.tree.plans.propose_worktree(act.at, _place(act.folder))
        label, places = plan.label or "", _places_of(plan)
    except TurntreeError as error:
        why = _sentence(error)
    command = spell(context, "worktree", short(turn.digest), *(one.place for one in places[:1]))
    return ForkPreview(label, turn.id, short(turn.digest), turn.title, places, why, command)


async def make_worktree(context: ServerContext, act: WorktreeAct) -> ActResult:
    """Create a folder with the files that a turn left, and a session that works there.

    Raises:
        NotFound: No turn up to there has a snapshot of its files.
        PathExists: Something exists at the given folder.
    """
    await check_revision(context, act.at, act.expected_head)
    plan = await context.tree.plans.propose_worktree(act.at, _place(act.folder))
    session = await _carry_out(context, plan)
    digest = short(plan.turn.turn.digest)
    return ActResult(
        f"Made {', '.join(plan.places)} with the files as {digest} left them",
        spell(context, "worktree", digest, *plan.places[:1]),
        ActUndo(
            spell_removal(context, plan.places, session.label),
            "/acts/worktree/remove",
            {"session": session.label, "folders": plan.places},
        ),
        session=session.label,
        turn=session.head,
        folder=next(iter(plan.places), None),
    )


async def remove_worktree(context: ServerContext, act: WorktreeRemoval) -> ActResult:
    """Remove folders that a fork created, and archive its session.

    Raises:
        NotFound: A folder was not created this way.
        UnsavedChanges: A folder holds what no snapshot has.
    """
    tree = context.tree
    session = await tree.sessions.get(act.session)
    for folder in act.folders:
        await tree.worktrees.remove(folder)
    await tree.sessions.set_status(session.label, "archived")
    back = [spell(context, "worktree", "--restore", folder) for folder in act.folders]
    return ActResult(
        f"Removed {', '.join(act.folders)}, and archived {session.label}",
        spell_removal(context, list(act.folders), session.label),
        ActUndo(" && ".join([spell(context, "session", "unarchive", session.label), *back])),
        session=session.label,
        turn=session.head,
    )


async def _carry_out(context: ServerContext, plan: ForkPlan) -> Session:
    (await context.tree.plans.carry_out(plan)).check()
    assert plan.session is not None, "a session was asked for"
    session = await context.tree.sessions.ledger.get(plan.session)
    for place in plan.places:
        # Commands run in a fork's folder work on the fork.
        await in_thread(write_own_head, Path(place), session.label)
    return session


async def _free_label(context: ServerContext, turn: TurnId, named: Session | None) -> str:
    """Return a free name after the session that is forked."""
    sessions = context.tree.sessions
    if named is None:
        holding = await context.tree.turns.threads.list_sessions_holding(turn)
        named = await sessions.ledger.get(holding[0]) if holding else None
    return await sessions.find_free_label("fork" if named is None else named.label)


def _place(folder: str | None) -> str | None:
    return None if folder is None else settled(str(whole_path(folder)))


def _places_of(plan: ForkPlan) -> tuple[ForkedPlace, ...]:
    return tuple(
        ForkedPlace(item.resource.place, item.place, item.cost.files, item.cost.size)
        for item in plan.items
        if item.place is not None and item.cost is not None
    )


def _sentence(error: TurntreeError) -> str:
    if isinstance(error, PathExists):
        return f"There is something at {error.place} already; {error.free} is free."
    if isinstance(error, Conflict):
        raise error
    return f"Its files cannot be copied: {error}."


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/acts/fork/plan", READ, plan_fork,
        "Show what a fork would create; nothing is done.",
        ForkAct, ForkPreview, is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/fork", CREATE, fork, "Fork a turn.", ForkAct, ActResult, "write",
        is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/worktree/plan", READ, plan_worktree,
        "Show which folder a worktree would be; nothing is done.", WorktreeAct, ForkPreview,
        is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/worktree", CREATE, make_worktree,
        "Create a folder with the files of a turn.",
        WorktreeAct, ActResult, "write", is_local=True,
    ),
    ApiRoute(
        "POST", "/acts/worktree/remove", CREATE, remove_worktree,
        "Remove the folders of a fork and archive its session.",
        WorktreeRemoval, ActResult, "write", is_local=True,
    ),
)  # fmt: skip
