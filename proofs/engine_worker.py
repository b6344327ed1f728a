"""A worker in a process of its own, with a scripted model and tools, for ``proofs.engine_cost``.

    python -m proofs.engine_worker CONNINFO WORKSPACE NAME [--parking]

It says ``ready`` when it serves and drains when its input ends. It is the product's own, with two
tools; only a parking one is put together here, for it lets no run write without approval.
"""

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from turntree.boot.open import Settings, engine_on, run_on, tree_on
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, sqlalchemy_url
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.policy.evaluate import Evaluator
from turntree.policy.judge import PolicyJudge
from turntree.policy.policy import Policy
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.engines.dbos import DbosEngine, open_dbos
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

ASKING = """
def decide(request):
    if request["tool"] == "append":
        return {"decision": "ask", "reason": "it writes"}
    return {"decision": "allow", "reason": "it does not write"}
"""


def worker_on(database: Database, engine: DbosEngine, name: str) -> Worker:
    """Return a worker whose model and tools are scripted and take no time."""
    world, hub, calling = SystemClock(), LiveHub(), ToolCaller((ScriptedTools(),))
    ledger = Ledger(database)
    assembly = PlainAssembly(ThreadStore(database), EchoProvider(), calling.specs)
    asking = ModelCaller(hub, clock=time.monotonic, chance=lambda: 0.5)
    inbox, workers = InboxStore(database, engine), WorkerStore(database, engine)
    evaluator = Evaluator(MontyLane(), Bubblewrap)
    judge = CallJudge(PolicyJudge(evaluator, find_policy), ApprovalStore(database, engine).of_run)
    runner = Runner(ledger, assembly, asking, calling, hub, judge)
    actor = SessionLoop(name, inbox, workers, ledger, runner, lambda _run, _seq: world.now())
    return Worker(engine, workers, actor, world)


async def find_policy(agent: str | None) -> Policy:
    """Return a policy that asks about every call that writes."""
    del agent
    return Policy(ASKING)


def nod() -> str:
    """Nod."""
    return "yes"


def write(path: str) -> str:
    """Write new contents to a file."""
    Path(path).write_text(str(time.time_ns()), encoding="utf-8")
    return "written"


async def serve(conninfo: str, workspace: WorkspaceId, name: str) -> None:
    """Serve as the product does until our input ends."""
    world = SystemClock()
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(Path(home), user="ana", session="main")
        async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
            engine = engine_on(database)
            tree = tree_on(database, settings, world, engine=engine)
            running = run_on(database, tree, settings, world, engine, [nod, write])
            async with running.serving(name=name):
                _say_ready()
                await anyio.to_thread.run_sync(sys.stdin.read)
            await running.aclose()


async def serve_parking(conninfo: str, workspace: WorkspaceId, name: str) -> None:
    """Serve and park every run that wants to write."""
    async with (
        open_dbos(sqlalchemy_url(conninfo), workspace) as engine,
        open_database(conninfo, workspace, sight=EVERYTHING) as database,
        anyio.create_task_group() as group,
    ):
        worker = worker_on(database, engine, name)
        group.start_soon(partial(worker.serve, ready=_say_ready))
        await anyio.to_thread.run_sync(sys.stdin.read)
        worker.drain()


def _say_ready() -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    chosen = serve_parking if "--parking" in sys.argv else serve
    anyio.run(chosen, sys.argv[1], WorkspaceId(sys.argv[2]), sys.argv[3])
