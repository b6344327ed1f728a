"""Servers and workers in processes of their own, a Redis and a haproxy, and clients of all of them.

Everything listens on free ports of loopback, and is ended by its process id. What dies is started
again at once, on the same port, as a service manager does.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import httptools
import httpx2

from proofs.http_world import COMMAND, TEAM
from turntree.boot.open import Settings
from turntree.client.client import Client
from turntree.core.errors import ServerUnavailable, TurntreeError
from turntree.wire.runs import ChunkDocument, StepDocument

BEGIN_S: Final = 180.0
"""How long a process may take to start on a busy machine."""
DRAIN_S: Final = 5.0
PATIENCE_S: Final = 0.1
CHECK_MS: Final = 200
"""How often haproxy asks whether a server is ready."""
INSTALL: Final[Mapping[str, str]] = {
    "redis-server": "apt-get install redis-server",
    "haproxy": "apt-get install haproxy",
}
Kind = Literal["server", "worker"]

HAPROXY: Final = """
defaults
  mode http
  option redispatch 1
  retries 3
  timeout connect 1s
  timeout client 1h
  timeout server 1h
frontend team
  bind 127.0.0.1:{port}
  default_backend servers
backend servers
  balance leastconn
  option httpchk GET /readyz
  default-server check inter {check_ms}ms fall 1 rise 1
  server one 127.0.0.1:{one}
  server two 127.0.0.1:{two}
"""


def find_program(name: str) -> str:
    """Return the path of a program.

    Raises:
        RuntimeError: It is not installed.
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        raise RuntimeError(f"{name} is missing: {INSTALL[name]}")
    return path


