"""Invitations: each lets one person in, once, until it expires."""

from pathlib import Path

import anyio
import psycopg
import pytest
from psycopg import sql

from turntree.api import Tree
from turntree.auth.access_code import INVITATION, make_code
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import Conflict, InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp, instant
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

LATER = Timestamp("2099-01-01T00:00:00.000Z")
ROWS = sql.SQL("SELECT t::text FROM turntree.{table} t")


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for a person who is not in it yet."""
    return tree_on(database, Settings(place, user="bob"), world)


async def roles(tree: Tree) -> dict[str, str]:
    return {one.name: one.role for one in await tree.members.list_all()}


async def test_an_invitation_is_accepted_once(tree: Tree, bob: Tree) -> None:
    made, code = await tree.invitations.create("bob@example.org", "guest", expires_at=LATER)
    assert made.state_at(made.created_at) == "open"
    member = await bob.invitations.accept(code)
    assert (member.principal, member.role) == ("human:bob", "guest")
    assert await roles(tree) == {"ana": "admin", "bob": "guest"}
    with pytest.raises(InvalidOperation, match=f"{made.id} was accepted already"):
        await bob.invitations.accept(code)
    (listed,) = await tree.invitations.list_all()
    assert (listed.accepted_by, listed.state_at(LATER)) == ("human:bob", "accepted")
    with pytest.raises(InvalidOperation, match="has ended already"):
        await tree.invitations.revoke(made.id)
    assert await tree.checks.fsck(full=True) == []


async def test_two_who_send_one_code_at_once_make_one_member(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    _, code = await tree.invitations.create("new@example.org", expires_at=LATER)
    people = [tree_on(database, Settings(place, user=f"p{n}"), world) for n in range(5)]
    refused: list[str] = []

    async def accept(person: Tree) -> None:
        try:
            await person.invitations.accept(code)
        except InvalidOperation as error:
            refused.append(str(error))

    async with anyio.create_task_group() as group:
        for person in people:
            group.start_soon(accept, person)
    assert len(refused) == 4
    assert len(await roles(tree)) == 2


async def test_only_the_digest_of_a_code_is_stored(
    tree: Tree, database: Database, conninfo: str
) -> None:
    made, code = await tree.invitations.create("carl@example.org", expires_at=LATER)
    assert code.startswith("tti_")
    with psycopg.connect(conninfo) as owner:
        tables = owner.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'turntree'"
            " AND table_type = 'BASE TABLE'"
        ).fetchall()
        rows = [
            str(row)
            for (table,) in tables
            for row in owner.execute(ROWS.format(table=sql.Identifier(table))).fetchall()
        ]
    secret = code.split("_")[3]
    assert any(made.id in row for row in rows)
    assert not any(secret in row for row in rows)
    # The address is in one row, and in no event: every member reads events.
    assert sum("carl@example.org" in row for row in rows) == 1
    (told,) = [one for _, one in await tree.feed.read() if one.kind == "invitation.created"]
    assert set(told.data) == {"by", "expires_at", "invitation", "role"}
    del database


async def test_an_invitation_for_a_name_is_for_that_person(tree: Tree, bob: Tree) -> None:
    made, code = await tree.invitations.create("carl", expires_at=LATER)
    assert made.invitee == "human:carl"
    with pytest.raises(PermissionDenied, match="is for human:carl, and not for human:bob"):
        await bob.invitations.accept(code)
    denied = [one.data for _, one in await tree.feed.read() if one.kind == "permission.denied"]
    assert [one["permission"] for one in denied] == ["action:invitation.accept"]
    assert await roles(tree) == {"ana": "admin"}


async def test_an_expired_or_revoked_invitation_lets_no_person_in(
    tree: Tree, bob: Tree, world: FakeClock
) -> None:
    made, code = await tree.invitations.create("bob", expires_at=LATER)
    await tree.invitations.revoke(made.id)
    with pytest.raises(InvalidOperation, match="was revoked"):
        await bob.invitations.accept(code)
    soon = instant(world.ms + 60_000)
    brief, code = await tree.invitations.create("bob", expires_at=soon)
    world.ms += 60_000
    with pytest.raises(InvalidOperation, match="has expired"):
        await bob.invitations.accept(code)
    assert brief.state_at(world.now()) == "expired"
    with pytest.raises(InvalidOperation, match="has to be in the future"):
        await tree.invitations.create("bob", expires_at=soon)
    assert await tree.checks.fsck(full=True) == []


async def test_only_admins_invite_and_see_invitations(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    made, _ = await tree.invitations.create("carl", expires_at=LATER)
    with pytest.raises(PermissionDenied, match="takes the role admin"):
        await bob.invitations.create("dora", expires_at=LATER)
    with pytest.raises(PermissionDenied, match="takes the role admin"):
        await bob.invitations.revoke(made.id)
    assert await bob.invitations.list_all() == []
    assert len(await tree.invitations.list_all()) == 1
    with pytest.raises(NotFound, match="there is no invitation"):
        await tree.invitations.revoke("nothing")


async def test_a_code_that_was_not_issued_here_says_nothing(
    tree: Tree, bob: Tree, database: Database
) -> None:
    _, code = await tree.invitations.create("bob", expires_at=LATER)
    forged = make_code(INVITATION, database.workspace, "x", "y")
    with pytest.raises(NotFound, match="there is no such invitation"):
        await bob.invitations.accept(forged.text)
    elsewhere = make_code(INVITATION, type(database.workspace)(int=7), "x", "y")
    with pytest.raises(PermissionDenied, match="for another workspace"):
        await bob.invitations.accept(elsewhere.text)
    with pytest.raises(PermissionDenied, match="check it for typos"):
        await bob.invitations.accept(code[:-1] + ("0" if code[-1] != "0" else "1"))
    _, own = await tree.invitations.create("ana@example.org", expires_at=LATER)
    with pytest.raises(Conflict, match="human:ana is already a member"):
        await tree.invitations.accept(own)


@pytest.mark.parametrize("invitee", ["", "a@b", "a b@example.org", "@example.org", "agent:atlas"])
async def test_whom_an_invitation_cannot_be_for(tree: Tree, invitee: str) -> None:
    with pytest.raises(InvalidOperation):
        await tree.invitations.create(invitee, expires_at=LATER)
