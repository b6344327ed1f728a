"""``session attach`` and ``session detach``: the folder that a session works in."""

from pathlib import Path

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.files.snapshot import find_folder
from turntree.cli.output.changes import shown_path
from turntree.cli.output.text import clean
from turntree.cli.param_types import SESSION
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.session import Session
from turntree.resources.resource import Resource
from turntree.resources.service import settled
from turntree.routing.target import main_session
from turntree.system.shell_words import joined


@verb()
@click.argument("name", metavar="SESSION", type=SESSION)
@click.argument("folder", metavar="[DIR]", required=False,
                type=click.Path(exists=True, file_okay=False, path_type=Path))  # fmt: skip
def attach(terminal: Terminal, name: str, folder: Path | None) -> None:
    """Attach a folder to a session: its agents work there, and its turns record the files.

    SESSION may be an agent, as @(NAME): then it is its main session, which begins if need be. By
    default DIR is the repository around the current folder. A session has one folder.
    """
    place = settled(str(find_folder(Path.cwd()) if folder is None else folder))

    async def act(opened: CliContext) -> tuple[Session, Resource, bool]:
        tree = opened.tree
        session = await _find_or_begin(opened, name)
        attached = await tree.resources.list_attached(session.label)
        others = [one for one, _ in attached if one.kind == "directory" and one.place != place]
        if others:
            raise InvalidOperation(
                f"{clean(session.label)} works in {shown_path(others[0].place)}: detach that first"
            )
        resource = await tree.resources.ensure_directory(place)
        return session, resource, await tree.resources.attach(session.label, resource)

    session, resource, is_new = with_ledger(terminal, act)
    label, where = clean(session.label), shown_path(resource.place)
    terminal.tell(
        f"{label} {'now works' if is_new else 'already works'} in {where}",
        {"session": session.label, "folder": resource.place, "new": is_new},
        undo=joined(["turntree", "session", "detach", session.label]) if is_new else None,
    )


async def _find_or_begin(opened: CliContext, name: str) -> Session:
    tree = opened.tree
    if not name.startswith("@("):
        return await tree.sessions.get(name)
    agent = await tree.programs.get(name)
    label = main_session(agent.name)
    try:
        return await tree.sessions.get(label)
    except NotFound:
        return await tree.sessions.create(label)


@verb()
@click.argument("name", metavar="SESSION", type=SESSION)
def detach(terminal: Terminal, name: str) -> None:
    """Detach the folder of a session; the files and their snapshots stay."""

    async def act(opened: CliContext) -> tuple[Session, Resource]:
        tree = opened.tree
        session = await tree.sessions.get(name)
        for resource, _ in await tree.resources.list_attached(session.label):
            if resource.kind == "directory":
                await tree.resources.detach(session.label, resource)
                return session, resource
        raise NotFound(f"{clean(session.label)} works in no folder")

    session, resource = with_ledger(terminal, act)
    terminal.tell(
        f"{clean(session.label)} no longer works in {shown_path(resource.place)}",
        {"session": session.label, "folder": resource.place},
        undo=joined(["turntree", "session", "attach", session.label, resource.place]),
    )
