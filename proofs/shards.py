"""The claim: workspaces are spread over databases, and nothing of one is ever in another.

    python -m proofs.shards [--quick]

Two PostgreSQL clusters share the 4,096 slots. One ``turntree serve`` answers for the workspaces of
both, and one ``turntree worker`` for each cluster. All workspaces work at the same time: they send
messages, follow runs, listen to their streams and search. What counts: each table of each database
has rows of its own workspaces only; each answer, stream and search tells of its own workspace; a
key finds its database while the other one is stopped; and no process has more than ten connections
to a cluster, which is counted while all of them work.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio.to_thread
import psycopg
from psycopg.conninfo import make_conninfo

import turntree
from proofs.figures import Proof, run, temporary_server
from proofs.http_cost import QUICK_SERVER, add_model
from proofs.http_world import later
from proofs.nodes_world import Member, Subscription
from turntree.boot.open import Settings
from turntree.client.client import Client
from turntree.core.errors import DatabaseUnavailable, ServerUnavailable, TurntreeError
from turntree.core.message import assistant, user
from turntree.db.embedded.server import EmbeddedServer
from turntree.db.shard import SLOTS, make_shard_map, slot_of_name

WORKSPACES, WORKSPACES_QUICK = 40, 10
MESSAGES, MESSAGES_QUICK = 5, 2
CONNECTIONS_MAX: Final = 10
SAMPLE_S: Final = 0.02
SOON_S: Final = 600.0
"""Forty workspaces that begin at once load a busy machine for minutes."""
HALF: Final = SLOTS // 2
TABLES: Final = """
SELECT table_name FROM information_schema.columns JOIN information_schema.tables
  USING (table_schema, table_name)
  WHERE table_schema = 'turntree' AND column_name = 'workspace_id' AND table_type = 'BASE TABLE'
"""
CONNECTIONS: Final = """
SELECT application_name, count(*) FROM pg_stat_activity
  WHERE application_name LIKE 'proof-%' GROUP BY 1
