"""The claim: whatever dies on the way, a turn comes out as if nothing had died.

Random stories are told twice, each in a workspace of its own of a real database: once where all is
calm, and once where processes die before and after writes, in the middle of what a model says and
in tools, where another worker takes over from one that is only slow and comes back later or in the
middle of it, and where wake-ups are delivered twice. The two pictures (turns, events and moves, all
by their digests) must be equal, no session may be left awake, no worker that was overtaken may get
a write through, no other words may be taken in under a key in use, and ``fsck`` must find nothing.

Then faults are planted in the runtime itself, to see that stories would find them.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context

from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.run_stories import Scene, play, random_fates, random_story
from proofs.run_world import Fates, RunWorld, error_of
from turntree.core.ids import uuid7
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.db.shard import SLOTS
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import START_MS

FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
STORIES, STORIES_QUICK = 5000, 160
BATCH = 20
FSCK_EVERY = 10
DIFFERENCES_MAX = 10
"""After so many, what is wrong is plain, and no more stories are told."""
PLANT_STORIES = 60
PLANTS = (
    Plant(
        "a message that is sent again is taken in again",
        ((r"run_id, p_key, v_digest", "run_id, NULL, v_digest"),),
    ),
    Plant(
        "a run whose worker died is left alone",
        ((r"\(r\.status = 'open' OR r\.cancel_requested\)", "r.cancel_requested"),),
    ),
    Plant(
        "whoever falls asleep does not look for messages",
        ((r"AND x\.payload IS NOT NULL ORDER BY x\.seq LIMIT 1", "AND false"),),
    ),
    Plant(
        "a worker that was overtaken still records facts",
        ((r"ELSIF r\.epoch <> p_epoch THEN", "ELSIF false THEN"),),
    ),
    Plant(
        "a worker that was overtaken still seals the turn",
        ((r"AND epoch = p_epoch AND status <> 'finished'", "AND status <> 'finished'"),),
    ),
)


@dataclass(slots=True)
class Told:
    """What a number of stories showed."""

    stories: int = 0
    points: int = 0
    deaths: int = 0
    takeovers: int = 0
    late: int = 0
    mistakes: int = 0
    strays: list[str] = field(default_factory=list[str])
    differences: list[str] = field(default_factory=list[str])
    findings: list[str] = field(default_factory=list[str])
    examined: int = 0

    def add(self, other: "Told") -> None:
        """Count another's stories as well."""
        self.stories += other.stories
        self.points += other.points
        self.deaths += other.deaths
        self.takeovers += other.takeovers
        self.late += other.late
        self.mistakes += other.mistakes
        self.strays += other.strays
        self.differences += other.differences
        self.findings += other.findings
        self.examined += other.examined


async def prove(proof: Proof) -> None:
    """Tell stories in several processes."""
    numbers = range(proof.first, STORIES_QUICK if proof.quick else STORIES, BATCH)
    wanted = len(numbers) * BATCH
    with temporary_server(FORGETFUL) as (server, _):
        conninfo = await ensure_database(server, "stories")
        await prepare_database(conninfo, "first", uuid7(START_MS, 0))
        told = Told()
        began = time.monotonic()
        workers = min(os.cpu_count() or 1, 4)
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            batches = [
                pool.submit(tell_in_process, conninfo, proof.seed * 1_000_000 + first, BATCH)
                for first in numbers
            ]
            for batch in batches:
                told.add(await asyncio.wrap_future(batch))
                spent = time.monotonic() - began
                differ = len(told.differences) + len(told.findings) + len(told.strays)
                say(f"{told.stories} stories, {told.stories / spent:.1f} a second, {differ} differ")
                if differ >= DIFFERENCES_MAX:
                    pool.shutdown(cancel_futures=True)
                    break
        show(proof, told, wanted)
        await find_plants(proof, server)


