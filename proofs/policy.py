"""The claim: one policy decides alike wherever it runs, and no call is made without its decision.

Random calls are put to random policies, in Monty and as a process: both decide alike. Policies that
are broken in every way that is known deny. Then an agent works under a policy that allows, denies,
rewrites and asks: in its journals each call that began has a decision about exactly its arguments,
what was denied was not made, and what a person decided holds once. Faults are planted, and each has
to be noticed: a judge that is skipped, arguments that are not compared, an approval used twice, one
used after it expired, and an agent that approves. At last the policy is tried on these journals: it
decides as it did when it was enforced.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import anyio

from proofs.figures import Proof, run, temporary_server
from turntree.api import Tree
from turntree.auth.permissions import EFFECTS
from turntree.boot.open import CODE_SANDBOX, Settings, find_sandboxes, tree_on
from turntree.core.ids import RunId
from turntree.core.message import Message, ToolUse, user
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.models.providers.scripted import ScriptedCall, ScriptedReply
from turntree.policy.call import JudgedCall
from turntree.policy.evaluate import Evaluator
from turntree.policy.judge import PolicyJudge
from turntree.policy.local import shipped_policy
from turntree.policy.policy import Policy, read_policy
from turntree.policy.store import PolicyStore
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.attempt import Attempt
from turntree.runs.engine import Engine
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.runs.judging.call_judge import CallJudge, CallRuling
from turntree.runs.live.hub import LiveHub
from turntree.runs.model_call import ModelCaller
from turntree.runs.runner import Runner
from turntree.runs.session_loop import SessionLoop
from turntree.runs.tool_calls import ToolCaller
from turntree.runs.worker_store import WorkerStore
from turntree.sandbox.monty import MontyLane
from turntree.testing.fakes import FakeClock
from turntree.testing.scripted.provider import EchoProvider, PlainAssembly, ScriptedTools

FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
BROKEN: Final = (
    "return 1 / 0", "pass", "return 'perhaps'", "return {'allow'}", "return float('nan')",
    "return {'decision': 'allow', 'because': 1}", "return {'decision': 'rewrite'}",
    "return {'decision': 'ask', 'ask': ['agent:x']}", "import turntree\n    return 'allow'",
    "return open('/etc/passwd').read()", "return 'x' * 10**10", "return decide(request)",
    "raise SystemExit(0)", "while True:\n        pass",
)  # fmt: skip
POLICY: Final = '''"""Decide by the arguments of the call."""

TESTS = [{"request": {"args": {"n": 0}}, "decision": "allow"}]


def decide(request):
    number = request["args"].get("n", 0) if request["args"] else 0
    verdicts = ["allow", "deny", "ask", "rewrite"]
    verdict = verdicts[number % 4]
    if verdict == "rewrite":
        return {"decision": verdict, "args": {"n": 1000 + number}}
    return {"decision": verdict, "reason": "by number"}
'''


async def prove(proof: Proof) -> None:
    """Compare lanes, enforce a policy and plant faults."""
    sandbox, monty = find_sandboxes()[CODE_SANDBOX], MontyLane()
    evaluator = Evaluator(monty, lambda: sandbox)
    try:
        if proof.begins("lanes"):
            await _show_lanes(proof, evaluator, 40 if proof.quick else 10_000)
        if proof.begins("broken"):
            await _show_broken(proof, evaluator)
        if proof.begins("enforced"):
            await _show_enforced(proof, evaluator)
    finally:
        monty.close()


async def _show_lanes(proof: Proof, evaluator: Evaluator, count: int) -> None:
    chance, same = random.Random(proof.seed), 0
    verdicts: Counter[str] = Counter()
    for number in range(count):
        policy = shipped_policy() if number % 2 else read_policy(POLICY)
        call = _random_call(chance)
        one = await evaluator.decide(policy, call)
        other = await evaluator.decide(replace(policy, lane="process"), call)
        same += one == other
        verdicts[one.verdict] += 1
    proof.at_least("random calls that both lanes decide alike", same, f"of {count}", count)
    proof.at_least("verdicts among them", len(verdicts), "kinds", 4)


def _random_call(chance: random.Random) -> JudgedCall:
    paths = tuple(chance.choice(("/srv/a/x", "/etc/hosts")) for _ in range(chance.randrange(3)))
    effects = tuple(effect for effect in EFFECTS if chance.random() < 0.5)
    context = tuple(effect for effect in EFFECTS if chance.random() < 0.5)
    commands: Any = chance.choice(((), None, ({"words": ["ls"]},)))
    return JudgedCall(
        chance.choice(("fs.write", "shell.exec", "post", "Bash")),
        {"n": chance.randrange(100), "text": chance.choice(("", "ä\n", "'\"\\"))},
        chance.choice((None, effects)),
        chance.choice(("worker", "workbench", "ledger", "program", "mcp:x", "codex")),
        folder=chance.choice((None, "/srv/a")), context_effects=context, commands=commands,
        paths=paths,
    )  # fmt: skip


async def _show_broken(proof: Proof, evaluator: Evaluator) -> None:
    denied = 0
    for body in BROKEN:
        policy = Policy(f"def decide(request):\n    {body}\n")
        for lane in (policy, replace(policy, lane="process")):
            denied += (await evaluator.decide(lane, JudgedCall("t", {}))).verdict == "deny"
    proof.at_least("broken policies that deny", denied, f"of {2 * len(BROKEN)}", 2 * len(BROKEN))


# Enforcement: an agent whose model asks for calls by numbers.


class NumberedCalls(EchoProvider):
    """A model that asks for one call for each number of the message, and then is done."""

    def reply_to(self, messages: Sequence[Message]) -> ScriptedReply:
        """Return the calls, or what is said after them."""
        last = max(place for place, said in enumerate(messages) if said.role == "user")
        if messages[last + 1 :]:
            return ScriptedReply(text="done")
        calls = tuple(
            ScriptedCall(tool="nod", args={"n": int(word)}, call_id=f"c{word}")
            for word in messages[last].text.split()
        )
        return ScriptedReply(text="go", tools=calls)


class SkippingJudge(CallJudge):
    """A planted fault: it lets every call through and records nothing."""

    async def rule(
        self, attempt: Attempt, uses: Sequence[ToolUse], caller: ToolCaller
    ) -> list[CallRuling]:
        """Return what makes every call."""
        del attempt, caller
        return [CallRuling(use) for use in uses]


@value
class Enforcement:
    """A worker on a ledger, with a policy in force."""

    tree: Tree
    database: Database
    clock: FakeClock
    evaluator: Evaluator

    async def answer(self, text: str, *, judge_of: type[CallJudge] = CallJudge) -> RunId:
        """Return the run that answers a message, which may be parked."""
        database, tools = self.database, ScriptedTools()
        engine = InlineEngine(database.lend)
        inbox, ledger, hub = InboxStore(database, engine), Ledger(database), LiveHub()
        caller, provider = ToolCaller((tools,)), NumberedCalls()
        asking = ModelCaller(hub, clock=lambda: 0.0, chance=lambda: 0.5, sleep=anyio.sleep)
        assembly = PlainAssembly(ThreadStore(database), provider, caller.specs)
        approvals = ApprovalStore(database, cast("Engine", engine))
        policies = PolicyJudge(self.evaluator, PolicyStore(database).find_active)
        judge = judge_of(policies, approvals.of_run)
        runner = Runner(ledger, assembly, asking, caller, hub, judge)
        workers = WorkerStore(database, engine)
        loop = SessionLoop("w", inbox, workers, ledger, runner, lambda _run, _seq: self.clock.now())
        session = await self.tree.sessions.create(f"s{self.clock.new_id()[-12:]}")
        posted = await inbox.post(
            session.id, user(text), by="human:ana", at=self.clock.now(), options={}
        )
        await loop.handle(session.id)
        for number, one in enumerate((await approvals.of_run(posted.run)).values()):
            if number % 2:
                await self.tree.approvals.reject(one.id)
            else:
                await self.tree.approvals.approve(one.id)
        await loop.handle(session.id)
        return posted.run

    async def read_journal(self, run: RunId) -> list[dict[str, Any]]:
        """Return the events of a run, and those of its approvals, as documents."""
        ledger = Ledger(self.database)
        facts = [*await ledger.facts(run)]
        for fact in list(facts):
            if fact.event.kind == "approval.requested":
                facts += await ledger.facts(RunId(str(fact.event.data["approval"])))
        return [
            {"kind": fact.event.kind, "at": fact.event.at, "data": dict(fact.event.data)}
            for fact in facts
        ]


def audit(journal: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is wrong with the calls of a run."""
    wrong: list[str] = []
    judged: dict[tuple[str, str], str] = {}
    requests: dict[str, dict[str, Any]] = {}
    decided = {e["data"]["approval"]: e["data"] for e in journal if e["kind"] == "approval.decided"}
    used: set[str] = set()
    for event in journal:
        data = event["data"]
        if event["kind"] == "tool_call.judged":
            judged[data["call_id"], data["args_digest"]] = data["decision"]
        elif event["kind"] == "approval.requested":
            requests[data["approval"]] = data
        elif event["kind"] == "tool_call.started":
            decision = judged.get((data["call_id"], data["args_digest"]))
            approval = data.get("approval")
            if decision is None:
                wrong.append("a call without a decision on its digest")
            elif decision == "deny" or (decision == "ask" and approval is None):
                wrong.append(f"a call that was decided {decision}")
            if approval is not None:
                verdict = decided.get(approval, {"decision": "none", "by": ""})
                if approval in used:
                    wrong.append("an approval used twice")
                if verdict["decision"] not in ("approved", "edited"):
                    wrong.append("a call that no person allowed")
                if not verdict["by"].startswith("human:"):
                    wrong.append("an answer of another than a person")
                if event["at"] >= requests[approval]["expires_at"]:
                    wrong.append("an approval used after it expired")
                used.add(approval)
    return wrong


