"""Resources through the public door: known once, attached, kept, pinned and found again."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import InvalidOperation, NotFound, Unsupported
from turntree.core.ids import Digest, RunId, Timestamp, TurnId
from turntree.core.message import assistant, user
from turntree.core.session import Spawn
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.resources.driver import ResourceDriver
from turntree.resources.resource import Handle, Resource
from turntree.resources.service import PinnedStates
from turntree.testing.copy_driver import CopyDriver
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    return folder


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path, tmp_path: Path) -> Tree:
    keepers: dict[str, ResourceDriver] = {
        "directory": CopyDriver(tmp_path / "kept"),
        "file": CopyDriver(tmp_path / "kept", "file"),
        "process": CopyDriver(tmp_path / "kept", "process", frozenset()),
    }

    def find(kind: str) -> ResourceDriver:
        if kind not in keepers:
            raise Unsupported(kind)
        return keepers[kind]

    settings = Settings(place, user="ana", session="main")
    return tree_on(database, settings, world, keepers=find)


async def say(tree: Tree, word: str, session: str = "main") -> TurnId:
    return (await tree.turns.record(session, [user(word)], [assistant("yes")])).turn.id


async def pin(tree: Tree, turn: TurnId, resource: Resource) -> bool:
    taken = tree.resources.keeper_of(resource).snapshot(resource.place)
    now = tree.revisions.world.now
    return await tree.resources.pin(turn, resource, None, taken, now(), now())


async def test_a_place_is_one_resource_however_it_is_spelt(tree: Tree, workspace: Path) -> None:
    first = await tree.resources.ensure_directory(str(workspace))
    again = await tree.resources.ensure_directory(f"{workspace}/../{workspace.name}/")
    assert first == again
    assert first.name == "project"
    assert await tree.resources.find("directory", str(workspace)) == first
    assert await tree.resources.get(first.id) == first


async def test_the_same_path_on_another_machine_is_another_resource(
    tree: Tree, workspace: Path
) -> None:
    here = await tree.resources.ensure_directory(str(workspace))
    away = replace(tree.resources, host="elsewhere")
    there = await away.ensure_directory(str(workspace))
    assert here.id != there.id
    with pytest.raises(InvalidOperation, match="is on elsewhere"):
        await tree.resources.take(there)


async def test_who_worked_last_at_the_nearest_place_is_found(tree: Tree, workspace: Path) -> None:
    inner, places = workspace / "inner", [str(workspace / "inner"), str(workspace)]
    assert await tree.resources.find_last_holder("directory", places) is None
    for label in ("first", "second", "third"):
        await say(tree, "hello", label)
        await tree.resources.ensure_directory(str(workspace), label)
    await tree.sessions.create("empty")
    await tree.resources.ensure_directory(str(inner), "empty")
    # The oldest session is the one that was worked in last, but for a subagent.
    turn = await say(tree, "again", "first")
    spawner = await tree.sessions.get("first")
    await tree.sessions.create("sub", spawn=Spawn(spawner.id, turn, "call_1"))
    await say(tree, "done", "sub")
    await tree.resources.ensure_directory(str(workspace), "sub")

    async def last() -> str | None:
        found = await tree.resources.find_last_holder("directory", places)
        return None if found is None else (await tree.sessions.ledger.get(found[0])).label

    assert await last() == "first"
    await tree.sessions.set_status("first", "archived")
    assert await last() == "third"
    for label in ("second", "third"):
        await tree.sessions.set_status(label, "archived")
    assert await last() == "sub", "where nobody else works, it is the subagent"
    await say(tree, "hello", "empty")
    assert await last() == "empty", "the nearest folder counts"
    away = replace(tree.resources, host="elsewhere")
    assert await away.find_last_holder("directory", places) is None


async def test_a_place_whose_name_is_no_text_is_refused(tree: Tree, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(InvalidOperation, match="not valid UTF-8"):
        await tree.resources.ensure_directory(odd)


async def test_a_kind_that_nothing_looks_after_is_unsupported(tree: Tree) -> None:
    with pytest.raises(Unsupported):
        await tree.resources.ensure("volume", "vol-1")


async def test_a_session_works_on_what_is_attached_to_it(tree: Tree, workspace: Path) -> None:
    await say(tree, "hello")
    resource = await tree.resources.ensure_directory(str(workspace), "main")
    assert await tree.resources.list_attached("main") == [(resource, "rw")]
    assert not await tree.resources.attach("main", resource)
    session = await tree.sessions.get("main")
    held = await tree.edges.list_held(tree.revisions.world.now(), holder=session.id)
    assert {(one.kind, one.holder.kind, one.resource) for one in held} == {
        ("ATTACHED_TO", "Branch", resource.id),
        ("OWNS_RESOURCE", "Branch", resource.id),
    }
    assert await tree.resources.detach("main", resource)
    assert not await tree.resources.detach("main", resource)
    assert await tree.resources.list_attached("main") == []
    assert await tree.edges.list_held(tree.revisions.world.now(), holder=session.id) == []


async def test_a_resource_belongs_to_a_run_or_an_agent(tree: Tree, tmp_path: Path) -> None:
    turn = await say(tree, "hello")
    for name, owner in (
        ("scratch", {"run": RunId(turn)}),
        ("library", {"agent": "atlas"}),
    ):
        (tmp_path / name).mkdir()
        made = await tree.resources.ensure(
            "directory", str(tmp_path / name), session="main", **owner
        )
        holder = owner.get("run", "agent:atlas")
        held = await tree.edges.list_held(tree.revisions.world.now(), holder=holder)
        assert [(one.kind, one.holder.id, one.resource) for one in held] == [
            ("OWNS_RESOURCE", holder, made.id)
        ]
        scope = (await tree.resources.get(made.id)).scope
        assert (scope.run_id, scope.agent_id) == (
            owner.get("run"), "agent:atlas" if "agent" in owner else None,
        )  # fmt: skip


async def test_a_handle_comes_with_its_attachment(tree: Tree, workspace: Path) -> None:
    await say(tree, "hello")
    resource = await tree.resources.ensure("process", "pid-1")
    grip = Handle("h-1", resource.id, "docker", "c0ffee", frozenset({"exec", "logs"}))
    assert await tree.resources.attach("main", resource, "ro", handle=grip)
    session = await tree.sessions.get("main")
    event = (await tree.edges.list_history(session.id))[-1]
    assert event.data["handle"] == {
        "id": "h-1",
        "provider": "docker",
        "provider_id": "c0ffee",
        "restorable": False,
        "capabilities": ["exec", "logs"],
    }


async def test_the_same_state_is_noted_once(tree: Tree, workspace: Path) -> None:
    resource = await tree.resources.ensure_directory(str(workspace))
    first = await tree.resources.take(resource)
    assert await tree.resources.take(resource) == first
    (workspace / "a.txt").write_text("two")
    second = await tree.resources.take(resource)
    assert second.id != first.id
    assert await tree.resources.ledger.get_snapshot(first.id) == first


async def test_what_cannot_be_kept_is_not(tree: Tree, workspace: Path) -> None:
    process = await tree.resources.ensure("process", "pid-1")
    with pytest.raises(Unsupported):
        await tree.resources.take(process)
    kept = tree.resources.keepers("directory").snapshot(str(workspace))
    with pytest.raises(InvalidOperation, match="can be kept"):
        await tree.resources.note(process, kept)


async def test_a_turn_pins_the_states_it_found_and_left(tree: Tree, workspace: Path) -> None:
    turn = await say(tree, "hello")
    resource = await tree.resources.ensure_directory(str(workspace), "main")
    keeper = tree.resources.keeper_of(resource)
    before = keeper.snapshot(resource.place)
    (workspace / "b.txt").write_text("new")
    after = keeper.snapshot(resource.place)
    began, ended = Timestamp("2026-01-01T00:00:00.000Z"), Timestamp("2026-01-01T00:01:00.000Z")
    assert await tree.resources.pin(turn, resource, before, after, began, ended)
    assert not await tree.resources.pin(turn, resource, before, after, began, ended)
    (pinned,) = await tree.resources.pins_of("main")
    assert (pinned.resource, pinned.pin.began_at, pinned.pin.ended_at) == (resource, began, ended)
    assert pinned.before is not None
    kept = await tree.resources.list_pinned_states(after.external.kind)
    here = {Digest(before.external.id), Digest(after.external.id)}
    assert kept == PinnedStates(frozenset(here), frozenset())
    files = tree.resources.file_keeper_of(resource)
    changes = files.compare(pinned.before.external, pinned.after.external)
    assert [(change.path, change.kind) for change in changes] == [("b.txt", "added")]
    assert await tree.resources.pins.list_pins_between(resource.id, began, began) == [pinned]
    assert await tree.resources.pins.list_pins_between(resource.id, ended, ended) == [pinned]
    after_it = Timestamp("2026-01-01T00:01:00.001Z")
    assert await tree.resources.pins.list_pins_between(resource.id, after_it, after_it) == []


async def test_a_pin_needs_a_turn(tree: Tree, workspace: Path, world: FakeClock) -> None:
    resource = await tree.resources.ensure_directory(str(workspace))
    with pytest.raises(NotFound):
        await pin(tree, TurnId(world.new_id()), resource)


async def test_pins_are_found_along_a_thread_across_forks(tree: Tree, workspace: Path) -> None:
    turns = [await say(tree, str(n)) for n in range(6)]
    resource = await tree.resources.ensure_directory(str(workspace), "main")
    with pytest.raises(NotFound, match="knows any files"):
        await tree.resources.nearest("main")
    for number in (1, 3, 5):
        (workspace / "a.txt").write_text(str(number))
        assert await pin(tree, turns[number], resource)
    await tree.sessions.fork("main~1", "side")
    await say(tree, "aside", "side")
    placed, pins = await tree.resources.nearest("side")
    assert (placed.turn.id, placed.depth) == (turns[3], 4)
    assert [one.pin.turn for one in pins] == [turns[3]]
    along = await tree.resources.pins_along("main")
    assert [one.pin.turn for one in along] == [turns[5], turns[3], turns[1]]
    assert [one.pin.turn for one in await tree.resources.pins_along("main", 1)] == [turns[5]]
    assert [one.pin.turn for one in await tree.resources.pins_along("side")] == [
        turns[3],
        turns[1],
    ]


async def test_liveness_is_told_when_it_is_news(tree: Tree, workspace: Path) -> None:
    resource = await tree.resources.ensure_directory(str(workspace))
    assert [await tree.resources.probe(resource) for _ in range(2)] == ["alive", "alive"]
    shutil.rmtree(workspace)
    assert await tree.resources.probe(resource) == "dead"
    told = [fact.event.kind for fact in await tree.ledger.facts(resource.id)]
    assert told == ["resource.created", "resource.probed", "resource.probed"]


async def test_a_lease_is_one_holders_until_it_runs_out(tree: Tree, workspace: Path) -> None:
    resource = await tree.resources.ensure_directory(str(workspace))
    advice, (one, two, three) = tree.resources.advice, (instant_at(n) for n in (1, 2, 3))
    assert await advice.lease(resource.id, "ana", two, one) is not None
    assert await advice.lease(resource.id, "bob", three, one) is None
    assert await advice.lease(resource.id, "ana", three, one) is not None
    assert await advice.lease(resource.id, "bob", three, two) is None
    assert await advice.lease(resource.id, "bob", instant_at(4), three) is not None
    await advice.release(resource.id, "ana")
    assert await advice.lease(resource.id, "ana", instant_at(9), three) is None
    await advice.release(resource.id, "bob")
    assert await advice.lease(resource.id, "ana", instant_at(9), three) is not None


async def test_what_resources_leave_is_sound(
    tree: Tree, workspace: Path, database: Database
) -> None:
    turn = await say(tree, "hello")
    resource = await tree.resources.ensure_directory(str(workspace), "main")
    await pin(tree, turn, resource)
    await tree.resources.probe(resource)
    await tree.resources.detach("main", resource)
    assert await fsck(database) == []


def instant_at(minute: int) -> Timestamp:
    return Timestamp(f"2026-01-01T00:0{minute}:00.000Z")
