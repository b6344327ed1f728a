"""The claim: one server process holds 10,000 open streams, and none misses or repeats an event.

    python -m proofs.streams [--quick] [--only cost|cuts|revoked]

``turntree serve`` runs in a process of its own. Connections open ``GET /stream`` with the keys of
some members while turns are recorded through the library. What a delivery costs is compared, in
rounds that take turns, with the smallest ASGI application that writes the same bytes to as many
connections of the same HTTP server.
"""

import asyncio
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import turntree
from proofs.figures import Proof, interleave, median_ratio, run, temporary_server
from proofs.http_cost import QUICK_SERVER, cpu_ms, make_keys, memory_mb
from proofs.http_world import TEAM, serving_apart
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.core.message import assistant, user

STREAMS, STREAMS_QUICK = 10_000, 500
CUT_QUICK: Final = 100
"""Streams that are cut in the quick form; in the long one all are."""
CUTS: Final = 10
KEYS: Final = 20
ROUNDS: Final = 5
FRAMES: Final = 10
"""Messages to each stream, of one round."""
OPENING: Final = 100
"""Connections that are opened at once."""
IDLE_S, IDLE_QUICK_S = 10.0, 4.0
SETTLE_S: Final = 1.0
STEP_S: Final = 0.05
DELIVERIES: Final = 4_000
"""Messages to all streams in a second while they are cut, which one reading process can take."""
SOON_S: Final = 120.0
BYTES_MAX, COST_MAX, IDLE_MAX, REVOKED_MAX_S = 16_384, 3.0, 0.05, 1.0
REVOKED_FOR_S: Final = 3.0
"""How long turns are recorded after a key was revoked."""
BARE_MAX: Final = 2_000
"""Connections of the bare writer: a process may not open any number of files."""
FILES_OPEN: Final = 1_000
"""Besides the connections."""

BARE: Final = """
import asyncio, socket
import uvicorn, uvloop

sends = []
HEADERS = [(b"content-type", b"text/event-stream")]
START = {"type": "http.response.start", "status": 200, "headers": HEADERS}

async def app(scope, receive, send):
    if scope["path"] == "/say":
        body = {"type": "http.response.body", "body": (await receive())["body"], "more_body": True}
        for one in sends:
            await one(body)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    await send(START)
    await send({"type": "http.response.body", "body": b"event: hello", "more_body": True})
    sends.append(send)
    while (await receive())["type"] != "http.disconnect":
        pass
    sends.remove(send)

listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off", ws="none")
uvloop.run(uvicorn.Server(config).serve([listener]))
"""
"""The smallest writer: what is left of it is uvicorn's own cost."""


@dataclass(slots=True, eq=False)
class Listener(asyncio.Protocol):
    """One connection that reads a stream."""

    turns: list[str]
    """Those that were named, in the order in which they came."""
    is_read: bool = True
    """Whether the documents are read, or only counted."""
    position: str = ""
    frames: int = 0
    heard_at: float = 0.0
    greeted: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    ended: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    transport: Any = None
    rest: bytes = b""
    coming: str = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Take what was sent; a message that is not whole yet counts for nothing."""
        if data.startswith(b"HTTP/1.1 503"):
            self.transport.abort()
            return
        if not self.is_read:
            self.frames += data.count(b"event: changed")
            if not self.greeted.done() and b"event: hello" in data:
                self.greeted.set_result(None)
            return
        *messages, self.rest = (self.rest + data).split(b"\n\n")
        for message in messages:
            self._take(message)

    def _take(self, message: bytes) -> None:
        position, kind, document = "", b"", b""
        for line in message.split(b"\n"):
            name, _, text = line.partition(b": ")
            if name == b"id":
                position = text.decode()
            elif name == b"event":
                kind = text
            elif name == b"data":
                document = text
        self.position = position or self.position
        if kind == b"hello" and not self.greeted.done():
            self.greeted.set_result(None)
        elif kind == b"changed":
            self.frames += 1
            self.heard_at = time.monotonic()
            changes = json.loads(document)
            assert not changes["is_whole"], "nothing may be left out here"
            self.turns += changes["turns"]

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        del exc
        if not self.ended.done():
            self.ended.set_result(None)
        if not self.greeted.done():
            self.greeted.set_exception(ConnectionError("it ended before it began"))


async def listen(
    port: int,
    key: dict[str, str],
    turns: list[str],
    *,
    after: str = "",
    is_read: bool = True,
    path: str = f"/w/{TEAM}/api/v1/stream",
) -> Listener:
    """Return a connection to which the server has said hello."""
    loop = asyncio.get_running_loop()
    _, listener = await loop.create_connection(
        lambda: Listener(turns, is_read, after), "127.0.0.1", port
    )
    headers = {"host": f"127.0.0.1:{port}", **key, **({"last-event-id": after} if after else {})}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    listener.transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await asyncio.wait_for(asyncio.shield(listener.greeted), SOON_S)
    return listener


async def resume(port: int, key: dict[str, str], turns: list[str], after: str) -> Listener:
    """Return a connection that goes on where another one was cut.

    Its server may say that the database does not answer, on a machine that is too busy: then it
    is asked again, as a client does.
    """
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                return await listen(port, key, turns, after=after)
            except ConnectionError:
                await asyncio.sleep(STEP_S)


async def open_many(
    count: int, port: int, keys: Sequence[dict[str, str]], **more: Any
) -> list[Listener]:
    """Open some streams, a number of them at a time."""
    listeners: list[Listener] = []
    for first in range(0, count, OPENING):
        numbers = range(first, min(first + OPENING, count))
        listeners += await asyncio.gather(
            *(listen(port, keys[number % len(keys)], [], **more) for number in numbers)
        )
    return listeners


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; connections tell no one what they got."""
    async with asyncio.timeout(SOON_S):
        while not is_so():  # noqa: ASYNC110 - 10,000 connections would set an event each time.
            await asyncio.sleep(STEP_S)


