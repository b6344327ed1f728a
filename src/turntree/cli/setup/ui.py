"""``ui``: serve the page and its API on this machine, and open it in the browser."""

import contextlib
import signal
import socket
import time
import webbrowser
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Final

import anyio
import click
import uvicorn

from turntree.boot.model_setup import ModelSetup
from turntree.boot.open import importing_on, load_importers
from turntree.cli.command import Terminal, verb
from turntree.cli.common.hook_sync import drain_here
from turntree.cli.common.http_server import HttpServer, try_listen
from turntree.cli.context import CliContext, load_settings, open_ledger
from turntree.cli.hints import command_for, command_hint
from turntree.cli.judge_settle import tell_judge
from turntree.cli.settings import imports_privately, merged_environment, places_here
from turntree.core.errors import InvalidOperation
from turntree.server.app import make_door
from turntree.server.context import ServerContext
from turntree.server.keys import AccessKeys
from turntree.server.launch import Launch, LaunchFile
from turntree.server.live import Live
from turntree.server.machine import Machine
from turntree.server.sample import offer_sample
from turntree.system.clock import SystemClock
from turntree.system.head_file import DEMO_WORKSPACE
from turntree.transcripts.imports import ImportService

PORT_DEFAULT: Final = 8733
"""The same each time, so that a bookmark and an open page outlive the server."""
ADDRESS: Final = "127.0.0.1"
DRAIN_S: Final = 1
"""An open stream would otherwise keep the server from ending."""


@verb()
@click.option("--port", type=click.IntRange(0, 65535),
              help="Port on 127.0.0.1; by default 8733, or a free one.")  # fmt: skip
@click.option("--no-open", is_flag=True, help="Address only, without opening the browser.")
def ui(terminal: Terminal, port: int | None, no_open: bool) -> None:
    """Show your history in the browser.

    Serves the page on this machine only, until Ctrl-C, and opens it. Nothing leaves the machine.
    The address works once, for one browser, within an hour. While the server runs, the same command
    in another terminal prints a new one.
    """
    file = LaunchFile(load_settings())
    if not file.claim():
        launch = file.find()
        if launch is None:
            raise InvalidOperation("another server is starting for this workspace")
        _show_address(terminal, launch, _keys_of(launch), is_new=False, opens=not no_open)
        return
    try:
        with _listen(port) as listener:
            launch = file.write(listener.getsockname()[1])
            anyio.run(_serve, terminal, listener, launch, not no_open)
    finally:
        file.release()


async def _serve(terminal: Terminal, listener: socket.socket, launch: Launch, opens: bool) -> None:
    keys = _keys_of(launch)
    async with contextlib.AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_ledger(terminal))
        context = _context_of(opened, keys)
        live = context.live
        assert live is not None, "a context of this command has one"
        runtime = opened.running if context.can_run else None
        await stack.enter_async_context(live.running(runtime))
        if not context.is_sample:
            context = await stack.enter_async_context(offer_sample(context, DEMO_WORKSPACE))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        door = make_door(context, launch.port)
        config = uvicorn.Config(
            door, log_level="warning", access_log=False, lifespan="off", ws="none",
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=DRAIN_S,
        )  # fmt: skip
        server = HttpServer(config)

        async def stop_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    # A browser would keep its stream open for ever.
                    live.close()
                    server.should_exit = True

        tasks.start_soon(stop_on_signal)
        # The socket listens already: a browser that is faster than the server waits.
        await anyio.to_thread.run_sync(
            lambda: _show_address(terminal, launch, keys, is_new=True, opens=opens)
        )
        await server.serve([listener])
        tasks.cancel_scope.cancel()


def _context_of(opened: CliContext, keys: AccessKeys) -> ServerContext:
    can_run = find_spec("pydantic_ai") is not None
    tree = opened.running.tree if can_run else opened.tree
    # A part of a label is for people who type; the page asks for a session by its whole name.
    exact = tree.with_facets(revisions=replace(tree.revisions, abbreviates=False))
    is_sample = opened.settings.workspace == DEMO_WORKSPACE
    live = Live.make(exact, None if is_sample else _find_machine(opened))
    return ServerContext(
        tree=exact,
        database=opened.database,
        settings=opened.settings,
        clock=SystemClock(),
        command_for=command_for,
        keys=keys,
        tell_decided=partial(tell_judge, opened.settings.home),
        live=live,
        # Those who follow a run would otherwise keep the server from ending for a second.
        is_draining=lambda: live.stream.is_closed,
        can_run=can_run,
        is_sample=is_sample,
        models=ModelSetup(opened.running, opened.settings, merged_environment())
        if can_run
        else None,
    )


def _find_machine(opened: CliContext) -> Machine:
    """Return the tools of this machine, whose sessions become the user's."""

    def make_import() -> ImportService:
        importing = importing_on(opened.database, SystemClock(), opened.tree.runs.redactor)
        importing.private = imports_privately()
        return importing

    return Machine(
        opened.settings.home,
        load_importers(),
        places_here(),
        make_import,
        partial(drain_here, opened),
    )


def _keys_of(launch: Launch) -> AccessKeys:
    return AccessKeys(launch.secret, launch.id, launch.port, time.time)


def _show_address(
    terminal: Terminal, launch: Launch, keys: AccessKeys, *, is_new: bool, opens: bool
) -> None:
    """Print an address with a key of its own, and open the browser at it."""
    url = f"http://{ADDRESS}:{launch.port}/#key={keys.issue_key()}"
    if terminal.as_json:
        terminal.document({"url": url, "port": launch.port, "started": is_new})
    else:
        terminal.say(url)
        terminal.note("works once, within an hour     a new one: turntree ui")
        terminal.note("Ctrl-C stops the server" if is_new else "the server was already running")
    if opens:
        webbrowser.open(url)


def _listen(port: int | None) -> socket.socket:
    """Return a socket that listens on this machine only.

    Raises:
        InvalidOperation: Another program has the port that was asked for.
    """
    for wanted in (PORT_DEFAULT, 0) if port is None else (port,):
        if (listener := try_listen(ADDRESS, wanted)) is not None:
            return listener
    raise InvalidOperation(
        f"port {port} is taken by another program", hint=command_hint("turntree ui --port 0")
    )
