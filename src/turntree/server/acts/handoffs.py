"""Write a thread as a session of another tool, which the user continues in a terminal."""

from pathlib import Path
from typing import Final

from turntree.boot.handoffs import plan_copy, write_copy
from turntree.boot.open import imports_on, load_exporters
from turntree.boot.thread_objects import read_whole
from turntree.core.errors import InvalidOperation, NotFound
from turntree.ledger.revisions import ResolvedRevision
from turntree.resources.service import in_thread
from turntree.server.access.rights import READ
from turntree.server.acts.folders import whole_path
from turntree.server.acts.heads import check_revision
from turntree.server.commands import short, spell
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.wire.acts import ActResult, ActUndo, HandoffAct

TITLE_CHARS_MAX: Final = 60
SESSIONS_ASKED_MAX: Final = 20


async def hand_off(context: ServerContext, act: HandoffAct) -> ActResult:
    """Write a session that another tool can continue; no existing file is changed.

    Raises:
        NotFound: No exporter for the tool is installed, or the revision names nothing.
        InvalidOperation: The folder does not exist, or the tool would not find the session.
    """
    found = await check_revision(context, act.at, act.expected_head)
    exporter = load_exporters().get(act.tool)
    if exporter is None:
        raise NotFound(f"no exporter for {act.tool} is installed")
    folder = whole_path(act.folder) if act.folder else await _find_folder(context, found)
    if not await in_thread(folder.is_dir):
        raise InvalidOperation(f"there is no folder {folder}")
    thread = await read_whole(context.tree, act.at, visible=True)
    turn = thread.head.turn
    title = f"{turn.title[:TITLE_CHARS_MAX].strip()} ({short(turn.digest)})"
    copy = plan_copy(exporter, thread, folder.resolve(), title, context.clock)
    by = f"human:{context.settings.user}"
    copy = await write_copy(copy, context.database, context.settings.home, by)
    is_head = found.session is not None and found.session.head == found.turn
    name = found.session.label if is_head and found.session is not None else short(turn.digest)
    complaint = f"The session was written, but its origin was not recorded: {copy.complaint}."
    return ActResult(
        f"Wrote {name} as a session of {act.tool}, with {copy.messages} messages",
        spell(context, "handoff", name, "--to", act.tool, "--into", str(copy.order.folder)),
        ActUndo(copy.removal()),
        session=None if found.session is None else found.session.label,
        turn=turn.id,
        folder=str(copy.order.folder),
        paste=copy.command_from(None),
        notes=() if copy.complaint is None else (complaint,),
    )


async def _find_folder(context: ServerContext, found: ResolvedRevision) -> Path:
    """Return the folder in which the sessions of a turn worked, if it is still there."""
    tree = context.tree
    holding = await tree.turns.threads.list_sessions_holding(found.turn)
    ids = [*([] if found.session is None else [found.session.id]), *holding]
    told = await imports_on(context.database).describe_sessions()
    for id in ids[:SESSIONS_ASKED_MAX]:
        places = [
            resource.place
            for resource, _ in await tree.resources.attachments.list_attached(id)
            if resource.kind == "directory" and resource.host == tree.resources.host
        ]
        origin = (await tree.sessions.ledger.get(id)).origin
        folder, _ = told.get(origin, (None, None)) if origin is not None else (None, None)
        for place in [*places, *([] if folder is None else [folder])]:
            if await in_thread(Path(place).is_dir):
                return Path(place)
    raise InvalidOperation("it is not known in which folder this worked: name one")


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/acts/handoff", READ, hand_off, "Write a session that another tool can continue.",
        HandoffAct, ActResult, "write", is_local=True,
    ),
)  # fmt: skip
