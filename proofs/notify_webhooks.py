"""The part of the proof of notices about webhooks: each event leaves once, and is signed.

A receiver on loopback takes messages, fails, stalls, redirects, and drops connections after it has
taken one, while workers are killed. What it was given says whether each event came, under one id,
with a signature that the package ``standardwebhooks`` makes too. Then a story with one clock is
told, also with faults in the functions of the database and in the sender: forty addresses that are
not public are tried by name, and a name that changes its address.
"""

import asyncio
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
from standardwebhooks import Webhook as StandardWebhook

from proofs.drills.plants import Plant, install
from proofs.figures import Proof
from proofs.notify_crew import Crew
from proofs.notify_worker import QuickClock
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.webhook_signature import sign
from turntree.boot.open import Settings, tree_on
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.notifications.delivery import Claim, Delivery, DeliveryAttempt
from turntree.notifications.preferences import WEBHOOK, NoticePreferences
from turntree.notifications.sender import DeliverySource, NoticeSender
from turntree.notifications.store import DeliveryStore
from turntree.system import public_addresses
from turntree.system.clock import SystemClock
from turntree.testing.fakes import FakeClock
from turntree.webhooks import channel as channels
from turntree.webhooks.channel import WebhookChannel
from turntree.webhooks.event_queue import EventQueue

SPEED = 60.0
HOUR_MS = 3_600_000
PATIENCE_S = 60.0
NO_HOME = Path("/nonexistent")
KIND = "session.created"
ELSEWHERE = "/elsewhere"
FORBIDDEN = (
    "127.0.0.1", "127.9.9.9", "127.255.255.254", "127.0.0.53", "0.1.2.3", "10.0.0.1",
    "10.255.255.254", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.254",
    "169.254.169.254",
    "169.254.170.2", "169.254.0.1", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.1",
    "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250",
    "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "2002:7f00:1::",
    "2002:a9fe:a9fe::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
)  # fmt: skip
"""Forty addresses that only a machine or its network reaches."""

_AS_OWNER = r"PERFORM set_config\('turntree\.viewer', d\.person, true\);"
_ADMIN = r"AND m\.role = 'admin'\)\n\$\$;\n\n-- Begins a delivery of each"
_CLAIMED = r"coalesce\(x\.claimed_until <= p_at::timestamptz, true\)"
PLANTS = (
    Plant("what was hidden is sent", ((_AS_OWNER, ""),)),
    Plant("a member hears events", ((_ADMIN, ")\n$$;\n\n-- Begins a delivery of each"),)),
    Plant("two workers send an event", ((_CLAIMED, "true"),)),
)


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that arrived, and what was done with it."""

    path: str
    id: str
    is_signed: bool
    label: str
    """The session that the event is about."""
    answer: str


@dataclass(slots=True)
class UnreliableReceiver:
    """A receiver that answers as a die says."""

    die: random.Random
    secret: str = ""
    port: int = 0
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    is_calm: bool = False

    @property
    def host(self) -> str:
        """The host that workers are permitted to send to."""
        return f"127.0.0.1:{self.port}"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> str:
        """Note a request, and return how it is answered."""
        kinds = ("taken", "fails", "redirects", "stalls", "takes and drops")
        answer = "taken" if self.is_calm else self.die.choices(kinds, (12, 3, 1, 1, 2))[0]
        id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
        # Its own check of the time is by the clock of the machine, and workers have a quick one.
        made = StandardWebhook(self.secret).sign(
            id, datetime.fromtimestamp(int(at), UTC), body.decode()
        )
        event = json.loads(body)["data"]["event"]
        label = str(event["data"].get("label"))
        is_signed = made in headers.get("webhook-signature", "").split()
        self.requests.append(ReceivedRequest(path, id, is_signed, label, answer))
        return answer


@contextmanager
def receiving(receiver: UnreliableReceiver) -> Generator[None, None, None]:
    """Receive while the block lasts."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): text for name, text in self.headers.items()}
            answer = receiver.take(self.path, headers, body)
            if answer == "takes and drops":
                self.close_connection = True
                return
            if answer == "stalls":
                is_over.wait(5)
                return
            self.send_response({"taken": 200, "fails": 503, "redirects": 302}[answer])
            if answer == "redirects":
                self.send_header("location", f"http://{receiver.host}{ELSEWHERE}")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()


