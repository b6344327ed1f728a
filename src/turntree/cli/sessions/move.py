"""Move sessions: ``fork``, ``switch``, ``rewind``, ``undo``, and the ``reflog`` of their moves.

Nothing here deletes anything, and every command prints how to undo it.
"""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from turntree.auth.persona import persona_of
from turntree.cli.command import Terminal, verb
from turntree.cli.common.fork_files import ForkRequest, find_privacy, fork_with_files, show_plan
from turntree.cli.common.merge_files import HowToMerge, MergeCommand, find_undoable, merge_files
from turntree.cli.common.session_move import Move, find_digest, follow
from turntree.cli.context import CliContext, load_settings, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.session import move_document, session_row_document, stand
from turntree.cli.output.text import age, clean, cut, digits, table
from turntree.cli.param_types import PROGRAM, REVISION, SESSION
from turntree.cli.sessions.move_files import (
    HowToMove,
    file_options,
    find_way_again,
    move_with_files,
    tell_moved_files,
)
from turntree.cli.sessions.picker import can_pick
from turntree.core.errors import Hint, InvalidOperation, PathExists
from turntree.core.ids import TurnId
from turntree.core.program import Visibility, a_kind
from turntree.core.session import Session, SessionMove
from turntree.resources.file_merge import Choice
from turntree.resources.plans.fork import Choice as ForkChoice
from turntree.resources.plans.merge import MergeChoices, MergePlan
from turntree.routing.route import Candidate
from turntree.system.head_file import read_head, remove_head
from turntree.system.shell_words import quoted


@verb()
@click.argument("names", metavar="[REV] LABEL", nargs=-1, required=True, type=REVISION)
@click.option("--for", "topic", metavar="TEXT",
              help="Text that chooses the turn that fits it best, instead of REV.")  # fmt: skip
@click.option("--switch", "-s", "switches", is_flag=True, help="Switch to the new session too.")
@click.option("--public", "visibility", flag_value="public",
              help="Public visibility, even if its source is private.")  # fmt: skip
@click.option("--private", "visibility", flag_value="private",
              help="Private visibility: the owner and grantees only.")  # fmt: skip
@click.option("--agent", type=PROGRAM,
              help="Agent that continues it, with its own permissions.")  # fmt: skip
@click.option("--yes", "-y", "confirmed", is_flag=True,
              help="Confirmation that --agent may do more than the one before.")  # fmt: skip
@click.option("--plan", "only_plan", is_flag=True,
              help="Preview of each resource and its cost; nothing is done.")  # fmt: skip
@click.option("--files", "folder", metavar="[DIR]", is_flag=False, flag_value="",
              help="Files of its own, as the turn left them.")  # fmt: skip
@click.option("--keep", metavar="NAME", multiple=True,
              help="Resource that stays with the source session.")  # fmt: skip
@click.option("--take", metavar="NAME", multiple=True,
              help="Resource that moves from the source session to the fork.")  # fmt: skip
@click.option("--snapshot", metavar="NAME", multiple=True,
              help="Resource that the fork gets a copy of, as the turn left it.")  # fmt: skip
@click.option("--discard", metavar="NAME", multiple=True,
              help="Resource that the fork does without.")  # fmt: skip
def fork(
    terminal: Terminal,
    names: tuple[str, ...],
    topic: str | None,
    switches: bool,
    visibility: Visibility | None,
    agent: str | None,
    confirmed: bool,
    only_plan: bool,
    folder: str | None,
    **named: tuple[str, ...],
) -> None:
    """Create a session at any turn; nothing is copied.

    A fork of a private session is private and has the same owner; you may continue in it.

    --for finds the turn to fork at: what led to it comes along, and what was said about other
    things since does not.

    With --agent another agent continues the thread. One that may do more than the agent before
    needs --yes, and has to be yours: the thread may contain instructions of strangers.

    With --files the session gets files of its own: a folder with the files as the turn left them,
    which needs their size on the disk. A resource that cannot be copied stays with one of the two
    sessions. --plan shows all this first.
    """
    if len(names) != (2 if topic is None else 1):
        raise click.UsageError("name a turn and a label, or only a label with --for")
    label = names[-1]
    revision = names[0] if topic is None else _suggest(terminal, topic)
    if only_plan or folder is not None:
        if agent is not None:
            raise click.UsageError("--agent does not go with --files or --plan")
        wanted = ForkRequest(
            revision, label, folder or None, _choices(named), visibility=visibility
        )
        try:
            if only_plan:
                show_plan(terminal, wanted, switches=switches)
            else:
                fork_with_files(terminal, wanted, switches=switches)
        except PathExists as error:
            options = ["--switch"] * switches + ["--plan"] * only_plan
            hint = command_hint(wanted.command(error.free, *options))
            raise InvalidOperation(str(error), hint=hint) from error
        return
    if any(named.values()):
        raise click.UsageError("resources are named together with --files or --plan")

    async def act(opened: CliContext) -> tuple[Session, tuple[str, ...]]:
        if agent is None:
            made = await opened.tree.sessions.fork(revision, label, visibility=visibility)
        else:
            made = await _fork_under(opened, revision, label, agent, confirmed=confirmed)
        if switches:
            await opened.choose(made.label)
        return made, await find_privacy(opened, made, visibility)

    session, privacy = with_ledger(terminal, act)
    hints = () if switches else (f"work there with: turntree switch {session.label}",)
    closing = f"turntree program visibility {session.label} private"
    terminal.tell(
        f"{session.label} begins at {digits(session.head_digest)}   (nothing was copied)",
        session_row_document(session),
        # Archiving does not make a public session private again.
        undo=closing if visibility == "public" else f"turntree session archive {session.label}",
        then=(*hints, *privacy),
    )


