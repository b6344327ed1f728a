"""The claim: servers and workers die, drain and lose Redis, and no message, turn or event is lost.

    python -m proofs.nodes [--quick] [--only tokens|chaos|planted]

Two ``turntree serve`` behind a haproxy and two ``turntree worker`` share a PostgreSQL and a Redis,
each in a process of its own. Clients hold streams of the workspace, send messages and follow their
runs through the proxy, while a model speaks word by word. Processes are killed without warning and
drained, and Redis is stopped and comes back empty. What counts afterwards: each message that was
acknowledged is one turn, in the order of sending; each stream has named each turn once, in one
order; no client was shown words that are not a beginning of what was recorded, unless it was told
to drop them; and ``fsck`` finds nothing.
"""

import asyncio
import contextlib
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import turntree
from proofs.figures import DURABLE, Proof, run, temporary_server
from proofs.http_cost import QUICK_SERVER, make_keys
from proofs.http_world import TEAM
from proofs.nodes_world import (
    DRAIN_S,
    Cluster,
    Kind,
    Member,
    Reply,
    Subscription,
    a_cluster,
    a_model,
    hear,
    insist_on,
)
from turntree.api import Tree
from turntree.boot.open import Settings, connect
from turntree.client.client import Client
from turntree.core.canonical import Json
from turntree.core.errors import NotFound
from turntree.core.event import BEGINNING
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.integrity.fsck import fsck
from turntree.ledger.feed import Feed
from turntree.system.clock import SystemClock
from turntree.wire.stream import gather

PEOPLE: Final = 20
TOKENS_P95_MS: Final = 150
SOON_S: Final = 90.0
"""How long the last turn may take after the last kill."""
OUTAGE_S: Final = 2.0
"""How long Redis is away, at least."""
CALM_WORDS, CALM_RUNS = 30, 10
LEFT_S: Final = 8.0
"""A run whose worker died is taken over sooner, unless nothing looks for the dead."""
LONG_WORDS: Final = 60
SHOWN_MAX: Final = 5
FEED_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is sent, and what happens meanwhile."""

    streams: int
    sessions: int
    turns: int
    """Of each session."""
    words: int
    kills: int
    drains: int


QUICK = Extent(streams=40, sessions=8, turns=3, words=20, kills=2, drains=1)
FULL = Extent(streams=200, sessions=40, turns=5, words=40, kills=10, drains=4)


@dataclass(slots=True)
class World:
    """A workspace with a model, its people, and the ways to reach it."""

    tree: Tree
    settings: Settings
    keys: Sequence[str]
    cluster: Cluster
    clients: Sequence[Client]


@asynccontextmanager
async def a_world(
    settings: Settings, folder: Path, faults: Mapping[Kind, str] | None = None
) -> AsyncGenerator[World, None]:
    """Start a cluster over a workspace."""
    async with AsyncExitStack() as stack:
        tree = await stack.enter_async_context(turntree.open(settings))
        port = await stack.enter_async_context(a_model())
        provider: dict[str, Json] = {
            "provider_type": "openai-compatible", "base_url": f"http://127.0.0.1:{port}/v1",
        }  # fmt: skip
        model: dict[str, Json] = {"model_id": "slow-1", "provider": "@(speaker)"}
        for kind, name, config in (("provider", "speaker", provider), ("model", "slow", model)):
            await tree.programs.ensure(kind, name, config)
        headers = await make_keys(tree, PEOPLE)
        keys = [one["authorization"].removeprefix("Bearer ") for one in headers]
        cluster = await stack.enter_async_context(a_cluster(settings, folder, faults))
        clients = [await stack.enter_async_context(Client(cluster.url, key)) for key in keys]
        yield World(tree, settings, keys, cluster, clients)


@asynccontextmanager
async def listening(world: World, count: int) -> AsyncGenerator[list[Subscription], None]:
    """Hold streams of the workspace while the block lasts."""
    subscriptions = [
        Subscription(world.cluster.port, world.keys[number % PEOPLE]) for number in range(count)
    ]
    tasks = [asyncio.create_task(one.run()) for one in subscriptions]
    try:
        await until(lambda: all(one.is_greeted for one in subscriptions))
        yield subscriptions
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def busiest(world: World) -> Member:
    """Return the worker that answers most runs at the moment."""
    runs = Counter(one.worker for one in await world.tree.runs.list_open())
    return max(world.cluster.of("worker"), key=lambda one: runs[str(one.told["worker"])])


async def until(is_so: Callable[[], bool], seconds: float = SOON_S) -> bool:
    """Wait until something is so, and return whether it came to be."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not is_so():  # noqa: ASYNC110 - connections set no event for it.
                await asyncio.sleep(0.05)
    return is_so()


