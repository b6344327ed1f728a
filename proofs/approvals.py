"""The claim: a call that a person was asked about is made at most once, and only as they allowed.

Workers are killed while requests are approved, edited, rejected, left to expire or canceled with
their runs, and two answers are given to each at once. The clock is moved by 21 days. A file outside
of the ledger has a line for each call that was made. Then every principal tries every verb, what
waits is made to cost nothing, and faults are planted in the functions of the database.
"""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import anyio.to_thread

import turntree
from proofs.approvals_worker import AHEAD, DELIVERED, WORKSPACE, AheadClock
from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.fsck_story import tell_approvals
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import Role
from turntree.auth.permissions import Permissions, actions
from turntree.boot.open import Settings
from turntree.core.canonical import Json, digest_bytes
from turntree.core.errors import InvalidOperation, NotFound, TurntreeError
from turntree.core.ids import RunId
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import (
    Database,
    ensure_database,
    open_database,
    prepare_database,
)
from turntree.integrity.fsck import fsck
from turntree.notifications.sender import DELIVER_S
from turntree.policy.approval import Approval, ForeignCall
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.approving.approval_sweep import ApprovalSweep
from turntree.runs.engines.inline import InlineEngine
from turntree.testing.fakes import FakeClock

FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
DAY_MS: Final = 24 * 60 * 60 * 1000
DAYS: Final = 21
DONE_S: Final = 240.0
LOOK_S: Final = 0.1
AT_ONCE: Final = 8
POLICY: Final = '''"""Ask about every delivery."""


def decide(request):
    if request["tool"] == "deliver":
        return {"decision": "ask", "reason": "it leaves the house"}
    return {"decision": "allow", "reason": "it stays"}


TESTS = [{"request": {"tool": "deliver"}, "decision": "ask"}]
'''
FATES: Final[Mapping[str, int]] = {
    "approved": 8, "edited": 3, "rejected": 4, "expired": 2, "canceled": 2, "late": 1,
}  # fmt: skip
"""What becomes of requests, by weight. A late one is approved while no worker runs, and has expired
when one does."""
LOOKS: Final = 50
USE: Final = b"SELECT turntree.use_approval(%(workspace)b, %(run)b::uuid, %(body)b)"
COPY: Final = b"""INSERT INTO turntree.approvals
  SELECT (jsonb_populate_record(a, jsonb_build_object(
      'id', gen_random_uuid(), 'request_key', NULL))).*
    FROM turntree.approvals a, generate_series(1, %(n)b::int)
    WHERE a.request_key = 'few-1' AND a.workspace_id = %(workspace)b"""
ANA: Final = Principal("human", "ana")
_DIGEST: Final = r"WHEN a\.allowed_digest <> decode\(substr\(v_data ->> 'args_digest', 8\), 'hex'\)"
_USED: Final = r"WHEN a\.state = 'used' THEN 'was used already' "
_STATE: Final = r"WHEN a\.state NOT IN \('approved', 'edited'\) THEN"
_USED_TOO: Final = "WHEN a.state NOT IN ('approved', 'edited', 'used') THEN"
_EXPIRED: Final = r"WHEN a\.expires_at <= \(v_body ->> 'at'\)::timestamptz"
_DIRECTLY: Final = (
    r"IF p_by <> turntree\.viewer\(\) OR p_by NOT LIKE 'human:_%' OR"
    r" position\(' for ' IN p_by\) > 0 OR p_by <> ALL"
)
_NAMED: Final = r"IF NOT FOUND AND NOT v_data \? 'approval' THEN"
PLANTS: Final = (
    Plant("the digest is not compared", ((_DIGEST, "WHEN false"),)),
    Plant("an approval is used twice", ((_USED, ""), (_STATE, _USED_TOO))),
    Plant("an expired approval is used", ((_EXPIRED, "WHEN false"),)),
    Plant("an agent approves", ((_DIRECTLY, "IF turntree.person_behind(p_by) <> ALL"),)),
    Plant("a call starts without it", ((_NAMED, "IF NOT v_data ? 'approval' THEN"),)),
)


async def prove(proof: Proof) -> None:
    """Decide under fire, let everyone try, wait, and plant."""
    with temporary_server(FAST) as (server, _):
        if proof.begins("kills"):
            workers, count, kills = (2, 40, 4) if proof.quick else (3, 1_000, 30)
            with TemporaryDirectory() as folder:
                conninfo = await ensure_database(server, "killed")
                await show_kills(proof, conninfo, Path(folder), workers, count, kills)
        if proof.begins("principals"):
            await show_principals(proof, await ensure_database(server, "principals"))
        if proof.begins("waiting"):
            await show_waiting(proof, await ensure_database(server, "waiting"))
        if proof.begins("planted"):
            await show_plants(proof, server)


