"""``worker``: serve the sessions of all workspaces, or of some, until stopped."""

import logging
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import anyio
import click

from turntree.boot.open import Settings
from turntree.boot.shards import NO_WORKSPACE, read_content
from turntree.boot.shared_worker import SharedService, serve_workspaces
from turntree.boot.worker import WorkerRuntime
from turntree.cli.command import Terminal, verb
from turntree.cli.common.listen import load_tools
from turntree.cli.common.metrics_listener import (
    METRICS_HELP,
    MetricsListener,
    listening_for_metrics,
)
from turntree.cli.common.tracing import tracing
from turntree.cli.context import WORKER_AUDIENCE, CliContext, load_settings, open_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.text import clean, counted
from turntree.cli.programs.secret_hosts import settle_own_hosts
from turntree.conversations.triage import ROUTE
from turntree.core.errors import Conflict, InvalidOperation
from turntree.db.database import open_database, upgrade_database
from turntree.db.shard import Shard

CONCURRENCY: Final = 32
CONCURRENCY_MAX: Final = 1000
DRAIN_S: Final = 20.0
EMPTY_LOOK_S: Final = 1.0
"""How often a worker looks for the first workspace of its shard."""
NAMES_MAX: Final = 8
"""Names of workspaces that are shown."""


@verb()
@click.option("--name", help="Name; by default the machine, the process and a random word.")
@click.option("--concurrency", type=click.IntRange(1, CONCURRENCY_MAX), default=CONCURRENCY,
              show_default=True, help="Number of sessions to process at once.")  # fmt: skip
@click.option("--tools", metavar="MODULE:NAME", multiple=True,
              help="Functions that models may call, as module:name; repeatable.")  # fmt: skip
@click.option("--folder", "lent", metavar="PATH",
              type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder in which the criteria of all users' tasks are checked.")  # fmt: skip
@click.option("--workspace", "only", metavar="NAME", multiple=True,
              help="Workspace to serve; repeatable. By default all of the database.")  # fmt: skip
@click.option("--shard", type=click.IntRange(1), metavar="NUMBER",
              help="Database to serve, by its place in the shard map.")  # fmt: skip
@click.option("--metrics", metavar="ADDRESS", help=METRICS_HELP)
@click.option("--drain-s", type=click.FloatRange(0), default=DRAIN_S, show_default=True,
              help="Seconds that running turns get to finish after a stop signal.")  # fmt: skip
def worker(
    terminal: Terminal,
    name: str | None,
    concurrency: int,
    tools: tuple[str, ...],
    lent: Path | None,
    only: tuple[str, ...],
    shard: int | None,
    metrics: str | None,
    drain_s: float,
) -> None:
    """Serve the sessions of all workspaces until stopped.

    One worker is enough for all workspaces of a database, also for those that are created later;
    --workspace limits it to some, and a token to its own. Tasks that were started and have no
    process following them are completed too. Where a shard map spreads the ledger over several
    databases, each needs workers of its own: --shard chooses one, which by default is that of the
    current workspace. Criteria run commands and read files: those of your
    own tasks in the folder where you start the worker, those of other users only in a folder that
    you name with --folder, and their authors learn only whether they are met. Any number of workers
    may run, on any machine that reaches the database: each session is processed by one of them at a
    time, and another takes over from a dead one within seconds. On SIGTERM or Ctrl-C it finishes
    its running turns; what takes longer than --drain-s continues in another worker.
    """

    settle_own_hosts(terminal)
    given = load_tools(tools)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)

    async def serve(figures: MetricsListener | None) -> None:
        settings = load_settings(terminal)
        if shard is not None:
            settings = await _enter_shard(terminal, settings, shard)
        async with (
            tracing(terminal) as spans,
            open_ledger(
                terminal, tools=given, lent=lent, audience=WORKER_AUDIENCE, settings=settings,
                observers=[
                    one
                    for one in (None if figures is None else figures.runs, spans)
                    if one is not None
                ],
            ) as opened,
            _telling(figures, opened),
        ):  # fmt: skip
            running = opened.running
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async with _serving(
                    running, opened.settings, only=_find_limits(opened.settings, only),
                    name=name, at_once=concurrency, drain_s=drain_s,
                ) as service:  # fmt: skip
                    _tell(terminal, running, service, concurrency, opened.settings.shard, figures)
                    async for _ in signals:
                        terminal.note(f"stopping; what was begun has {drain_s:g} s to end")
                        break
        terminal.note("stopped")

    try:
        with listening_for_metrics(metrics) as figures:
            anyio.run(serve, figures)
    except Conflict as error:
        raise InvalidOperation(str(error), hint=command_hint("turntree status")) from error