async def prove(proof: Proof) -> None:
    """Take every figure."""
    with temporary_server(QUICK_SERVER if proof.quick else DURABLE) as (server, folder):
        settings = Settings(folder / "proof", database_url=server, workspace=TEAM, user="ana")
        if proof.wants("tokens") or proof.wants("chaos"):
            async with a_world(settings, folder / "cluster") as world:
                await prove_calm_and_chaos(proof, world)
        if proof.begins("planted") and not proof.quick:
            faults: dict[Kind, str] = {"server": "no-resume,no-restart", "worker": "no-takeover"}
            async with a_world(settings, folder / "faulty", faults) as world:
                await prove_planted(proof, world)


async def prove_calm_and_chaos(proof: Proof, world: World) -> None:
    """Measure words while all is calm; then kill, drain and stop, and audit what is left."""
    extent = QUICK if proof.quick else FULL
    async with listening(world, extent.streams) as subscriptions:
        if proof.begins("tokens"):
            await prove_tokens(proof, world)
        if proof.begins("chaos"):
            await Drill(proof, world, extent, subscriptions).run()


async def prove_tokens(proof: Proof, world: World) -> None:
    """Show how long a word is on its way from the model to a client."""
    replies = [Reply(f"say {CALM_WORDS} calm {number}") for number in range(CALM_RUNS)]

    async def talk(number: int, reply: Reply) -> None:
        client = world.clients[number % PEOPLE]
        await insist_on(client, f"calm-{number}", reply, f"calm-{number}")
        await hear(client, reply)

    await asyncio.gather(*(talk(number, reply) for number, reply in enumerate(replies)))
    delays = sorted(delay for reply in replies for delay in reply.delays_ms)
    proof.at_least("words that were heard", len(delays), "words", CALM_RUNS * CALM_WORDS * 0.9)
    proof.note("from the model to a client, median", statistics.median(delays), "ms")
    proof.at_most(
        "from the model to a client, p95", delays[int(len(delays) * 0.95)], "ms", TOKENS_P95_MS,
        of="time",
    )  # fmt: skip
    proof.at_most("replies whose words differ from what was recorded",
                  sum(bool(one.wrong) for one in replies), "replies", 0)  # fmt: skip


