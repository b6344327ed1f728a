"""The inbox: who is told, who reads it, and what a flood of one sender does to the others."""

from pathlib import Path

import anyio
import pytest

from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import EVERYTHING as EVERYTHING_PERMITTED
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal
from turntree.core.program import fold
from turntree.core.viewer import EVERYTHING, Sight
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.notifications.notice import UNREAD_MAX
from turntree.programs.changes import AddNotice
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

ADD = b"""SELECT turntree.add_notice(
    %(workspace)b, %(person)b, %(kind)b, %(by)b, %(text)b, '{}', %(key)b, clock_timestamp())"""
LATER = Timestamp("2099-01-01T00:00:00.000Z")


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for another person."""
    return tree_on(database, Settings(place, user="bob"), world)


async def add(
    tree: Tree, text: str, *, person: str = "human:bob", key: str = "", by: str = "human:ana"
) -> bool:
    """Call the function that other packages call in their transactions."""
    row = await tree.programs.store.database.fetch_one(
        ADD, person=person, kind="mention", by=by, text=text, key=key or text
    )
    assert row is not None
    return bool(row[0])


async def texts(tree: Tree, *, everything: bool = False) -> list[str]:
    return [one.text for one in await tree.inbox.list_page(everything=everything)]


async def test_a_notice_reaches_a_member_without_an_entry_and_no_other_person(
    tree: Tree, bob: Tree
) -> None:
    assert await add(tree, "see this")
    assert await texts(bob) == ["see this"]
    assert await bob.inbox.count_unread() == 1
    assert await texts(tree) == []
    for sight in (Sight("human:ana"), Sight("agent:atlas for human:bob"), Sight("public:")):
        seen = tree.programs.store.database.seen_by(sight)
        assert await seen.fetch(b"SELECT id FROM turntree.notices") == []
    (read,) = await bob.inbox.read()
    assert (read.text, read.read_at is not None) == ("see this", True)
    assert await texts(bob) == []
    assert await texts(bob, everything=True) == ["see this"]


async def test_the_same_key_twice_is_one_notice(tree: Tree, bob: Tree) -> None:
    assert await add(tree, "first", key="post 1")
    assert not await add(tree, "again", key="post 1")
    assert await add(tree, "to ana", key="post 1", person="human:ana")
    assert await texts(bob) == ["first"]


async def test_an_agent_and_a_removed_person_are_told_nothing(tree: Tree) -> None:
    assert not await add(tree, "no", person="agent:atlas")
    await tree.members.add("bob")
    assert await add(tree, "welcome")
    await tree.members.remove("bob")
    assert not await add(tree, "farewell")


async def test_a_sender_who_floods_an_inbox_hides_no_notice_of_others(
    tree: Tree, bob: Tree
) -> None:
    await add(tree, "lunch is ready")
    for number in range(UNREAD_MAX + 2):
        await add(tree, f"buy {number}", by="human:eve")
    unread = await texts(bob)
    assert len(unread) == UNREAD_MAX + 1
    assert (unread[-1], unread[-2]) == ("lunch is ready", "buy 2")
    # None is lost: the first two are among all notices, and count as displaced.
    displaced = [one for one in await bob.inbox.list_page(everything=True) if one.is_displaced]
    assert [one.text for one in displaced] == ["buy 1", "buy 0"]


async def test_an_id_is_named_by_its_beginning(tree: Tree, bob: Tree) -> None:
    for text in ("one", "two", "three"):
        await add(tree, text)
    three, two, _ = await bob.inbox.list_page()
    assert [one.text for one in await bob.inbox.read([three.id[:12], two.id])] == ["two", "three"]
    assert await texts(bob) == ["one"]
    for id in (three.id, "zz", ""):
        with pytest.raises(NotFound, match="no unread notice"):
            await bob.inbox.read([id])


async def test_pages_are_in_order(tree: Tree, bob: Tree) -> None:
    for number in range(5):
        await add(tree, f"{number}")
    first = await bob.inbox.list_page(limit=2)
    rest = await bob.inbox.list_page(limit=9, before=first[-1].id)
    assert [one.text for one in (*first, *rest)] == ["4", "3", "2", "1", "0"]


async def test_only_a_person_has_an_inbox(tree: Tree, bob: Tree) -> None:
    await add(tree, "see this")
    atlas = ExecutionContext.begin(Principal("human", "bob")).delegate(
        Principal("agent", "atlas"), EVERYTHING_PERMITTED
    )
    through = bob.act_as(atlas).inbox
    assert await through.list_page() == []
    assert await through.count_unread() == 0
    assert await through.read() == []
    assert await bob.inbox.count_unread() == 1
    with pytest.raises(PermissionDenied, match="only human:bob reads their notices"):
        await tree.inbox.store.read("human:bob", None, at=LATER)


async def test_the_event_of_a_message_does_not_have_its_text(tree: Tree, bob: Tree) -> None:
    person = await tree.programs.create("human", "bob", {})
    await tree.programs.invoke("bob", {"message": "my secret"})
    await tree.programs.invoke("bob", {"message": "my secret"})
    assert await texts(bob) == ["my secret", "my secret"]
    read = (await bob.programs.invoke("bob", {"read": True}))["read"]
    assert isinstance(read, list)
    assert len(read) == 2
    facts = await tree.ledger.facts(person.id)
    assert [fact.event.kind for fact in facts] == [
        "human.created", "human.notified", "human.notified", "human.read",
    ]  # fmt: skip
    assert "my secret" not in str([fact.event.data for fact in facts])
    assert facts[-1].event.data == {"by": "human:bob", "count": 2}
    # Nothing was read, so nothing is recorded.
    assert await bob.programs.invoke("bob", {"read": True}) == {"read": []}
    assert len(await tree.ledger.facts(person.id)) == 4
    assert await fsck(tree.programs.store.database.seen_by(EVERYTHING)) == []


async def test_an_event_whose_notice_is_refused_is_not_recorded(tree: Tree) -> None:
    person = await tree.programs.create("human", "bob", {})
    notice = AddNotice("human:bob", "message", "", {}, "key")
    with pytest.raises(InvalidOperation, match="notices_text_check"):
        await tree.programs.tell("bob", "human.notified", notice=notice)
    assert len(await tree.ledger.facts(person.id)) == 1


async def test_a_person_who_wants_no_notices_has_none(tree: Tree, bob: Tree) -> None:
    await bob.programs.create("human", "bob", {"preferences": {"notification_channel": "none"}})
    assert (await tree.programs.invoke("bob", {"message": "hello"}))["reached"] is False
    assert not await add(tree, "hello")
    assert await texts(bob, everything=True) == []


async def test_messages_in_the_details_of_earlier_releases_go_with_the_first_reading(
    tree: Tree, bob: Tree
) -> None:
    person = await tree.programs.create("human", "bob", {})
    old: dict[str, Json] = {"inbox": [{"by": "human:ana", "message": "lunch"}]}
    await tree.programs.tell("bob", "human.notified", right="invoke", sets=old)
    assert await bob.inbox.read() == []
    assert "inbox" not in (await tree.programs.get("bob")).details
    folded = fold([fact.event for fact in await tree.ledger.facts(person.id)])
    assert folded is not None
    assert folded.details == {}


async def test_a_failed_task_is_told_to_the_person_who_gave_it(tree: Tree, bob: Tree) -> None:
    await tree.programs.create("agent", "atlas", {})
    await tree.programs.create("task", "paper", {"title": "Write it", "assignee": "atlas"})
    await tree.programs.grant("paper", "bob", "configure")
    await tree.programs.move("paper", "active")
    await bob.programs.invoke("paper", {"action": "fail", "reason": "no paper"})
    (notice,) = await tree.inbox.list_page()
    assert (notice.kind, notice.by) == ("failure", "human:bob")
    assert (notice.text, notice.refs) == ("the task paper failed: no paper", {"task": "paper"})
    assert await texts(bob) == []


async def test_two_readers_at_once_read_each_notice_once(tree: Tree, bob: Tree) -> None:
    await tree.programs.create("human", "bob", {})
    for number in range(20):
        await add(tree, f"{number}")
    read: list[str] = []

    async def act() -> None:
        read.extend(one.id for one in await bob.inbox.read())

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(act)
    assert len(read) == len(set(read)) == 20
