"""The shape of the tree: segments, heads, marks, and what changed after a position."""

from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.session import Origin, Spawn
from turntree.core.usage import ModelCall, Usage
from turntree.db.database import Database
from turntree.ledger.recorder import TurnDetails
from turntree.ledger.shape import Skeleton, SkeletonSegment, SkeletonSession, find_project
from turntree.ledger.shape_store import TurnRange
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

CODEX = Principal("agent", "codex", on_behalf_of=Principal("human", "ana"))


async def say(tree: Tree, session: str, said: str, details: TurnDetails | None = None) -> TurnId:
    placed = await tree.turns.record(
        session, [user(said)], [assistant("done")], **(details or TurnDetails())
    )
    return placed.turn.id


async def grow(tree: Tree) -> list[TurnId]:
    """Record four turns, and a fork of two after the second."""
    turns = [await say(tree, "main", f"question {number}") for number in range(1, 5)]
    await tree.sessions.fork(turns[1], "side")
    turns += [await say(tree, "side", f"aside {number}") for number in (1, 2)]
    return turns


def session_of(skeleton: Skeleton, label: str) -> SkeletonSession:
    (session,) = [one for one in skeleton.sessions if one.label == label]
    return session


def segment_of(skeleton: Skeleton, session: SkeletonSession) -> SkeletonSegment:
    (segment,) = [one for one in skeleton.segments if one.id == session.segment]
    return segment


async def test_empty_tree_has_an_empty_shape(tree: Tree) -> None:
    skeleton = await tree.shape.read()
    assert skeleton.whole
    assert [*skeleton.segments, *skeleton.sessions, *skeleton.marks] == []


async def test_segments_have_both_ends_and_parents_come_first(tree: Tree) -> None:
    turns = await grow(tree)
    skeleton = await tree.shape.read()
    root, fork = skeleton.segments
    assert (root.parent, root.low, root.high) == (-1, 1, 4)
    assert (root.first_turn, root.last_turn) == (turns[0], turns[3])
    assert (fork.parent, fork.parent_depth, fork.low, fork.high) == (root.id, 2, 3, 4)
    assert (fork.first_turn, fork.last_turn) == (turns[4], turns[5])
    assert root.first_ms <= root.last_ms
    assert [(one.segment, one.depth, one.turn) for one in skeleton.turnings] == [
        (root.id, 3, turns[2])
    ]
    side = session_of(skeleton, "side")
    assert (side.segment, side.depth, side.title) == (fork.id, 4, "aside 1")
    assert session_of(skeleton, "main").title == "question 1"


async def test_people_are_never_agents(tree: Tree) -> None:
    await say(tree, "main", "asked by ana")
    await tree.sessions.create("imported", origin=Origin("gemini-cli", "g1"))
    await say(tree, "imported", "asked by ana there")
    await say(tree, "other", "answered by an agent", {"by": CODEX})
    skeleton = await tree.shape.read()
    names = {one.label: skeleton.agents[one.agent] for one in skeleton.sessions}
    assert names == {"main": "turntree", "imported": "gemini-cli", "other": "codex"}
    assert {agent for _, agent, _ in (await tree.shape.activity()).counts} == set(names.values())


async def test_fork_with_files_belongs_to_the_project_of_its_root(
    tree: Tree, tmp_path: Path
) -> None:
    turn = await say(tree, "main", "hello")
    for name in ("shop", "shop-fork"):
        (tmp_path / name).mkdir()
    await tree.resources.ensure_directory(str(tmp_path / "shop"), "main")
    await tree.sessions.fork(turn, "side")
    await say(tree, "side", "elsewhere")
    await tree.resources.ensure_directory(str(tmp_path / "shop-fork"), "side")
    skeleton = await tree.shape.read()
    side = session_of(skeleton, "side")
    assert side.folder == str(tmp_path / "shop-fork")
    assert skeleton.projects[side.project] == "shop"
    assert {skeleton.projects[one.project] for one in skeleton.segments} == {"shop"}


