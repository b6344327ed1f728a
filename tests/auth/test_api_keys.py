"""API keys: shown once, verified before and against the ledger, narrowed twice."""

from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from turntree.api import Tree
from turntree.auth.access_code import KEY, make_code
from turntree.auth.api_keys import workspace_of_key
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, actions, right, tools
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp, instant
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.redaction import find_keys, redact
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

LATER = Timestamp("2099-01-01T00:00:00.000Z")
ROWS = sql.SQL("SELECT t::text FROM turntree.{table} t")
ANA = Principal("human", "ana")
READ, FORK = right("action", "read"), right("action", "fork")


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for another person."""
    return tree_on(database, Settings(place, user="bob"), world)


async def reasons(tree: Tree) -> list[object]:
    told = [event for _, event in await tree.feed.read() if event.kind == "permission.denied"]
    return [event.data["reason"] for event in told]


async def test_a_key_tells_who_acts_where_with_which_rights(tree: Tree, database: Database) -> None:
    made, text = await tree.keys.create("ci", expires_at=LATER)
    verified = await tree.keys.verify(text)
    assert (verified.id, verified.principal) == (made.id, ANA)
    assert verified.workspace == workspace_of_key(text) == str(database.workspace)
    assert verified.rights.permits(FORK)
    assert await tree.checks.fsck(full=True) == []


async def test_scopes_and_the_role_of_today_limit_a_key(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    _, wide = await bob.keys.create("wide", expires_at=LATER)
    reading = Permissions(actions("read"))
    _, narrow = await bob.keys.create("narrow", scopes=reading, expires_at=LATER)
    assert (await tree.keys.verify(wide)).rights.permits(FORK)
    assert not (await tree.keys.verify(wide)).rights.permits(right("action", "member.manage"))
    assert (await tree.keys.verify(narrow)).rights.allow == reading.allow
    await tree.members.set_role("bob", "admin")
    # The scopes are those of the day on which it was made; the role never adds to them.
    assert (await tree.keys.verify(narrow)).rights == reading
    await tree.members.set_role("bob", "guest")
    assert not (await tree.keys.verify(wide)).rights.permits(FORK)
    assert (await tree.keys.verify(wide)).rights.permits(READ)
    await tree.members.remove("bob")
    for text in (wide, narrow):
        with pytest.raises(PermissionDenied, match="it was revoked"):
            await tree.keys.verify(text)


async def test_a_narrowed_context_makes_narrowed_keys(tree: Tree) -> None:
    ana = ExecutionContext.begin(ANA)
    limits = Permissions((*actions("read", "key.create"), *tools("fs.*")))
    with ana.child(limits).entered():
        made, text = await tree.keys.create("ci", expires_at=LATER)
    assert made.scopes == limits
    assert not (await tree.keys.verify(text)).rights.permits(FORK)
    with (
        ana.child(Permissions(actions("read"))).entered(),
        pytest.raises(PermissionDenied, match=r"nothing allows action:key\.create"),
    ):
        await tree.keys.create("more", expires_at=LATER)
    agent = ana.delegate(Principal("agent", "atlas"), Permissions(actions("*")))
    with agent.entered(), pytest.raises(PermissionDenied, match="only a person can create a key"):
        await tree.keys.create("more", expires_at=LATER)


async def test_an_agent_acts_with_a_key_on_behalf_of_its_holder(tree: Tree) -> None:
    limits = Permissions(tools("fs.read"))
    _, text = await tree.keys.create("ci", agent="atlas", scopes=limits, expires_at=LATER)
    verified = await tree.keys.verify(text)
    assert verified.principal == Principal("agent", "atlas", ANA)
    assert verified.rights == limits
    with pytest.raises(InvalidOperation):
        await tree.keys.create("ci", agent="", expires_at=LATER)


async def test_a_key_that_is_wrong_revoked_or_expired_opens_nothing(
    tree: Tree, world: FakeClock, database: Database
) -> None:
    made, text = await tree.keys.create("ci", expires_at=instant(world.ms + 3_600_000))
    forged = make_code(KEY, database.workspace, "unknown", "guess")
    with pytest.raises(PermissionDenied, match=f"there is no key {forged.id}"):
        await tree.keys.verify(forged.text)
    elsewhere = make_code(KEY, type(database.workspace)(int=7), "x", "y")
    with pytest.raises(PermissionDenied, match="for another workspace"):
        await tree.keys.verify(elsewhere.text)
    assert await reasons(tree) == [], "what names no key of ours is not recorded"
    await tree.keys.revoke(made.id, reason="it leaked")
    with pytest.raises(PermissionDenied, match="it was revoked"):
        await tree.keys.verify(text)
    with pytest.raises(InvalidOperation, match="was revoked already, by human:ana"):
        await tree.keys.revoke(made.id)
    brief, text = await tree.keys.create("ci", expires_at=instant(world.ms + 60_000))
    world.ms += 60_000
    with pytest.raises(PermissionDenied, match="it has expired"):
        await tree.keys.verify(text)
    assert await reasons(tree) == [
        f"key {made.id}: it was revoked",
        f"key {brief.id}: it has expired",
    ]
    assert await tree.checks.fsck(full=True) == []


async def test_a_wrong_secret_of_a_known_key_is_recorded_and_says_nothing(
    tree: Tree, conninfo: str
) -> None:
    made, text = await tree.keys.create("ci", expires_at=LATER)
    # A right checksum over a wrong secret: what a guess that passes the first check looks like.
    with psycopg.connect(conninfo) as owner:
        owner.execute("UPDATE turntree.api_keys SET key_digest = sha256('other')")
    with pytest.raises(PermissionDenied, match=f"^there is no key {made.id}$"):
        await tree.keys.verify(text)
    assert await reasons(tree) == [f"key {made.id}: the secret is wrong"]


async def test_a_text_that_is_no_key_is_refused_before_any_query(tree: Tree, conninfo: str) -> None:
    _, text = await tree.keys.create("ci", expires_at=LATER)
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute("ALTER TABLE turntree.api_keys RENAME TO gone")
        with pytest.raises(PermissionDenied, match="check it for typos"):
            await tree.keys.verify(text[:-1] + ("0" if text[-1] != "0" else "1"))
        owner.execute("ALTER TABLE turntree.gone RENAME TO api_keys")
    assert (await tree.keys.verify(text)).principal == ANA


async def test_a_use_is_noted_once_a_minute(tree: Tree, world: FakeClock) -> None:
    _, text = await tree.keys.create("ci", expires_at=LATER)
    (before,) = await tree.keys.list_all()
    assert before.last_used_at is None
    await tree.keys.verify(text)
    (first,) = await tree.keys.list_all()
    await tree.keys.verify(text)
    (second,) = await tree.keys.list_all()
    assert first.last_used_at is not None
    assert second.last_used_at == first.last_used_at
    world.ms += 60_000
    await tree.keys.verify(text)
    (third,) = await tree.keys.list_all()
    assert third.last_used_at is not None
    assert third.last_used_at > first.last_used_at


async def test_keys_are_shown_to_their_holder_and_to_admins(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    hers, _ = await tree.keys.create("hers", expires_at=LATER)
    his, _ = await bob.keys.create("his", expires_at=LATER)
    assert [one.name for one in await bob.keys.list_all()] == ["his"]
    assert [one.name for one in await tree.keys.list_all()] == ["hers", "his"]
    with pytest.raises(NotFound, match=f"there is no key {hers.id}"):
        await bob.keys.revoke(hers.id)
    narrowed = ExecutionContext.begin(ANA).child(Permissions(actions("key.create")))
    with narrowed.entered(), pytest.raises(PermissionDenied, match=r"action:key\.manage"):
        await tree.keys.revoke(his.id)
    await tree.keys.revoke(his.id)
    assert [one.revoked_by for one in await bob.keys.list_all()] == ["human:ana"]


async def test_a_stranger_to_the_workspace_makes_no_key(tree: Tree, bob: Tree) -> None:
    await tree.members.add("carl")
    with pytest.raises(PermissionDenied, match="human:bob is not a member of this workspace"):
        await bob.keys.create("ci", expires_at=LATER)


async def test_a_key_is_in_no_table_no_export_and_no_text(tree: Tree, conninfo: str) -> None:
    _, text = await tree.keys.create("ci", expires_at=LATER)
    await tree.turns.record("main", [user(f"use {text} please")], [assistant(f"no: {text}")])
    secret = text.split("_")[3]
    with psycopg.connect(conninfo) as owner:
        tables = owner.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'turntree'"
            " AND table_type = 'BASE TABLE'"
        ).fetchall()
        for (table,) in tables:
            rows = owner.execute(ROWS.format(table=sql.Identifier(table))).fetchall()
            assert secret not in str(rows), table
    lines: list[bytes] = []
    await tree.archives.export(lines.append)
    whole = b"".join(lines)
    assert b"[redacted:" in whole
    assert b"api_key" not in whole
    assert list(find_keys([text.encode()])) == [0]
    assert redact(b"Bearer " + text.encode())[1] == 1


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "n" * 201])
async def test_a_key_has_a_name(tree: Tree, name: str) -> None:
    with pytest.raises(InvalidOperation):
        await tree.keys.create(name, expires_at=LATER)
    with pytest.raises(InvalidOperation, match="has to be in the future"):
        await tree.keys.create("ci", expires_at=Timestamp("2020-01-01T00:00:00.000Z"))
