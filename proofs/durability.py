"""Durability: nothing acknowledged is ever lost, doubled or reordered, and every reader agrees.

Six drills, each ending with ``fsck``. The ledger walks beside a model of itself; two writers meet
in every order of their statements; a crowd writes into one session; writers are killed at every
statement; the server is stopped under load without warning; and bugs planted on purpose must be
found by the very checks that find nothing otherwise.

``--quick`` ends within a minute, ``--drill`` takes a million steps.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from proofs.drills import plants
from proofs.drills.audit import audit_session, read_thread
from proofs.drills.crowd import Crowd, gather, write, write_in_processes, write_through_stops
from proofs.drills.history import Ack, judge_appends
from proofs.drills.kills import kill_everywhere
from proofs.drills.pairs import PAIRS, explore
from proofs.drills.processes import workers
from proofs.drills.walk import Walked, take_walk
from proofs.figures import DURABLE, Proof, temporary_server
from turntree.core.errors import TurntreeError
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, open_database, prepare_database
from turntree.db.embedded.server import EmbeddedServer
from turntree.integrity.fsck import fsck

# What the walk writes may vanish with the machine; what it compares is read back at once.
FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
WALK_LENGTHS = (250, 500, 1250)
"""Short walks fail early and are easy to read; long ones nest forks deeply."""
WALKERS = 2
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is done."""

    steps: int
    crowd_turns_each: int
    stops: int


QUICK = Extent(steps=8_000, crowd_turns_each=8, stops=3)
USUAL = Extent(steps=100_000, crowd_turns_each=40, stops=10)
DRILL = Extent(steps=1_000_000, crowd_turns_each=200, stops=100)