def _suggest(terminal: Terminal, topic: str) -> str:
    """Return the turn that fits a text best, and print which one that is, and others."""

    async def act(opened: CliContext) -> tuple[Candidate, ...]:
        return await opened.tree.router.suggest_forks(topic)

    best, *others = with_ledger(terminal, act)
    terminal.note(f"{digits(best.digest)} fits best: {cut(clean(best.title), 50)}")
    for other in others:
        terminal.note(f"  or {digits(other.digest)}: {cut(clean(other.title), 50)}")
    return str(best.turn)


async def _fork_under(
    opened: CliContext, revision: str, label: str, name: str, *, confirmed: bool
) -> Session:
    """Fork a thread for another agent to continue, under its persona."""
    tree = opened.tree
    agent = await tree.programs.get(name)
    if agent.kind != "agent":
        raise InvalidOperation(f"{agent.address} is {a_kind(agent.kind)}, not an agent")
    persona = persona_of(agent.name, agent.version.number, agent.version.config)
    is_mine = agent.owner == str(tree.programs.by)
    made = await tree.personas.fork(
        revision, label, persona, owner_grants=is_mine, confirmed=confirmed
    )
    await tree.programs.configure(made.label, {"owner": agent.address})
    return made


def _choices(named: Mapping[str, tuple[str, ...]]) -> dict[str, ForkChoice]:
    chosen: dict[str, ForkChoice] = {}
    words: tuple[ForkChoice, ...] = ("keep", "take", "snapshot", "discard")
    for word in words:
        for name in named[word]:
            if chosen.setdefault(name, word) != word:
                raise click.UsageError(f"{name} cannot be both {chosen[name]} and {word}")
    return chosen


@verb()
@click.argument("session", metavar="[SESSION]", required=False, type=SESSION)
@click.option("--none", "removes", is_flag=True,
              help="No choice: HEAD is the session that last worked here.")  # fmt: skip
def switch(terminal: Terminal, session: str | None, removes: bool) -> None:
    """Make a session the current one in this folder.

    The choice is stored in .turntree/HEAD, in the nearest folder above that has one.
    TURNTREE_SESSION overrides it. --none deletes the choice that applies here. Without a SESSION,
    a terminal shows the newest sessions to choose from.
    """
    if session is None and not removes and can_pick(terminal):
        from turntree.cli.sessions.session import session as group

        click.get_current_context().invoke(group.commands["list"], picks=True)
        return
    if removes == (session is not None):
        raise click.UsageError("name the session to switch to, or say --none")
    before = read_head(Path.cwd())
    if session is None:
        _switch_to_none(terminal, before)
        return

    async def act(opened: CliContext) -> tuple[Session, Path]:
        named = await opened.tree.sessions.get(session)
        if named.status != "active":
            raise InvalidOperation(
                f"{named.label} is {named.status}, so it cannot be HEAD",
                hint=Hint("session.unarchive", {"session": named.label}),
            )
        return named, await opened.choose(named.label)

    found, place = with_ledger(terminal, act)
    terminal.tell(
        f"HEAD is {found.label} now, {stand(found)}",
        {**session_row_document(found, current=found), "place": str(place)},
        undo=f"turntree switch {before}" if before else "turntree switch --none",
    )
    _note_override(terminal)


