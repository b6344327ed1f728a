"""Forks and moves that take files with them, through the public door."""

import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import Conflict, InvalidOperation, NotFound, Unsupported
from turntree.core.ids import SessionId, Timestamp, TurnId
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.core.session import Spawn
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.resources.driver import ResourceDriver, TakenSnapshot
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.plans.steps import MoveHead
from turntree.resources.resource import Capability, Resource
from turntree.testing.copy_driver import CopyDriver
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

KEEPS_ONLY: frozenset[Capability] = frozenset({"snapshot"})
Shape = dict[str, tuple[int, bytes | None]]


def make_folder(at: Path) -> Path:
    at.mkdir()
    return at


def is_there(at: str | None) -> bool:
    return at is not None and Path(at).exists()


def shape(root: Path) -> Shape:
    """Everything below a folder: modes, bytes, targets of links."""
    found: Shape = {}
    for at in sorted(root.rglob("*")):
        mode = at.lstat().st_mode
        data = str(at.readlink()).encode() if at.is_symlink() else None
        if data is None and at.is_file():
            data = at.read_bytes()
        found[str(at.relative_to(root))] = (stat.S_IFMT(mode) | stat.S_IMODE(mode), data)
    return found


@dataclass
class Scene:
    """A session at work in a folder, whose turns are pinned as hooks would pin them."""

    tree: Tree
    folder: Path
    resource: Resource
    seen: list[Shape] = field(default_factory=list[Shape])

    def write(self, path: str, text: str) -> None:
        at = self.folder / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)

    def write_all(self, **texts: str) -> None:
        for name, text in texts.items():
            self.write(name.replace("__", "/") + ".txt", text)

    def take(self) -> TakenSnapshot:
        return self.tree.resources.keeper_of(self.resource).snapshot(str(self.folder))

    async def turn(
        self,
        work: Callable[[], object],
        *,
        session: str = "main",
        written: tuple[str, ...] = (),
        pinned: bool = True,
    ) -> TurnId:
        now = self.tree.revisions.world.now
        began, before = now(), self.take()
        work()
        after = self.take()
        files = [TouchedFile("written", path).to_json() for path in written]
        reply = replace(assistant("done"), context={"files": files} if files else {})
        turn = (await self.tree.turns.record(session, [user("go")], [reply])).turn.id
        if pinned:
            await self.tree.resources.pin(turn, self.resource, before, after, began, now())
        self.seen.append(shape(self.folder))
        return turn


@pytest.fixture(params=["copies", "shadow"])
def keepers(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, ResourceDriver]:
    kept = tmp_path / "kept"
    folders = CopyDriver(kept) if request.param == "copies" else DirectoryDriver(kept)
    return {
        "directory": folders,
        "container": CopyDriver(kept, "container", KEEPS_ONLY),
    }


@pytest.fixture
def tree(
    database: Database, world: FakeClock, place: Path, keepers: dict[str, ResourceDriver]
) -> Tree:
    settings = Settings(place, user="ana", session="main")
    return tree_on(database, settings, world, keepers=keepers.__getitem__)


@pytest.fixture
def bob(
    database: Database, world: FakeClock, place: Path, keepers: dict[str, ResourceDriver]
) -> Tree:
    """The same tree, as bob sees it."""
    settings = Settings(place, user="bob", session="main")
    return tree_on(database, settings, world, keepers=keepers.__getitem__)


@pytest.fixture
async def scene(tree: Tree, tmp_path: Path) -> Scene:
    folder = make_folder(tmp_path / "project")
    await tree.sessions.create("main")
    resource = await tree.resources.ensure_directory(str(folder), "main")
    told = Scene(tree, folder, resource)
    await told.turn(lambda: told.write("a.txt", "one"))
    await told.turn(lambda: told.write_all(a="two", sub__b="new"))

    def tidy() -> None:
        (folder / "a.txt").chmod(0o600)
        (folder / "sub/b.txt").unlink()

    await told.turn(tidy)
    return told