def free_ports(count: int) -> list[int]:
    """Return ports of loopback on which nothing listens."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in listeners]
    for one in listeners:
        one.close()
    return ports


@dataclass(slots=True, eq=False)
class Member:
    """One server or worker, which is started again whenever it ends."""

    kind: Kind
    words: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    faults: str = ""
    """What is taken away from it, by the names of ``nodes_faults``."""
    process: asyncio.subprocess.Process | None = None
    is_ready: bool = False
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it printed when it was ready."""
    _reading: "asyncio.Task[None] | None" = None

    async def start(self) -> None:
        """Start it; ``is_ready`` says when it works."""
        start = ["-m", "proofs.nodes_faults", self.faults] if self.faults else ["-c", COMMAND]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, *start, *self.words, "--json",
                env=dict(self.environment), stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._reading = asyncio.create_task(self._read(self.process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None, "it was asked for"
        # The first line tells that it serves, the end of the output that it has ended.
        line = await process.stdout.readline()
        self.told, self.is_ready = json.loads(line or b"{}"), bool(line)
        await process.stdout.read()
        self.is_ready = False

    async def until_ready(self) -> None:
        """Return when it works.

        Raises:
            RuntimeError: It has ended.
        """
        async with asyncio.timeout(BEGIN_S):
            while not self.is_ready:
                if self.process is not None and self.process.returncode is not None:
                    raise RuntimeError(f"a {self.kind} has ended: {self.log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)

    async def end(self, number: signal.Signals) -> tuple[int, float]:
        """Send a signal, and return the exit status and how long the end took."""
        assert self.process is not None, "it was started"
        self.is_ready, began = False, time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        status = await self.process.wait()
        return status, time.monotonic() - began


@dataclass(slots=True, eq=False)
class Redis:
    """A Redis that keeps nothing on disk: after a restart it is empty."""

    port: int
    folder: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        """Start it, and return when it answers."""
        self.process = await asyncio.create_subprocess_exec(
            find_program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1",
            "--save", "", "--appendonly", "no", "--dir", str(self.folder),
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await _until_listening(self.port)

    async def stop(self) -> None:
        """End it without a farewell."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


async def _until_listening(port: int) -> None:
    async with asyncio.timeout(BEGIN_S):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)


@dataclass(slots=True)
class Cluster:
    """Two servers behind one address, two workers, and what they share."""

    settings: Settings
    port: int
    """That of haproxy."""
    redis: Redis
    members: list[Member]

    @property
    def url(self) -> str:
        """The workspace, as clients know it."""
        return f"http://127.0.0.1:{self.port}/w/{TEAM}"

    def of(self, kind: Kind) -> list[Member]:
        """Return the servers, or the workers."""
        return [one for one in self.members if one.kind == kind]

    async def until_ready(self) -> None:
        """Return when all members work, and haproxy has noticed."""
        for one in self.members:
            await one.until_ready()
        await asyncio.sleep(2 * CHECK_MS / 1000)


@asynccontextmanager
async def a_cluster(
    settings: Settings, folder: Path, faults: Mapping[Kind, str] | None = None
) -> AsyncGenerator[Cluster, None]:
    """Start everything, and end it with the block; ``faults`` are taken away from members."""
    redis_port, port, one, two = free_ports(4)
    await asyncio.to_thread(folder.mkdir)
    redis = Redis(redis_port, folder)
    environment = {
        **os.environ,
        "TURNTREE_RATE_LIMIT": "0",
        "TURNTREE_DATABASE_URL": settings.database_url or "",
        "TURNTREE_HOME": str(settings.home),
        "TURNTREE_WORKSPACE": settings.workspace,
        "TURNTREE_USER": settings.user,
        "TURNTREE_CONFIG": str(settings.home / "config.toml"),
        "TURNTREE_LIVE_URL": redis.url,
    }
    drain, name = ("--drain-s", f"{DRAIN_S:g}"), ("--name", f"127.0.0.1:{port}")
    taken = faults or {}
    members = [
        Member(
            "server", ("serve", "--no-worker", "--port", str(own), *name, *drain),
            environment, folder / f"server-{own}.log", taken.get("server", ""),
        )
        for own in (one, two)
    ] + [
        Member(
            "worker", ("worker", *drain), environment, folder / f"worker-{number}.log",
            taken.get("worker", ""),
        )
        for number in range(2)
    ]  # fmt: skip
    config = folder / "haproxy.cfg"
    _write(config, HAPROXY.format(port=port, one=one, two=two, check_ms=CHECK_MS))
    async with AsyncExitStack() as stack:
        await redis.start()
        stack.push_async_callback(redis.stop)
        for member in members:
            await member.start()
            stack.push_async_callback(_end_quietly, member)
        proxy = await asyncio.create_subprocess_exec(
            find_program("haproxy"), "-db", "-q", "-f", str(config),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        stack.push_async_callback(_kill, proxy)
        await _until_listening(port)
        cluster = Cluster(settings, port, redis, members)
        await cluster.until_ready()
        yield cluster


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii")


async def _end_quietly(member: Member) -> None:
    if member.process is not None and member.process.returncode is None:
        await member.end(signal.SIGKILL)


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


@asynccontextmanager
async def a_model() -> AsyncGenerator[int, None]:
    """Run the model that speaks slowly, and yield its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "proofs.nodes_model", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None, "it was asked for"
    try:
        yield int(await process.stdout.readline())
    finally:
        await _kill(process)


class _Stream(asyncio.Protocol):
    """One connection of a subscription, whose parser undoes what a proxy does to the body."""

    def __init__(self, owner: "Subscription", request: bytes) -> None:
        self.owner, self.request, self.rest = owner, request, b""
        self.parser = httptools.HttpResponseParser(self)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if self.parser.get_status_code() != 200:
            return
        *messages, self.rest = (self.rest + body).split(b"\n\n")
        for message in messages:
            self.owner.take(message)

    def on_message_complete(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.ended.done():
            self.ended.set_result(None)


@dataclass(slots=True, eq=False)
class Subscription:
    """A stream of a workspace that is resumed whenever it ends, wherever haproxy leads."""

    port: int
    key: str
    workspace: str = TEAM
    turns: list[str] = field(default_factory=list[str])
    """Those that were named, in the order in which they came."""
    position: str = ""
    cuts: int = -1
    """How often it was resumed; -1 before it began."""
    skipped: int = 0
    """How often it was told to read everything again, instead of what it missed."""
    is_greeted: bool = False

    async def run(self) -> None:
        """Listen until canceled."""
        loop = asyncio.get_running_loop()
        while True:
            after = f"last-event-id: {self.position}\r\n" if self.position else ""
            head = (
                f"GET /w/{self.workspace}/api/v1/stream HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
                f"authorization: Bearer {self.key}\r\n{after}\r\n"
            )
            self.cuts, self.is_greeted = self.cuts + 1, False
            transport: asyncio.Transport | None = None
            connect = partial(_Stream, self, head.encode())
            try:
                transport, stream = await loop.create_connection(connect, "127.0.0.1", self.port)
                await stream.ended
            except OSError:
                pass
            finally:
                if transport is not None:
                    transport.abort()
            await asyncio.sleep(PATIENCE_S)

    def take(self, message: bytes) -> None:
        """Read one message."""
        fields = dict(line.partition(b": ")[::2] for line in message.split(b"\n"))
        self.position = fields.get(b"id", b"").decode() or self.position
        if fields.get(b"event") == b"hello":
            self.is_greeted = True
        elif fields.get(b"event") == b"changed":
            changes = json.loads(fields[b"data"])
            self.skipped += changes["is_whole"]
            self.turns += changes["turns"]


@dataclass(slots=True, eq=False)
class Reply:
    """What a client was told while its message was answered."""

    said: str
    run: str = ""
    words: dict[int, str] = field(default_factory=dict[int, str])
    """The words of each step that is not recorded yet."""
    dropped: int = 0
    """How often the client was told to drop words."""
    complete: int = 0
    """Steps whose words were all told before they were recorded."""
    wrong: list[str] = field(default_factory=list[str])
    delays_ms: list[float] = field(default_factory=list[float])
    heard_at: list[float] = field(default_factory=list[float])
    is_ended: bool = False


async def insist_on(client: Client, session: str, reply: Reply, key: str) -> None:
    """Send a message until it is acknowledged."""
    while not reply.run:
        try:
            reply.run = (await client.runs.post(session, reply.said, key=key, model="slow")).run
        except (TurntreeError, httpx2.HTTPError):
            # It may have been taken in or not; under the key it is sent once.
            await asyncio.sleep(PATIENCE_S)


async def hear(client: Client, reply: Reply) -> None:
    """Follow a run to its end, and compare the words with what is recorded."""
    after = ""
    while not reply.is_ended:
        try:
            async for told in client.runs.follow(reply.run, after=after):
                after = told.position
                _take(reply, told.news)
            reply.is_ended = True
        except ServerUnavailable:
            await asyncio.sleep(PATIENCE_S)


def _take(reply: Reply, news: StepDocument | ChunkDocument) -> None:
    if isinstance(news, ChunkDocument):
        now = time.monotonic()
        if news.kind == "restart":
            reply.words.pop(news.seq, None)
            reply.dropped += 1
        elif news.kind == "text":
            reply.words[news.seq] = reply.words.get(news.seq, "") + news.text
            reply.heard_at.append(now)
            stamps = [word.partition("@")[2] for word in news.text.split()]
            reply.delays_ms += [now * 1000 - int(one) / 1e6 for one in stamps if one.isdigit()]
        return
    told = reply.words.pop(news.seq, "")
    if news.kind == "model_call.finished":
        reply.complete += told.rstrip() == news.text.rstrip()
        # What came last may be recorded before it is passed on: then the step has it. Anything else
        # is a hole, or words that no event dropped.
        if not news.text.startswith(told.rstrip()):
            reply.wrong.append(f"{reply.run}: heard {told!r}, recorded {news.text!r}")
