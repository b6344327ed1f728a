"""The ledger through its store: what becomes true together, and what refuses it."""

import pytest

from turntree.api import Tree
from turntree.core.errors import Conflict, InvalidOperation
from turntree.core.message import assistant, user

pytestmark = pytest.mark.anyio


async def test_a_recorded_turn_becomes_the_head(tree: Tree) -> None:
    placed = await tree.turns.record("main", [user("hello")], [assistant("hi")])
    session = await tree.sessions.get("main")
    assert session.head == placed.turn.id
    assert session.depth == 1


async def test_a_second_recorder_never_forks_by_accident(tree: Tree) -> None:
    first, second = await tree.recorder("main"), await tree.recorder("main")
    await first.record([user("one")], [assistant("1")])
    await second.record([user("two")], [assistant("2")])
    assert [placed.turn.title for placed in await tree.threads.read("main")] == ["one", "two"]


async def test_strict_recorder_raises_conflict_if_session_moved(tree: Tree) -> None:
    first, second = await tree.recorder("main"), await tree.recorder("main")
    await first.record([user("one")], [assistant("1")])
    with pytest.raises(Conflict):
        await second.record([user("two")], [assistant("2")], strict=True)


async def test_same_idempotency_key_returns_same_turn(tree: Tree) -> None:
    first = await tree.turns.record("main", [user("one")], [assistant("1")], key="k")
    again = await tree.turns.record("main", [user("one")], [assistant("1")], key="k")
    assert again == first
    assert len(await tree.threads.read("main")) == 1


async def test_rewind_to_non_ancestor_is_refused(tree: Tree) -> None:
    first = await tree.turns.record("main", [user("one")], [assistant("1")])
    second = await tree.turns.record("main", [user("two")], [assistant("2")])
    await tree.sessions.rewind("main", first.turn.id)
    with pytest.raises(InvalidOperation):
        await tree.sessions.rewind("main", second.turn.id)


async def test_turn_of_another_thread_is_not_an_ancestor(tree: Tree) -> None:
    first = await tree.turns.record("main", [user("one")], [assistant("1")])
    root = await tree.turns.record("other", [user("two")], [assistant("2")])
    with pytest.raises(InvalidOperation, match="ancestor"):
        await tree.sessions.rewind("main", root.turn.id, before=True)
    assert (await tree.sessions.get("main")).head == first.turn.id
    await tree.sessions.rewind("main", first.turn.id, before=True)
    assert (await tree.sessions.get("main")).head is None


async def test_idempotency_key_of_another_call_is_refused(tree: Tree) -> None:
    first = await tree.turns.record("main", [user("one")], [assistant("1")], key="k")
    with pytest.raises(InvalidOperation):
        await tree.turns.record("other", [user("one")], [assistant("1")], key="k")
    with pytest.raises(InvalidOperation):
        await tree.sessions.fork(first.turn.id, "side", key="k")
    assert (await tree.sessions.get("other")).head is None


async def test_recorder_repeating_old_key_keeps_head(tree: Tree) -> None:
    recorder = await tree.recorder("main")
    await recorder.record([user("one")], [assistant("1")], key="a")
    await recorder.record([user("two")], [assistant("2")], key="b")
    await recorder.record([user("one")], [assistant("1")], key="a")
    third = await recorder.record([user("three")], [assistant("3")], strict=True)
    assert third.depth == 3


async def test_record_unknown_detail_is_refused(tree: Tree) -> None:
    with pytest.raises(TypeError, match="expected_head"):
        await tree.turns.record(
            "main",
            [user("one")],
            [assistant("1")],
            expected_head="x",  # type: ignore[call-arg]
        )


async def test_free_label_is_the_first_number_that_no_session_has(tree: Tree) -> None:
    assert await tree.sessions.find_free_label("fix") == "fix"
    for label in ("fix", "fix-3"):
        await tree.sessions.create(label)
    assert await tree.sessions.find_free_label("fix") == "fix-2"
    await tree.sessions.create("fix-2")
    assert await tree.sessions.find_free_label("fix") == "fix-4"
