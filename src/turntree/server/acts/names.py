"""Tags of turns, and the names and the archive of sessions."""

from typing import Final

from turntree.server.access.rights import CONFIGURE, INVOKE
from turntree.server.acts.heads import check_named, check_revision
from turntree.server.commands import short, spell, spell_tag
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.wire.acts import ActResult, ActUndo, RenameAct, StatusAct, TagAct


async def tag(context: ServerContext, act: TagAct) -> ActResult:
    """Add a tag to a turn."""
    return await _set_tag(context, act, on=True)


async def untag(context: ServerContext, act: TagAct) -> ActResult:
    """Remove a tag from a turn."""
    return await _set_tag(context, act, on=False)


async def _set_tag(context: ServerContext, act: TagAct, *, on: bool) -> ActResult:
    found = await check_revision(context, act.at, act.expected_head)
    turn = (await context.tree.turns.get(found.turn)).turn
    change = context.tree.turns.tag if on else context.tree.turns.untag
    is_changed = await change(turn.id, act.name)
    verb = "Tagged" if on else "Removed the tag of"
    said = f"{verb} {short(turn.digest)}: {act.name.strip()}"
    undo = ActUndo(
        spell_tag(context, turn.digest, act.name, on=not on),
        "/acts/untag" if on else "/acts/tag",
        {"at": turn.id, "name": act.name},
    )
    return ActResult(
        said if is_changed else f"{said}, as before",
        spell_tag(context, turn.digest, act.name, on=on),
        undo if is_changed else None,
        turn=turn.id,
    )


async def rename(context: ServerContext, act: RenameAct) -> ActResult:
    """Give a session another label; the old one still leads to it."""
    before = await check_named(context, act.session, act.expected_head)
    after = await context.tree.sessions.rename(before.label, act.label)
    return ActResult(
        f"Renamed {before.label} to {after.label}; the old name still leads to it",
        spell(context, "session", "rename", before.label, after.label),
        ActUndo(
            spell(context, "session", "rename", after.label, before.label),
            "/acts/rename",
            {"session": after.label, "label": before.label},
        ),
        session=after.label,
        turn=after.head,
    )


async def archive(context: ServerContext, act: StatusAct) -> ActResult:
    """Remove a session from the lists; its turns stay."""
    return await _set_status(context, act, archives=True)


async def restore(context: ServerContext, act: StatusAct) -> ActResult:
    """Make an archived session active again."""
    return await _set_status(context, act, archives=False)


async def _set_status(context: ServerContext, act: StatusAct, *, archives: bool) -> ActResult:
    session = await check_named(context, act.session, act.expected_head)
    await context.tree.sessions.set_status(session.label, "archived" if archives else "active")
    verbs = ("archive", "unarchive") if archives else ("unarchive", "archive")
    return ActResult(
        f"Archived {session.label}; its turns stay" if archives else f"Restored {session.label}",
        spell(context, "session", verbs[0], session.label),
        ActUndo(
            spell(context, "session", verbs[1], session.label),
            "/acts/restore" if archives else "/acts/archive",
            {"session": session.label},
        ),
        session=session.label,
        turn=session.head,
    )


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/acts/tag", INVOKE, tag, "Add a tag to a turn.", TagAct, ActResult, "write"
    ),
    ApiRoute(
        "POST", "/acts/untag", INVOKE, untag, "Remove a tag from a turn.",
        TagAct, ActResult, "write",
    ),
    ApiRoute(
        "POST", "/acts/rename", CONFIGURE, rename, "Rename a session.",
        RenameAct, ActResult, "write",
    ),
    ApiRoute(
        "POST", "/acts/archive", CONFIGURE, archive, "Archive a session.",
        StatusAct, ActResult, "write",
    ),
    ApiRoute(
        "POST", "/acts/restore", CONFIGURE, restore, "Restore a session from the archive.",
        StatusAct, ActResult, "write",
    ),
)  # fmt: skip