async def test_subagent_belongs_to_the_project_and_the_turn_that_spawned_it(tree: Tree) -> None:
    turn = await say(tree, "claude-code/shop/1", "hello")
    parent = await tree.sessions.get("claude-code/shop/1")
    await tree.sessions.create("worker", spawn=Spawn(parent.id, turn, "call-1"))
    await say(tree, "worker", "look around")
    skeleton = await tree.shape.read()
    worker, above = session_of(skeleton, "worker"), session_of(skeleton, "claude-code/shop/1")
    assert (worker.spawn_segment, worker.spawn_depth) == (above.segment, 1)
    assert worker.project == above.project
    assert skeleton.projects == ("shop",)


async def test_failures_compactions_and_tags_are_marks(tree: Tree) -> None:
    first = await say(tree, "main", "one")
    await say(tree, "main", "two", {"outcome": "failed"})
    third = await say(tree, "main", "three", {"outcome": "canceled"})
    await say(tree, "main", "", {"compaction": Compaction(third, None, 3)})
    await tree.turns.tag(first, "good")
    skeleton = await tree.shape.read()
    assert [(one.depth, one.kind, one.name) for one in skeleton.marks] == [
        (1, "tag", "good"), (2, "failed", None), (3, "stopped", None), (4, "compaction", None),
    ]  # fmt: skip


async def test_after_a_position_only_what_changed_is_told(tree: Tree) -> None:
    turns = await grow(tree)
    await say(tree, "unrelated", "something else")
    before = await tree.shape.read()
    same = await tree.shape.read(before.position)
    assert (same.whole, same.segments, same.sessions) == (False, (), ())
    await say(tree, "side", "aside 3")
    later = await tree.shape.read(before.position)
    assert not later.whole
    assert [one.label for one in later.sessions] == ["side"]
    fork = segment_of(later, session_of(later, "side"))
    assert (fork.high, fork.first_turn) == (5, turns[4])
    await tree.sessions.fork(turns[2], "third")
    await say(tree, "third", "another way")
    await tree.sessions.create("empty")
    last = await tree.shape.read(later.position)
    assert {one.label for one in last.sessions} == {"third", "empty"}
    assert (before.segments[0].id, 4, turns[3]) in last.turnings
    # What was told in parts is what is told at once.
    told = {one.id: one for skeleton in (before, later, last) for one in skeleton.segments}
    assert tuple(told.values()) == (await tree.shape.read()).segments


async def test_what_is_taken_away_makes_the_client_forget(tree: Tree) -> None:
    turn = await say(tree, "main", "one")
    await tree.turns.tag(turn, "good")
    tagged = await tree.shape.read()
    await tree.turns.untag(turn, "good")
    untagged = await tree.shape.read(tagged.position)
    assert untagged.whole
    assert untagged.marks == ()
    await tree.sessions.set_status("main", "deleted")
    assert (await tree.shape.read(untagged.position)).sessions == ()


