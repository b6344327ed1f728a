"""That a plan ends in the new world or leaves the old one, wherever its process dies.

Worlds are drawn by a seed, each with one plan: a rewind, a replay, an undo or a fork, over folders,
files and things that cannot be brought back. The process that carries it out dies before or after
one of its writes or of its calls of a keeper, or in the middle of bringing files back; sometimes
the one that comes to clear up dies too. Then another one reconciles, and what is there is compared
with how the world before and the world after look: files and their modes, the session's head, what
is attached to whom. Every step must have its events, and fsck must find nothing.

The same comparison is made with a saga that takes nothing back. It has to be caught.
"""

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from proofs.figures import Proof, run, temporary_server
from proofs.mortals import Moment, Mortal, in_hands_of
from proofs.plan_world import TASKS, Task, World
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import NotFound
from turntree.core.event import Event
from turntree.core.ids import Timestamp
from turntree.core.ref import ExtRef
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.integrity.fsck import fsck
from turntree.resources.driver import ResourceDriver
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.drivers.file import FileDriver
from turntree.resources.plans.fork import ForkPlan
from turntree.resources.plans.plan import PlanState, fold, needs_undoing
from turntree.resources.plans.restore import RestorePlan
from turntree.resources.plans.service import Plans
from turntree.resources.plans.step_executor import StepExecutor
from turntree.resources.plans.steps import Commit, ForkResource, Plan, RestoreResource, TakeSnapshot
from turntree.testing.copy_driver import CopyDriver
from turntree.testing.fakes import Crash, FakeClock

HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""It is processes that die here, not machines."""
MOMENTS: tuple[Moment, ...] = ("before", "within", "after")
SECOND_DEATHS = 0.3


@dataclass(slots=True)
class Tally:
    """What was seen."""

    plans: int = 0
    deaths: int = 0
    second_deaths: int = 0
    old: int = 0
    new: int = 0
    mixed: list[str] = field(default_factory=list[str])
    untold: list[str] = field(default_factory=list[str])
    died_at: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class Stage:
    """Where worlds are made: one ledger, one shadow store, one clock."""

    tree: Tree
    folder: Path
    seed: int
    forgetful: bool = False
    """Whether nothing is ever taken back."""
    worlds: int = 0
    tally: Tally = field(default_factory=Tally)

    async def play(self, seed: int, task: Task, at: int | None, moment: Moment) -> bool:
        """Carry a plan out and die at a deed, or at any; return whether anybody died."""
        self.worlds += 1
        world = World(self.tree, self.folder / str(self.worlds), seed, self.worlds, task)
        plan = await world.build()
        draw = random.Random(f"{self.seed}/{self.worlds}")
        chosen = draw.randint(1, deeds_of(plan.plan)) if at is None else at
        first = Mortal(f"first-{self.worlds}", chosen, moment)
        died = not await self._survives(plan, first)
        if died and draw.random() < SECOND_DEATHS:
            second = Mortal(f"second-{self.worlds}", draw.randint(1, 10), draw.choice(MOMENTS))
            self.tally.second_deaths += not await self._reconciles(second)
        assert await self._reconciles(Mortal(f"last-{self.worlds}")), "nobody kills the last one"
        await self._judge(world, plan)
        self.tally.plans += 1
        if died:
            self.tally.deaths += 1
            self.tally.died_at[f"{moment} {first.died_at}"] += 1
        world.clear()
        return died

    async def _survives(self, plan: ForkPlan | RestorePlan, mortal: Mortal) -> bool:
        try:
            await self._plans(mortal).carry_out(plan)
        except Crash:
            return False
        return True

    async def _reconciles(self, mortal: Mortal) -> bool:
        try:
            await self._plans(mortal).reconcile()
        except Crash:
            return False
        return True

    def _plans(self, mortal: Mortal) -> Plans:
        plans = in_hands_of(self.tree.plans, mortal)
        if not self.forgetful:
            return plans
        hands = plans.saga.hands
        lazy = Forgetful(
            hands.resources, hands.attachments, hands.ledger, hands.keepers, hands.host, hands.world
        )
        return replace(plans, saga=replace(plans.saga, hands=lazy))

    async def _judge(self, world: World, plan: ForkPlan | RestorePlan) -> None:
        """Say which world it is, and whether the events say the same."""
        told = f"{world.task} of seed {world.seed}"
        found = await world.look()
        is_old, is_new = found == world.old, found == world.new
        try:
            facts = await self.tree.plans.facts.read(plan.plan.id)
        except NotFound:
            # It died before the plan was noted.
            self.tally.untold += [] if is_old else [told]
            self.tally.old += is_old
            return
        events = [fact.event for fact in facts]
        state = fold(events)
        if not (is_new if state.end == "completed" else is_old):
            self.tally.mixed.append(told)
        self.tally.old += state.end == "rolled_back"
        self.tally.new += state.end == "completed"
        if (world.spoilt and state.end == "completed") or not accounts(state, events):
            self.tally.untold.append(told)


class Forgetful(StepExecutor):
    """Hands that take nothing back: the bug that the comparison must catch."""

    __slots__ = ()

    async def discard(self, step: ForkResource, external: ExtRef, since: Timestamp) -> list[str]:
        """Leave the place."""
        del step, external, since
        return []

    async def take_back(self, step: RestoreResource, safety: ExtRef, by: str) -> list[str]:
        """Leave the files."""
        del step, safety, by
        return []


def deeds_of(plan: Plan) -> int:
    """Return about how many writes and calls carrying out a plan takes."""
    count = 2 * len(plan.resources) + 1
    for step in plan.steps:
        match step:
            case TakeSnapshot():
                count += 4
            case ForkResource() | RestoreResource(supported=True):
                count += 3
            case _:
                count += 1
    return count


def accounts(state: PlanState, events: list[Event]) -> bool:
    """Say whether every step that was begun or done is told of, and the plan has ended."""
    kinds = Counter(event.kind for event in events)
    if kinds["plan.started"] != 1 or kinds["plan.finished"] != 1 or state.end is None:
        return False
    if events[-1].kind != "plan.finished":
        return False
    if state.end == "rolled_back":
        touched = {n for n in state.begun if needs_undoing(state, n)}
        return state.error is not None and state.undone == touched
    for number, step in enumerate(state.plan.steps):
        told = number in state.observed
        needs_start = not isinstance(step, Commit) and getattr(step, "supported", True)
        if not told or (needs_start and number not in state.begun):
            return False
    return not state.undone


async def prove(proof: Proof) -> None:
    """Show every figure."""
    with temporary_server(HASTY) as (server, _), quick_folder() as folder:
        if proof.wants("drawn"):
            async with _stage(server, folder / "drawn", proof.seed) as (stage, database):
                await _draw(stage, 60 if proof.quick else 2000)
                await _show(proof, "drawn", stage, database)
        if proof.wants("every"):
            async with _stage(server, folder / "every", proof.seed) as (stage, database):
                await _die_everywhere(stage, ("rewind",) if proof.quick else TASKS * 2)
                await _show(proof, "every death of a plan", stage, database)
        if proof.wants("planted"):
            async with _stage(server, folder / "planted", proof.seed) as (stage, _unsound):
                stage.forgetful = True
                await _draw(stage, 28 if proof.quick else 140)
                caught = len(stage.tally.mixed)
                proof.at_least("planted: worlds that a forgetful saga mixed", caught, "found", 1)


async def _draw(stage: Stage, plans: int) -> None:
    """Carry out plans that each were drawn anew, each dying somewhere else."""
    for number in range(plans):
        draw = random.Random(f"{stage.seed}/{number}")
        task, moment = TASKS[number % len(TASKS)], draw.choice(MOMENTS)
        await stage.play(draw.getrandbits(32), task, None, moment)


async def _die_everywhere(stage: Stage, tasks: tuple[Task, ...]) -> None:
    """Carry out the same plan again and again, until its process has died everywhere."""
    for number, task in enumerate(tasks):
        at, lives = 0, False
        while not lives:
            at += 1
            lives = not await stage.play(stage.seed + number, task, at, "before")
            if not lives:
                await stage.play(stage.seed + number, task, at, "within")
                await stage.play(stage.seed + number, task, at, "after")


async def _show(proof: Proof, part: str, stage: Stage, database: Database) -> None:
    tally = stage.tally
    least = {"drawn": 2000}.get(part, 1) if not proof.quick else 1
    proof.at_least(f"{part}: plans", tally.plans, "carried out", least)
    proof.note(f"{part}: deaths", tally.deaths, "processes")
    proof.note(f"{part}: deaths while clearing up", tally.second_deaths, "processes")
    proof.note(f"{part}: kinds of moments at which somebody died", len(tally.died_at), "kinds")
    proof.note(f"{part}: old worlds", tally.old, "worlds")
    proof.note(f"{part}: new worlds", tally.new, "worlds")
    proof.at_most(f"{part}: mixtures", len(tally.mixed), "worlds", 0)
    proof.at_most(
        f"{part}: plans whose events do not account for it", len(tally.untold), "plans", 0
    )
    proof.at_most(f"{part}: open plans", len(await stage.tree.plans.list_open()), "plans", 0)
    proof.at_most(f"{part}: findings of fsck", len(await fsck(database)), "findings", 0)
    for told in (*tally.mixed[:5], *tally.untold[:5]):
        print(f"# {told}")


@asynccontextmanager
async def _stage(
    server: str, folder: Path, seed: int
) -> AsyncGenerator[tuple[Stage, Database], None]:
    conninfo = await ensure_database(server, folder.name)
    world = FakeClock(seed)
    keepers = cast(
        "dict[str, ResourceDriver]",
        {
            "directory": DirectoryDriver(folder / "home"),
            "file": FileDriver(folder / "home"),
            "container": CopyDriver(folder / "copies", "container", frozenset({"snapshot"})),
        },
    )
    workspace = await prepare_database(conninfo, "plans", world.new_id())
    async with open_database(conninfo, workspace, connections_max=2, sight=EVERYTHING) as database:
        settings = Settings(folder, user="ana")
        tree = tree_on(
            database, settings, world, keepers=keepers.__getitem__, processes=Mortal("calm")
        )
        yield Stage(tree, folder / "worlds", seed), database


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Lend a folder in memory, where the system has one."""
    memory = Path("/dev/shm")  # noqa: S108  (nothing in it has to be kept from anybody)
    folder = Path(
        tempfile.mkdtemp(prefix="turntree-plans-", dir=memory if memory.is_dir() else None)
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    run(prove, __doc__ or "")
