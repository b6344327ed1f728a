"""A worker of the chaos drill: the real runtime on DBOS, with a scripted model.

``python -m proofs.chaos_worker CONNINFO WORKSPACE NAME FOLDER``. It says ``ready`` when it serves,
and leaves when it is told to (SIGTERM). The tool ``append`` may not be repeated: it adds a line to
a file, which shows afterwards how often it was really called.
"""

import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import anyio

from turntree.core.ids import WorkspaceId
from turntree.core.message import ToolUse
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database, sqlalchemy_url
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.policy.evaluate import Evaluator
from turntree.policy.judge import PolicyJudge
from turntree.policy.store import PolicyStore
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.engines.dbos import open_dbos
from turntree.runs.inbox_store import InboxStore
from turntree.runs.judging.call_judge import CallJudge
from turntree.runs.live.hub import LiveHub
from turntree.runs.model_call import ModelCaller
from turntree.runs.runner import Runner
from turntree.runs.session_loop import SessionLoop
from turntree.runs.tool_calls import ToolCaller
from turntree.runs.worker import Worker
from turntree.runs.worker_store import WorkerStore
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.sandbox.monty import MontyLane
from turntree.system.clock import SystemClock
from turntree.testing.scripted.provider import EchoProvider, PlainAssembly, ScriptedTools
from turntree.tools.toolset import ToolContext

DEEDS = "deeds.txt"
DAWDLE_S = 0.2
"""So long does a piece of an answer take at most, and half a tool: time enough to die in."""


async def dawdle(*_: object) -> None:
    """Take a while, as models and tools do."""
    await anyio.sleep(random.random() * DAWDLE_S)


def make_tools(folder: Path) -> ScriptedTools:
    """Return the tools, of which one writes a line that can be counted."""

    async def act(use: ToolUse, occasion: ToolContext) -> None:
        if use.tool == "append":
            line = f"{occasion.run} {use.call_id}\n".encode()
            # One write to a file that is only ever added to: no two deeds can mix.
            handle = os.open(folder / DEEDS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(handle, line)
            os.close(handle)
        await dawdle()

    return ScriptedTools(before=dawdle, after=act)


@asynccontextmanager
async def a_worker(
    conninfo: str, workspace: str, name: str, folder: Path
) -> AsyncGenerator[Worker, None]:
    """Build a worker with everything it needs."""
    scope = WorkspaceId(workspace)
    async with (
        open_database(conninfo, scope, sight=EVERYTHING) as database,
        open_dbos(sqlalchemy_url(conninfo), scope) as engine,
    ):
        world, hub, calling = SystemClock(), LiveHub(), ToolCaller((make_tools(folder),))
        ledger, workers = Ledger(database), WorkerStore(database, engine)
        provider = EchoProvider(before_piece=dawdle)
        evaluator = Evaluator(MontyLane(), Bubblewrap)
        policies = PolicyJudge(evaluator, PolicyStore(database).find_active)
        runner = Runner(
            ledger,
            PlainAssembly(ThreadStore(database), provider, calling.specs),
            ModelCaller(hub, monotonic, random.random),
            calling,
            hub,
            CallJudge(policies, ApprovalStore(database, engine).of_run),
        )
        inbox = InboxStore(database, engine)
        actor = SessionLoop(name, inbox, workers, ledger, runner, lambda _run, _seq: world.now())
        yield Worker(engine, workers, actor, world, at_once=16, silent_s=10.0, grace_s=10.0)


async def main() -> None:
    """Serve until told to leave."""
    conninfo, workspace, name, folder = sys.argv[1:]
    async with (
        a_worker(conninfo, workspace, name, Path(folder)) as worker,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_hear, worker)
        await worker.serve(ready=lambda: print("ready", flush=True))
        group.cancel_scope.cancel()


async def _hear(worker: Worker) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            worker.drain()


if __name__ == "__main__":
    anyio.run(main)