async def test_a_rewind_brings_the_files_of_its_turn_back(
    scene: Scene, tree: Tree, database: Database
) -> None:
    plan = await tree.plans.propose_restore("main", "main~1")
    (item,) = plan.items
    assert [(change.path, change.kind) for change in item.changes] == [
        ("a.txt", "mode"),
        ("sub/b.txt", "added"),
    ]
    assert shape(scene.folder) == scene.seen[2], "a proposal does nothing"
    outcome = await tree.plans.carry_out(plan)
    assert (outcome.end, outcome.error) == ("completed", None)
    assert outcome.moved is not None
    assert outcome.moved.head == (await tree.resolve("main")).turn
    assert shape(scene.folder) == scene.seen[1]
    assert [move.kind for move in await tree.sessions.list_moves("main")][:1] == ["rewind"]
    assert await fsck(database) == []


async def test_an_undo_brings_head_and_files_back(scene: Scene, tree: Tree) -> None:
    head = (await tree.sessions.get("main")).head
    await tree.plans.carry_out(await tree.plans.propose_restore("main", "main~2"))
    assert shape(scene.folder) == scene.seen[0]
    plan = await tree.plans.propose_restore("main", kind="undo")
    assert plan.target == head
    outcome = await tree.plans.carry_out(plan)
    assert outcome.end == "completed"
    assert shape(scene.folder) == scene.seen[2]
    assert (await tree.sessions.get("main")).head == head


async def test_an_undo_of_a_move_without_files_moves_the_head_alone(
    scene: Scene, tree: Tree
) -> None:
    await tree.sessions.rewind("main", "main~1")
    plan = await tree.plans.propose_restore("main", kind="undo")
    assert plan.items == ()
    assert (await tree.plans.carry_out(plan)).end == "completed"
    assert shape(scene.folder) == scene.seen[2]


async def test_an_undo_asks_about_what_was_changed_since(scene: Scene, tree: Tree) -> None:
    await tree.plans.carry_out(await tree.plans.propose_restore("main", "main~2"))
    scene.write("a.txt", "mine")
    plan = await tree.plans.propose_restore("main", kind="undo")
    assert [change.path for _, change in plan.conflicts] == ["a.txt"]
    with pytest.raises(InvalidOperation, match=r"a\.txt"):
        await tree.plans.carry_out(plan)
    exact = await tree.plans.propose_restore("main", kind="undo", exact=True)
    assert (await tree.plans.carry_out(exact)).end == "completed"
    assert shape(scene.folder) == scene.seen[2]


async def test_what_others_changed_stays(scene: Scene, tree: Tree) -> None:
    scene.write("teammate.txt", "uncommitted")
    scene.write("sub/theirs.txt", "too")
    plan = await tree.plans.propose_restore("main", "main~2")
    (item,) = plan.items
    assert {change.path for change in item.kept} == {"teammate.txt", "sub/theirs.txt"}
    assert not plan.conflicts
    await tree.plans.carry_out(plan)
    left = shape(scene.folder)
    assert (left.pop("teammate.txt")[1], left.pop("sub/theirs.txt")[1]) == (b"uncommitted", b"too")
    left.pop("sub")  # The folder stays with what lies in it.
    assert left == scene.seen[0]


async def test_what_a_turn_and_others_changed_is_a_conflict(scene: Scene, tree: Tree) -> None:
    scene.write("a.txt", "mine now")
    plan = await tree.plans.propose_restore("main", "main~2")
    assert [change.path for _, change in plan.conflicts] == ["a.txt"]
    with pytest.raises(InvalidOperation, match="others did too"):
        await tree.plans.carry_out(plan)
    kept = await tree.plans.propose_restore("main", "main~2", keep_conflicts=True)
    assert (await tree.plans.carry_out(kept)).end == "completed"
    assert (scene.folder / "a.txt").read_text() == "mine now"
    assert not (scene.folder / "sub").exists()


async def test_exactly_as_it_was_spares_nothing(scene: Scene, tree: Tree) -> None:
    scene.write("a.txt", "mine now")
    scene.write("teammate.txt", "uncommitted")
    plan = await tree.plans.propose_restore("main", "main~2", exact=True)
    assert not plan.conflicts
    await tree.plans.carry_out(plan)
    assert shape(scene.folder) == scene.seen[0]
    undo = await tree.plans.propose_restore("main", kind="undo")
    await tree.plans.carry_out(undo)
    assert (scene.folder / "teammate.txt").read_text() == "uncommitted"


