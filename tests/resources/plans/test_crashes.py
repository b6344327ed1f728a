"""Processes that die in the middle of a plan, and those that come after them."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.from_thread
import pytest

from proofs.mortals import Mortal, MortalKeeper, in_hands_of
from proofs.plans import MOMENTS, Stage
from tests.resources.plans.test_service import Scene, make_folder, shape
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import NotFound
from turntree.core.ids import PlanId
from turntree.core.ref import ExtRef
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.resources.driver import ResourceDriver
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.drivers.file import FileDriver
from turntree.resources.plans.fork import ForkPlan
from turntree.resources.plans.restore import RestorePlan
from turntree.resources.plans.service import Plans
from turntree.resources.plans.steps import ForkResource
from turntree.resources.resource import Capability, FileChange
from turntree.testing.copy_driver import CopyDriver
from turntree.testing.fakes import Crash, FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KEEPS_ONLY: frozenset[Capability] = frozenset({"snapshot"})


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path, tmp_path: Path) -> Tree:
    keepers: dict[str, ResourceDriver] = {
        "directory": DirectoryDriver(tmp_path / "home"),
        "file": FileDriver(tmp_path / "home"),
        "container": CopyDriver(tmp_path / "kept", "container", KEEPS_ONLY),
    }
    settings = Settings(place, user="ana", session="main")
    calm = Mortal("calm")
    return tree_on(database, settings, world, keepers=keepers.__getitem__, processes=calm)


@pytest.fixture
async def scene(tree: Tree, tmp_path: Path) -> Scene:
    folder = make_folder(tmp_path / "project")
    await tree.sessions.create("main")
    told = Scene(tree, folder, await tree.resources.ensure_directory(str(folder), "main"))
    await told.turn(lambda: told.write_all(a="one", b="one"))
    await told.turn(lambda: told.write_all(a="two", b="two", c="two"))
    return told


async def die_after(tree: Tree, deed: str, revision: str, label: str | None = None) -> None:
    """Propose a rewind or a fork and carry it out in a process that dies after a deed."""
    plan: ForkPlan | RestorePlan
    if label is None:
        plan = await tree.plans.propose_restore("main", revision)
    else:
        plan = await tree.plans.propose_fork(revision, label)
    at, told = 0, ""
    while told != deed:
        if at:
            await tree.plans.reconcile()
        at += 1
        # Whatever carries out a plan does the same deeds in the same order.
        again = replace(plan.plan, id=PlanId(tree.revisions.world.new_id()))
        mortal = Mortal(f"first-{at}", at, "after")
        with pytest.raises(Crash):
            await in_hands_of(tree.plans, mortal).saga.begin(again)
        told = mortal.log[-1]


@pytest.mark.parametrize("task", ["rewind", "fork"])
async def test_whoever_comes_next_finishes_or_takes_back(
    tree: Tree, tmp_path: Path, database: Database, task: str
) -> None:
    stage = Stage(tree, tmp_path / "worlds", seed=3)
    for at in (1, 3, 5, 7, 9, 11):
        await stage.play(5, "rewind" if task == "rewind" else "fork", at, MOMENTS[at % 3])
    assert stage.tally.plans == 6
    assert stage.tally.deaths
    assert (stage.tally.mixed, stage.tally.untold) == ([], [])
    assert await tree.plans.list_open() == []
    assert await fsck(database) == []


async def test_a_saga_that_takes_nothing_back_is_caught(tree: Tree, tmp_path: Path) -> None:
    stage = Stage(tree, tmp_path / "worlds", seed=3, forgetful=True)
    for at in range(14, 24, 2):
        await stage.play(5, "exact", at, "after")
    assert stage.tally.mixed


async def test_what_somebody_wrote_after_the_death_stays(scene: Scene, tree: Tree) -> None:
    await die_after(tree, "keeper restore", "main~1")
    assert shape(scene.folder) == scene.seen[0], "it had been brought back"
    scene.write("a.txt", "written by hand meanwhile")
    (outcome,) = await tree.plans.reconcile()
    assert (outcome.end, outcome.left) == ("rolled_back", ("a.txt",))
    left = shape(scene.folder)
    assert left.pop("a.txt")[1] == b"written by hand meanwhile"
    old = dict(scene.seen[1])
    del old["a.txt"]
    assert left == old


async def test_a_new_place_that_somebody_works_in_is_not_removed(scene: Scene, tree: Tree) -> None:
    await die_after(tree, "keeper fork", "main", "side")
    (state,) = await tree.plans.list_open()
    fork = state.plan.steps[0]
    assert isinstance(fork, ForkResource)
    new = Path(fork.site.place)
    (new / "a.txt").write_text("at work here")
    (outcome,) = await tree.plans.reconcile()
    assert (outcome.end, outcome.left) == ("rolled_back", (str(new),))
    assert (new / "a.txt").read_text() == "at work here"


async def test_a_new_place_that_nobody_touched_is_removed(scene: Scene, tree: Tree) -> None:
    await die_after(tree, "keeper fork", "main", "side")
    (state,) = await tree.plans.list_open()
    (outcome,) = await tree.plans.reconcile()
    assert (outcome.end, outcome.left) == ("rolled_back", ())
    assert [at.name for at in sorted(scene.folder.parent.glob("project*"))] == ["project"]
    assert state.plan == outcome.plan
    with pytest.raises(NotFound):
        await tree.sessions.get("side")


async def test_what_was_all_done_is_finished(scene: Scene, tree: Tree) -> None:
    plan = await tree.plans.propose_restore("main", "main~1")
    # Everything but the commit and giving the lease back.
    deeds = 1 + 1 + 4 + 3
    with pytest.raises(Crash):
        await in_hands_of(tree.plans, Mortal("first", deeds, "after")).carry_out(plan)
    (outcome,) = await tree.plans.reconcile()
    assert outcome.end == "completed"
    assert shape(scene.folder) == scene.seen[0]
    assert (await tree.sessions.get("main")).head == plan.target


async def test_a_new_plan_clears_up_first(scene: Scene, tree: Tree) -> None:
    await die_after(tree, "keeper restore", "main~1")
    plan = await tree.plans.propose_fork("main", "side")
    assert (await tree.plans.carry_out(plan)).end == "completed"
    assert shape(scene.folder) == scene.seen[1]
    assert await tree.plans.list_open() == []


async def test_nobody_clears_up_behind_somebody_at_work(scene: Scene, tree: Tree) -> None:
    await die_after(tree, "keeper restore", "main~1")
    advice, place = tree.resources.advice, scene.resource.id
    found = await advice.find_lease(place)
    assert found is not None
    await advice.release(place, found.holder)
    now = tree.revisions.world.now()
    assert await advice.lease(place, "calm/at-work", found.expires_at, now) is not None
    assert await tree.plans.reconcile() == []
    await advice.release(place, "calm/at-work")
    (outcome,) = await tree.plans.reconcile()
    assert outcome.end == "rolled_back"


async def test_another_machines_plans_are_left_to_it(scene: Scene, tree: Tree) -> None:
    await die_after(tree, "keeper restore", "main~1")
    saga = tree.plans.saga
    elsewhere = replace(saga, hands=replace(saga.hands, host="elsewhere"))
    assert await replace(tree.plans, saga=elsewhere).reconcile() == []
    assert len(await tree.plans.list_open()) == 1


@dataclass(frozen=True, slots=True)
class Slow(MortalKeeper):
    """A keeper that is so slow to begin that somebody else takes the plan back first."""

    others: Plans

    def restore(
        self, external: ExtRef, place: str, *, only: Collection[str] | None = None
    ) -> list[FileChange]:
        if self.mortal.at == 0:
            self.mortal.at = -1
            anyio.from_thread.run(self.others.reconcile)
        return self.keeper.restore(external, place, only=only)


async def test_who_was_only_slow_takes_its_own_work_back(scene: Scene, tree: Tree) -> None:
    plan = await tree.plans.propose_restore("main", "main~1")
    mortal = Mortal("slow")
    plans = in_hands_of(tree.plans, mortal)
    others = in_hands_of(tree.plans, Mortal("other"))
    slow = Slow(tree.resources.file_keeper_of(scene.resource), mortal, others)
    hands = replace(plans.saga.hands, keepers=lambda _kind: slow)
    outcome = await replace(plans, saga=replace(plans.saga, hands=hands)).carry_out(plan)
    assert outcome.end == "rolled_back"
    assert shape(scene.folder) == scene.seen[1]
    assert await tree.plans.list_open() == []
