"""The claim: a message that was taken in becomes a turn, whatever is killed on the way.

Workers are processes of their own, on DBOS and a careful PostgreSQL. Messages are sent to many
sessions while workers are killed without warning and the database is stopped without warning. What
counts afterwards: every turn sealed once, every session one chain in the order of sending, no gap
in any journal, every call that nobody finished ended as interrupted, every difference from a calm
run explained by an interruption that was recorded, no deed done twice, and nothing for ``fsck`` to
find.
"""

import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread

from proofs.chaos_audit import Audit, Sent, Verdict, calm_replies
from proofs.chaos_worker import DEEDS
from proofs.figures import DURABLE, Proof, run, temporary_server
from turntree.core.errors import NotFound, TurntreeError
from turntree.core.ids import Label, RunId, SessionId, TurnId, WorkspaceId
from turntree.core.message import user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import (
    Database,
    ensure_database,
    open_database,
    prepare_database,
    sqlalchemy_url,
)
from turntree.db.embedded.server import EmbeddedServer
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.runs.engines.dbos import open_dbos
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkerStore
from turntree.system.clock import SystemClock

TEXTS = ("hello", "tool", "risk", "tools risk", "tool risk tools", "broken", "risk risk", "wide")
BY = "human:ana"
RETRY_S = 0.2
READY_MAX_S = 60.0
WORKING_MIN = 2
DEED_MAX_S = 3.0
"""So long is waited for somebody to kill in the middle of a deed."""
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is sent, and how much is killed."""

    workers: int
    sessions: int
    turns: int
    kills: int
    stops: int
    span_s: float
    """Over how long all of it is spread."""
    patience_s: float
    """How long after that the last turn may take."""
    lost: int
    """So many calls at least must have been cut off, or nothing was shown."""


QUICK = Extent(
    workers=3, sessions=8, turns=3, kills=4, stops=1, span_s=10.0, patience_s=30.0, lost=1
)
FULL = Extent(
    workers=3, sessions=50, turns=10, kills=32, stops=3, span_s=150.0, patience_s=300.0, lost=10
)


async def prove(proof: Proof) -> None:
    """Send, kill, wait, and look at what is left."""
    extent = QUICK if proof.quick else FULL
    with temporary_server(DURABLE) as (server, folder):
        conninfo = await ensure_database(server, "chaos")
        workspace = await prepare_database(conninfo, "chaos", SystemClock().new_id())
        calm = await prepare_database(conninfo, "calm", SystemClock().new_id())
        async with open_database(conninfo, calm, connections_max=3, sight=EVERYTHING) as database:
            replies = await calm_replies(database, TEXTS)
        chance = random.Random(proof.seed)
        crew = Crew(conninfo, workspace, folder, chance)
        drill = Drill(extent, EmbeddedServer(folder / "home", DURABLE), crew, chance)
        try:
            sent, spent_s = await drill.run()
        finally:
            await anyio.to_thread.run_sync(crew.dismiss)
        async with open_database(
            conninfo, workspace, connections_max=4, sight=EVERYTHING
        ) as database:
            verdict = await Audit(database, replies, folder / DEEDS).judge(sent)
        show(proof, extent, verdict, (crew.killed, drill.stopped), spent_s)


def show(
    proof: Proof, extent: Extent, verdict: Verdict, chaos: tuple[int, int], spent_s: float
) -> None:
    """Show what counts."""
    wanted = extent.sessions * extent.turns
    killed, stopped = chaos
    proof.note("seed", proof.seed, "")
    proof.at_least("workers killed without warning", killed, "kills", extent.kills)
    proof.at_least("the database stopped without warning", stopped, "stops", extent.stops)
    proof.at_least("turns sealed", verdict.turns, f"of {wanted}", wanted)
    proof.at_least("calls that were interrupted", verdict.interruptions, "calls", extent.lost)
    proof.note("events", verdict.events, "events")
    proof.note("from the last message to the last turn", spent_s, "s")
    proof.at_most("the longest silence within a run", verdict.silence_s, "s", 30, of="time")
    for figure, problems in (
        ("messages without a turn", verdict.unsealed),
        ("sessions that are no chain in the order of sending", verdict.chains),
        ("journals with a gap", verdict.gaps),
        ("calls that did not end as they should", verdict.unfinished),
        ("differences that no interruption explains", verdict.differences),
        ("deeds done twice, or said to be done and not done", verdict.deeds),
        ("what fsck finds", verdict.findings),
    ):
        for problem in problems[:SHOWN_MAX]:
            say(f"  {problem}")
        proof.at_most(figure, len(problems), "problems", 0)


@dataclass(slots=True)
class Crew:
    """The workers of the drill, of which some are always being replaced."""

    conninfo: str
    workspace: WorkspaceId
    folder: Path
    chance: random.Random
    killed: int = 0
    _numbers: "count[int]" = field(default_factory=count)
    _hired: dict[str, "subprocess.Popen[bytes]"] = field(
        default_factory=dict[str, "subprocess.Popen[bytes]"]
    )

    def hire(self) -> None:
        """Start a worker under a name that nobody ever had."""
        name = f"worker-{next(self._numbers)}"
        with (self.folder / f"{name}.log").open("wb") as log:
            self._hired[name] = subprocess.Popen(
                [
                    sys.executable, "-m", "proofs.chaos_worker",
                    self.conninfo, self.workspace, name, str(self.folder),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def kill(self, busy: Sequence[str]) -> None:
        """Kill a worker that works, one of the busy if there is one; hire another."""
        working = [name for name in self._hired if self._works(name)]
        chosen = [name for name in working if name in busy] or working
        process = self._hired.pop(self.chance.choice(chosen))
        process.kill()
        process.wait()
        self.killed += 1
        self.hire()

    def wait_for_two(self) -> None:
        """Return when somebody would be left to take over from whoever is killed."""
        while sum(self._works(name) for name in self._hired) < WORKING_MIN:
            # Whoever is hired while the database is away goes at once.
            for name in [name for name in self._hired if self._hired[name].poll() is not None]:
                del self._hired[name]
                self.hire()
            time.sleep(0.05)

    def wait_until_ready(self) -> None:
        """Return when everybody works."""
        until = time.monotonic() + READY_MAX_S
        while not all(self._works(name) for name in self._hired):
            assert time.monotonic() < until, self.last_words()
            time.sleep(0.05)

    def dismiss(self) -> None:
        """Let everybody finish and leave."""
        for process in self._hired.values():
            process.terminate()
        for process in self._hired.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def last_words(self) -> str:
        """Return the end of what each worker said."""
        logs = (self.folder / f"{name}.log" for name in self._hired)
        return "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)

    def _works(self, name: str) -> bool:
        said = (self.folder / f"{name}.log").read_bytes()
        return self._hired[name].poll() is None and b"ready" in said


@dataclass(slots=True)
class Drill:
    """Sends, kills and stops at random moments of a span."""

    extent: Extent
    server: EmbeddedServer
    crew: Crew
    chance: random.Random
    stopped: int = 0

    async def run(self) -> tuple[Mapping[SessionId, Sequence[Sent]], float]:
        """Return what was sent, and how long the last turn took after the last message."""
        for _ in range(self.extent.workers):
            await anyio.to_thread.run_sync(self.crew.hire)
        await anyio.to_thread.run_sync(self.crew.wait_until_ready)
        say("the crew works")
        workspace, conninfo = self.crew.workspace, self.crew.conninfo
        async with (
            open_database(conninfo, workspace, sight=EVERYTHING) as database,
            open_dbos(sqlalchemy_url(conninfo), workspace) as engine,
        ):
            inbox = InboxStore(database, engine)
            sender = Sender(database, inbox, self.extent, self.chance, self.crew)
            watch = Watch(WorkerStore(database, engine), Ledger(database))
            sent = await sender.begin()
            async with anyio.create_task_group() as group:
                for session in sent:
                    group.start_soon(sender.send, session, sent[session])
                group.start_soon(self._kill, watch)
                group.start_soon(self._stop)
            began = time.monotonic()
            await self._wait(database, sent)
            return sent, time.monotonic() - began

    async def _kill(self, watch: "Watch") -> None:
        pause_s = self.extent.span_s / self.extent.kills
        for _ in range(self.extent.kills):
            await anyio.sleep(pause_s * self.chance.random())
            await anyio.to_thread.run_sync(self.crew.wait_for_two)
            await anyio.to_thread.run_sync(self.crew.kill, await watch.find_doers())
            say(f"killed {self.crew.killed}")

    async def _stop(self) -> None:
        pause_s = self.extent.span_s / (self.extent.stops + 1)
        for _ in range(self.extent.stops):
            await anyio.sleep(pause_s)
            self.stopped += await anyio.to_thread.run_sync(
                lambda: self.server.stop(mode="immediate")
            )
            await anyio.to_thread.run_sync(self.server.ensure_running)
            say(f"stopped the database, {self.stopped}")

    async def _wait(self, database: Database, sent: Mapping[SessionId, Sequence[Sent]]) -> None:
        threads = ThreadStore(database)
        missing = [message for messages in sent.values() for message in messages]
        with anyio.move_on_after(self.extent.patience_s):
            while missing:
                try:
                    await threads.get_turn(TurnId(missing[-1].run))
                except NotFound:
                    await anyio.sleep(RETRY_S)
                except TurntreeError as error:
                    say(f"not yet: {error}")
                    await anyio.sleep(RETRY_S)
                else:
                    missing.pop()
        if missing:
            say(f"{len(missing)} are missing\n{self.crew.last_words()}")


@dataclass(frozen=True, slots=True)
class Watch:
    """Looks who is in the middle of something that cannot be repeated."""

    workers: WorkerStore
    ledger: Ledger

    async def find_doers(self) -> list[str]:
        """Return workers whose deed has begun and not ended; nobody, if none does for a while."""
        with anyio.move_on_after(DEED_MAX_S):
            while True:
                try:
                    for opened in await self.workers.list_open():
                        facts = await self.ledger.facts(opened.run)
                        if facts and facts[-1].event.data.get("tool") == "append":
                            return [str(opened.worker)]
                except TurntreeError:
                    pass  # The database has just been stopped.
                await anyio.sleep(0.02)
        return []


@dataclass(frozen=True, slots=True)
class Sender:
    """Whoever sends the messages, and does not give up."""

    database: Database
    inbox: InboxStore
    extent: Extent
    chance: random.Random
    crew: Crew

    async def begin(self) -> dict[SessionId, list[Sent]]:
        """Begin the sessions; nothing was sent to them yet."""
        world, sessions = SystemClock(), SessionStore(self.database)
        sent: dict[SessionId, list[Sent]] = {}
        for number in range(self.extent.sessions):
            session = SessionId(world.new_id())
            await sessions.create(session, Label(f"session-{number}"), by=BY, at=world.now())
            sent[session] = []
        return sent

    async def send(self, session: SessionId, sent: list[Sent]) -> None:
        """Send messages to a session, each under a key, until it was taken in."""
        pause_s = self.extent.span_s / self.extent.turns
        for number in range(self.extent.turns):
            await anyio.sleep(pause_s * self.chance.random())
            # There is always something to do when somebody is killed.
            while self.crew.killed < self.extent.kills * number // self.extent.turns:  # noqa: ASYNC110
                await anyio.sleep(RETRY_S)
            text = self.chance.choice(TEXTS)
            posted = await self._post(session, text, f"{session} {number}")
            sent.append(Sent(posted, text))

    async def _post(self, session: SessionId, text: str, key: str) -> RunId:
        at = SystemClock().now()
        while True:
            try:
                posted = await self.inbox.post(session, user(text), by=BY, at=at, key=key)
            except TurntreeError:
                # It may have been taken in or not; under the key it is sent once.
                await anyio.sleep(RETRY_S)
            else:
                return posted.run


def say(words: str) -> None:
    """Tell whoever watches how far it has come."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(prove, __doc__.partition("\n")[0])