async def test_another_sessions_turns_are_others(scene: Scene, tree: Tree) -> None:
    await tree.sessions.create("other")
    await scene.turn(lambda: scene.write("other.txt", "theirs"), session="other")
    plan = await tree.plans.propose_restore("main", "main~1")
    assert [change.path for change in plan.items[0].kept] == ["other.txt"]


async def test_turns_at_work_at_once_are_told_apart_by_what_they_say(
    scene: Scene, tree: Tree
) -> None:
    await tree.sessions.create("other")
    now, keeper = tree.revisions.world.now, tree.resources.keeper_of(scene.resource)
    began, before = now(), keeper.snapshot(str(scene.folder))
    for path in ("mine.txt", "theirs.txt", "whose.txt"):
        scene.write(path, path)
    after = keeper.snapshot(str(scene.folder))
    for session, said in (("main", f"{scene.folder}/mine.txt"), ("other", "theirs.txt")):
        files = {"files": [TouchedFile("written", said).to_json()]}
        reply = [replace(assistant("done"), context=files)]
        turn = (await tree.turns.record(session, [user("go")], reply)).turn.id
        await tree.resources.pin(turn, scene.resource, before, after, began, now())
    plan = await tree.plans.propose_restore("main", "main~1")
    (item,) = plan.items
    assert [change.path for change in item.changes] == ["mine.txt"]
    assert [change.path for change in item.kept] == ["theirs.txt"]
    assert [change.path for change in item.conflicts] == ["whose.txt"]


async def test_what_a_subagent_did_is_its_parents(scene: Scene, tree: Tree) -> None:
    now, keeper = tree.revisions.world.now, tree.resources.keeper_of(scene.resource)
    began, before = now(), keeper.snapshot(str(scene.folder))
    scene.write("deep.txt", "by a subagent")
    after = keeper.snapshot(str(scene.folder))
    said = [assistant(ToolUse("c1", "spawn", {})), tool(ToolResult("c1", "ok", "")), assistant(".")]
    parent = (await tree.turns.record("main", [user("delegate")], said)).turn.id
    main = await tree.sessions.get("main")
    await tree.sessions.create("worker", spawn=Spawn(SessionId(main.id), parent, "c1"))
    files = {"files": [TouchedFile("written", "deep.txt").to_json()]}
    reply = [replace(assistant("done"), context=files)]
    child = (await tree.turns.record("worker", [user("work")], reply)).turn.id
    for turn in (parent, child):
        await tree.resources.pin(turn, scene.resource, before, after, began, now())
    plan = await tree.plans.propose_restore("main", "main~1")
    assert [change.path for change in plan.items[0].changes] == ["deep.txt"]


async def test_what_a_subagent_did_after_its_parents_end_is_its_parents_too(
    scene: Scene, tree: Tree
) -> None:
    now, keeper = tree.revisions.world.now, tree.resources.keeper_of(scene.resource)
    began, before = now(), keeper.snapshot(str(scene.folder))
    said = [assistant(ToolUse("c1", "spawn", {})), tool(ToolResult("c1", "ok", "")), assistant(".")]
    parent = (await tree.turns.record("main", [user("delegate")], said)).turn.id
    main = await tree.sessions.get("main")
    await tree.sessions.create("worker", spawn=Spawn(SessionId(main.id), parent, "c1"))
    await tree.resources.pin(parent, scene.resource, before, before, began, now())
    scene.write("deep.txt", "by a subagent")
    child = (await tree.turns.record("worker", [user("work")], [assistant("done")])).turn.id
    after = keeper.snapshot(str(scene.folder))
    await tree.resources.pin(child, scene.resource, before, after, began, now())
    scene.write("mine.txt", "by hand")
    (item,) = (await tree.plans.propose_restore("main", "main~1")).items
    assert [change.path for change in item.changes] == ["deep.txt"]
    assert [change.path for change in item.kept] == ["mine.txt"]