def _switch_to_none(terminal: Terminal, before: str | None) -> None:
    workspace = load_settings(terminal).workspace
    place = remove_head(Path.cwd())
    undo = f"turntree switch {before}"
    # With the choice, a folder of sample data may lose the workspace that has its sessions.
    if load_settings(terminal).workspace != workspace:
        undo = f"TURNTREE_WORKSPACE={quoted(workspace)} {undo}"
    current = with_ledger(terminal, lambda opened: opened.find_current())
    now = "HEAD is not set" if current is None else f"HEAD is {current.label} now"
    done = "no session was chosen here" if place is None else f"{place / 'HEAD'} is deleted"
    terminal.tell(
        f"{done}; {now}",
        {
            "place": None if place is None else str(place),
            "before": before,
            "head": None if current is None else current.label,
        },
        undo=None if place is None or before is None else undo,
    )
    _note_override(terminal)


def _note_override(terminal: Terminal) -> None:
    override = os.environ.get("TURNTREE_SESSION")
    if override:
        terminal.note(f"but TURNTREE_SESSION is set, so HEAD stays {override} in this shell")


@verb()
@click.argument("words", metavar="[SESSION] REV", nargs=-1, required=True, type=REVISION)
@click.option("--files", "-f", "with_files", is_flag=True,
              help="Files too, restored as that turn left them.")  # fmt: skip
@click.option("--before", is_flag=True,
              help="State before that turn, with the files as it found them.")  # fmt: skip
@file_options
def rewind(
    terminal: Terminal, words: tuple[str, ...], with_files: bool, before: bool, **chosen: bool
) -> None:
    """Move a session back to an earlier turn; nothing is deleted.

    `rewind main~2` moves main, `rewind e9177` the current session, `rewind other e9177` other.

    With --files, changes made by the turns left behind are reverted. Changes made outside them
    stay; a path changed by both is refused, unless --keep or --exact decides. The current files are
    snapshotted first, so that `undo` can restore them. No .git is ever touched.

    With --before even the first turn of a session can be undone.
    """
    if len(words) > 2:  # noqa: PLR2004  (a session and a revision)
        raise click.UsageError("a rewind takes a session and a revision, or only a revision")
    how = HowToMove(**chosen)
    if with_files:
        name, turn = with_ledger(terminal, partial(_understand, words=words))
        done = move_with_files(terminal, name, turn, "rewind", how, before=before)
        tell_moved_files(terminal, done)
        return
    how.check_default()
    session, moved, with_them = with_ledger(terminal, partial(_rewind, words=words, before=before))
    name = session.label
    then = () if moved.before is None else (f"continue it with: turntree fork {moved.left} LABEL",)
    _tell_move(terminal, session, moved, undo=f"turntree undo {name}", then=then)
    if with_them is not None and not terminal.as_json:
        terminal.note(f"the files stay as they are; take them back too with: {with_them}")


@verb()
@click.argument("session", metavar="[SESSION]", required=False, type=SESSION)
@file_options
def undo(terminal: Terminal, session: str | None, **chosen: bool) -> None:
    """Undo the last move of a session, or the last revert here.

    Run it twice to undo two moves. A move with files restores them as they were before it; files
    changed since then are refused, unless --keep or --exact decides.

    Without a SESSION, it undoes the last revert or pick in this folder, unless you moved the
    current session since. `redo` does it again.
    """
    how = HowToMove(**chosen)
    if session is None and _undo_merge(terminal, how):
        return
    session = session or "HEAD"
    if with_ledger(terminal, partial(_took_files, session=session)):
        tell_moved_files(terminal, move_with_files(terminal, session, None, "undo", how))
        return

    async def act(opened: CliContext) -> tuple[Session, "Move", str | None]:
        found, moved = await follow(opened, await opened.tree.sessions.undo(session))
        return found, moved, await find_way_again(opened, found, moved.before)

    found, moved, again = with_ledger(terminal, act)
    _tell_move(terminal, found, moved, undo=again)


def _undo_merge(terminal: Terminal, how: HowToMove) -> bool:
    """Undo the last revert or pick in this folder; False if that is not what an undo means."""
    place = with_ledger(terminal, find_undoable, offline=True)
    if place is None:
        return False

    async def propose(opened: CliContext, choices: MergeChoices) -> MergePlan:
        return await opened.tree.plans.propose_undo(place.id, choices)

    default: Choice | None = "keep" if how.keep else "exact" if how.exact else None
    command = MergeCommand("turntree undo", is_undo=True)
    merge_files(terminal, propose, command, HowToMerge(default, how.dry_run, how.yes))
    return True


async def _took_files(opened: CliContext, *, session: str) -> bool:
    """Whether the move that an undo would revert was made with files."""
    try:
        return bool((await opened.tree.plans.propose_restore(session, kind="undo")).items)
    except InvalidOperation as error:
        hint = command_hint(f"turntree reflog {session}")
        raise InvalidOperation(str(error), hint=hint) from error