async def show_webhooks(proof: Proof, conninfo: str) -> None:
    """Have events happen while workers are killed and the receiver does what it likes."""
    began_ms = time.time_ns() // 1_000_000
    clock, die = QuickClock(began_ms, SPEED), random.Random(proof.seed)
    span_s, kills, wanted = (5.0, 3, 30) if proof.quick else (60.0, 30, 400)
    workspace = await prepare_database(conninfo, "hooks", clock.new_id())
    receiver = UnreliableReceiver(die)
    with receiving(receiver):
        crew = Crew((
            sys.executable, "-m", "proofs.notify_worker", conninfo, workspace, "1",
            str(began_ms), str(SPEED), receiver.host,
        ))  # fmt: skip
        try:
            async with open_database(conninfo, workspace) as database:
                tree = _tree(database, clock, receiver.host)
                _, receiver.secret = await tree.webhooks.create(
                    f"http://{receiver.host}/hook", events=[KIND]
                )
                for _ in range(2):
                    crew.hire()
                for process in crew.processes:
                    assert process.stdout is not None
                    await asyncio.to_thread(process.stdout.readline)
                labels = await _make_and_kill(tree, receiver, crew, span_s, kills, wanted)
                receiver.is_calm = True
                missing = await _wait_for(receiver, labels)
        finally:
            crew.dismiss()
        _judge(proof, receiver, crew, labels, missing)


def _tree(database: Database, clock: SystemClock | FakeClock, host: str = "") -> Tree:
    settings = Settings(NO_HOME, user="ana", webhook_hosts=frozenset({host} - {""}))
    return tree_on(database, settings, clock)


async def _make_and_kill(
    tree: Tree, receiver: UnreliableReceiver, crew: Crew, span_s: float, kills: int, wanted: int
) -> list[str]:
    labels: list[str] = []
    die, began = receiver.die, time.monotonic()
    # On a busy machine workers take long to start: until the receiver has been asked often enough.
    while (
        (passed := time.monotonic() - began) < span_s
        or crew.killed < kills
        or (len(receiver.requests) < wanted and passed < PATIENCE_S)
    ):
        labels.append(f"s{len(labels)}")
        await tree.sessions.create(labels[-1])
        if crew.killed < kills and passed > span_s * crew.killed / kills:
            await asyncio.to_thread(crew.kill, die)
        await asyncio.sleep(die.random() * 0.2)
    return labels


def _list_taken(receiver: UnreliableReceiver) -> list[ReceivedRequest]:
    return [one for one in receiver.requests if one.answer.startswith("take")]


async def _wait_for(receiver: UnreliableReceiver, labels: Sequence[str]) -> int:
    until = time.monotonic() + PATIENCE_S
    missing = set(labels)
    while missing and time.monotonic() < until:
        missing = set(labels) - {one.label for one in _list_taken(receiver)}
        await asyncio.sleep(0.1)
    return len(missing)