async def test_what_an_unpinned_turn_says_it_wrote_is_its_own(scene: Scene, tree: Tree) -> None:
    await scene.turn(
        lambda: scene.write_all(said="1", unsaid="2"),
        written=("said.txt",),
        pinned=False,
    )
    (item,) = (await tree.plans.propose_restore("main", "main~1")).items
    assert [change.path for change in item.changes] == ["said.txt"]
    assert [change.path for change in item.kept] == ["unsaid.txt"]


async def test_a_turn_that_nobody_pinned_goes_back_to_the_nearest_above(
    scene: Scene, tree: Tree
) -> None:
    await scene.turn(lambda: None, pinned=False)
    await scene.turn(lambda: scene.write("late.txt", "x"))
    nearest = (await tree.resolve("main~2")).turn
    plan = await tree.plans.propose_restore("main", "main~1")
    assert plan.items[0].pinned_by == nearest
    assert plan.target == (await tree.resolve("main~1")).turn
    await tree.plans.carry_out(plan)
    assert shape(scene.folder) == scene.seen[2]


async def test_a_second_rewind_takes_back_only_what_the_thread_did(
    scene: Scene, tree: Tree
) -> None:
    await tree.plans.carry_out(await tree.plans.propose_restore("main", "main~1"))
    await scene.turn(lambda: scene.write("c.txt", "another way"))
    plan = await tree.plans.propose_restore("main", "main~2")
    assert not plan.conflicts
    await tree.plans.carry_out(plan)
    assert shape(scene.folder) == scene.seen[0]


async def test_a_replay_goes_to_another_branchs_files(scene: Scene, tree: Tree) -> None:
    third = (await tree.resolve("main")).turn
    await tree.plans.carry_out(await tree.plans.propose_restore("main", "main~2"))
    await scene.turn(lambda: scene.write("c.txt", "another way"))
    plan = await tree.plans.propose_restore("main", third, kind="reset")
    assert not plan.conflicts
    await tree.plans.carry_out(plan)
    assert shape(scene.folder) == scene.seen[2]


async def test_a_folder_that_is_gone_is_made_again(scene: Scene, tree: Tree) -> None:
    shutil.rmtree(scene.folder)
    plan = await tree.plans.propose_restore("main", "main~1")
    assert (await tree.plans.carry_out(plan)).end == "completed"
    assert shape(scene.folder) == scene.seen[1]


async def test_a_folder_that_was_made_again_in_vain_goes_again(scene: Scene, tree: Tree) -> None:
    shutil.rmtree(scene.folder)
    plan = await tree.plans.propose_restore("main", "main~1")
    await scene.tree.turns.record("main", [user("meanwhile")], [assistant("done")])
    outcome = await tree.plans.carry_out(plan)
    assert (outcome.end, outcome.left) == ("rolled_back", ())
    assert not scene.folder.exists(), "who works there worked on what was gone"


async def test_an_undo_leaves_a_folder_that_somebody_came_to(scene: Scene, tree: Tree) -> None:
    shutil.rmtree(scene.folder)
    await tree.plans.carry_out(await tree.plans.propose_restore("main", "main~1"))
    await tree.sessions.create("other")
    await tree.resources.attach("other", scene.resource)
    undo = await tree.plans.propose_restore("main", None, kind="undo")
    assert [item.fate for item in undo.items] == ["outlives"]
    assert (await tree.plans.carry_out(undo)).end == "completed"
    assert scene.folder.exists()


async def test_an_undo_leaves_a_folder_that_a_closed_session_came_to(
    scene: Scene, tree: Tree, bob: Tree
) -> None:
    shutil.rmtree(scene.folder)
    await bob.plans.carry_out(await bob.plans.propose_restore("main", "main~1"))
    await tree.sessions.create("secret")
    await tree.resources.attach("secret", scene.resource)
    await tree.programs.create("session", "secret", {}, visibility="private")
    undo = await bob.plans.propose_restore("main", None, kind="undo")
    assert [item.fate for item in undo.items] == ["outlives"]


