"""Members: who begins a workspace, who may change its members, and what a guest may do."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from turntree.api import Tree
from turntree.auth import audit
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import RIGHTS, ROLES, WORKSPACE_STREAM, as_person, read_role, roles_with
from turntree.auth.permissions import Permissions, actions, right, tools
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import Conflict, Hint, InvalidOperation, NotFound, PermissionDenied
from turntree.core.event import Event, record
from turntree.core.ids import Timestamp
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.viewer import Sight
from turntree.db.database import Database
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for another person."""
    return tree_on(database, Settings(place, user="bob"), world)


async def say(tree: Tree, session: str = "main") -> None:
    await tree.turns.record(session, [user("hello")], [assistant("hi")])


async def roles(tree: Tree) -> dict[str, str]:
    return {one.name: one.role for one in await tree.members.list_all()}


async def denials(tree: Tree) -> list[Mapping[str, Any]]:
    return [event.data for _, event in await tree.feed.read() if event.kind == audit.DENIED]


def test_the_table_says_who_may_do_what() -> None:
    """The whole table, once more: a change of it is on purpose."""
    wanted = (
        "read", "invoke", "key.create", "configure", "fork", "key.manage", "member.manage",
        "webhook.create", "webhook.manage", "trigger.create", "trigger.manage",
    )  # fmt: skip
    may = {
        role: {name for name in wanted if RIGHTS[role].permits(right("action", name))}
        for role in ROLES
    }
    assert may == {
        "admin": {*wanted},
        "member": {
            "read",
            "invoke",
            "key.create",
            "configure",
            "fork",
            "webhook.create",
            "trigger.create",
        },
        "guest": {"read", "invoke", "key.create"},
    }
    assert roles_with(right("action", "member.manage")) == ["admin"]
    # Each role is within the next larger one.
    assert RIGHTS["guest"].within(RIGHTS["member"])
    assert RIGHTS["member"].within(RIGHTS["admin"])


@pytest.mark.parametrize(
    "name",
    ["", " ", "human:", "agent:atlas", "a\nb", "x for human:ana", "n" * 201, "system:turntree"],
)
def test_only_people_are_members(name: str) -> None:
    with pytest.raises(InvalidOperation):
        as_person(name)


def test_a_name_may_be_written_with_its_kind() -> None:
    assert as_person("ana") == as_person("human:ana") == "human:ana"
    with pytest.raises(InvalidOperation, match="'owner' is not a role: there are admin, member"):
        read_role("owner")


async def test_the_first_person_of_a_new_workspace_is_its_admin(tree: Tree, bob: Tree) -> None:
    assert await roles(tree) == {"ana": "admin"}
    # Reading makes no member: until a person acts, each reader would be the first.
    assert await roles(bob) == {"bob": "admin"}
    assert await tree.feed.read() == []
    await tree.members.add("carl")
    assert await roles(bob) == {"ana": "admin", "carl": "member"}


async def test_in_an_older_ledger_the_first_person_is_admin_and_others_are_members(
    tree: Tree, bob: Tree
) -> None:
    await say(tree)
    await tree.programs.create("session", "main", {}, visibility="private")
    await say(bob, "bobs")
    await say(bob, "more")
    assert await roles(bob) == {"ana": "admin", "bob": "member"}
    with pytest.raises(PermissionDenied, match="takes the role admin, which human:ana has"):
        await bob.members.add("bob-the-second")
    assert await roles(tree) == {"ana": "admin", "bob": "member"}
    # Nothing that worked before stops working.
    await say(tree)
    await say(bob, "bobs")
    assert await tree.checks.fsck(full=True) == []


async def test_a_change_is_an_event_of_the_workspace(tree: Tree, database: Database) -> None:
    (row,) = await database.fetch(b"SELECT turntree.workspace_stream()::text")
    assert row == (WORKSPACE_STREAM,)
    member = await tree.members.add("bob", "guest")
    assert (member.principal, member.role) == ("human:bob", "guest")
    changed, before = await tree.members.set_role("bob", "member")
    assert (changed.role, before) == ("member", "guest")
    assert await tree.members.remove("bob") == "member"
    assert await tree.members.find_role("bob") is None
    told = [event for _, event in await tree.feed.read()]
    assert {event.stream for event in told} == {WORKSPACE_STREAM}
    assert [(one.kind, one.data["member"], one.data.get("role")) for one in told] == [
        ("member.added", "human:ana", "admin"),
        ("member.added", "human:bob", "guest"),
        ("member.role_changed", "human:bob", "member"),
        ("member.removed", "human:bob", None),
    ]
    await tree.members.add("bob")
    assert await tree.checks.fsck(full=True) == []


