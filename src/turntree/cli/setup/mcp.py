"""``mcp``: let agents search, read and fork your history.

Serves the tools of ``turntree.mcp`` over standard input and output, and adds this server to the
settings of agents.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import click

import turntree
from turntree.api import Tree
from turntree.cli.command import CommandGroup, Terminal, verb
from turntree.cli.context import open_ledger
from turntree.cli.setup.hook import make_installer, require_user
from turntree.hooks.mcp_clients import CLIENTS

CLIENT: Final = click.Choice(list(CLIENTS))


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.pass_context
def mcp(context: click.Context) -> None:
    """Let agents search, read and fork your history.

    Without a subcommand this is an MCP server on standard input and output, which an agent starts:
    it has eight tools, answers with at most 800 tokens, cites turns, and calls no model. It acts as
    you, or with --token as the principal it was issued to, and sees what that principal may see.
    """
    if context.invoked_subcommand is not None:
        return
    from turntree.mcp.server import make_server

    terminal = context.ensure_object(Terminal)

    @asynccontextmanager
    async def open_tree() -> AsyncGenerator[Tree, None]:
        # At each call: the database may have been restarted, and HEAD may have moved.
        async with open_ledger(terminal) as opened:
            yield opened.tree

    anyio.run(make_server(open_tree, turntree.__version__).run_stdio_async)


@verb()
@click.argument("client", metavar="AGENT", type=CLIENT)
def install(terminal: Terminal, client: str) -> None:
    """Add the server to an agent: claude-code, codex, gemini, opencode or cursor.

    One entry is added to the agent's own settings, for all your projects; everything else in the
    file stays as it is, and the old file is backed up. Installing again changes nothing.
    """
    require_user()
    change = make_installer().install_server(CLIENTS[client])
    title, changed = CLIENTS[client].title, "" if change.changed else " (nothing to change)"
    terminal.tell(
        f"{title} can ask Turntree: {change.path}{changed}",
        {"client": client, "path": str(change.path), "changed": change.changed},
        undo=f"turntree mcp uninstall {client}" if change.changed else None,
    )


@verb()
@click.argument("client", metavar="AGENT", type=CLIENT)
def uninstall(terminal: Terminal, client: str) -> None:
    """Remove the server from an agent's settings.

    If they have not been changed since, they become what they were, byte for byte.
    """
    change = make_installer().uninstall_server(CLIENTS[client])
    title, changed = CLIENTS[client].title, "" if change.changed else " (nothing to change)"
    terminal.tell(
        f"{title} cannot ask Turntree any more: {change.path}{changed}",
        {"client": client, "path": str(change.path), "changed": change.changed},
        undo=f"turntree mcp install {client}" if change.changed else None,
    )


for command in (install, uninstall):
    mcp.add_command(command)