async def test_what_changed_after_the_proposal_stops_the_plan(scene: Scene, tree: Tree) -> None:
    plan = await tree.plans.propose_restore("main", "main~1")
    scene.write("a.txt", "in between")
    before = shape(scene.folder)
    outcome = await tree.plans.carry_out(plan)
    assert outcome.end == "rolled_back"
    assert "has changed since" in str(outcome.error)
    assert shape(scene.folder) == before


async def test_a_session_that_moved_meanwhile_keeps_its_files(scene: Scene, tree: Tree) -> None:
    plan = await tree.plans.propose_restore("main", "main~1")
    await tree.turns.record("main", [user("quick")], [assistant("done")])
    outcome = await tree.plans.carry_out(plan)
    assert outcome.end == "rolled_back"
    assert shape(scene.folder) == scene.seen[2]
    state = await tree.plans.get(plan.plan.id)
    assert (state.end, set(state.undone)) == ("rolled_back", {1})
    assert await tree.plans.list_open() == []


async def test_what_cannot_be_brought_back_is_told_and_stays(
    scene: Scene, tree: Tree, tmp_path: Path, database: Database
) -> None:
    box = make_folder(tmp_path / "box")
    container = await tree.resources.ensure("container", str(box), session="main")
    taken = tree.resources.keeper_of(container).snapshot(str(box))
    turn = (await tree.resolve("main~1")).turn
    now = tree.revisions.world.now
    await tree.resources.pin(turn, container, None, taken, now(), now())
    (box / "memory").write_text("lives on")
    plan = await tree.plans.propose_restore("main", turn)
    assert {item.resource.kind: item.supported for item in plan.items} == {
        "directory": True,
        "container": False,
    }
    outcome = await tree.plans.carry_out(plan)
    assert (outcome.end, outcome.unsupported) == ("completed", (container.id,))
    assert (box / "memory").exists()
    assert shape(scene.folder) == scene.seen[1]
    told = [fact.event for fact in await tree.ledger.facts(container.id)]
    assert told[-1].kind == "snapshot.restore_attempted"
    assert told[-1].data["outcome"] == "unsupported"
    assert "new_resource_ref" not in told[-1].data
    assert await fsck(database) == []


async def test_going_back_needs_files_and_an_ancestor(tree: Tree, scene: Scene) -> None:
    await tree.turns.record("bare", [user("hi")], [assistant("ho")])
    with pytest.raises(NotFound, match="knows any files"):
        await tree.plans.propose_restore("bare", "bare")
    with pytest.raises(InvalidOperation, match="ancestor"):
        await tree.plans.propose_restore("main", "bare")
    await tree.sessions.create("empty")
    with pytest.raises(InvalidOperation, match="no turns yet"):
        await tree.plans.propose_restore("empty", "main")
    with pytest.raises(InvalidOperation, match="nothing to undo"):
        await tree.plans.propose_restore("empty", kind="undo")
    with pytest.raises(InvalidOperation, match="where should main rewind to"):
        await tree.plans.propose_restore("main")


async def test_a_fork_gets_a_place_of_its_own(scene: Scene, tree: Tree, database: Database) -> None:
    plan = await tree.plans.propose_fork("main~1", "side")
    (item,) = plan.items
    assert item.place is not None
    assert item.place.startswith(f"{scene.folder}@")
    assert item.cost is not None
    assert (item.mode, item.cost.files, item.cost.size) == ("snapshot", 2, 6)
    assert await tree.sessions.ledger.find("side") is None, "a proposal does nothing"
    outcome = await tree.plans.carry_out(plan)
    assert outcome.end == "completed"
    assert shape(Path(item.place)) == scene.seen[1]
    assert shape(scene.folder) == scene.seen[2]
    ((own, mode),) = await tree.resources.list_attached("side")
    assert (own.place, own.name, mode) == (item.place, "project", "rw")
    session = await tree.sessions.get("side")
    events = [fact.event for fact in await tree.ledger.facts(session.id)]
    assert [event.kind for event in events] == [
        "session.created",
        "resource.attached",
        "session.forked",
    ]
    assert item.snapshot is not None
    external = item.snapshot.external
    assert events[2].data["volume_plan"] == [
        {
            "resource": scene.resource.id,
            "mode": "snapshot",
            "snapshot_ref": {"kind": external.kind, "id": external.id},
        }
    ]
    lineage = await tree.edges.list_lineage(own.id)
    assert [one.target.id for one in lineage] == [item.snapshot.id]
    assert await fsck(database) == []