@dataclass(slots=True)
class Order:
    """One message, whose answer calls the tool once."""

    number: int
    fate: str
    run: RunId

    @property
    def name(self) -> str:
        """What is delivered unless a person edits it."""
        return f"order-{self.number}"

    @property
    def edited(self) -> str:
        """What is delivered then."""
        return f"edited-{self.number}"


@dataclass(slots=True)
class Crew:
    """The workers, which are killed."""

    conninfo: str
    folder: Path
    processes: list["subprocess.Popen[str]"] = field(default_factory=list["subprocess.Popen[str]"])
    killed: int = 0

    async def hire(self) -> None:
        """Start another worker, and wait until it serves."""
        words = [sys.executable, "-m", "proofs.approvals_worker", self.conninfo, str(self.folder)]
        process = subprocess.Popen(  # noqa: ASYNC220 - killed, not awaited.
            words, stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        assert process.stdout is not None, "it was asked for"
        if (await anyio.to_thread.run_sync(process.stdout.readline)).strip() != "ready":
            raise RuntimeError("the worker did not begin")

    async def kill(self, die: random.Random) -> None:
        """Kill one of them without warning, and start another."""
        process = die.choice(self.processes)
        self.processes.remove(process)
        process.kill()
        await anyio.to_thread.run_sync(process.wait)
        self.killed += 1
        await self.hire()

    async def dismiss(self) -> None:
        """End all of them."""
        for process in self.processes:
            process.kill()
            await anyio.to_thread.run_sync(process.wait)
        self.processes.clear()


async def show_kills(
    proof: Proof, conninfo: str, folder: Path, workers: int, count: int, kills: int
) -> None:
    """Decide about calls while workers die and time passes, and count what was done."""
    die = random.Random(proof.seed)
    (folder / AHEAD).write_text("0", encoding="ascii")
    (folder / DELIVERED).write_text("", encoding="ascii")
    settings = Settings(folder / "own", database_url=conninfo, workspace=WORKSPACE, user="ana")
    clock, crew, second = AheadClock(folder / AHEAD), Crew(conninfo, folder), Counter[str]()
    async with turntree.open(settings, world=clock) as tree:
        await _furnish(tree, count)
        drawn = die.choices([*FATES], [*FATES.values()], k=count)
        fates = [*FATES, *drawn[len(FATES) :]]
        try:
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(crew.hire)
            orders = [
                Order(
                    n,
                    fate,
                    (await tree.runs.post(f"order-{n}", f"deliver order-{n}.", model="one")).run,
                )
                for n, fate in enumerate(fates)
            ]
            async with anyio.create_task_group() as group:
                group.start_soon(_kill, crew, die, kills)
                await _decide_all(tree, orders, second, die)
            at_once = [one for one in orders if one.fate not in ("expired", "late")]
            await _wait_sealed(tree, at_once)
            await crew.dismiss()
            for one in orders:
                if one.fate == "late":
                    (found,) = (await tree.approvals.of_run(one.run)).values()
                    await tree.approvals.approve(found.id)
            (folder / AHEAD).write_text(str(DAYS * DAY_MS), encoding="ascii")
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(crew.hire)
            left = await _wait_sealed(tree, orders)
            wrong = await _list_wrong(tree, orders, folder)
            for line in wrong:
                print(line, file=sys.stderr)
        finally:
            await crew.dismiss()
        proof.at_least("workers killed", crew.killed, "kills", kills)
        proof.at_least("requests decided", count - len(left), "requests", count)
        proof.at_least("days that the clock was moved", DAYS, "days", DAYS)
        proof.at_most("calls made otherwise than allowed, or twice", len(wrong), "calls", 0)
        proof.at_least("second answers given", second.total(), "answers", count // 2)
        proof.at_most("second answers taken", second["taken"], "answers", 0)
    async with open_database(
        conninfo,
        await prepare_database(conninfo, WORKSPACE, FakeClock().new_id()),
        sight=EVERYTHING,
    ) as database:
        findings = await fsck(database)
        for finding in findings:
            print(finding, file=sys.stderr)
        proof.at_most("findings of fsck", len(findings), "findings", 0)


async def _furnish(tree: Tree, count: int) -> None:
    rules: list[Json] = [
        {
            "when": f"order-{n}[.]",
            "replies": [
                {"tools": [{"tool": "deliver", "args": {"to": f"order-{n}"}}]}, {"text": "done"},
            ],
        }
        for n in range(count)
    ]  # fmt: skip
    script: dict[str, Json] = {"provider_type": "scripted", "rules": rules}
    await tree.programs.create("provider", "script", script)
    model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
    await tree.programs.create("model", "one", model)
    version = await tree.policies.propose(POLICY)
    await tree.policies.activate(version.number)


async def _kill(crew: Crew, die: random.Random, kills: int) -> None:
    for _ in range(kills):
        await anyio.sleep(die.uniform(0.1, 0.6))
        await crew.kill(die)


async def _decide_all(
    tree: Tree, orders: Sequence[Order], second: Counter[str], die: random.Random
) -> None:
    """Decide about each request as soon as it waits, in any order."""
    left = [one for one in orders if one.fate not in ("expired", "late")]
    others = [one for one in orders if one.fate in ("expired", "late")]
    by_run = {one.run: one for one in left}
    limiter = anyio.CapacityLimiter(AT_ONCE)
    with anyio.fail_after(DONE_S):
        while by_run:
            waiting = await tree.approvals.list_waiting(limit=len(orders))
            die.shuffle(waiting)
            async with anyio.create_task_group() as group:
                for found in waiting:
                    if found.run is not None and (order := by_run.pop(found.run, None)):
                        group.start_soon(_decide, tree, order, found, second, limiter)
            await anyio.sleep(LOOK_S)
        while others:
            others = [one for one in others if not await tree.approvals.of_run(one.run)]
            await anyio.sleep(LOOK_S)


async def _decide(
    tree: Tree, order: Order, found: Approval, second: Counter[str], limiter: anyio.CapacityLimiter
) -> None:
    """Give the answer that the fate is, and another one, which is refused."""
    approvals = tree.approvals
    verbs: dict[str, Callable[[], Awaitable[object]]] = {
        "approved": lambda: approvals.approve(found.id),
        "edited": lambda: approvals.edit(found.id, {"to": order.edited}),
        "rejected": lambda: approvals.reject(found.id, note="no"),
        "canceled": lambda: tree.runs.cancel(order.run),
    }
    async with limiter:
        await verbs[order.fate]()
        for name in ("approved", "rejected"):
            try:
                await verbs[name]()
                second["taken"] += 1
            except InvalidOperation:
                second["refused"] += 1


async def _wait_sealed(tree: Tree, orders: Sequence[Order]) -> list[Order]:
    """Wait until the turns are sealed; return those that never were."""
    left = [*orders]
    with anyio.move_on_after(DONE_S):
        while left:
            left = [one for one in left if await tree.runs.status(one.run) != "finished"]
            await anyio.sleep(LOOK_S)
    return left


async def _list_wrong(tree: Tree, orders: Sequence[Order], folder: Path) -> list[str]:
    """Return what was done otherwise than a person allowed."""
    made = Counter((folder / DELIVERED).read_text(encoding="ascii").split())
    wrong: list[str] = []
    for one in orders:
        done = {name: made.pop(name, 0) for name in (one.name, one.edited)}
        allowed = {"approved": one.name, "edited": one.edited}.get(one.fate)
        over = [name for name, times in done.items() if times > (name == allowed)]
        lost = allowed is not None and not done[allowed]
        (found,) = (await tree.approvals.of_run(one.run)).values()
        # Killed after the intent was recorded: then it is not known whether it was made.
        is_in_doubt = lost and found.state == "used"
        states = {"approved": "used", "edited": "used", "late": "approved"}
        if over or (lost and not is_in_doubt) or found.state != states.get(one.fate, one.fate):
            wrong.append(f"{one.name}, {one.fate}: {done}, {found.state}")
        if found.args is not None or found.answer is not None:
            wrong.append(f"{one.name}: its arguments stay after the run")
    return wrong + [f"{name} was never asked for" for name in made]


async def show_principals(proof: Proof, conninfo: str) -> None:
    """Let every principal try every verb: only the people who are asked may."""
    async with _told(conninfo) as (tree, database):
        everything = ExecutionContext.begin(ANA)
        atlas = Principal("agent", "atlas")
        reading = ExecutionContext.begin(ANA, Permissions(actions("read", "invoke")))
        contexts = {
            "the owner": everything,
            "another member": ExecutionContext.begin(Principal("human", "bob")),
            "a guest": ExecutionContext.begin(Principal("human", "gus")),
            "a removed member": ExecutionContext.begin(Principal("human", "rex")),
            "an agent of the owner": everything.delegate(atlas, everything.rights),
            "a session of the owner": everything.delegate(
                Principal("session", "s1"), everything.rights
            ),
            "an agent of another": ExecutionContext.begin(Principal("human", "bob")).delegate(
                atlas, everything.rights
            ),
            "a narrowed key of the owner": reading,
            "the schedule": ExecutionContext.begin(Principal("system", "cron")),
            "the runtime": ExecutionContext.begin(Principal("system", "runtime")),
        }  # fmt: skip
        roles: dict[str, Role] = {"bob": "member", "gus": "guest", "rex": "member"}
        for name, role in roles.items():
            await tree.members.add(name, role=role)
        await tree.members.remove("rex")
        wrong: list[str] = []
        tried = 0
        shared = await _ask_for(tree, database, "shared")
        for who, context in contexts.items():
            for verb in ("approve", "reject", "edit", "answer", "reject_waiting", "use"):
                tried += 1
                # What nobody may decide stays as it is, and one request is enough for all.
                is_new = who in ("the owner", "a narrowed key of the owner")
                asked = await _ask_for(tree, database, f"{verb}-{who}") if is_new else shared
                if not await _is_as_allowed(tree, database, who, context, verb, asked):
                    wrong.append(f"{who}: {verb}")
        for one in wrong:
            print(one, file=sys.stderr)
        proof.at_least("principals and verbs tried", tried, "pairs", 60)
        proof.at_most("pairs that were not as the rules say", len(wrong), "pairs", 0)


async def _ask_for(tree: Tree, database: Database, name: str) -> tuple[Approval, Approval]:
    """Return a call that waits, and one of another coding agent that is approved."""
    label = name.replace(" ", "-")
    await tell_approvals(tree, label)
    (asked,) = await tree.approvals.list_waiting(session=label)
    call = ForeignCall("codex", "shell", {"command": label}, f"call {label}")
    foreign = await tree.approvals.request_foreign(call)
    engine = InlineEngine(database.lend)
    own = replace(tree.approvals, store=replace(tree.approvals.store, engine=engine))
    return asked, await own.approve(foreign.id)


async def _is_as_allowed(
    tree: Tree, database: Database, who: str, context: ExecutionContext, verb: str,
    requests: tuple[Approval, Approval],
) -> bool:  # fmt: skip
    """Let a principal try a verb, and return whether that ended as it should."""
    asked, foreign = requests
    theirs = tree.act_as(context).approvals
    theirs = replace(theirs, store=replace(theirs.store, engine=InlineEngine(database.lend)))
    verbs: dict[str, Callable[[], Awaitable[object]]] = {
        "approve": lambda: theirs.approve(asked.id),
        "reject": lambda: theirs.reject(asked.id),
        "edit": lambda: theirs.edit(asked.id, {"to": 3}),
        "answer": lambda: theirs.answer(asked.id, "yes"),
        "reject_waiting": lambda: theirs.reject_waiting(str(asked.label)),
        "use": lambda: theirs.use_foreign(foreign.id, foreign.args_digest),
    }
    try:
        done = await verbs[verb]()
    except TurntreeError:
        done = None
    after = await tree.approvals.get(foreign.id if verb == "use" else asked.id)
    # A call has no answer, and the run of the story is not parked: nothing of it is rejected.
    changes = verb not in ("answer", "reject_waiting")
    is_allowed = who == "the owner" or (verb == "use" and who == "a narrowed key of the owner")
    if not (is_allowed and changes):
        return after.state == ("approved" if verb == "use" else "pending") and not (
            verb == "answer" and done
        )
    states = {"approve": "approved", "reject": "rejected", "edit": "edited", "use": "used"}
    return after.state == states[verb]


async def show_waiting(proof: Proof, conninfo: str) -> None:
    """What requests cost a worker that only wait."""
    count = 1_000 if proof.quick else 10_000
    async with _told(conninfo) as (tree, database):
        everything = database.seen_by(EVERYTHING)
        store = ApprovalStore(everything, InlineEngine(database.lend))
        sweep = ApprovalSweep(store, tree.revisions.world, lambda _: store)
        for number in range(20):
            await tree.approvals.request_foreign(ForeignCall("codex", "x", {}, f"few-{number}"))
        few = await _cost(sweep)
        await everything.run(COPY, n=count)
        many = await _cost(sweep)
        assert await tree.approvals.count_waiting() >= count
        proof.note("a look at 20 requests that wait", few * 1000, "ms")
        proof.note(f"a look at {count} requests that wait", many * 1000, "ms")
        share = many / DELIVER_S
        proof.at_most(f"core that {count} waiting requests cost", share * 100, "percent", 1.0)


async def _cost(sweep: ApprovalSweep) -> float:
    """Return the seconds of a look at what waits: at most so much of any processor."""
    await sweep.look()
    began = time.perf_counter()
    for _ in range(LOOKS):
        await sweep.look()
    return (time.perf_counter() - began) / LOOKS


async def show_plants(proof: Proof, server: str) -> None:
    """Tell a story of attempts to each database, as it is and with a fault."""
    sound = await _attempt_all(await ensure_database(server, "sound"))
    for one in sound:
        print(one, file=sys.stderr)
    proof.at_most("complaints about the story", len(sound), "complaints", 0)
    for number, plant in enumerate(PLANTS):
        conninfo = await ensure_database(server, f"broken_{number}")
        await prepare_database(conninfo, WORKSPACE, FakeClock().new_id())
        await install(conninfo, plant)
        found = await _attempt_all(conninfo)
        proof.at_least(f"planted and found: {plant.name}", int(bool(found)), "of 1", 1)


async def _attempt_all(conninfo: str) -> list[str]:
    """Try what must not work, and return what did."""
    complaints: list[str] = []
    async with _told(conninfo) as (tree, database):
        await tell_approvals(tree, "attempts")
        calls = [one for one in await tree.approvals.list_all() if one.kind == "call"]
        (used,) = [one for one in calls if one.state == "used"]
        (waiting,) = [one for one in calls if one.state == "pending"]
        agent_of_ana = ExecutionContext.begin(ANA).delegate(
            Principal("agent", "atlas"), Permissions()
        )
        store = ApprovalStore(database.seen_by(EVERYTHING), InlineEngine(database.lend))
        agent = tree.act_as(agent_of_ana).approvals.store
        at, later = tree.revisions.world.now(), "2099-01-01T00:00:00.000Z"

        async def use(one: Approval, digest: str, approval: str | None, moment: str) -> None:
            named = "" if approval is None else f'"approval":"{approval}",'
            await store.database.run(
                USE, run=one.run,
                body=f'{{"at":"{moment}","data":{{{named}"args_digest":"{digest}",'
                f'"call_id":"{one.call_id}","tool":"{one.tool}"}}}}',
            )  # fmt: skip

        async def decide_as_agent() -> None:
            by = "agent:atlas for human:ana"
            decide = replace(agent, engine=InlineEngine(agent.database.lend)).decide
            await decide(waiting.id, "approved", by=by, at=at)

        other = digest_bytes(b"{}")
        given = waiting.args_digest
        attempts: dict[str, Callable[[], Awaitable[None]]] = {
            "used again": lambda: use(used, used.args_digest, used.id, at),
            "used before it is decided": lambda: use(waiting, given, waiting.id, at),
            "not named": lambda: use(waiting, given, None, at),
            "an agent approves": decide_as_agent,
        }
        for name, attempt in attempts.items():
            await _expect_refusal(name, attempt, complaints)
        if (await tree.approvals.get(waiting.id)).state != "pending":
            return [*complaints, "decided by another than its person"]
        own = replace(tree.approvals.store, engine=InlineEngine(database.lend))
        await own.decide(waiting.id, "approved", by="human:ana", at=at)
        await _expect_refusal(
            "with other arguments", lambda: use(waiting, other, waiting.id, at), complaints
        )
        await _expect_refusal(
            "after it expired", lambda: use(waiting, given, waiting.id, later), complaints
        )
    return complaints


async def _expect_refusal(
    name: str, attempt: Callable[[], Awaitable[None]], complaints: list[str]
) -> None:
    try:
        await attempt()
    except (InvalidOperation, NotFound):
        return
    complaints.append(f"it works: {name}")


@asynccontextmanager
async def _told(conninfo: str) -> AsyncGenerator[tuple[Tree, Database], Any]:
    """Open a workspace in which nobody serves, as ana."""
    with TemporaryDirectory() as folder:
        settings = Settings(Path(folder), database_url=conninfo, workspace=WORKSPACE, user="ana")
        async with turntree.open(settings) as tree:
            yield tree, tree._on.database  # noqa: SLF001 - the stores of the story need it.


if __name__ == "__main__":
    run(prove, __doc__ or "")
