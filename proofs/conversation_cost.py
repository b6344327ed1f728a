"""The claim: a conversation costs little more than a message, at any length and with any audience.

    python -m proofs.conversation_cost [--quick] [--only post|length|outside|members]

Blocks of work take turns, and the processor time of this process and of all backends of its
database is compared. A post that wakes an agent stands against a message to the same agent; a
page and what an agent is told in a long conversation against the same in a short one; a turn
outside of any conversation is looked through for statements that only conversations need. At last,
a post is heard by one member, and by a thousand.
"""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg

import turntree
from proofs.figures import (
    Proof,
    backend_ns,
    interleave,
    load_statements,
    median_ratio,
    run,
    temporary_server,
)
from proofs.http_cost import QUICK_SERVER, make_keys
from proofs.http_world import TEAM, serving_apart
from proofs.streams import Listener, listen, next_frames, open_many
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.conversations.store import SQL
from turntree.core.canonical import Json

STATEMENTS: Final = load_statements(Path(__file__).with_name("conversation_cost.sql"))
ROUNDS, ROUNDS_QUICK = 11, 5
EACH, EACH_QUICK = 40, 20
SHORT: Final = 1_000
LONG, LONG_QUICK = 100_000, 20_000
MEMBERS, MEMBERS_QUICK = 1_000, 100
TURNS, TURNS_QUICK = 40, 10
POST_MAX, LENGTH_MAX, STATEMENTS_MAX, REACH_MAX = 1.5, 1.3, 1.01, 2.0
POSTS, POSTS_QUICK = 15, 7
MENTION: Final = "@[Bot](agent:bot)"
SOON_S: Final = 60.0
STEP_S: Final = 0.002
Ask = Callable[[], Awaitable[object]]
Connection = psycopg.AsyncConnection[tuple[Any, ...]]


async def prove(proof: Proof) -> None:
    """Take every figure."""
    with temporary_server(QUICK_SERVER) as (server, folder):
        settings = Settings(folder / "proof", database_url=server, workspace=TEAM, user="ana")
        async with (
            turntree.open(settings) as tree,
            await psycopg.AsyncConnection[tuple[Any, ...]].connect(
                server, autocommit=True
            ) as owner,
        ):
            await _add_agent(tree)
            if proof.begins("post"):
                await prove_post(proof, tree, owner)
            if proof.begins("length"):
                await prove_length(proof, tree, owner)
            if proof.begins("members"):
                await prove_members(proof, tree, settings)
        if proof.begins("outside"):
            await prove_outside(proof, replace(settings, workspace="outside"))


async def _add_agent(tree: Tree) -> None:
    script: dict[str, Json] = {
        "provider_type": "scripted", "rules": [{"when": "", "replies": [{"text": "Noted."}]}],
    }  # fmt: skip
    await tree.programs.create("provider", "script", script)
    model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
    await tree.programs.create("model", "keen", model)
    await tree.programs.create("agent", "bot", {"default_model": "@(keen)"})


class Meter:
    """Measures the processor time of this process and of the backends of its database."""

    def __init__(self, owner: Connection) -> None:
        """Take a connection that asks which backends there are."""
        self.owner = owner

    async def spent_ms(self) -> float:
        """Return the processor time that was spent until now."""
        rows = await (await self.owner.execute(STATEMENTS["backends"])).fetchall()
        return (time.process_time_ns() + sum(backend_ns(pid) for (pid,) in rows)) / 1e6

    async def block(self, times: int, ask: Ask) -> float:
        """Return what one of some calls in a row costs, in milliseconds."""
        await ask()  # What ran before has left the caches to itself.
        before = await self.spent_ms()
        for _ in range(times):
            await ask()
        return (await self.spent_ms() - before) / times


def _extent(proof: Proof) -> tuple[int, int]:
    return (ROUNDS_QUICK, EACH_QUICK) if proof.quick else (ROUNDS, EACH)


async def prove_post(proof: Proof, tree: Tree, owner: Connection) -> None:
    """Compare a post that wakes an agent with a message to that agent, each in its own place."""
    meter, (rounds, each) = Meter(owner), _extent(proof)
    numbers = iter(range(1_000_000))
    sessions = [f"bot:desk-{number}" for number in range(each + 1)]
    talks = [f"talk-{number}" for number in range(each + 1)]
    for session, talk in zip(sessions, talks, strict=True):
        await tree.runs.post(session, "hello")
        await tree.conversations.create(talk)
        await tree.conversations.post(talk, f"{MENTION} hello")

    async def send() -> None:
        await tree.runs.post(sessions[next(numbers) % len(sessions)], "hello again")

    async def post() -> None:
        talk = talks[next(numbers) % len(talks)]
        posted = await tree.conversations.post(talk, f"{MENTION} hello again")
        assert len(posted.answers) == 1, "it wakes one agent"

    sent, posted = await interleave(
        rounds, [lambda: meter.block(each, send), lambda: meter.block(each, post)]
    )
    proof.note("a message to an agent", statistics.median(sent), "ms")
    proof.note("a post that wakes an agent", statistics.median(posted), "ms")
    proof.at_most("a post that wakes an agent, of a message to it", median_ratio(posted, sent),
                  "x", POST_MAX, of="time")  # fmt: skip


