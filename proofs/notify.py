"""The claim: what a person does not read in time leaves by mail, once, and no other person sees it.

A mail server on loopback accepts mail, refuses it for a while, rejects one address for good, says
nothing, and drops connections, before it has taken a mail and after. Workers send to it by clocks
that run sixty times as fast, and are killed at random moments. Meanwhile people are told things,
and some read them. What the mail server was given says whether each notice was mailed, under one
Message-ID, in a digest, outside of quiet hours, and to its person alone.

Then a story is told with one clock that is moved by hand, step by step. Faults are planted in the
functions of the database to see that the story finds them.

The same is done with events that leave by webhooks: ``proofs.notify_webhooks``.
"""

import asyncio
import random
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from email import message_from_bytes, policy
from functools import partial
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.notify_crew import Crew
from proofs.notify_webhooks import show_webhook_story, show_webhooks
from proofs.notify_worker import QuickClock
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING, Sight
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.notifications.delivery import Claim, Delivery, DeliveryAttempt
from turntree.notifications.notice import UNREAD_MAX
from turntree.notifications.preferences import EMAIL
from turntree.notifications.sender import DeliverySource, NoticeSender
from turntree.notifications.store import DeliveryStore
from turntree.system.clock import SystemClock
from turntree.testing.fakes import FakeClock

QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
SPEED = 60.0
"""A second of the machine is a minute of the people."""
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
PATIENCE_S = 90.0
LATE_S = 150
"""So late, by the quick clock, may a mail come that was claimed before quiet hours."""
NO_HOME = Path("/nonexistent")
"""No server of its own is started: the ledger is that of the proof."""
GONE, READER, PLAIN = "gone", "reader", "plain"
PEOPLE = ("ada", "ben", "cleo", "dov", GONE, READER, PLAIN)
ADD = b"""SELECT turntree.add_notice(%(workspace)b, %(person)b, 'mention', %(by)b, %(text)b, '{}',
  %(text)b, %(at)b::timestamptz)"""
_TOKEN = re.compile(r"secret-(\w+)-(\d+)")

_READ = r"(AND n\.id = i\.notice_id) AND n\.read_at IS NULL"
_CLAIMED = r"coalesce\(x\.claimed_until <= p_at::timestamptz, true\)"
_ITS_PERSON = r"OR person = \(SELECT turntree\.viewer\(\)\)"
_OF_SENDER = r"AND o\.by = p_by (AND o\.read_at IS NULL)"
PLANTS = (
    Plant("what was read is mailed", ((_READ, r"\1"),)),
    Plant("a claim stops no other worker", ((_CLAIMED, "true"),)),
    Plant("a mail follows the other", ((r"d\.ended_at > p_after::timestamptz", "false"),)),
    Plant("a mail is sent twice", ((r"d\.outcome <> 'delivered' AND d\.doubts = 0", "true"),)),
    Plant("a notice is for every member", ((_ITS_PERSON, "OR true"),)),
    Plant("a flood pushes out others", ((_OF_SENDER, r"\1"),)),
)


async def prove(proof: Proof) -> None:
    """Send under fire, tell the story, and plant."""
    with temporary_server(QUICK) as (server, _):
        if proof.wants("chaos"):
            conninfo = await ensure_database(server, "mailed")
            await show_chaos(proof, conninfo)
        if proof.wants("story") or proof.wants("planted"):
            conninfo = await ensure_database(server, "told")
            complaints = await tell(conninfo, "as it is")
            for complaint in complaints:
                print(complaint, file=sys.stderr)
            proof.at_most("complaints about the story", len(complaints), "complaints", 0)
            for plant in PLANTS if proof.wants("planted") else ():
                await install(conninfo, plant)
                found = await tell(conninfo, plant.name)
                proof.at_least(f"planted and found: {plant.name}", bool(found), "of 1", 1)
        if proof.wants("webhooks"):
            conninfo = await ensure_database(server, "hooked")
            await show_webhooks(proof, conninfo)
            await show_webhook_story(proof, conninfo)


@value
class Taken:
    """What the mail server was given, and what it did."""

    at: Timestamp
    to: str
    id: str
    tokens: tuple[tuple[str, str], ...]
    """The notices in it: the person and the number of each."""
    is_accepted: bool
    answer: str