def _judge(
    proof: Proof,
    receiver: UnreliableReceiver,
    crew: Crew,
    labels: Sequence[str],
    missing: int,
) -> None:
    taken = _list_taken(receiver)
    ids: dict[str, set[str]] = {}
    for one in taken:
        ids.setdefault(one.label, set()).add(one.id)
    proof.note("events", len(labels), "events")
    for answer, count in sorted(Counter(one.answer for one in receiver.requests).items()):
        proof.note(f"messages that the receiver answered like this: {answer}", count, "messages")
    refused = sum(one.answer != "taken" for one in receiver.requests)
    proof.at_least("messages that the receiver did not simply take", refused, "messages", 5)
    proof.at_least("workers of webhooks killed", crew.killed, "kills", 3)
    proof.at_most("events that never came", missing, "events", 0)
    doubled = sum(len(one) > 1 for one in ids.values())
    proof.at_most("events under more than one id", doubled, "events", 0)
    proof.note("messages that came again, under the same id", len(taken) - len(ids), "messages")
    unsigned = sum(not one.is_signed for one in receiver.requests)
    proof.at_most("messages with a wrong signature", unsigned, "messages", 0)
    followed = sum(one.path == ELSEWHERE for one in receiver.requests)
    proof.at_most("redirects that were followed", followed, "requests", 0)


