"""``worker``: serve the sessions of a workspace until stopped."""

import logging
import signal
from pathlib import Path
from typing import Any, Final

import anyio
import click

from turntree.boot.worker import WorkerRuntime
from turntree.cli.command import Terminal, verb
from turntree.cli.common.listen import load_tools
from turntree.cli.context import WORKER_AUDIENCE, load_settings, open_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.text import clean, counted
from turntree.cli.programs.secret_hosts import settle_own_hosts
from turntree.core.errors import Conflict, InvalidOperation

CONCURRENCY: Final = 32
CONCURRENCY_MAX: Final = 1000
DRAIN_S: Final = 20.0


@verb()
@click.option("--name", help="Name; by default the machine, the process and a random word.")
@click.option("--concurrency", type=click.IntRange(1, CONCURRENCY_MAX), default=CONCURRENCY,
              show_default=True, help="Number of sessions to process at once.")  # fmt: skip
@click.option("--tools", metavar="MODULE:NAME", multiple=True,
              help="Functions that models may call, as module:name; repeatable.")  # fmt: skip
@click.option("--folder", "lent", metavar="PATH",
              type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder in which the criteria of all users' tasks are checked.")  # fmt: skip
@click.option("--drain-s", type=click.FloatRange(0), default=DRAIN_S, show_default=True,
              help="Seconds that running turns get to finish after a stop signal.")  # fmt: skip
def worker(
    terminal: Terminal,
    name: str | None,
    concurrency: int,
    tools: tuple[str, ...],
    lent: Path | None,
    drain_s: float,
) -> None:
    """Serve the sessions of a workspace until stopped.

    Tasks that were started and have no process following them are completed too. Criteria run
    commands and read files: those of your own tasks in the folder where you start the worker, those
    of other users only in a folder that you name with --folder, and their authors learn only
    whether they are met. Any number of workers may run, on any machine that reaches the database:
    each session is processed by one of them at a time, and another takes over from a dead one
    within seconds. On SIGTERM or Ctrl-C it finishes its running turns; what takes longer than
    --drain-s continues in another worker.
    """

    settle_own_hosts(terminal)
    given = load_tools(tools)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)

    async def serve() -> None:
        async with open_ledger(
            terminal, tools=given, lent=lent, audience=WORKER_AUDIENCE
        ) as opened:
            running = opened.running
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                await running.load_libraries()
                async with running.serving(
                    name=name, at_once=concurrency, drain_s=drain_s, oversees=True
                ) as called:
                    _tell(terminal, running, called, concurrency)
                    async for _ in signals:
                        terminal.note(f"stopping; what was begun has {drain_s:g} s to end")
                        break
        terminal.note("stopped")

    try:
        anyio.run(serve)
    except Conflict as error:
        raise InvalidOperation(str(error), hint=command_hint("turntree status")) from error


def _tell(terminal: Terminal, running: WorkerRuntime, name: str, at_once: int) -> None:
    settings = load_settings()
    tools = [spec.name for spec in running.tool_specs]
    document: dict[str, Any] = {
        "worker": name,
        "workspace": settings.workspace,
        "at_once": at_once,
        "engine": running.engine_name,
        "tools": tools,
    }
    if terminal.as_json:
        terminal.document(document)
        return
    terminal.say(f"{clean(name)} answers in the workspace {clean(settings.workspace)}")
    terminal.say(f"  {counted(at_once, 'session')} at once, woken up by {running.engine_name}")
    terminal.say(f"  tools: {', '.join(map(clean, tools)) or 'none; add some with --tools'}")
    terminal.note("Ctrl-C or SIGTERM stops it")