async def _enter_shard(terminal: Terminal, settings: Settings, number: int) -> Settings:
    """Return the settings of a workspace of a shard, once there is one.

    Raises:
        InvalidOperation: There is no such shard, or its database is another one's.
        DatabaseUnavailable: Its database does not answer.
    """
    if settings.shards is None:
        raise InvalidOperation(
            "there is no shard map, and all workspaces are in one database: leave out --shard"
        )
    shard = settings.shards.get(number)
    if settings.shard == shard:
        return settings
    await upgrade_database(shard.database_url, shard)
    async with open_database(shard.database_url, NO_WORKSPACE) as database:
        is_told = False
        while not (names := (await read_content(database, shard)).names):
            if not is_told:
                terminal.note(f"{shard} has no workspace yet; waiting for the first")
            is_told = True
            await anyio.sleep(EMPTY_LOOK_S)
    return settings.in_workspace(names[0])


def _find_limits(settings: Settings, only: tuple[str, ...]) -> tuple[str, ...]:
    """Return the workspaces to serve; none stands for all.

    Raises:
        InvalidOperation: The token is for another workspace.
    """
    if settings.context is None:
        return only
    if others := [one for one in only if one != settings.workspace]:
        raise InvalidOperation(f"the token is for {settings.workspace}, not for {others[0]}")
    return (settings.workspace,)


@asynccontextmanager
async def _serving(
    running: WorkerRuntime,
    settings: Settings,
    *,
    only: Sequence[str],
    name: str | None,
    at_once: int,
    drain_s: float,
) -> AsyncGenerator[SharedService, None]:
    """Serve while the block lasts: all workspaces, or those named."""
    # Without DBOS a process has to ask a workspace for messages, so it does that for its own.
    if running.parts.engine.is_here and set(only) <= {settings.workspace}:
        await running.load_libraries()
        async with running.serving(
            name=name, at_once=at_once, drain_s=drain_s, oversees=True
        ) as called:
            yield SharedService(called, (settings.workspace,), is_all=False)
        return
    async with serve_workspaces(
        running, settings, only=only, name=name, at_once=at_once, drain_s=drain_s
    ) as service:
        yield service


def _telling(
    figures: MetricsListener | None, opened: CliContext
) -> AbstractAsyncContextManager[None]:
    """Tell the figures of a worker while the block lasts, if they are listened for."""
    if figures is None:
        return nullcontext()
    shard = opened.settings.shard
    number = 1 if shard is None else shard.number
    return figures.telling(lambda: [(number, opened.database)])


def _tell(
    terminal: Terminal,
    running: WorkerRuntime,
    service: SharedService,
    at_once: int,
    shard: Shard | None,
    figures: MetricsListener | None,
) -> None:
    # No agent of a person is offered the tool with which triage decides.
    tools = [spec.name for spec in running.tool_specs if spec.name != ROUTE]
    document: dict[str, Any] = {
        "worker": service.worker,
        "workspaces": [*service.workspaces],
        "all": service.is_all,
        "at_once": at_once,
        "engine": running.engine_name,
        "tools": tools,
    }
    if shard is not None:
        document["shard"] = shard.number
    if figures is not None:
        document["metrics"] = figures.url
    if terminal.as_json:
        terminal.document(document)
        return
    names = ", ".join(map(clean, service.workspaces[:NAMES_MAX]))
    if len(service.workspaces) > NAMES_MAX:
        names += f" and {len(service.workspaces) - NAMES_MAX} more"
    several = "the workspaces " if len(service.workspaces) > 1 else "the workspace "
    every = "every workspace: " if service.is_all else several
    terminal.say(f"{clean(service.worker)} answers in {every}{names}")
    if shard is not None:
        terminal.say(f"  of {shard}")
    if figures is not None:
        terminal.say(f"  figures: {figures.url}")
    terminal.say(f"  {counted(at_once, 'session')} at once, woken up by {running.engine_name}")
    terminal.say(f"  tools: {', '.join(map(clean, tools)) or 'none; add some with --tools'}")
    terminal.note("Ctrl-C or SIGTERM stops it")