class ConnectionRecorder(httpx2.AsyncBaseTransport):
    """Notes to which hosts a connection would be made, and takes the message."""

    def __init__(self) -> None:
        """Begin with none."""
        self.hosts: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Note the host of a request."""
        self.hosts.append(request.url.host)
        return httpx2.Response(204)


@dataclass(slots=True)
class WebhookStory:
    """Webhooks, a worker that sends, and what went otherwise than it should, step by step."""

    database: Database
    clock: FakeClock
    sent: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])

    async def tell(self) -> list[str]:
        """Take each step, and return the complaints."""
        ana = _tree(self.database, self.clock)
        await ana.members.add("bob", role="admin")
        bob = ana.act_as(ExecutionContext.begin(Principal("human", "bob")))
        everything = self.database.seen_by(EVERYTHING)
        begin = EventQueue(self.clock).begin
        sender = NoticeSender(everything, self.clock, {WEBHOOK: self._send}, begin)
        look = partial(sender.look_in, self.database, "told")
        await bob.webhooks.create("https://example.net/x", events=["session.*"])

        await ana.sessions.create("open")
        await look()
        await look()
        self._expect("an event leaves once", 1)
        await ana.sessions.create("hidden")
        await begin(everything)
        await ana.programs.set_visibility("hidden", "private")
        await look()
        self._expect("what is hidden meanwhile is withdrawn", 0)

        await ana.sessions.create("claimed")
        await begin(everything)
        store = DeliveryStore(everything, (WEBHOOK,))
        due = await store.list_due(limit=9, at=self.clock.now())
        claims = [
            await store.claim(one, at=self.clock.now()) for _worker in range(2) for one in due
        ]
        if sum(one is not None for one in claims) != 1:
            self.complaints.append("two workers send one event")
        self.clock.ms += HOUR_MS
        await look()
        self._expect("a claim that was lost is sent again", 1)

        await ana.sessions.create("late")
        await begin(everything)
        await ana.members.set_role("bob", "member")
        await look()
        self._expect("a member is sent no events", 0)
        await self._try_addresses(everything)
        return self.complaints

    async def _try_addresses(self, database: Database) -> None:
        """Send to each address that is not public, and to a name that changes its address."""
        receiver = UnreliableReceiver(random.Random(1), is_calm=True)
        ana = _tree(self.database, self.clock)
        with receiving(receiver):
            made, receiver.secret = await ana.webhooks.create(
                f"https://hooks.example.org:{receiver.port}/", events=["session.*"]
            )
            delivery = Delivery("msg-1", "human:ana", WEBHOOK, made.id, self.clock.now(), 0, _ANY)
            claim = Claim(1, (), _EVENT)
            source = DeliverySource("told", database)
            for address in FORBIDDEN:
                attempt = await self._channel([address]).send(delivery, claim, source)
                if attempt.result != "rejected":
                    self.complaints.append(f"{address} is asked: {attempt.error}")
            # Public when it is checked, and this machine a moment later: it is resolved once, and
            # the connection is to what was checked.
            asked: list[int] = []
            rebound = self._channel(["93.184.216.34"], ["127.0.0.1"], asked=asked)
            recorder = ConnectionRecorder()
            with mock.patch.object(httpx2, "AsyncHTTPTransport", return_value=recorder):
                await rebound.send(delivery, claim, source)
            if (len(asked), recorder.hosts) != (1, ["93.184.216.34"]):
                self.complaints.append(f"a name was resolved {len(asked)} times: {recorder.hosts}")
            if receiver.requests:
                self.complaints.append("a request reached this machine")
            # To a host that is permitted it goes, and a stranger's signature is no good.
            near, receiver.secret = await _tree(
                self.database, self.clock, receiver.host
            ).webhooks.create(f"http://{receiver.host}/", events=["session.*"])
            permitted = WebhookChannel(self.clock, frozenset({receiver.host}), timeout_s=5.0)
            here = replace(delivery, address=near.id)
            attempt = await permitted.send(here, claim, source)
            if attempt.result != "delivered" or not all(one.is_signed for one in receiver.requests):
                self.complaints.append(f"a message to a permitted host: {attempt}")

    def _channel(self, *answers: Sequence[str], asked: list[int] | None = None) -> WebhookChannel:
        left = list(answers)

        async def resolve(host: str, port: int) -> Sequence[str]:
            assert host == "hooks.example.org"
            if asked is not None:
                asked.append(port)
            return left.pop(0) if len(left) > 1 else left[0]

        return WebhookChannel(self.clock, resolve=resolve, timeout_s=0.5)

    async def _send(
        self, delivery: Delivery, claim: Claim, source: DeliverySource
    ) -> DeliveryAttempt:
        del delivery, source
        assert claim.event is not None
        document: Any = json.loads(claim.event)
        if document["kind"] == KIND:
            self.sent.append(str(document["data"]["label"]))
        return DeliveryAttempt("delivered")

    def _expect(self, what: str, count: int) -> None:
        if len(self.sent) != count:
            self.complaints.append(f"{what}: {self.sent}")
        self.sent.clear()


_ANY = NoticePreferences()
_EVENT = '{"kind":"session.created","at":"2026-01-01T00:00:00.000Z","data":{"label":"x"}}'


def _sign_wrongly(secrets: Sequence[str], id: str, time_s: int, body: bytes) -> dict[str, str]:
    return sign(secrets, id, time_s + 1, body) | {"webhook-timestamp": str(time_s)}


CODE_PLANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "addresses are not checked": lambda: mock.patch.object(
        public_addresses, "_is_elsewhere", return_value=True
    ),
    "what is signed is not what is sent": lambda: mock.patch.object(
        channels, "sign", _sign_wrongly
    ),
}


async def tell_webhooks(
    conninfo: str, name: str, plant: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> list[str]:
    """Tell the story in a workspace of its own; return what went otherwise than it should."""
    clock = FakeClock(tick_ms=0)
    clock.ms = time.time_ns() // 1_000_000
    workspace = await prepare_database(conninfo, f"hooks {name}"[:60], SystemClock().new_id())
    async with open_database(conninfo, workspace) as database:
        with plant():
            return await WebhookStory(database, clock).tell()


async def show_webhook_story(proof: Proof, conninfo: str) -> None:
    """Tell the story, and plant faults that it finds."""
    complaints = await tell_webhooks(conninfo, "as it is")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    proof.at_most("complaints about webhooks", len(complaints), "complaints", 0)
    asked = sum("is asked" in complaint for complaint in complaints)
    proof.at_least("forbidden addresses refused", len(FORBIDDEN) - asked, "addresses", 40)
    for plant in PLANTS:
        await install(conninfo, plant)
        found = await tell_webhooks(conninfo, plant.name)
        proof.at_least(f"planted and found: {plant.name}", bool(found), "of 1", 1)
    await install(conninfo, Plant("nothing", ()))
    for name, patch in CODE_PLANTS.items():
        found = await tell_webhooks(conninfo, name, patch)
        proof.at_least(f"planted and found: {name}", bool(found), "of 1", 1)
