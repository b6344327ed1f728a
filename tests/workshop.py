"""A runtime on a real database with a scripted model, for tests of runs and workers."""

from dataclasses import dataclass, field
from typing import cast

import anyio
import anyio.lowlevel

from turntree.api import Tree
from turntree.core.event import record
from turntree.core.ids import RunId, SessionId, TurnId
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.db.database import Database
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.policy.evaluate import Evaluator
from turntree.policy.judge import PolicyJudge
from turntree.policy.policy import Policy
from turntree.policy.store import PolicyStore
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.engine import Engine
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.runs.judging.call_judge import CallJudge
from turntree.runs.live.hub import LiveHub
from turntree.runs.model_call import ModelCaller
from turntree.runs.runner import Runner
from turntree.runs.service import Runs
from turntree.runs.session_loop import SessionLoop
from turntree.runs.tool_calls import ToolCaller
from turntree.runs.worker import Worker
from turntree.runs.worker_store import WorkerStore
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.sandbox.monty import MontyLane
from turntree.testing.fakes import FakeClock
from turntree.testing.scripted.provider import EchoProvider, PlainAssembly, ScriptedTools

EVALUATOR = Evaluator(MontyLane(), Bubblewrap)


def ask_always(*people: str) -> Policy:
    """Return a policy that asks about every call."""
    answer = {"decision": "ask", "reason": "it leaves the folder", "ask": [*people]}
    return Policy(f"def decide(request):\n    return {answer!r}\n")


async def at_once(pause_s: float) -> None:
    """Wait for nothing, but let others go first."""
    del pause_s
    await anyio.lowlevel.checkpoint()


@dataclass
class Workshop:
    """Everything a run passes through, and what tests may bend."""

    tree: Tree
    database: Database
    world: FakeClock
    engine: InlineEngine
    inbox: InboxStore
    workers: WorkerStore
    session: SessionId
    provider: EchoProvider = field(default_factory=EchoProvider)
    tools: ScriptedTools = field(default_factory=ScriptedTools)
    hub: LiveHub = field(default_factory=LiveHub)
    forgotten: list[RunId] = field(default_factory=list[RunId])
    """Runs of which nothing is kept for another request."""
    policy: Policy | None = None
    """What judges calls; None stands for the policy in force in the ledger."""

    def make_judge(self) -> CallJudge:
        """Return the judge of calls, with its approvals."""

        async def find_active(agent: str | None) -> Policy | None:
            return self.policy or await PolicyStore(self.database).find_active(agent)

        approvals = ApprovalStore(self.database, cast("Engine", self.engine))
        return CallJudge(PolicyJudge(EVALUATOR, find_active), approvals.of_run)

    def actor(self, worker: str = "w1") -> SessionLoop:
        """Return somebody who pumps sessions."""
        ledger = Ledger(self.database)
        calling = ToolCaller((self.tools,))
        assembly = PlainAssembly(ThreadStore(self.database), self.provider, calling.specs)
        asking = ModelCaller(self.hub, clock=lambda: 0.0, chance=lambda: 0.5, sleep=at_once)
        runner = Runner(
            ledger,
            assembly,
            asking,
            calling,
            self.hub,
            self.make_judge(),
            forget=self.forgotten.append,
        )
        return SessionLoop(
            worker, self.inbox, self.workers, ledger, runner, lambda _run, _seq: self.world.now()
        )

    def worker(self, name: str = "w1") -> Worker:
        """Return a worker that is quick to notice things."""
        return Worker(
            self.engine, self.workers, self.actor(name), self.world,
            beat_s=0.05, sweep_s=0.1, silent_s=5.0, grace_s=5.0,
        )  # fmt: skip

    def runs(self, actor: SessionLoop | None = None) -> Runs:
        """Return the facet, as a process has it in which an actor works, or none."""
        runs = Runs(
            self.inbox, self.workers, Ledger(self.database), ThreadStore(self.database),
            self.tree.sessions, self.world, Principal("human", "ana"), self.hub,
            lambda: self.tree.router, poll_s=0.02,
        )  # fmt: skip
        return runs if actor is None else Runs(
            runs.inbox, runs.workers, runs.ledger, runs.threads, runs.sessions, runs.world,
            runs.by, runs.hub, runs.find_router, actor.cancel, runs.poll_s,
        )  # fmt: skip

    async def turn(self, run: RunId) -> ThreadTurn:
        """Return what a run left."""
        return await ThreadStore(self.database).get_turn(TurnId(run))

    async def kinds(self, run: RunId) -> list[str]:
        """Return the kinds of the facts of a run, in order."""
        return [fact.event.kind for fact in await Ledger(self.database).facts(run)]

    async def ids(self, run: RunId) -> list[str]:
        """Return the ids of the facts of a run, in order."""
        facts = await Ledger(self.database).facts(run)
        return [record(fact.event).id for fact in facts]