"""


@dataclass(slots=True, eq=False)
class Place:
    """One workspace, and what it was told."""

    name: str
    shard: int
    """0 or 1."""
    id: str = ""
    key: str = ""
    canary: str = ""
    """A word that no other workspace ever says."""
    turns: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    """What it was told of others."""


@dataclass(slots=True)
class Census:
    """The connections of each process to each cluster, while it counts."""

    clusters: Sequence[str]
    most: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    samples: int = 0

    async def count(self) -> None:
        """Count until canceled."""
        async with AsyncExitStack() as stack:
            connections = [
                await stack.enter_async_context(
                    await psycopg.AsyncConnection.connect(one, autocommit=True)
                )
                for one in self.clusters
            ]
            while True:
                for number, connection in enumerate(connections):
                    cursor = await connection.execute(CONNECTIONS)
                    for name, count in await cursor.fetchall():
                        self.most[name, number] = max(self.most[name, number], count)
                self.samples += 1
                await asyncio.sleep(SAMPLE_S)


def write_map(path: Path, clusters: Sequence[str], process: str) -> Path:
    """Write the map as one process gets it: its connections have its name."""
    urls = [make_conninfo(one, application_name=f"proof-{process}") for one in clusters]
    ranges = (f"0-{HALF - 1}", f"{HALF}-{SLOTS - 1}")
    path.write_text(
        "\n".join(
            f'[[shard]]\nslots = ["{slots}"]\ndatabase_url = "{url}"'
            for slots, url in zip(ranges, urls, strict=True)
        )
    )
    return path


def member(kind: str, number: int, folder: Path, clusters: Sequence[str], own: str) -> Member:
    """Return the server, or the worker of a shard."""
    process = f"{kind}-{number}"
    environment = {
        **os.environ,
        "TURNTREE_RATE_LIMIT": "0",
        "TURNTREE_SHARDS": str(write_map(folder / f"{process}.toml", clusters, process)),
        "TURNTREE_HOME": str(folder / "home-of-all"),
        "TURNTREE_WORKSPACE": own,
        "TURNTREE_USER": "ana",
        "TURNTREE_CONFIG": str(folder / "config.toml"),
    }
    environment.pop("TURNTREE_DATABASE_URL", None)
    words = (
        ("serve", "--no-worker", "--port", "0")
        if kind == "server"
        else ("worker", "--shard", str(number + 1), "--drain-s", "2")
    )
    return Member("server" if kind == "server" else "worker", words, environment,
                  folder / f"{process}.log")  # fmt: skip


async def prove(proof: Proof) -> None:
    """Take every figure."""
    count = WORKSPACES_QUICK if proof.quick else WORKSPACES
    messages = MESSAGES_QUICK if proof.quick else MESSAGES
    with (
        temporary_server(QUICK_SERVER) as (one, folder),
        temporary_server(QUICK_SERVER) as (two, other_folder),
    ):
        clusters = (one, two)
        shards = make_shard_map([((f"0-{HALF - 1}",), one), ((f"{HALF}-{SLOTS - 1}",), two)])
        settings = Settings(folder / "home-of-all", user="ana", shards=shards)
        places = [Place(f"team-{n}", slot_of_name(f"team-{n}") // HALF) for n in range(count)]
        for place in places:
            await create(settings, place)
        proof.note("workspaces in the first cluster", sum(not p.shard for p in places), "of them")
        proof.at_least("clusters with workspaces", len({p.shard for p in places}), "clusters", 2)
        async with processes(folder, clusters, places[0].name) as (server, url):
            census = Census(clusters)
            counting = asyncio.create_task(census.count())
            await asyncio.gather(*(work(url, place, messages) for place in places))
            counting.cancel()
            await asyncio.wait([counting])
            proof.at_least("answers", sum(len(place.turns) for place in places), "turns",
                           count * messages)  # fmt: skip
            await prove_apart(proof, clusters, places, url)
            show_census(proof, census)
            stopped = EmbeddedServer(other_folder / "home", QUICK_SERVER)
            await prove_stopped(proof, stopped, url, places)
            del server


async def create(settings: Settings, place: Place) -> None:
    """Create a workspace with a model, a key and something to find."""
    place.canary = f"canary{place.name.replace('-', '')}x"
    async with turntree.open(settings.in_workspace(place.name)) as tree:
        await add_model(tree)
        await tree.turns.record("lobby", [user(f"keep {place.canary}")], [assistant("kept")])
        _, place.key = await tree.keys.create("proof", expires_at=later())
        place.id = str(tree.ledger.database.workspace)


@asynccontextmanager
async def processes(
    folder: Path, clusters: Sequence[str], own: str
) -> AsyncGenerator[tuple[Member, str], None]:
    """Run one server for both clusters, and one worker for each."""
    members = [
        member("server", 0, folder, clusters, own),
        *(member("worker", number, folder, clusters, own) for number in range(len(clusters))),
    ]
    try:
        for one in members:
            await one.start()
        for one in members:
            await one.until_ready()
        yield members[0], str(members[0].told["url"]).partition("/w/")[0]
    finally:
        for one in members:
            if one.process is not None and one.process.returncode is None:
                await one.end(signal.SIGTERM)


async def work(url: str, place: Place, messages: int) -> None:
    """Send messages, follow their runs, listen and search, and note what is another's."""
    port = int(url.rpartition(":")[2])
    stream = Subscription(port, place.key, workspace=place.name)
    listening = asyncio.create_task(stream.run())
    try:
        async with Client(f"{url}/w/{place.name}", place.key) as client:
            for number in range(messages):
                said = f"say {place.canary} {number}"
                async with asyncio.timeout(SOON_S):
                    turn = await client.ask("talk", said, model="echo")
                place.turns.append(turn.id)
                if place.canary not in str(turn.reply):
                    place.foreign.append(f"{said!r} was answered {turn.reply}")
            found = await client.search("keep")
            place.foreign += [str(one) for one in found.hits if place.canary not in str(one)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SOON_S):
                while not set(place.turns[-1:]) <= set(stream.turns):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        place.foreign += [f"the stream named {turn}" for turn in stream.turns
                          if turn not in place.turns]  # fmt: skip
        if not set(place.turns) <= set(stream.turns) | set(place.turns[:1]):
            place.foreign.append("the stream did not name every turn")
    finally:
        listening.cancel()
        await asyncio.wait([listening])