@verb()
@click.argument("session", metavar="[SESSION]", default="HEAD", type=SESSION)
@click.option("-n", "limit", metavar="N", type=click.IntRange(1, 10_000), default=100,
              show_default=True, help="Maximum number of moves, the newest first.")  # fmt: skip
def reflog(terminal: Terminal, session: str, limit: int) -> None:
    """List the moves of a session's head, newest first.

    SESSION@{2} names its head two moves ago.
    """

    async def act(opened: CliContext) -> tuple[Session, list[SessionMove], str]:
        found = await opened.tree.sessions.get(session)
        moves = await opened.tree.sessions.list_moves(session, limit=limit)
        return found, moves, opened.now

    found, moves, now = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(move_document(found, move) for move in moves)
        return
    rows = [
        (
            f"{clean(found.label)}@{{{found.version - move.version}}}",
            digits(move.after_digest),
            move.kind,
            f"<- {digits(move.before_digest)}" if move.before is not None else "",
            clean(move.by),
            age(move.at, type(move.at)(now)),
        )
        for move in moves
    ]
    terminal.page(table(rows))


async def _rewind(
    opened: CliContext, *, words: tuple[str, ...], before: bool
) -> tuple[Session, Move, str | None]:
    """Return the session, its move, and the command that includes files, if there are any."""
    name, turn = await _understand(opened, words=words)
    session = await opened.tree.sessions.get(name)
    if session.head == turn and not before:
        raise InvalidOperation(
            f"{name} is at {digits(session.head_digest)} already",
            hint=command_hint(f"turntree log {name}"),
        )
    asked = await opened.tree.turns.get(turn)
    pinned = await opened.tree.resources.pins.list_pinned_along(session.head or turn, limit=1)
    found, moved = await follow(
        opened, await opened.tree.sessions.rewind(name, turn, before=before)
    )
    if not any(depth > asked.depth - before for _, depth in pinned):
        return found, moved, None
    there = f"{digits(asked.turn.digest)}{' --before' if before else ''} --files"
    return found, moved, f"turntree undo {name} && turntree rewind {name} {there}"


async def _understand(opened: CliContext, *, words: tuple[str, ...]) -> tuple[str, TurnId]:
    """Return which session is to move to which turn, one of its ancestors."""
    *named, revision = words
    name = named[0] if named else "HEAD"
    found = await opened.tree.resolve(revision)
    # `main~2` also names the session to move. A bare label names a turn like any other.
    if not named and found.session is not None and found.session.head != found.turn:
        name = found.session.label
    session = await opened.tree.sessions.get(name)
    await _check_rewind(opened, session, found.turn)
    return session.label, found.turn


async def _check_rewind(opened: CliContext, session: Session, turn: TurnId) -> None:
    """Refuse an impossible rewind with a better hint than the ledger's own error has."""
    label, short = session.label, digits(await find_digest(opened, turn))
    if session.head is None or not await opened.tree.threads.is_ancestor(turn, session.head):
        raise InvalidOperation(
            f"{short} is not an ancestor of {label}, so this is not a rewind",
            hint=command_hint(f"turntree session reset {label} {short}"),
        )


def _tell_move(
    terminal: Terminal,
    session: Session,
    move: Move,
    *,
    undo: str | None,
    then: tuple[str, ...] = (),
) -> None:
    stays = "" if move.before is None else f"   ({move.left} stays; nothing was deleted)"
    document: dict[str, Any] = {
        "session": session.label,
        "version": move.version,
        "before_digest": move.before,
        "after_digest": move.after,
    }
    sentence = f"{session.label} moved {digits(move.after)} <- {move.left}{stays}"
    terminal.tell(sentence, document, undo=undo, then=then)


def tell_move(terminal: Terminal, session: Session, move: Move) -> None:
    """Print a move that ``undo`` reverts."""
    _tell_move(terminal, session, move, undo=f"turntree undo {session.label}")


@verb("reset")
@click.argument("name", metavar="SESSION", type=SESSION)
@click.argument("revision", metavar="REV", type=REVISION)
@click.option("--files", "-f", "with_files", is_flag=True,
              help="Files too, restored as that turn left them.")  # fmt: skip
@file_options
def session_reset(
    terminal: Terminal, name: str, revision: str, with_files: bool, **chosen: bool
) -> None:
    """Move a session to any turn."""
    how = HowToMove(**chosen)
    if with_files:
        tell_moved_files(terminal, move_with_files(terminal, name, revision, "reset", how))
        return
    how.check_default()

    async def act(opened: CliContext) -> None:
        moved = await opened.tree.sessions.replay(name, revision)
        tell_move(terminal, *(await follow(opened, moved)))

    with_ledger(terminal, act)