async def test_every_denial_is_an_event(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    for change in (
        lambda: bob.members.add("carl"),
        lambda: bob.members.set_role("bob", "admin"),
        lambda: bob.members.remove("ana"),
    ):
        with pytest.raises(PermissionDenied):
            await change()
    (denied,) = await denials(tree)
    assert denied["by"] == {"kind": "human", "id": "bob"}
    assert denied["permission"] == "action:member.manage"
    assert [one.right for one in (await tree.authority.audit()).denied] == ["action:member.manage"]
    assert await roles(tree) == {"ana": "admin", "bob": "member"}


async def test_a_narrowed_context_manages_nothing(tree: Tree) -> None:
    ana = ExecutionContext.begin(Principal("human", "ana"))
    reader = ana.child(Permissions(actions("read")))
    with reader.entered(), pytest.raises(PermissionDenied, match=r"nothing allows action:member"):
        await tree.members.add("bob")
    atlas = ana.delegate(Principal("agent", "atlas"), Permissions(tools("*")))
    with atlas.entered(), pytest.raises(PermissionDenied):
        await tree.members.remove("ana")
    assert [str(Principal.from_json(data["by"])) for data in await denials(tree)] == [
        "human:ana", "agent:atlas",
    ]  # fmt: skip
    assert await roles(tree) == {"ana": "admin"}


async def test_a_workspace_keeps_an_admin(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    with pytest.raises(InvalidOperation, match="human:ana is the only admin"):
        await tree.members.remove("ana")
    with pytest.raises(InvalidOperation, match="human:ana is the only admin"):
        await tree.members.set_role("ana", "guest")
    await tree.members.set_role("bob", "admin")
    await tree.members.remove("ana")
    with pytest.raises(InvalidOperation, match="only admin"):
        await bob.members.remove("bob")


async def test_two_admins_who_remove_each_other_leave_one(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob", "admin")
    results: list[str] = []

    async def remove(by: Tree, name: str) -> None:
        try:
            await by.members.remove(name)
            results.append(name)
        except (InvalidOperation, NotFound) as error:
            results.append(type(error).__name__)

    async with anyio.create_task_group() as group:
        group.start_soon(remove, tree, "bob")
        group.start_soon(remove, bob, "ana")
    assert len(await roles(tree)) == 1
    assert "PermissionDenied" in results


async def test_a_member_is_added_once_and_may_leave(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    with pytest.raises(Conflict, match="bob is already a member, with the role member") as twice:
        await tree.members.add("bob", "guest")
    assert twice.value.hint == Hint("member.role", {"member": "bob", "role": "guest"})
    # Nothing to paste that would demote an admin.
    with pytest.raises(Conflict, match="ana is already a member, with the role admin") as twice:
        await tree.members.add("ana")
    assert twice.value.hint == Hint("member.list")
    with pytest.raises(NotFound, match="human:eve is not a member"):
        await tree.members.set_role("eve", "guest")
    assert await bob.members.remove("bob") == "member"
    with pytest.raises(NotFound):
        await bob.members.remove("bob")


async def test_a_member_cannot_leave_in_the_name_of_another(
    tree: Tree, bob: Tree, world: FakeClock
) -> None:
    await tree.members.add("bob")
    await tree.members.add("eve", "admin")
    with pytest.raises(PermissionDenied):
        await bob.members.store.set_role(
            "human:ana", None, is_new=False, by="human:ana", at=world.now(), roles=["admin"]
        )
    assert "human:ana" in {one.principal for one in await tree.members.list_all()}


async def test_a_guest_reads_and_changes_only_what_was_granted(
    tree: Tree, bob: Tree, database: Database, world: FakeClock
) -> None:
    inbox = InboxStore(database.seen_by(Sight("human:bob")), InlineEngine(database.lend))
    await say(tree)
    await say(tree)
    await say(tree, "shared")
    await tree.programs.create("session", "shared", {})
    await tree.programs.create("task", "errand", {"title": "buy milk"})
    await tree.members.add("bob", "guest")
    assert (await bob.turns.get("main")).turn.title == "hello"
    main = await bob.sessions.get("main")
    for change in (
        lambda: say(bob),
        lambda: say(bob, "new"),
        lambda: bob.sessions.fork("main", "mine"),
        lambda: bob.sessions.rewind("main", "main~1"),
        lambda: bob.turns.tag("main", "bad"),
        lambda: bob.programs.create("task", "mine", {"title": "mine"}),
        lambda: inbox.post(main.id, user("hello"), by="human:bob", at=world.now()),
    ):
        with pytest.raises(PermissionDenied, match="human:bob is a guest"):
            await change()
    with pytest.raises(PermissionDenied):
        await bob.programs.move("errand", "active")
    await tree.programs.grant("shared", "bob", "read")
    with pytest.raises(PermissionDenied):
        await say(bob, "shared")
    await tree.programs.grant("shared", "bob", "invoke")
    await say(bob, "shared")
    with pytest.raises(PermissionDenied):
        await bob.sessions.rename("shared", "mine")
    assert {data["permission"] for data in await denials(tree)} == {
        "action:invoke", "action:create", "action:configure",
    }  # fmt: skip
    await tree.members.set_role("bob", "member")
    await say(bob)
    assert await tree.checks.fsck(full=True) == []


async def test_a_person_who_was_removed_changes_nothing(tree: Tree, bob: Tree) -> None:
    await say(tree)
    await say(bob, "bobs")
    await tree.members.remove("bob")
    with pytest.raises(PermissionDenied, match="human:bob was removed from this workspace"):
        await say(bob, "bobs")
    assert await roles(tree) == {"ana": "admin"}
    # What they wrote stays, and they may come back.
    assert (await tree.turns.get("bobs")).turn.title == "hello"
    await tree.members.add("bob")
    await say(bob, "bobs")


async def test_an_agent_that_acts_for_a_guest_is_a_guest(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    await say(tree)
    await tree.members.add("bob", "guest")
    guest = ExecutionContext.begin(Principal("human", "bob"))
    atlas = guest.delegate(Principal("agent", "atlas"), Permissions(tools("*")))
    behalf = tree_on(database, Settings(place, user="bob", context=atlas), world)
    with pytest.raises(PermissionDenied, match="agent:atlas for human:bob is a guest"):
        await say(behalf)


async def test_members_stay_in_their_workspace_when_it_is_exported(
    tree: Tree,
) -> None:
    await say(tree)
    await tree.members.add("bob")
    lines: list[bytes] = []
    await tree.archives.export(lines.append)
    whole = b"".join(lines)
    assert b'"kind":"turn"' in whole
    assert b"human:bob" not in whole
    assert b'"member.' not in whole
    # Nor does an archive that a forger wrote make members, in any spelling of the stream.
    spellings = (WORKSPACE_STREAM, WORKSPACE_STREAM.upper(), WORKSPACE_STREAM.replace("-", ""))
    for stream in spellings:
        with pytest.raises(InvalidOperation, match="members or keys, which cannot be imported"):
            await tree.archives.load(io.BytesIO(add_admin(whole, stream)))
    assert await roles(tree) == {"ana": "admin", "bob": "member"}


def add_admin(archive: bytes, stream: str) -> bytes:
    """Return an archive with one more event, which makes eve an admin."""
    forged = record(
        Event(
            stream,
            3,
            "member.added",
            Timestamp("2026-11-18T11:00:00.000Z"),
            {"by": "human:ana", "member": "human:eve", "role": "admin"},
        )
    )
    told = [json.loads(line) for line in archive.splitlines()]
    told.insert(1, {"kind": "event", "id": forged.id, "event": json.loads(forged.body)})
    body = b"".join(canonical(line) + b"\n" for line in told[:-1])
    return body + canonical({**told[-1], "digest": digest_bytes(body)}) + b"\n"


async def test_no_event_is_appended_to_the_stream_of_the_workspace(
    tree: Tree, bob: Tree, world: FakeClock
) -> None:
    await tree.members.add("bob", "guest")
    seq = len(await tree.feed.read())
    data: dict[str, Json] = {"by": "human:ana", "member": "human:bob", "role": "admin"}
    for stream in (WORKSPACE_STREAM, WORKSPACE_STREAM.upper()):
        forged = record(Event(stream, seq, "member.role_changed", world.now(), data))
        with pytest.raises(PermissionDenied, match="stream of the workspace itself"):
            await bob.ledger.append(forged)
    assert await tree.checks.fsck(full=True) == []