async def prove_length(proof: Proof, tree: Tree, owner: Connection) -> None:
    """Compare a long conversation with a short one."""
    meter, (rounds, each) = Meter(owner), _extent(proof)
    lengths = {"short": SHORT, "long": LONG_QUICK if proof.quick else LONG}
    for name, posts in lengths.items():
        await tree.conversations.create(name)
        await tree.conversations.post(name, f"{MENTION} begin")
        await owner.execute(STATEMENTS["add_posts"], {"name": name, "posts": posts})
    await owner.execute(STATEMENTS["analyze"])

    def page(name: str) -> Ask:
        return lambda: tree.conversations.list_posts(name)

    async def view(name: str) -> None:
        await tree.conversations.get(name)
        await tree.conversations.list_participants(name)

    async def call(name: str) -> None:
        posted = await tree.conversations.post(name, f"{MENTION} well?")
        assert len(posted.answers) == 1, "it wakes one agent"

    asks: Sequence[tuple[str, Callable[[str], Ask]]] = (
        ("a page", page),
        ("the conversation and who takes part", lambda name: lambda: view(name)),
        ("what an agent is told when it is called", lambda name: lambda: call(name)),
    )
    for figure, ask in asks:
        short, long = await interleave(
            rounds,
            [lambda: meter.block(each, ask("short")), lambda: meter.block(each, ask("long"))],  # noqa: B023
        )
        proof.note(f"{figure}, of {lengths['long']} posts", statistics.median(long), "ms")
        proof.at_most(f"{figure}, of {SHORT} posts", median_ratio(long, short), "x", LENGTH_MAX,
                      of="time")  # fmt: skip


async def prove_outside(proof: Proof, settings: Settings) -> None:
    """Count the statements of turns outside of any conversation, and look for ours among them."""
    turns = TURNS_QUICK if proof.quick else TURNS
    asked: Counter[bytes] = Counter()
    execute = psycopg.AsyncConnection.execute

    async def counted(self: Any, query: Any, *rest: Any, **options: Any) -> Any:
        asked[query if isinstance(query, bytes) else str(query).encode()] += 1
        return await execute(self, query, *rest, **options)

    # Each call of a statement passes here, on any connection of this process.
    setattr(psycopg.AsyncConnection, "execute", counted)  # noqa: B010
    try:
        async with turntree.open(settings, worker=True) as tree:
            await _add_agent(tree)
            await tree.conversations.create("talk")
            posted = await tree.conversations.post("talk", f"{MENTION} hello")
            await tree.runs.wait(turntree.RunId(posted.answers[0].run), timeout_s=SOON_S)
            inside = sum(asked[query] for query in SQL.values())
            asked.clear()
            for number in range(turns):
                run = await tree.runs.post(f"bot:desk-{number % 4}", "hello")
                await tree.runs.wait(run.run, timeout_s=SOON_S)
    finally:
        setattr(psycopg.AsyncConnection, "execute", execute)  # noqa: B010
    outside = sum(asked[query] for query in SQL.values())
    proof.at_least("statements of conversations for an answer in one", inside, "statements", 5)
    proof.at_most(f"the same, for {turns} turns outside of any", outside, "statements", 0)
    proof.note("statements of such a turn, polls included", asked.total() / turns, "statements")


async def prove_members(proof: Proof, tree: Tree, settings: Settings) -> None:
    """Measure how long a post takes to one member that listens, and to all."""
    count = MEMBERS_QUICK if proof.quick else MEMBERS
    keys = await make_keys(tree, count)
    await tree.conversations.create("all-hands")
    for number in range(count):
        await tree.conversations.add("all-hands", f"human:person{number}")
    async with serving_apart(settings, "--no-worker") as served:
        port = int(served.told["port"])
        first = await listen(port, keys[0], [], is_read=False)
        alone = await _reach(proof, tree, [first])
        others = await open_many(count - 1, port, keys[1:], is_read=False)
        everybody = [first, *others]
        reached = await _reach(proof, tree, everybody)
        for one in everybody:
            one.transport.abort()
    proof.note("until one member that listens alone hears a post", statistics.median(alone), "s")
    proof.note(f"until {count} members hear it", statistics.median(reached), "s")
    proof.at_most(f"until {count} members hear it, of one", median_ratio(reached, alone), "x",
                  REACH_MAX, of="time")  # fmt: skip


async def _reach(proof: Proof, tree: Tree, listeners: Sequence[Listener]) -> list[float]:
    """Return how long posts take until each connection was told, in seconds."""
    delays: list[float] = []
    for number in range(POSTS_QUICK if proof.quick else POSTS):
        hear_all = next_frames(listeners)
        began = time.monotonic()
        await tree.conversations.post("all-hands", f"news {number}")
        async with asyncio.timeout(SOON_S):
            while not hear_all():  # noqa: ASYNC110 - a thousand connections would set an event.
                await asyncio.sleep(STEP_S)
        delays.append(time.monotonic() - began)
        # Posts come at any moment between two looks at the feed.
        await asyncio.sleep(0.1 + 0.017 * number)
    return delays


if __name__ == "__main__":
    run(prove, __doc__ or "")