@asynccontextmanager
async def bare_writer() -> AsyncGenerator[tuple[int, int]]:
    """Run the smallest writer in a process of its own, and yield its id and its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BARE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None, "it was asked for"
    try:
        yield process.pid, int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


async def say(tree: Tree, words: str) -> str:
    """Record a turn and return its id."""
    placed = await tree.turns.record("talk", [user(words)], [assistant("yes")])
    return str(placed.turn.id)


async def prove(proof: Proof) -> None:
    """Take every figure."""
    streams = STREAMS_QUICK if proof.quick else STREAMS
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * streams + FILES_OPEN), hard))
    with temporary_server(QUICK_SERVER) as (server, folder):
        settings = Settings(folder / "proof", database_url=server, workspace=TEAM, user="ana")
        async with turntree.open(settings) as tree:
            await say(tree, "hello")
            keys = await make_keys(tree, KEYS)
            for part, show in (("cost", prove_cost), ("cuts", prove_cuts)):
                if proof.begins(part):
                    async with serving_apart(settings, "--no-worker") as served:
                        place = Place(tree, served.process.pid, int(served.told["port"]), keys)
                        await show(proof, place, streams)
            if proof.begins("revoked"):
                async with serving_apart(settings, "--no-worker") as served:
                    place = Place(tree, served.process.pid, int(served.told["port"]), keys)
                    await prove_revoked(proof, place)


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and the library beside it."""

    tree: Tree
    pid: int
    port: int
    keys: Sequence[dict[str, str]]


async def prove_cost(proof: Proof, place: Place, streams: int) -> None:
    """Show what an open stream and a delivery cost."""
    # What the first streams load and keep is not theirs.
    warm = await open_many(OPENING, place.port, place.keys, is_read=False)
    await say(place.tree, "warm")
    await until(lambda: all(one.frames for one in warm))
    before = memory_mb(place.pid)
    listeners = await open_many(streams, place.port, place.keys, is_read=False)
    await asyncio.sleep(SETTLE_S)
    each = (memory_mb(place.pid) - before) * 1024 * 1024 / streams
    proof.note("open streams on one process", streams + len(warm), "streams")
    proof.at_most("memory of an open stream", each, "bytes", BYTES_MAX)
    idle_s = IDLE_QUICK_S if proof.quick else IDLE_S
    cpu, began = cpu_ms(place.pid), time.monotonic()
    await asyncio.sleep(idle_s)
    idle = (cpu_ms(place.pid) - cpu) / 1000 / (time.monotonic() - began)
    proof.at_most("processor of streams without news", idle, "of a core", IDLE_MAX, of="time")
    listeners += warm
    async with bare_writer() as (bare_pid, bare_port):
        others = await open_many(
            min(len(listeners), BARE_MAX), bare_port, [{}], is_read=False, path="/"
        )
        costs = await interleave(
            ROUNDS,
            [
                lambda: deliver(place, listeners),
                lambda: deliver_bare(bare_pid, bare_port, others),
            ],
        )
    ours, bare = costs
    proof.note("a delivery", statistics.median(ours), "us")
    proof.note("a delivery of a bare writer", statistics.median(bare), "us")
    proof.at_most("a delivery, of a bare writer's", median_ratio(ours, bare), "x", COST_MAX,
                  of="time")  # fmt: skip
    for one in (*listeners, *others):
        one.transport.abort()


def next_frames(listeners: Sequence[Listener]) -> Callable[[], bool]:
    """Return what says whether each connection got one message more than it has now."""
    goals = [one.frames + 1 for one in listeners]
    return lambda: all(one.frames >= goal for one, goal in zip(listeners, goals, strict=True))