def main() -> int:
    """Run the proof and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    extents = parser.add_mutually_exclusive_group()
    extents.add_argument("--quick", action="store_true", help="end within 60 s")
    extents.add_argument("--drill", action="store_true", help="a million steps")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="of the walk")
    parser.add_argument("--only", help="the drills whose name contains this word")
    asked = parser.parse_args()
    extent = QUICK if asked.quick else DRILL if asked.drill else USUAL
    proof = Proof(asked.quick, asked.seed, asked.only)
    drills = Drills(proof, extent)
    with temporary_server(FORGETFUL) as (conninfo, _):
        drills.on_any_server(conninfo)
    with temporary_server(DURABLE) as (conninfo, folder):
        drills.on_a_careful_server(conninfo, folder)
    return proof.conclude()


@dataclass(slots=True)
class Drills:
    """The six, and what they found."""

    proof: Proof
    extent: Extent

    def on_any_server(self, conninfo: str) -> None:
        """Run what needs no disk."""
        if self.proof.wants("walk"):
            self.walk(conninfo)
        if self.proof.wants("interleavings"):
            self.interleave(conninfo)
        if self.proof.wants("plants"):
            self.find_plants(conninfo)

    def on_a_careful_server(self, conninfo: str, folder: Path) -> None:
        """Run what must be on the disk when it is acknowledged."""
        if self.proof.wants("crowd"):
            self.crowd(conninfo)
        if self.proof.wants("kills"):
            self.kill(conninfo)
        if self.proof.wants("stops"):
            self.stop(conninfo, folder)

    def walk(self, conninfo: str) -> None:
        """Walk beside the model, from several processes."""
        self.proof.note("walk: seed", self.proof.seed, "")
        say(f"walk: {self.extent.steps} steps from seed {self.proof.seed}")
        database = anyio.run(_fresh, conninfo, "walk")
        began, steps, problems = time.monotonic(), 0, list[str]()
        with workers(WALKERS) as pool:
            lengths = _lengths(self.extent.steps)
            futures = [
                pool.submit(_walk, database, self.proof.seed + number, length)
                for number, length in enumerate(lengths)
            ]
            for future in as_completed(futures):
                walked = future.result()
                steps += walked.steps
                problems += walked.problems
                say(f"walk: {steps} steps, {steps / (time.monotonic() - began):.0f} a second")
        self.proof.note("walk: speed", steps / (time.monotonic() - began), "steps/s")
        self._show("walk: differences from the model, fsck included", problems)
        self.proof.at_least("walk: steps", steps, "steps", self.extent.steps)

    def interleave(self, conninfo: str) -> None:
        """Let two writers meet in every order."""
        database = anyio.run(_fresh, conninfo, "interleavings")
        explored = anyio.run(explore, database)
        for pair in explored:
            say(f"interleavings: {pair.pair}: {pair.orders} orders")
        problems = [problem for pair in explored for problem in pair.problems]
        self._show("interleavings: orders that went wrong", problems)
        orders = sum(pair.orders for pair in explored)
        self.proof.at_least("interleavings: orders tried", orders, "orders", 2 * len(PAIRS))
        self._fsck("interleavings", database, "interleavings")

    def crowd(self, conninfo: str) -> None:
        """Let 32 writers append to one session."""
        database = anyio.run(_fresh, conninfo, "crowd")
        crowd = anyio.run(_gather, database, "crowd", 32)
        crowd = replace(crowd, turns_each=self.extent.crowd_turns_each)
        say(f"crowd: {crowd.writers} writers of {crowd.turns_each} turns")
        acks, refusals = list[Ack](), list[str]()
        began = time.monotonic()
        try:
            acks = write_in_processes(crowd)
        except* TurntreeError as errors:
            # Each writer waits for its turn; without the lock, the server ends some by force.
            refusals = [str(error) for error in errors.exceptions]
        self._show("crowd: writers that were refused", refusals)
        self.proof.note("crowd: turns", len(acks) / (time.monotonic() - began), "turns/s")
        self._judge("crowd", crowd, acks)
        wanted = crowd.writers * self.extent.crowd_turns_each
        self.proof.at_least("crowd: turns acknowledged", len(acks), "turns", wanted)

    def kill(self, conninfo: str) -> None:
        """Kill a writer at every statement."""
        database = anyio.run(_fresh, conninfo, "kills")
        killed = anyio.run(kill_everywhere, database)
        self._show("kills: points after which something is lost or doubled", killed.problems)
        self.proof.at_least("kills: points tried", killed.points, "points", 28)
        self._fsck("kills", database, "kills")

    def stop(self, conninfo: str, folder: Path) -> None:
        """Stop the server under six writers, again and again."""
        database = anyio.run(_fresh, conninfo, "stops")
        crowd = anyio.run(_gather, database, "stops", 6)
        say(f"stops: {self.extent.stops} immediate stops under {crowd.writers} writers")
        server = EmbeddedServer(folder / "home", DURABLE)
        acks = write_through_stops(crowd, server, folder, self.extent.stops)
        self._judge("stops", crowd, acks)
        self.proof.at_least("stops: turns acknowledged", len(acks), "turns", self.extent.stops)

    def find_plants(self, conninfo: str) -> None:
        """Plant bugs and look for them."""
        found = {
            plants.LOST_UPDATE: anyio.run(_find_lost_update, conninfo),
            plants.OFF_BY_ONE: anyio.run(_find_off_by_one, conninfo),
            plants.MISSING_LOCK: anyio.run(_find_missing_lock, conninfo),
        }
        for plant, problems in found.items():
            say(f"plants: {plant.name}: {len(problems)} found, such as {problems[:1]}")
        count = sum(1 for problems in found.values() if problems)
        self.proof.at_least("plants: bugs found", count, "bugs", len(plants.PLANTS))

    def _judge(self, name: str, crowd: Crowd, acks: Sequence[Ack]) -> None:
        problems = anyio.run(_judged, crowd, acks)
        self._show(f"{name}: turns lost, doubled or out of order", problems)
        self._fsck(name, crowd.conninfo, "crowds")

    def _fsck(self, name: str, conninfo: str, workspace: str) -> None:
        self._show(f"{name}: fsck findings", anyio.run(_fsck_findings, conninfo, workspace))

    def _show(self, figure: str, problems: Sequence[str]) -> None:
        for problem in problems[:SHOWN_MAX]:
            say(f"  {problem}")
        self.proof.at_most(figure, len(problems), "problems", 0)


def say(words: str) -> None:
    """Tell whoever watches how far it has come."""
    print(words, file=sys.stderr, flush=True)


def _lengths(steps: int) -> Iterable[int]:
    for length in itertools.cycle(WALK_LENGTHS):
        if steps <= 0:
            return
        yield min(length, steps)
        steps -= length


def _walk(conninfo: str, seed: int, steps: int) -> Walked:
    return anyio.run(take_walk, conninfo, seed, steps)


async def _fresh(conninfo: str, name: str) -> str:
    """Return a database that is empty and up to date."""
    database = await ensure_database(conninfo, f"drill_{name}")
    await prepare_database(database, "first", "00000000-0000-7000-8000-000000000001")
    return database


async def _gather(conninfo: str, name: str, writers: int) -> Crowd:
    return await gather(conninfo, name=name, writers=writers)


async def _judged(crowd: Crowd, acks: Sequence[Ack]) -> list[str]:
    async with open_database(
        crowd.conninfo, crowd.workspace, connections_max=2, sight=EVERYTHING
    ) as database:
        thread = [placed.turn.id for placed in await read_thread(database, crowd.session)]
        return judge_appends(acks, thread) + await audit_session(database, crowd.session)


async def _fsck_findings(conninfo: str, name: str) -> list[str]:
    workspace = await prepare_database(conninfo, name, "")
    return await _findings(conninfo, workspace)


async def _findings(conninfo: str, workspace: WorkspaceId) -> list[str]:
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        return [f"{f.invariant} {f.sentence}: {f.subject}" for f in await fsck(database)]


async def _find_lost_update(conninfo: str) -> list[str]:
    database = await _fresh(conninfo, "lost_update")
    await plants.install(database, plants.LOST_UPDATE)
    crowd = await gather(database, name="lost", writers=8)
    crowd = replace(crowd, turns_each=5, is_patient=True)
    return await _judged(crowd, await write(crowd))


async def _find_off_by_one(conninfo: str) -> list[str]:
    database = await _fresh(conninfo, "off_by_one")
    await plants.install(database, plants.OFF_BY_ONE)
    return list((await take_walk(database, seed=1, steps=WALK_LENGTHS[0])).problems)


async def _find_missing_lock(conninfo: str) -> list[str]:
    database = await _fresh(conninfo, "missing_lock")
    await plants.install(database, plants.MISSING_LOCK)
    (explored,) = await explore(database, PAIRS[:1])
    return list(explored.problems)


if __name__ == "__main__":
    sys.exit(main())