async def test_a_fork_without_a_session_is_a_place(scene: Scene, tree: Tree) -> None:
    place = str(scene.folder.parent / "aside")
    plan = await tree.plans.propose_fork("main~2", None, place=place)
    assert (await tree.plans.carry_out(plan)).end == "completed"
    assert shape(Path(place)) == scene.seen[0]
    again = await tree.resources.find("directory", place)
    assert again is not None
    with pytest.raises(InvalidOperation, match="already"):
        await tree.plans.propose_fork("main~2", None, place=place)


async def test_a_worktree_made_where_another_stood_is_what_it_was_made_from(
    scene: Scene, tree: Tree, database: Database
) -> None:
    place = str(scene.folder.parent / "aside")
    first = await tree.plans.propose_fork("main~2", "first", place=place)
    await tree.plans.carry_out(first)
    made = await tree.worktrees.get(place)
    shutil.rmtree(place)
    second = await tree.plans.propose_fork("main", "second", place=place)
    assert (await tree.plans.carry_out(second)).end == "completed"
    anew = await tree.worktrees.get(place)
    head = (await tree.sessions.get("main")).head
    assert (anew.turn, made.turn != head) == (head, True)
    assert second.items[0].snapshot is not None
    assert anew.state == second.items[0].snapshot.external
    assert anew.resource.id == made.resource.id, "a place is one resource, whatever stands there"
    assert anew.resource.created_at > made.resource.created_at
    assert anew.resource.scope.session_id == second.session
    assert [one.label for one in anew.sessions] == ["second"]
    assert await tree.resources.list_attached("first") == [], "what it worked on is gone"
    assert [one.turn for one in await tree.worktrees.list_all()] == [head]
    removed = await tree.worktrees.remove(place)
    assert removed.changes == ()
    assert (await tree.worktrees.restore(place)).turn == head
    await tree.worktrees.remove(place)
    third = await tree.plans.propose_fork("main~1", None, place=place)
    await tree.plans.carry_out(third)
    shutil.rmtree(place)
    with pytest.raises(NotFound, match="deleted outside Turntree"):
        await tree.worktrees.restore(place)
    assert await fsck(database) == []


async def test_who_lost_its_place_touches_none_of_others(scene: Scene, tree: Tree) -> None:
    place = scene.folder.parent / "aside"
    await tree.plans.carry_out(await tree.plans.propose_fork("main~1", "side", place=str(place)))
    ((own, _),) = await tree.resources.list_attached("side")
    side = Scene(tree, place, own)
    await side.turn(lambda: side.write("c.txt", "one"), session="side")
    await side.turn(lambda: side.write("c.txt", "two"), session="side")
    await tree.worktrees.remove(str(place))
    back = await tree.plans.propose_restore("side", "side~2")
    assert [item.resource.place for item in back.items] == [str(place)], "and not where main works"
    fork = await tree.plans.propose_fork("side", "third")
    assert [item.resource.place for item in fork.items] == [str(place)]
    again = await tree.plans.propose_fork("main", "fourth", place=str(place))
    await tree.plans.carry_out(again)
    with pytest.raises(InvalidOperation, match=r"no longer works at .*, and other sessions do"):
        await tree.plans.propose_restore("side", "side~1", exact=True)


@pytest.mark.parametrize("granted", ["nothing", "read"])
async def test_who_is_closed_loses_a_place_that_is_gone_too(
    scene: Scene, tree: Tree, bob: Tree, granted: str, database: Database
) -> None:
    place = str(scene.folder.parent / "aside")
    await tree.plans.carry_out(await tree.plans.propose_fork("main~2", "secret", place=place))
    await tree.programs.create("session", "secret", {}, visibility="private")
    if granted == "read":
        await tree.programs.grant("secret", "bob", "read")
    shutil.rmtree(place)
    plan = await bob.plans.propose_fork("main", "second", place=place)
    assert (await bob.plans.carry_out(plan)).end == "completed"
    assert await tree.resources.list_attached("secret") == []
    made = await tree.worktrees.get(place)
    assert [one.label for one in made.sessions] == ["second"]
    if granted == "nothing":
        with pytest.raises(NotFound):
            await bob.sessions.get("secret")
    assert await fsck(database) == []