async def deliver(place: Place, listeners: Sequence[Listener]) -> float:
    """Return the processor time of the server for one delivery, in microseconds."""
    before = cpu_ms(place.pid)
    for _ in range(FRAMES):
        hear_all = next_frames(listeners)
        await say(place.tree, "a turn")
        await until(hear_all)
    return (cpu_ms(place.pid) - before) * 1000 / FRAMES / len(listeners)


async def deliver_bare(pid: int, port: int, listeners: Sequence[Listener]) -> float:
    """Return the same of the bare writer, which is told what to write by a request."""
    name = "0" * 36
    changes = {"position": "1-1000-100", "turns": [name], "sessions": [name], "runs": []}
    body = f"id: 1-1000-100\nevent: changed\ndata: {json.dumps(changes)}\n\n".encode()
    head = f"POST /say HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    before = cpu_ms(pid)
    for _ in range(FRAMES):
        hear_all = next_frames(listeners)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body)
        await reader.readline()
        writer.close()
        await until(hear_all)
    return (cpu_ms(pid) - before) * 1000 / FRAMES / len(listeners)


async def prove_cuts(proof: Proof, place: Place, streams: int) -> None:
    """Cut streams while turns are recorded, and compare what each has heard with what was said."""
    by = random.Random(proof.seed)
    count = CUT_QUICK if proof.quick else streams
    heard: list[list[str]] = [[] for _ in range(count)]
    said: list[str] = []
    is_over = False
    pause_s = max(STEP_S, count / DELIVERIES)

    async def talk() -> None:
        while not is_over:
            said.append(await say(place.tree, f"turn {len(said)}"))
            await asyncio.sleep(pause_s)

    async def hear(number: int, listener: Listener, delays: Sequence[float]) -> None:
        key = place.keys[number % KEYS]
        for delay in delays:
            await asyncio.sleep(delay)
            # A message may be halfway: the cut is not aligned with them.
            listener.transport.abort()
            async with opening:
                listener = await resume(place.port, key, heard[number], listener.position)
        last[number] = listener

    opening, last = asyncio.Semaphore(OPENING), dict[int, Listener]()
    listeners: list[Listener] = []
    for first in range(0, count, OPENING):
        listeners += await asyncio.gather(
            *(
                listen(place.port, place.keys[number % KEYS], heard[number])
                for number in range(first, min(first + OPENING, count))
            )
        )
    # Only now: what is cut before anything is said misses nothing.
    talking = asyncio.create_task(talk())
    await asyncio.gather(
        *(
            hear(number, listener, [by.random() for _ in range(CUTS)])
            for number, listener in enumerate(listeners)
        )
    )
    is_over = True
    await talking
    said.append(await say(place.tree, "the last"))
    await until(lambda: all(turns[-1:] == said[-1:] for turns in heard))
    proof.note("turns recorded meanwhile", len(said), "turns")
    proof.note("cuts", count * CUTS, "cuts")
    missing = sum(len(set(said) - set(turns)) for turns in heard)
    doubled = sum(len(turns) - len(set(turns)) for turns in heard)
    proof.at_most("turns missing after the cuts", missing, "turns", 0)
    proof.at_most("turns doubled after the cuts", doubled, "turns", 0)
    disordered = sum(turns != said for turns in heard)
    proof.at_most("streams in another order", disordered, "streams", 0)
    for one in last.values():
        one.transport.abort()


async def prove_revoked(proof: Proof, place: Place) -> None:
    """Revoke a key while turns are recorded, and see for how long its stream goes on."""
    revoked = await listen(place.port, place.keys[0], [])
    other = await listen(place.port, place.keys[1], [])
    owner = place.tree.act_as(
        turntree.ExecutionContext.begin(turntree.Principal("human", "person0"))
    )
    (made,) = await owner.keys.list_all()
    said = [await say(place.tree, "before")]
    await until(lambda: bool(revoked.frames and other.frames))
    await owner.keys.revoke(made.id)
    at = time.monotonic()
    while time.monotonic() < at + REVOKED_FOR_S:
        said.append(await say(place.tree, "after"))
        await asyncio.sleep(STEP_S)
    await until(lambda: other.turns[-1:] == said[-1:])
    proof.at_least("turns that another reader was told of", len(other.turns), "turns", len(said))
    proof.at_most("seconds for which a revoked reader was told of turns",
                  max(revoked.heard_at - at, 0), "s", REVOKED_MAX_S)  # fmt: skip
    proof.at_most("turns recorded after the revocation that its reader was told of",
                  len(set(revoked.turns) & set(said[1:])), "turns", 0)  # fmt: skip
    proof.at_least("streams of the revoked reader that were ended", int(is_ended(revoked)),
                   "streams", 1)  # fmt: skip


def is_ended(listener: Listener) -> bool:
    """Return whether the server has said that nothing follows."""
    return listener.ended.done() or b"0\r\n\r\n" in listener.rest


if __name__ == "__main__":
    run(prove, __doc__ or "")
