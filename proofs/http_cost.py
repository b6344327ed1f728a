"""The claim: the network adds little to what the library itself costs.

    python -m proofs.http_cost [--quick] [--only reads|turns|memory]

``turntree serve`` runs in a process of its own. Blocks of requests to it and of library calls
in this process take turns, on one database, and the processor time of the server's process is
compared with that of this process during its own blocks. So a neighbour on the machine slows both.
PostgreSQL's time is in neither: both sides ask it the same.
"""

import asyncio
import os
import secrets
import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx2

import turntree
from proofs.figures import Proof, interleave, median_ratio, run, temporary_server
from proofs.http_world import TEAM, ServeProcess, serving_apart
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.core.canonical import Json
from turntree.core.ids import instant, unix_ms
from turntree.core.message import assistant, user
from turntree.system.clock import SystemClock

QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
READS, READS_QUICK = 200, 100
"""Reads of one block."""
ROUNDS, ROUNDS_QUICK = 15, 7
TURNS, TURNS_QUICK = 20, 8
"""Turns of one block."""
PRINCIPALS: Final = 200
READ_MAX, READ_OF_MANY_MAX, TURN_MAX = 1.5, 2.0, 1.25
IDLE_MB_MAX: Final = 120
SETTLE_S: Final = 3.0
KEY_LIFE_MS: Final = 3_600_000
LIBRARY: Final = "library"
"""The workspace in which the library answers messages: a worker of its own for each side."""
Ask = Callable[[int], Awaitable[object]]


def cpu_ms(pid: int) -> float:
    """Return how long all threads of a process have been on a processor."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_bytes().split()[0])
    return total / 1e6


def memory_mb(pid: int) -> float:
    """Return the memory of a process that it shares with no other, and its share of the rest."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no Pss of {pid}")


async def block(pid: int, times: int, ask: Ask) -> float:
    """Return the processor time of a process for one of some calls in a row, in milliseconds."""
    await ask(0)  # What ran before has left the caches to itself.
    before = cpu_ms(pid)
    for number in range(times):
        await ask(number)
    return (cpu_ms(pid) - before) / times


@asynccontextmanager
async def a_server(settings: Settings) -> AsyncGenerator[tuple[ServeProcess, httpx2.AsyncClient]]:
    """Run the typed command with a worker, and yield it with a client of one connection."""
    async with (
        serving_apart(settings) as served,
        httpx2.AsyncClient(
            base_url=f"{served.url}/w/{TEAM}/api/v1",
            timeout=60,
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1),
        ) as client,
    ):
        yield served, client


async def make_keys(tree: Tree, count: int) -> list[dict[str, str]]:
    """Return the headers of some members, each with a key of their own."""
    keys: list[dict[str, str]] = []
    known = {member.name for member in await tree.members.list_all()}
    expires = instant(unix_ms(SystemClock().now()) + KEY_LIFE_MS)
    for number in range(count):
        name = f"person{number}"
        if name not in known:
            await tree.members.add(name)
        person = turntree.Principal("human", name)
        acting = turntree.ExecutionContext.begin(person)
        _, key = await tree.act_as(acting).keys.create("proof", expires_at=expires)
        keys.append({"authorization": f"Bearer {key}"})
    return keys


async def add_model(tree: Tree) -> None:
    """Give a workspace a model that repeats what it is told, and takes no time."""
    script: dict[str, Json] = {"provider_type": "scripted"}
    await tree.programs.create("provider", "script", script)
    model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
    await tree.programs.create("model", "echo", model)


async def prove(proof: Proof) -> None:
    """Take every figure."""
    with temporary_server(QUICK_SERVER) as (server, folder):
        settings = Settings(folder / "proof", database_url=server, workspace=TEAM, user="ana")
        beside = replace(settings, workspace=LIBRARY)
        async with turntree.open(settings) as tree, turntree.open(beside, worker=True) as library:
            await add_model(tree)
            await add_model(library)
            await tree.turns.record("lobby", [user("hello")], [assistant("good morning")])
            keys = await make_keys(tree, PRINCIPALS)
            async with a_server(settings) as (served, client):
                pid = served.process.pid
                if proof.begins("reads"):
                    await prove_reads(proof, tree, client, pid, keys)
                if proof.begins("turns"):
                    await prove_turns(proof, library, client, pid, keys[0])
                if proof.begins("memory"):
                    await asyncio.sleep(SETTLE_S)
                    proof.at_most("memory after the work", memory_mb(pid), "MB", IDLE_MB_MAX)


async def prove_reads(
    proof: Proof, tree: Tree, client: httpx2.AsyncClient, pid: int, keys: Sequence[dict[str, str]]
) -> None:
    """Read one turn: by the library, by one key, and by many keys in turn."""
    turn = (await tree.turns.get("lobby")).turn.id
    reads = READS_QUICK if proof.quick else READS

    async def by_library(_: int) -> None:
        await tree.turns.get(turn)

    async def by_key(_: int) -> None:
        answer = await client.get(f"/turns/{turn}", headers=keys[0])
        assert answer.status_code == 200, answer.text

    async def by_keys(number: int) -> None:
        answer = await client.get(f"/turns/{turn}", headers=keys[number % PRINCIPALS])
        assert answer.status_code == 200, answer.text

    # Each key is used once before, because the first use is noted in the database.
    for number in range(PRINCIPALS):
        await by_keys(number)
    costs = await interleave(
        ROUNDS_QUICK if proof.quick else ROUNDS,
        [
            lambda: block(os.getpid(), reads, by_library),
            lambda: block(pid, reads, by_key),
            lambda: block(pid, PRINCIPALS, by_keys),
        ],
    )
    library, one, many = costs
    proof.note("a read by the library", statistics.median(library), "ms")
    proof.note("a read by one key", statistics.median(one), "ms")
    proof.at_most("a read over HTTP", median_ratio(one, library), "x", READ_MAX, of="time")
    proof.at_most(
        f"a read over HTTP, {PRINCIPALS} principals in turn",
        median_ratio(many, library), "x", READ_OF_MANY_MAX, of="time",
    )  # fmt: skip


async def prove_turns(
    proof: Proof, library: Tree, client: httpx2.AsyncClient, pid: int, key: dict[str, str]
) -> None:
    """Take turns with a scripted model: by the library, and over HTTP."""
    turns = TURNS_QUICK if proof.quick else TURNS

    async def by_library(_: int) -> None:
        posted = await library.runs.post("talk", "hello", model="echo")
        await library.runs.wait(posted.run)

    async def over_http(_: int) -> None:
        headers = {**key, "idempotency-key": secrets.token_hex(8)}
        body = {"to": "talk", "text": "hello", "model": "echo"}
        answer = await client.post("/runs", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        run = answer.json()["run"]
        async with client.stream("GET", f"/runs/{run}/events", headers=key) as events:
            text = (await events.aread()).decode()
        assert '"outcome":"completed"' in text, text

    library_costs, http_costs = await interleave(
        ROUNDS_QUICK if proof.quick else ROUNDS,
        [
            lambda: block(os.getpid(), turns, by_library),
            lambda: block(pid, turns, over_http),
        ],
    )
    proof.note("a turn by the library", statistics.median(library_costs), "ms")
    proof.note("a turn over HTTP", statistics.median(http_costs), "ms")
    proof.at_most(
        "a scripted turn over HTTP", median_ratio(http_costs, library_costs), "x", TURN_MAX,
        of="time",
    )  # fmt: skip


if __name__ == "__main__":
    run(prove, __doc__ or "")