async def test_nobody_touches_a_place_where_a_closed_session_works(
    scene: Scene, tree: Tree, bob: Tree
) -> None:
    place = scene.folder.parent / "aside"
    await tree.plans.carry_out(await tree.plans.propose_fork("main~1", "side", place=str(place)))
    ((own, _),) = await tree.resources.list_attached("side")
    side = Scene(tree, place, own)
    await side.turn(lambda: side.write("c.txt", "one"), session="side")
    await side.turn(lambda: side.write("c.txt", "two"), session="side")
    await tree.worktrees.remove(str(place))
    again = await tree.plans.propose_fork("main", "secret", place=str(place))
    await tree.plans.carry_out(again)
    await tree.programs.create("session", "secret", {}, visibility="private")
    with pytest.raises(InvalidOperation, match=r"no longer works at .*, and other sessions do"):
        await bob.plans.propose_restore("side", "side~1", exact=True)


async def test_of_two_places_made_from_each_other_the_newer_one_is_meant(
    scene: Scene, tree: Tree
) -> None:
    place = scene.folder.parent / "aside"
    await tree.plans.carry_out(await tree.plans.propose_fork("main", "side", place=str(place)))
    ((own, _),) = await tree.resources.list_attached("side")
    side = Scene(tree, place, own)
    turn = await side.turn(lambda: side.write("c.txt", "one"), session="side")
    shutil.rmtree(scene.folder)
    back = await tree.plans.propose_fork("side", "third", place=str(scene.folder))
    assert (await tree.plans.carry_out(back)).end == "completed"
    heirs = await tree.resources.find_heirs(turn, [])
    assert set(heirs) == {own.id, scene.resource.id}
    assert {one.place for one in heirs.values()} == {str(scene.folder)}
    worked = await tree.resources.find_heirs(turn, [own])
    assert {one.place for one in worked.values()} == {str(place)}, "its past is still its own"


async def test_a_fork_that_fails_leaves_what_a_place_was(scene: Scene, tree: Tree) -> None:
    place = str(scene.folder.parent / "aside")
    await tree.plans.carry_out(await tree.plans.propose_fork("main~2", "first", place=place))
    made = await tree.worktrees.get(place)
    shutil.rmtree(place)
    second = await tree.plans.propose_fork("main", "second", place=place)
    await tree.sessions.create("second")
    assert (await tree.plans.carry_out(second)).end == "rolled_back"
    (still,) = await tree.worktrees.list_all(gone=True)
    assert (still.resource, still.turn) == (made.resource, made.turn)
    assert [one.label for one in still.sessions] == ["first"]


async def test_a_place_that_comes_back_from_its_own_state_is_what_it_was(
    scene: Scene, tree: Tree
) -> None:
    shutil.rmtree(scene.folder)
    plan = await tree.plans.propose_fork("main", None, place=str(scene.folder))
    assert (await tree.plans.carry_out(plan)).end == "completed"
    assert shape(scene.folder) == scene.seen[2]
    assert await tree.resources.find("directory", str(scene.folder)) == scene.resource
    ((own, _),) = await tree.resources.list_attached("main")
    assert own == scene.resource


async def test_a_place_that_was_made_anew_and_comes_back_is_what_it_was_made_as(
    scene: Scene, tree: Tree
) -> None:
    place = scene.folder.parent / "aside"
    for revision, label in (("main~2", "first"), ("main", "second")):
        plan = await tree.plans.propose_fork(revision, label, place=str(place))
        await tree.plans.carry_out(plan)
        if label == "first":
            shutil.rmtree(place)
    ((own, _),) = await tree.resources.list_attached("second")
    second = Scene(tree, place, own)
    await second.turn(lambda: second.write("c.txt", "one"), session="second")
    shutil.rmtree(place)
    back = await tree.plans.propose_fork("second", None, place=str(place))
    assert (await tree.plans.carry_out(back)).end == "completed"
    assert await tree.resources.find("directory", str(place)) == own