async def test_a_server_that_starts_again_tells_everything(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    await grow(tree)
    position = (await tree.shape.read()).position
    await say(tree, "side", "after the restart")
    again = tree_on(database, Settings(place, user="ana", session="main"), world)
    assert (await again.shape.read(position)).whole
    assert (await again.shape.read("what is this")).whole


async def test_private_session_is_absent_to_a_viewer_without_access(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    ana = tree_on(database, Settings(place, user="ana"), world)
    bob = tree_on(database, Settings(place, user="bob"), world)
    shared = await say(ana, "main", "for all")
    await ana.sessions.fork(shared, "secret")
    # The private session goes on in the segment of the public one, and forks off later.
    hidden = await say(ana, "secret", "my xylophone", {"outcome": "failed"})
    await ana.turns.tag(hidden, "mine")
    open_to_both = await bob.shape.read()
    assert open_to_both.segments[0].high == 2
    await ana.programs.create("session", "secret", {}, visibility="private")
    await say(ana, "main", "a way on for all")
    for seen in (await bob.shape.read(), await bob.shape.read(open_to_both.position)):
        assert seen.whole
        assert {one.label for one in seen.sessions} == {"main"}
        assert hidden not in {
            turn for one in seen.segments for turn in (one.first_turn, one.last_turn)
        }
        assert seen.marks == ()
        assert hidden not in {one.turn for one in seen.turnings}
    assert [one.title for one in await bob.shape.lines_of([hidden, shared])] == ["for all"]
    root = (await ana.shape.read()).segments[0].id
    assert [line.title for line in await bob.shape.lines([TurnRange(root, 1, 9)])] == ["for all"]
    assert sum(turns for *_, turns in (await bob.shape.activity()).counts) == 2
    assert [one.ends.label for one in (await ana.shape.spine("main")).branches] == ["secret"]
    assert (await bob.shape.spine("main")).branches == ()
    with pytest.raises(NotFound):
        await bob.shape.spine("secret")
    assert (await bob.search.places("xylophone")).hits == ()
    assert (await ana.search.places("xylophone")).hits == ((root, 2),)
    # A position that was told while something was hidden is no ground to build on.
    partial = await bob.shape.read()
    await ana.programs.set_visibility("secret", "public")
    everything = await bob.shape.read(partial.position)
    assert everything.whole
    assert {one.label for one in everything.sessions} == {"main", "secret"}


async def test_lines_have_titles_without_bodies(tree: Tree) -> None:
    calls = [ModelCall("m", Usage(10, 5, 100))]
    long = "word " * 4_000
    await say(tree, "main", long, {"calls": calls, "model": "m", "by": CODEX})
    added = f"<system-reminder>{'x' * 3_000}</system-reminder> what a person wrote"
    await say(tree, "main", added)
    (segment,) = (await tree.shape.read()).segments
    first, second = await tree.shape.lines([TurnRange(segment.id, 1, 2)])
    assert (first.title, first.tokens, first.model) == (long[:199], 115, "m")
    assert (second.title, second.tokens, second.depth) == ("what a person wrote", None, 2)
    await tree.turns.record("main", [user("")], [assistant("")])
    (third,) = await tree.shape.lines([TurnRange(segment.id, 3, 3)])
    assert third.title == ""
    newest_first = [TurnRange(segment.id, 2, 2), TurnRange(segment.id, 1, 1)]
    assert [line.depth for line in await tree.shape.lines(newest_first)] == [2, 1]
    assert await tree.shape.lines([]) == []


async def test_spine_names_every_branch_that_leaves_a_thread(tree: Tree) -> None:
    turns = await grow(tree)
    spine = await tree.shape.spine("side")
    assert (spine.head, spine.turns) == (turns[5], 4)
    assert [node.depth for node in spine.nodes] == [1, 2, 4]
    (branch,) = spine.branches
    assert (branch.from_turn, branch.ends.turn, branch.ends.label) == (turns[1], turns[2], "main")
    assert (branch.ends.high - branch.ends.low + 1, branch.title) == (2, "question 3")
    (side,) = (await tree.shape.spine("main")).branches
    assert (side.from_turn, side.ends.turn, side.ends.label) == (turns[1], turns[4], "side")


async def test_activity_counts_turns_by_day_in_a_zone(tree: Tree) -> None:
    late = Timestamp("2026-03-01T23:30:00.000Z")
    await say(tree, "main", "late", {"started_at": late, "by": CODEX})
    assert (await tree.shape.activity()).counts == (("2026-03-01", "codex", 1),)
    zoned = await tree.shape.activity(zone="Europe/Berlin")
    assert zoned.counts == (("2026-03-02", "codex", 1),)
    with pytest.raises(InvalidOperation):
        await tree.shape.activity(zone="../Middle/Earth")


@pytest.mark.parametrize(
    ("folder", "label", "project"),
    [
        ("/home/ana/shop", "x", "shop"),
        ("C:\\code\\shop", "x", "shop"),
        (None, "codex/shop/1a2b", "shop"),
        (None, "codex/acme/shop/1a2b", "acme/shop"),
        (None, "main", None),
        ("/", "main", None),
    ],
)
def test_project_is_named_by_folder_or_label(
    folder: str | None, label: str, project: str | None
) -> None:
    assert find_project(folder, label) == project
