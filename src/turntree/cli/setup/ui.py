"""``ui``: serve the page and its API on this machine, and open it in the browser."""

import contextlib
import socket
import webbrowser
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

import anyio
import click
import uvicorn

from turntree.cli.command import Terminal, verb
from turntree.cli.context import DEMO_WORKSPACE, open_ledger
from turntree.cli.hints import command_for, command_hint
from turntree.core.errors import InvalidOperation
from turntree.server.app import make_app
from turntree.server.context import ServerContext
from turntree.system.clock import SystemClock

PORT_DEFAULT: Final = 8733
"""The same each time, so that a bookmark and an open page outlive the server."""
ADDRESS: Final = "127.0.0.1"
DRAIN_S: Final = 1


@verb()
@click.option("--port", type=click.IntRange(0, 65535),
              help="Port on 127.0.0.1; by default 8733, or a free one.")  # fmt: skip
@click.option("--no-open", is_flag=True, help="Address only, without opening the browser.")
def ui(terminal: Terminal, port: int | None, no_open: bool) -> None:
    """Show your history in the browser.

    Serves the page on this machine only, until Ctrl-C, and opens it. Nothing leaves the machine.
    """
    listener = _listen(port)
    address = f"http://{ADDRESS}:{listener.getsockname()[1]}/"

    async def serve() -> None:
        async with open_ledger(terminal) as opened:
            tree = opened.tree
            exact = tree.with_facets(revisions=replace(tree.revisions, abbreviates=False))
            context = ServerContext(
                tree=exact,
                database=opened.database,
                settings=opened.settings,
                clock=SystemClock(),
                command_for=command_for,
                can_run=find_spec("pydantic_ai") is not None,
                is_sample=opened.settings.workspace == DEMO_WORKSPACE,
            )
            config = uvicorn.Config(
                make_app(context), log_level="warning", access_log=False, lifespan="off",
                server_header=False, timeout_graceful_shutdown=DRAIN_S,
            )  # fmt: skip
            server = uvicorn.Server(config)
            if terminal.as_json:
                terminal.document({"url": address})
            else:
                terminal.say(address)
                terminal.note("Ctrl-C stops it")
            if not no_open:
                await anyio.to_thread.run_sync(webbrowser.open, address)
            await server.serve([listener])

    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(serve)


def _listen(port: int | None) -> socket.socket:
    """Return a socket that listens on this machine only.

    Raises:
        InvalidOperation: Another program has the port that was asked for.
    """
    for wanted in (PORT_DEFAULT, 0) if port is None else (port,):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # A server that was just stopped leaves its port waiting for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, wanted))
        except OSError:
            listener.close()
        else:
            return listener
    raise InvalidOperation(
        f"port {port} is taken by another program", hint=command_hint("turntree ui --port 0")
    )