@dataclass(slots=True)
class Drill:
    """What happens to a cluster while messages are answered."""

    proof: Proof
    world: World
    extent: Extent
    subscriptions: Sequence[Subscription]
    replies: list[Reply] = field(default_factory=list[Reply])
    by_session: dict[str, list[Reply]] = field(default_factory=dict[str, list[Reply]])
    released: int = -1
    """The blow that comes next, whose messages may be sent."""
    killed: Counter[str] = field(default_factory=Counter[str])
    drained: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    turns_without_redis: int = 0
    redis_back_at: float = 0.0

    async def run(self) -> None:
        """Send, kill, wait, and look at what is left."""
        chance = random.Random(self.proof.seed)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            talks = [
                group.create_task(self._talk(number, random.Random(chance.random())))
                for number in range(self.extent.sessions)
            ]
            await self._strike(chance)
            ended_at = time.monotonic()
            _, late = await asyncio.wait(talks, timeout=SOON_S)
            for task in late:
                task.cancel()
        self.proof.note("seed", self.proof.seed, "")
        self.proof.note("from the last blow to the last turn", time.monotonic() - ended_at, "s")
        self.proof.note("the whole drill", time.monotonic() - began, "s")
        await self._show()

    async def _talk(self, number: int, chance: random.Random) -> None:
        """Send the messages of a session, each after the one before it was answered."""
        session = f"talk-{number}"
        mine = self.by_session.setdefault(session, [])
        client = self.world.clients[number % PEOPLE]
        extent = self.extent
        # One for each kill and drain, for Redis, and for the time after all of them.
        phases = extent.kills + extent.drains + 2
        for turn in range(extent.turns):
            # Spread over all blows: there is always something to do when something dies, and
            # something to hear after the last one.
            place = turn * extent.sessions + number
            first = phases * place // (extent.turns * extent.sessions)
            while self.released < first:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await asyncio.sleep(chance.random() / 2)
            reply = Reply(f"say {extent.words} in {session}, {turn}")
            mine.append(reply)
            self.replies.append(reply)
            await insist_on(client, session, reply, f"{session}-{turn}")
            await hear(client, reply)

    async def _strike(self, chance: random.Random) -> None:
        """Deal the blows, in random order; each when all members work again."""
        extent = self.extent
        victims = ["server", "worker"] * ((extent.kills + extent.drains + 1) // 2)
        kinds = victims[: extent.kills + extent.drains]
        chance.shuffle(kinds)
        blows = [("kill", kind) for kind in kinds[: extent.kills]]
        if len({kind for _, kind in blows}) == 1:
            blows[0] = ("kill", "server" if blows[0][1] == "worker" else "worker")
        blows += [("drain", kind) for kind in kinds[extent.kills :]] + [("redis", "")]
        chance.shuffle(blows)
        for number, (blow, kind) in enumerate(blows):
            await self.world.cluster.until_ready()
            # It hits while words are on their way.
            self.released = number
            await until(lambda: any(one.heard_at and not one.is_ended for one in self.replies), 10)
            await asyncio.sleep(chance.random() / 2)
            say(f"{blow} {kind}")
            if blow == "redis":
                await self._stop_redis()
            else:
                members = self.world.cluster.of(kind)  # type: ignore[arg-type]
                member = chance.choice(members) if kind == "server" else await busiest(self.world)
                await (self._kill if blow == "kill" else self._drain)(member)
        await self.world.cluster.until_ready()
        self.released = len(blows)

    async def _kill(self, member: Member) -> None:
        await member.end(signal.SIGKILL)
        self.killed[member.kind] += 1
        await member.start()

    async def _drain(self, member: Member) -> None:
        self.drained.append(await member.end(signal.SIGTERM))
        await member.start()

    async def _stop_redis(self) -> None:
        await self.world.cluster.redis.stop()
        client, session = self.world.clients[0], "without-redis"
        reply = Reply(f"say {self.extent.words} in {session}")
        self.by_session[session] = [reply]
        self.replies.append(reply)
        await asyncio.sleep(OUTAGE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SOON_S):
                await insist_on(client, session, reply, session)
                await hear(client, reply)
        self.turns_without_redis = int(reply.is_ended)
        await self.world.cluster.redis.start()
        self.redis_back_at = time.monotonic()

    async def _show(self) -> None:
        proof, extent = self.proof, self.extent
        proof.at_least("processes killed", self.killed.total(), "kills", extent.kills)
        proof.at_least("kinds of processes killed", len(self.killed), "kinds", 2)
        proof.at_least(
            "drains that ended with status 0",
            sum(status == 0 for status, _ in self.drained),
            "drains",
            extent.drains,
        )
        longest = max((took for _, took in self.drained), default=0.0)
        proof.at_most("the longest drain", longest, "s", 2 * DRAIN_S + 2, of="time")
        proof.at_least(
            "messages sent and answered while Redis was stopped",
            self.turns_without_redis,
            "turns",
            1,
        )
        back = sum(at > self.redis_back_at for one in self.replies for at in one.heard_at)
        proof.at_least("words heard after Redis was back", back, "pieces", 1)
        audit = await audit_ledger(self.world, self.by_session)
        wanted = extent.sessions * extent.turns + 1
        proof.at_least(
            "messages acknowledged", sum(bool(one.run) for one in self.replies), "messages", wanted
        )
        show_problems(proof, audit)
        await until(lambda: all(one.turns[-1:] == audit.order[-1:] for one in self.subscriptions))
        heard = audit_streams(self.subscriptions, audit.order)
        proof.at_least(
            "times a stream was cut and resumed",
            sum(one.cuts for one in self.subscriptions),
            "cuts",
            extent.streams // 2,
        )
        for figure, count in heard.items():
            proof.at_most(figure, count, "turns", 0)
        proof.at_most(
            "streams told to read everything again",
            sum(one.skipped for one in self.subscriptions),
            "streams",
            0,
        )
        wrong = [told for one in self.replies for told in one.wrong]
        for told in wrong[:SHOWN_MAX]:
            say(f"  {told[:400]}")
        proof.at_most("words that were not recorded, and not dropped", len(wrong), "replies", 0)
        proof.note(
            "replies heard word by word to their end",
            sum(bool(one.complete) for one in self.replies),
            "replies",
        )
        proof.note("times words were dropped", sum(one.dropped for one in self.replies), "times")


@dataclass(slots=True)
class Audit:
    """What is wrong in the ledger, and in which order its turns were recorded."""

    order: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    chains: list[str] = field(default_factory=list[str])
    sealed: list[str] = field(default_factory=list[str])
    findings: list[str] = field(default_factory=list[str])


def show_problems(proof: Proof, audit: Audit) -> None:
    """Show what the audit found."""
    for figure, problems in (
        ("acknowledged messages without a completed turn", audit.lost),
        ("messages with two turns", audit.doubled),
        ("runs that were not sealed exactly once", audit.sealed),
        ("sessions that are no chain in the order of sending", audit.chains),
        ("what fsck finds", audit.findings),
    ):
        for problem in problems[:SHOWN_MAX]:
            say(f"  {problem}")
        proof.at_most(figure, len(problems), "problems", 0)


async def audit_ledger(world: World, by_session: dict[str, list[Reply]]) -> Audit:
    """Compare the ledger with what was acknowledged."""
    audit, tree = Audit(), world.tree
    async with connect(world.settings, SystemClock()) as database:
        everything = database.seen_by(EVERYTHING)
        feed, ends, at = Feed(everything), Counter[str](), BEGINNING
        named: dict[str, None] = {}
        while page := await feed.read(at, limit=FEED_PAGE):
            at = page[-1][0]
            named |= dict.fromkeys(gather(page).turns)
            ends.update(event.stream for _, event in page if event.kind == "run.finished")
        audit.order = [*named]
        audit.findings = [
            f"{one.invariant} {one.sentence}: {one.subject}" for one in await fsck(everything)
        ]
    queries: Counter[str] = Counter()
    for label, replies in by_session.items():
        for reply in replies:
            try:
                turn = (await tree.turns.get(reply.run)).turn
            except NotFound:
                audit.lost.append(f"{reply.run} ({reply.said}) left no turn")
                continue
            if turn.header.outcome != "completed":
                audit.lost.append(f"{reply.run} ({reply.said}) is {turn.header.outcome}")
            if ends[reply.run] != 1:
                audit.sealed.append(f"{reply.run} has ended {ends[reply.run]} times")
        try:
            thread = await tree.threads.read(label)
        except NotFound:
            thread = ()  # None of its messages has become a turn.
        chain = [str(placed.turn.id) for placed in thread]
        queries.update(placed.turn.query[0].text for placed in thread)
        if chain != [one.run for one in replies]:
            audit.chains.append(f"{label} is {chain}, sent were {[one.run for one in replies]}")
    audit.doubled = [f"{said!r} was sent once" for said, count in queries.items() if count > 1]
    return audit


def audit_streams(subscriptions: Sequence[Subscription], order: Sequence[str]) -> dict[str, int]:
    """Return how much streams missed, repeated and told in another order."""
    known = set(order)
    missing = sum(len(known - set(one.turns)) for one in subscriptions)
    doubled = sum(len(one.turns) - len(set(one.turns)) for one in subscriptions)
    place = {turn: number for number, turn in enumerate(order)}
    disordered = sum(
        places != sorted(places)
        for one in subscriptions
        if (places := [place[turn] for turn in one.turns if turn in place])
    )
    return {
        "turns that streams missed": missing,
        "turns that streams repeated": doubled,
        "streams in another order": disordered,
    }


async def prove_planted(proof: Proof, world: World) -> None:
    """Take parts away from servers and workers, and see that the same audits notice."""
    replies = [Reply(f"say {LONG_WORDS} planted {number}") for number in range(PEOPLE // 2)]
    by_session = {f"planted-{number}": [reply] for number, reply in enumerate(replies)}

    async def talk(number: int, reply: Reply) -> None:
        client = world.clients[number]
        await insist_on(client, f"planted-{number}", reply, f"planted-{number}")
        await hear(client, reply)

    async with listening(world, PEOPLE) as subscriptions:
        tasks = [asyncio.create_task(talk(number, one)) for number, one in enumerate(replies)]
        await until(lambda: all(len(one.heard_at) > LONG_WORDS // 4 for one in replies))
        killed = await busiest(world)
        (other,) = [one for one in world.cluster.of("worker") if one is not killed]
        await killed.end(signal.SIGKILL)
        # The other worker finishes its own runs, and should have taken these over by then.
        await until(lambda: all(one.is_ended for one in replies), LEFT_S)
        left = await audit_ledger(world, by_session)
        found = {"runs of a dead worker that none takes over": len(left.lost)}
        other.faults = killed.faults = ""
        await other.end(signal.SIGKILL)
        await other.start()
        await until(lambda: all(one.is_ended for one in replies))
        found["words of a dead worker that are not dropped"] = sum(
            bool(one.wrong) for one in replies
        )
        server = world.cluster.of("server")[0]
        await server.end(signal.SIGKILL)
        await world.tree.turns.record("meanwhile", [user("hello")], [assistant("good morning")])
        await until(lambda: all(one.is_greeted for one in subscriptions))
        await world.tree.turns.record("meanwhile", [user("and")], [assistant("good night")])
        after = await audit_ledger(world, by_session)
        await until(lambda: all(one.turns[-1:] == after.order[-1:] for one in subscriptions), 10)
        heard = audit_streams(subscriptions, after.order)
        found["events between two connections that are missed"] = heard["turns that streams missed"]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for figure, count in found.items():
        proof.at_least(f"planted, found: {figure}", count, "findings", 1)


def say(words: str) -> None:
    """Tell how far it has come."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(prove, __doc__ or "")