@dataclass(slots=True)
class UnreliableServer:
    """A mail server that answers as a die says."""

    clock: QuickClock
    die: random.Random
    taken: list[Taken] = field(default_factory=list[Taken])
    is_calm: bool = False

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a mail, or do something else."""
        del session
        to = envelope.rcpt_tos[0]
        answer = "550 gone" if to.startswith(GONE) else self._draw()
        content = envelope.content
        assert isinstance(content, bytes)
        is_accepted = answer in ("250 taken", "takes and drops")
        self.taken.append(_read_mail(content, to, self.clock.now(), answer, is_accepted))
        if "drops" in answer:
            transport = server.transport
            assert isinstance(transport, asyncio.WriteTransport)
            transport.abort()
        elif answer == "stalls":
            await asyncio.sleep(5)
        return answer if answer[0].isdigit() else "451 later"

    def _draw(self) -> str:
        kinds = ("250 taken", "451 later", "drops", "takes and drops", "stalls")
        return "250 taken" if self.is_calm else self.die.choices(kinds, (10, 3, 2, 2, 1))[0]


def _read_mail(content: bytes, to: str, at: Timestamp, answer: str, is_accepted: bool) -> Taken:  # noqa: FBT001
    mail = message_from_bytes(content, policy=policy.default)
    body = mail.get_content()
    headers = "".join(f"{name}: {text}\n" for name, text in mail.items())
    assert not _TOKEN.search(headers), "a header has the text of a notice"
    tokens = tuple((found[1], found[2]) for found in _TOKEN.finditer(body))
    return Taken(at, to.partition("@")[0], str(mail["Message-ID"]), tokens, is_accepted, answer)


async def show_chaos(proof: Proof, conninfo: str) -> None:
    """Tell people things while workers are killed and the mail server does what it likes."""
    began_ms = time.time_ns() // 1_000_000
    clock, die = QuickClock(began_ms, SPEED), random.Random(proof.seed)
    span_s, kills = (8.0, 4) if proof.quick else (90.0, 40)
    workspace = await prepare_database(conninfo, "team", clock.new_id())
    catcher = UnreliableServer(clock, die)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(catcher, hostname="127.0.0.1", port=port, ready_timeout=60)
    await asyncio.to_thread(controller.start)
    crew = Crew((
        sys.executable, "-m", "proofs.notify_worker", conninfo, workspace, str(port),
        str(began_ms), str(SPEED),
    ))  # fmt: skip
    try:
        async with open_database(conninfo, workspace) as database:
            for _ in range(3):
                crew.hire()
            for process in crew.processes:
                assert process.stdout is not None
                await asyncio.to_thread(process.stdout.readline)
            trees, quiet = await _invite(database, clock)
            added = await _add_and_kill(database, trees, clock, die, crew, span_s, kills)
            # What is still to be sent is sent by workers that live, to a server that works.
            catcher.is_calm = True
            missing = await _wait_for(catcher, added)
            await _judge(proof, catcher, crew, trees, quiet, added, missing)
    finally:
        crew.dismiss()
        controller.stop()


async def _invite(
    database: Database, clock: QuickClock
) -> tuple[dict[str, Tree], dict[str, tuple[Timestamp, Timestamp]]]:
    """Return the trees of people, each with preferences of their own, and their quiet hours."""
    trees: dict[str, Tree] = {}
    quiet: dict[str, tuple[Timestamp, Timestamp]] = {}
    for name in PEOPLE:
        tree = tree_on(database, Settings(NO_HOME, user=name), clock)
        preferences: dict[str, Json] = {"digest_interval": "1m"}
        if name != PLAIN:
            preferences |= {"notification_channel": "email", "email": f"{name}@example.org"}
        if (zone := QUIET_ZONES.get(name)) is not None:
            minute = unix_ms(clock.now()) // MINUTE_MS
            begins, ends = (instant((minute + one) * MINUTE_MS) for one in QUIET_MIN)
            hours = "-".join(_clock_face(one, zone) for one in (begins, ends))
            preferences |= {"quiet_hours": hours, "time_zone": zone}
            quiet[name] = begins, ends
        await tree.programs.create("human", name, {"preferences": preferences})
        trees[name] = tree
    return trees, quiet


QUIET_ZONES: Mapping[str, str] = {"cleo": "UTC", "dov": "Asia/Kolkata"}
QUIET_MIN = (2, 7)
"""The minutes of the quick clock, after people were invited, in which quiet hours begin and end."""


def _clock_face(at: Timestamp, zone: str) -> str:
    return f"{datetime.fromisoformat(at).astimezone(ZoneInfo(zone)):%H:%M}"


async def _add_and_kill(
    database: Database,
    trees: Mapping[str, Tree],
    clock: QuickClock,
    die: random.Random,
    crew: Crew,
    span_s: float,
    kills: int,
) -> Counter[str]:
    """Add notices for people and kill workers; return how many each person got."""
    added: Counter[str] = Counter()
    began = time.monotonic()
    while (passed := time.monotonic() - began) < span_s:
        name = die.choice(PEOPLE)
        # Two at a time, so that each mail could have several however few a busy machine adds.
        for by in ("human:ana", "agent:atlas"):
            text, at = f"secret-{name}-{added[name]}", clock.now()
            await database.fetch(ADD, person=f"human:{name}", text=text, at=at, by=by)
            added[name] += 1
        if name == READER:
            await trees[READER].inbox.read()
        if crew.killed < kills and passed > span_s * crew.killed / kills:
            await asyncio.to_thread(crew.kill, die)
        # Fewer than the limit of a sender in all: what is displaced is not mailed.
        await asyncio.sleep(die.random() * span_s * len(PEOPLE) / (UNREAD_MAX * 3))
    while crew.killed < kills:
        await asyncio.to_thread(crew.kill, die)
    return added


async def _wait_for(catcher: UnreliableServer, added: Mapping[str, int]) -> int:
    """Wait until all that has to leave was accepted; return how much never was."""
    wanted = {
        (name, str(number))
        for name, count in added.items() if name not in (GONE, READER, PLAIN)
        for number in range(count)
    }  # fmt: skip
    until = time.monotonic() + PATIENCE_S
    missing = wanted
    while missing and time.monotonic() < until:
        missing = wanted - {
            token for one in catcher.taken if one.is_accepted for token in one.tokens
        }
        await asyncio.sleep(0.1)
    return len(missing)


async def _judge(
    proof: Proof,
    catcher: UnreliableServer,
    crew: Crew,
    trees: Mapping[str, Tree],
    quiet: Mapping[str, tuple[Timestamp, Timestamp]],
    added: Counter[str],
    missing: int,
) -> None:
    accepted = [one for one in catcher.taken if one.is_accepted]
    ids: dict[tuple[str, str], set[str]] = {}
    for one in accepted:
        for token in one.tokens:
            ids.setdefault(token, set()).add(one.id)
    mails = {one.id: one for one in reversed(accepted)}
    answers = Counter(one.answer for one in catcher.taken)
    proof.note("notices", sum(added.values()), "notices")
    for answer, count in sorted(answers.items()):
        proof.note(f"mails that the server answered with: {answer}", count, "mails")
    proof.at_least("workers killed without warning", crew.killed, "kills", 4)
    proof.at_most("notices that were never mailed", missing, "notices", 0)
    doubled = sum(len(one) > 1 for one in ids.values())
    proof.at_most("notices under more than one Message-ID", doubled, "notices", 0)
    proof.note("mails that came again, under the same one", len(accepted) - len(mails), "mails")
    held = sum(
        unix_ms(quiet[one.to][0]) + LATE_S * 1000 <= unix_ms(one.at) < unix_ms(quiet[one.to][1])
        for one in catcher.taken
        if one.to in quiet
    )
    proof.at_most("mails in quiet hours", held, "mails", 0)
    gaps = [
        (unix_ms(later.at) - unix_ms(earlier.at)) / 1000
        for name in PEOPLE
        for earlier, later in pairwise(
            sorted((one for one in mails.values() if one.to == name), key=lambda one: one.at)
        )
    ]
    proof.at_least("time between two mails to a person", min(gaps, default=60), "s of theirs", 60)
    proof.at_most("mails for each hundred notices", 100 * len(mails) / len(ids), "mails", 60)
    others = sum(person != one.to for one in catcher.taken for person, _ in one.tokens)
    proof.at_most("notices in mails to another person", others, "notices", 0)
    read = sum(one.to in (READER, PLAIN) for one in catcher.taken)
    proof.at_most("mails to who reads at once, or wants none", read, "mails", 0)
    rejected = Counter(one.id for one in catcher.taken if one.answer == "550 gone")
    proof.at_least("attempts to an address that is rejected", max(rejected.values()), "of 3", 3)
    proof.at_most("attempts of one mail to it", max(rejected.values()), "attempts", 3)
    # A worker records the last answer after the server has counted it.
    failed, until = await trees[GONE].inbox.list_failed(), time.monotonic() + PATIENCE_S
    while not failed and time.monotonic() < until:
        await asyncio.sleep(0.1)
        failed = await trees[GONE].inbox.list_failed()
    proof.at_least("its person sees that", len(failed), "of 1", 1)
    seen = 0
    for name, tree in trees.items():
        rows = await tree.programs.store.database.fetch(b"SELECT person FROM turntree.notices")
        seen += sum(person != f"human:{name}" for (person,) in rows)
    proof.at_most("notices that another person can read", seen, "notices", 0)


async def tell(conninfo: str, name: str) -> list[str]:
    """Tell the story in a workspace of its own; return what went otherwise than it should."""
    clock = FakeClock(tick_ms=0)
    workspace = await prepare_database(conninfo, name, SystemClock().new_id())
    async with open_database(conninfo, workspace) as database:
        return await Story(database, clock).tell()


class StoppedError(BaseException):
    """The worker was killed after it had sent a mail. No handler survives it."""


@dataclass(slots=True)
class Story:
    """People who are told things, and a worker that sends them on, step by step."""

    database: Database
    clock: FakeClock
    sent: list[tuple[str, tuple[str, ...]]] = field(
        default_factory=list[tuple[str, tuple[str, ...]]]
    )
    answers: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])

    async def tell(self) -> list[str]:
        """Take each step, and return the complaints."""
        everything = self.database.seen_by(EVERYTHING)
        sender = NoticeSender(everything, self.clock, {EMAIL: self._send})
        store = DeliveryStore(everything, (EMAIL,))
        here = partial(sender.look_in, self.database, "told")
        bob = tree_on(self.database, Settings(NO_HOME, user="bob"), self.clock)
        preferences: dict[str, Json] = {
            "notification_channel": "email", "email": "bob@example.org", "digest_interval": "1h",
        }  # fmt: skip
        await bob.programs.create("human", "bob", {"preferences": preferences})

        await self._add("one")
        self.clock.ms += 10 * MINUTE_MS
        await here()
        self._expect("a mail with what is unread", [("one",)])
        await self._add("two")
        self.clock.ms += 10 * MINUTE_MS
        await here()
        self._expect("no other one within the hour", [])
        (waiting,) = await store.list_waiting()
        if await store.begin(replace(waiting, last=None), "early", at=self.clock.now()):
            self.complaints.append("a worker that saw no other mail begins one")

        self.clock.ms += HOUR_MS
        self.answers = ["refused"]
        await here()
        self._expect("an attempt that is refused", [("two",)])
        await self._add("three")
        await bob.inbox.read([one.id for one in await bob.inbox.list_page() if one.text == "two"])
        self.clock.ms += HOUR_MS
        for _ in range(2):
            await here()
        self._expect("what was read is withdrawn", [("three",)])
        await bob.inbox.read()
        self.clock.ms += HOUR_MS
        await here()
        self._expect("nothing more", [])

        await self._add("four")
        self.clock.ms += HOUR_MS
        self.answers = ["killed"]
        try:
            await here()
        except* StoppedError:
            pass
        self.clock.ms += MINUTE_MS
        await here()
        self._expect("a claim that lasts", [("four",)])
        self.clock.ms += HOUR_MS
        due = await store.list_due(limit=9, at=self.clock.now())
        again = [await store.claim(one, at=self.clock.now()) for _worker in range(2) for one in due]
        if sum(one is not None for one in again) != 1:
            self.complaints.append("two workers send one delivery")

        for number in range(UNREAD_MAX + 10):
            await self._add(f"flood {number}", by="human:eve")
        if "four" not in {one.text for one in await bob.inbox.list_page(limit=200)}:
            self.complaints.append("a flood hides the notice of another sender")
        ana = self.database.seen_by(Sight("human:ana"))
        if await ana.fetch(b"SELECT id FROM turntree.notices"):
            self.complaints.append("another person reads notices")
        return self.complaints

    async def _add(self, text: str, by: str = "human:ana") -> None:
        await self.database.fetch(ADD, person="human:bob", text=text, at=self.clock.now(), by=by)
        self.clock.ms += 1

    async def _send(
        self, delivery: Delivery, claim: Claim, source: DeliverySource
    ) -> DeliveryAttempt:
        del source
        self.sent.append((delivery.id, tuple(one.text for one in claim.notices)))
        match self.answers.pop(0) if self.answers else "delivered":
            case "killed":
                raise StoppedError
            case "refused":
                return DeliveryAttempt("refused", "later")
            case _:
                return DeliveryAttempt("delivered")

    def _expect(self, what: str, wanted: Sequence[tuple[str, ...]]) -> None:
        found = [texts for _, texts in self.sent]
        if found != [*wanted]:
            self.complaints.append(f"{what}: {found}")
        self.sent.clear()


if __name__ == "__main__":
    run(prove, __doc__ or "")