async def find_plants(proof: Proof, server: str) -> None:
    """Plant faults, each in a database of its own, and look for them with stories."""
    for number, plant in enumerate(PLANTS):
        conninfo = await ensure_database(server, f"planted_{number}")
        await prepare_database(conninfo, "first", uuid7(START_MS, 0))
        await install(conninfo, plant)
        is_found = False
        for seed in range(PLANT_STORIES):
            # Some faults end a story instead of changing its picture.
            told = Told()
            is_found = await error_of(tell_into(told, conninfo, seed)) is not None
            if is_found := is_found or bool(told.differences or told.strays):
                break
        proof.at_least(f"planted and found: {plant.name}", int(is_found), "of 1", 1)


async def tell_into(told: Told, conninfo: str, seed: int) -> None:
    """Tell one story, and count it."""
    told.add(await tell(conninfo, seed, 1))


def show(proof: Proof, told: Told, wanted: int) -> None:
    """Show what the stories showed."""
    for problem in (*told.differences, *told.strays, *told.findings)[:DIFFERENCES_MAX]:
        say(problem)
    proof.note("seed", proof.seed, "")
    proof.at_least("stories told twice", told.stories, "stories", wanted)
    proof.at_least("processes that died", told.deaths, "deaths", wanted)
    proof.at_least("runs taken over from somebody who lived", told.takeovers, "runs", wanted / 4)
    proof.at_least("late writes while the next one was at work", told.late, "writes", wanted / 10)
    proof.at_least("messages under a key of others", told.mistakes, "messages", wanted)
    proof.at_most("of both, what got through", len(told.strays), "writes", 0)
    proof.note("points at which a process could have died", told.points, "points")
    proof.at_most("stories whose pictures differ", len(told.differences), "stories", 0)
    proof.at_least("workspaces examined", told.examined, "workspaces", wanted // FSCK_EVERY)
    proof.at_most("what fsck finds in them", len(told.findings), "findings", 0)


def tell_in_process(conninfo: str, seed: int, stories: int) -> Told:
    """Tell stories in a process of one's own."""
    return asyncio.run(tell(conninfo, seed, stories))


async def tell(conninfo: str, seed: int, stories: int) -> Told:
    """Tell random stories twice each, and compare."""
    told = Told()
    first = await prepare_database(conninfo, "first", uuid7(START_MS, 0))
    # The worlds share connections: a new one has to learn all functions again, which was a third of
    # what a story cost.
    async with open_database(conninfo, first, connections_max=3) as database:
        for number in range(seed, seed + stories):
            await tell_twice(told, database, number)
    return told


async def tell_twice(told: Told, database: Database, number: int) -> None:
    """Tell a random story twice, and count it."""
    chance = random.Random(number)
    story = random_story(chance)
    fates = random_fates(chance)
    calm = await new_world(database, f"calm {number}", Fates())
    expected = await play(calm, story)
    dying = await new_world(database, f"dying {number}", fates)
    found = await play(dying, story)
    if number % FSCK_EVERY == 0:
        told.examined += 1
        told.findings += [
            f"story {number}: {one.invariant} {one.sentence}: {one.subject}"
            for one in await fsck(dying.database)
        ]
    told.stories += 1
    told.points += fates.points
    told.deaths += fates.deaths
    told.takeovers += fates.takeovers
    told.late += fates.late
    told.mistakes += dying.mistakes
    told.strays += [f"story {number}: {stray}" for stray in dying.strays]
    if found != expected or expected["awake"] or expected["forgotten"]:
        told.differences.append(f"story {number} differs: {describe(story)}")


_workspaces = count(1)


async def new_world(database: Database, name: str, fates: Fates) -> RunWorld:
    """Return a workspace in which nothing has happened yet."""
    # The name of a workspace decides the last bits of its id.
    number = (os.getpid() * 1_000_000 + next(_workspaces)) * SLOTS
    workspace = await prepare_database(database.conninfo, name, uuid7(START_MS, number))
    return RunWorld(database.in_workspace(workspace).seen_by(EVERYTHING), fates)


def describe(story: Sequence[Scene]) -> str:
    """Return a story in one line."""
    return "; ".join(str(scene) for scene in story)


def say(words: str) -> None:
    """Tell whoever watches how far it has come."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(prove, __doc__.partition("\n")[0], numbers="stories")