async def test_a_place_that_is_taken_meanwhile_stops_the_fork(scene: Scene, tree: Tree) -> None:
    plan = await tree.plans.propose_fork("main", "side")
    place = make_folder(Path(str(plan.items[0].place)))
    (place / "mine").write_text("stays")
    outcome = await tree.plans.carry_out(plan)
    assert (outcome.end, outcome.left) == ("rolled_back", ())
    assert (place / "mine").read_text() == "stays"
    with pytest.raises(NotFound):
        await tree.sessions.get("side")


async def test_a_name_that_is_taken_meanwhile_takes_the_place_back(
    scene: Scene, tree: Tree
) -> None:
    plan = await tree.plans.propose_fork("main", "side")
    await tree.sessions.create("side")
    outcome = await tree.plans.carry_out(plan)
    assert outcome.end == "rolled_back"
    assert not is_there(plan.items[0].place)
    with pytest.raises(Conflict):
        await tree.plans.propose_fork("main", "side")


async def test_what_has_no_pin_is_forked_as_it_is_now(scene: Scene, tree: Tree) -> None:
    await tree.turns.record("fresh", [user("hi")], [assistant("ho")])
    await tree.resources.attach("fresh", scene.resource)
    plan = await tree.plans.propose_fork("fresh", "side")
    (item,) = plan.items
    assert (item.snapshot, item.pinned_by) == (None, None)
    await tree.plans.carry_out(plan)
    assert shape(Path(str(item.place))) == scene.seen[2]


async def test_one_branch_keeps_what_cannot_be_forked(
    scene: Scene, tree: Tree, tmp_path: Path, database: Database
) -> None:
    box = make_folder(tmp_path / "box")
    container = await tree.resources.ensure("container", str(box), session="main")
    main = await tree.sessions.get("main")
    by_default = await tree.plans.propose_fork("main", "one")
    assert {item.resource.kind: (item.mode, item.kept_by) for item in by_default.items} == {
        "directory": ("snapshot", None),
        "container": ("keep", main.id),
    }
    with pytest.raises(Unsupported, match="cannot be forked"):
        await tree.plans.propose_fork("main", "one", choices={"box": "snapshot"})
    with pytest.raises(NotFound, match="is called crate"):
        await tree.plans.propose_fork("main", "one", choices={"crate": "keep"})
    await tree.plans.carry_out(by_default)
    assert [one.kind for one, _ in await tree.resources.list_attached("one")] == ["directory"]
    taken = await tree.plans.propose_fork(
        "main", "two", choices={"box": "take", "project": "discard"}
    )
    await tree.plans.carry_out(taken)
    assert await tree.resources.list_attached("two") == [(container, "rw")]
    assert container.id not in {one.id for one, _ in await tree.resources.list_attached("main")}
    assert await fsck(database) == []


async def test_two_who_carry_out_plans_on_one_place_do_not_meet(scene: Scene, tree: Tree) -> None:
    plan = await tree.plans.propose_restore("main", "main~1")
    now = tree.revisions.world.now()
    me = f"{tree.plans.saga.processes.me}/another"
    far = replace_year(now)
    assert await tree.resources.advice.lease(scene.resource.id, me, far, now) is not None
    with pytest.raises(Conflict, match="another plan"):
        await tree.plans.carry_out(plan)
    await tree.resources.advice.release(scene.resource.id, me)
    # A process that ended gives nothing back, and nobody waits for it.
    gone = "4000000.1/another"
    assert await tree.resources.advice.lease(scene.resource.id, gone, far, now) is not None
    assert (await tree.plans.carry_out(plan)).end == "completed"


async def test_plans_are_listed_with_how_far_they_came(scene: Scene, tree: Tree) -> None:
    plan = await tree.plans.propose_restore("main", "main~1")
    await tree.plans.carry_out(plan)
    (state,) = await tree.plans.list_newest()
    assert (state.plan, state.end) == (plan.plan, "completed")
    assert isinstance(state.plan.steps[-1], MoveHead)


def replace_year(now: str) -> Timestamp:
    return Timestamp("2099" + now[4:])
