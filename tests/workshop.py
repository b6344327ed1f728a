"""A runtime on a real database with a scripted model, for tests of runs and workers."""

from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from turntree.api import Tree
from turntree.core.event import record
from turntree.core.ids import RunId, SessionId, TurnId
from turntree.core.principal import Principal
from turntree.core.thread import Placed
from turntree.db.database import Database
from turntree.ledger.store import PostgresLedger
from turntree.ledger.thread_store import PostgresThreads
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import PostgresInbox
from turntree.runs.live_hub import Hub
from turntree.runs.model_call import Asking
from turntree.runs.runner import Gate, Runner, let_through
from turntree.runs.service import Runs
from turntree.runs.session_loop import Actor
from turntree.runs.tool_calls import Calling
from turntree.runs.worker import Worker
from turntree.runs.worker_store import PostgresWorkers
from turntree.testing.fakes import ScriptedWorld
from turntree.testing.scripted.provider import PlainAssembly, ScriptedProvider, ScriptedTools


async def at_once(pause_s: float) -> None:
    """Wait for nothing, but let others go first."""
    del pause_s
    await anyio.lowlevel.checkpoint()


@dataclass
class Workshop:
    """Everything a run passes through, and what tests may bend."""

    tree: Tree
    database: Database
    world: ScriptedWorld
    engine: InlineEngine
    inbox: PostgresInbox
    workers: PostgresWorkers
    session: SessionId
    provider: ScriptedProvider = field(default_factory=ScriptedProvider)
    tools: ScriptedTools = field(default_factory=ScriptedTools)
    hub: Hub = field(default_factory=Hub)
    gate: Gate = let_through

    def actor(self, worker: str = "w1") -> Actor:
        """Return somebody who pumps sessions."""
        ledger = PostgresLedger(self.database)
        calling = Calling((self.tools,))
        assembly = PlainAssembly(PostgresThreads(self.database), self.provider, calling.specs)
        asking = Asking(self.hub, clock=lambda: 0.0, chance=lambda: 0.5, sleep=at_once)
        runner = Runner(ledger, assembly, asking, calling, self.hub, self.gate)
        return Actor(
            worker, self.inbox, self.workers, ledger, runner, lambda _run, _seq: self.world.now()
        )

    def worker(self, name: str = "w1") -> Worker:
        """Return a worker that is quick to notice things."""
        return Worker(
            self.engine, self.workers, self.actor(name), self.world,
            beat_s=0.05, sweep_s=0.1, silent_s=5.0, grace_s=5.0,
        )  # fmt: skip

    def runs(self, actor: Actor | None = None) -> Runs:
        """Return the facet, as a process has it in which an actor works, or none."""
        runs = Runs(
            self.inbox, self.workers, PostgresLedger(self.database), PostgresThreads(self.database),
            self.tree.sessions, self.world, Principal("human", "ana"), self.hub, poll_s=0.02,
        )  # fmt: skip
        return runs if actor is None else Runs(
            runs.inbox, runs.workers, runs.ledger, runs.threads, runs.sessions, runs.world,
            runs.by, runs.hub, actor.cancel, runs.poll_s,
        )  # fmt: skip

    async def turn(self, run: RunId) -> Placed:
        """Return what a run left."""
        return await PostgresThreads(self.database).get_turn(TurnId(run))

    async def kinds(self, run: RunId) -> list[str]:
        """Return the kinds of the facts of a run, in order."""
        return [fact.event.kind for fact in await PostgresLedger(self.database).facts(run)]

    async def ids(self, run: RunId) -> list[str]:
        """Return the ids of the facts of a run, in order."""
        facts = await PostgresLedger(self.database).facts(run)
        return [record(fact.event).id for fact in facts]