async def prove_apart(
    proof: Proof, clusters: Sequence[str], places: Sequence[Place], url: str
) -> None:
    """Show that nothing of a workspace is elsewhere, in rows or in answers."""
    for place in places:
        for told in place.foreign[:2]:
            print(f"  {place.name}: {told}", file=sys.stderr)
    proof.at_most("answers, searches and streams that told of others",
                  sum(len(place.foreign) for place in places), "times", 0)  # fmt: skip
    strayed, tables = 0, 0
    for number, conninfo in enumerate(clusters):
        own = {place.id for place in places if place.shard == number}
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
            names = [name for (name,) in await (await connection.execute(TABLES)).fetchall()]
            for name in names:
                query = f"SELECT DISTINCT workspace_id::text FROM turntree.{name}"  # noqa: S608
                rows = await (await connection.execute(query.encode())).fetchall()
                tables += bool(rows)
                strayed += len({id for (id,) in rows} - own)
            queue = b"SELECT DISTINCT queue_partition_key FROM dbos.workflow_status"
            rows = await (await connection.execute(queue)).fetchall()
            strayed += len({id for (id,) in rows} - own)
    proof.at_least("tables with rows that were looked through", tables, "tables", 20)
    proof.at_most("workspaces with rows in another cluster", strayed, "workspaces", 0)
    let_in = 0
    for place, other in zip(places, [*places[1:], places[0]], strict=True):
        async with Client(f"{url}/w/{other.name}", place.key) as client:
            with contextlib.suppress(TurntreeError):
                await client.sessions.list_page(limit=1)
                let_in += 1
    proof.at_most("keys that opened another workspace", let_in, "keys", 0)


def show_census(proof: Proof, census: Census) -> None:
    """Show how many connections each process had to each cluster."""
    proof.at_least("times that connections were counted", census.samples, "times", 20)
    for (process, number), most in sorted(census.most.items()):
        proof.at_most(
            f"connections of {process.removeprefix('proof-')} to cluster {number + 1}", most,
            "connections", CONNECTIONS_MAX,
        )  # fmt: skip
    crossing = [
        process
        for process, number in census.most
        if process.startswith("proof-worker") and not process.endswith(str(number))
    ]
    proof.at_most("workers with a connection to another cluster", len(crossing), "workers", 0)


async def prove_stopped(
    proof: Proof, server: EmbeddedServer, url: str, places: Sequence[Place]
) -> None:
    """Stop the second cluster: each key still leads to its own, and only there something fails."""

    async def ask(place: Place) -> bool:
        async with Client(f"{url}/w/{place.name}", place.key) as client:
            try:
                async with asyncio.timeout(SOON_S):
                    await client.sessions.list_page(limit=1)
            except (ServerUnavailable, DatabaseUnavailable):
                return False
            return True

    await anyio.to_thread.run_sync(lambda: server.stop(mode="immediate"))
    first = [place for place in places if not place.shard]
    second = [place for place in places if place.shard]
    answered = await asyncio.gather(*map(ask, first))
    proof.at_least("workspaces of the first cluster that answer while the second is stopped",
                   sum(answered), "workspaces", len(first))  # fmt: skip
    proof.at_most("workspaces of the stopped cluster that answer",
                  sum([await ask(place) for place in second[:2]]), "workspaces", 0)  # fmt: skip
    await anyio.to_thread.run_sync(server.ensure_running)
    back = await asyncio.gather(*map(ask, second))
    proof.at_least("workspaces of the second cluster that answer once it is back", sum(back),
                   "workspaces", len(second))  # fmt: skip


if __name__ == "__main__":
    run(prove, __doc__ or "")