async def _show_enforced(proof: Proof, evaluator: Evaluator) -> None:
    with temporary_server(FAST) as (server, _), TemporaryDirectory() as name:
        conninfo = await ensure_database(server, "policy")
        clock = FakeClock()
        workspace = await prepare_database(conninfo, "policy", clock.new_id(), None)
        async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
            settings = Settings(Path(name), user="ana", session="main")
            tree = tree_on(database, settings, clock)
            here = Enforcement(tree, database, clock, evaluator)
            version = await tree.policies.propose(POLICY)
            await tree.policies.activate(version.number)
            count, chance = 6 if proof.quick else 200, random.Random(proof.seed)
            begun, wrong, made = 0, list[str](), Counter[str]()
            asked: list[dict[str, Any]] = []
            for _ in range(count):
                words = {str(chance.randrange(40)) for _ in range(chance.randrange(1, 5))}
                journal = await here.read_journal(await here.answer(" ".join(sorted(words))))
                wrong += audit(journal)
                begun += sum(event["kind"] == "tool_call.started" for event in journal)
                for event in journal:
                    if event["kind"] == "tool_call.judged":
                        made[event["data"]["decision"]] += 1
                if any("approval" in event["data"] and event["kind"] == "tool_call.started"
                       for event in journal):  # fmt: skip
                    asked = journal
            proof.at_most(f"of {begun} calls begun, without a decision of theirs", len(wrong),
                          "calls", 0)  # fmt: skip
            proof.at_least("verdicts enforced", len(made), "kinds", 4)
            skipped = await here.read_journal(await here.answer("4", judge_of=SkippingJudge))
            found = [bool(audit(skipped))] + [bool(audit(plant(asked))) for plant in PLANTS]
            proof.at_least("planted faults found", sum(found), f"of {len(found)}", len(found))
            same = tried = 0
            async for one in tree.policies.try_on(read_policy(POLICY), limit=10_000):
                if one.recorded is not None:
                    tried += 1
                    same += one.recorded == one.decision.verdict
            proof.at_least(
                "calls tried that decide as enforced", same, f"of {tried}", max(tried, 1)
            )


def _other_arguments(journal: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return _changed(journal, "tool_call.started", args_digest="sha256:" + "0" * 64)


def _twice(journal: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    begun = [e for e in journal if e["kind"] == "tool_call.started" and "approval" in e["data"]]
    return [*journal, *begun]


def _expired(journal: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return _changed(journal, "approval.requested", expires_at="2000-01-01T00:00:00.000Z")


def _agent_decides(journal: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return _changed(journal, "approval.decided", by="agent:helper")


def _changed(journal: Sequence[dict[str, Any]], kind: str, **members: str) -> list[dict[str, Any]]:
    return [
        {**event, "data": {**event["data"], **members}} if event["kind"] == kind else event
        for event in journal
    ]


PLANTS: Final[Sequence[Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]]] = (
    _other_arguments, _twice, _expired, _agent_decides,
)  # fmt: skip


if __name__ == "__main__":
    run(prove, __doc__ or "")
