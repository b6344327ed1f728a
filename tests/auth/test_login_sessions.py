"""Login sessions: verified against the ledger, ended with the key or password that began them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from turntree.api import Tree
from turntree.auth.access_code import CHECKSUM_CHARS, LOGIN, _checksum, make_code
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.logins.login_session import LOGIN_DAYS_MAX, PAUSE_MS_MAX
from turntree.auth.permissions import Permissions, actions, right
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp, unix_ms
from turntree.core.principal import Principal
from turntree.core.redaction import find_keys
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

LATER = Timestamp("2099-01-01T00:00:00.000Z")
ANA, BOB = Principal("human", "ana"), Principal("human", "bob")
SECRET = "correct horse battery"
ENDED = "^this login session has ended$"
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
async def bob(tree: Tree, database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for another member."""
    await tree.members.add("bob")
    return tree_on(database, Settings(place, user="bob"), world)


async def log_in(tree: Tree, world: FakeClock, person: Principal = ANA) -> tuple[str, str]:
    """Return the id and the code of a new session."""
    made, code = await tree.login_sessions.begin(
        person, method="invitation", verified_at=world.now()
    )
    return made.id, code


async def is_open(tree: Tree, code: str) -> bool:
    try:
        await tree.login_sessions.verify(code)
    except PermissionDenied:
        return False
    return True


async def events(tree: Tree, kind: str) -> list[Mapping[str, Any]]:
    return [event.data for _, event in await tree.feed.read() if event.kind == kind]


async def test_session_tells_who_acts_with_the_role_of_today(
    tree: Tree, bob: Tree, world: FakeClock
) -> None:
    id, code = await log_in(tree, world, BOB)
    verified = await bob.login_sessions.verify(code)
    assert (verified.id, verified.chain.principal) == (id, BOB)
    assert verified.chain.rights.permits(right("action", "fork"))
    assert not verified.chain.rights.permits(right("action", "member.manage"))
    await tree.members.set_role("bob", "guest")
    assert not (await tree.login_sessions.verify(code)).chain.rights.permits(
        right("action", "fork")
    )
    assert await tree.checks.fsck(full=True) == []


async def test_session_ends_at_a_fixed_time_however_much_it_is_used(
    tree: Tree, world: FakeClock
) -> None:
    await tree.members.add("bob")
    _, code = await log_in(tree, world)
    for _ in range(LOGIN_DAYS_MAX - 1):
        world.ms += DAY_MS
        assert await is_open(tree, code)
    world.ms += DAY_MS
    assert not await is_open(tree, code)


async def test_session_ends_after_a_pause(tree: Tree, world: FakeClock) -> None:
    await tree.members.add("bob")
    _, code = await log_in(tree, world)
    world.ms += PAUSE_MS_MAX - 60_000
    assert await is_open(tree, code)
    world.ms += PAUSE_MS_MAX - 60_000
    assert await is_open(tree, code), "a use begins the pause again"
    for _ in range(3):
        # A stream that asks whether its reader still may is not a person who does something.
        world.ms += PAUSE_MS_MAX // 4
        await tree.login_sessions.verify(code, is_use=False)
    world.ms += PAUSE_MS_MAX // 4
    assert not await is_open(tree, code)


@pytest.mark.parametrize("how", ["end", "log_out", "remove", "set_password", "remove_password"])
async def test_session_ends_and_stays_ended(tree: Tree, world: FakeClock, how: str) -> None:
    await tree.members.add("eve", "admin")
    await tree.passwords.set(SECRET)
    id, code = await log_in(tree, world)
    _, other = await log_in(tree, world, Principal("human", "eve"))
    match how:
        case "end":
            await tree.login_sessions.end(id)
        case "log_out":
            await tree.login_sessions.log_out(code)
        case "remove":
            await tree.members.remove("ana")
        case "set_password":
            await tree.passwords.change("ana", SECRET, "another long password")
        case _:
            await tree.passwords.remove()
    assert not await is_open(tree, code)
    assert await is_open(tree, other), "that of another person goes on"
    (ended,) = await events(tree, "login_session.ended")
    assert ended == {"by": "human:ana", "login_session": id}
    await tree.login_sessions.log_out(code)
    assert len(await events(tree, "login_session.ended")) == 1


async def test_removed_member_who_comes_back_is_not_logged_in(
    tree: Tree, bob: Tree, world: FakeClock
) -> None:
    _, code = await log_in(tree, world, BOB)
    await tree.members.remove("bob")
    await tree.members.add("bob")
    assert not await is_open(bob, code)


async def test_session_of_a_key_permits_no_more_and_ends_with_it(
    tree: Tree, world: FakeClock
) -> None:
    reading = Permissions(actions("read"))
    key, _ = await tree.keys.create("laptop", scopes=reading, expires_at=LATER)
    other, _ = await tree.keys.create("other", expires_at=LATER)
    made, code = await tree.login_sessions.begin(
        ANA, method="key", verified_at=world.now(), scopes=key.scopes, key=key.id,
        expires_at=key.expires_at,
    )  # fmt: skip
    assert unix_ms(made.expires_at) - world.ms <= LOGIN_DAYS_MAX * DAY_MS
    assert (await tree.login_sessions.verify(code)).chain.rights == reading
    await tree.keys.revoke(other.id)
    assert await is_open(tree, code)
    await tree.keys.revoke(key.id)
    assert not await is_open(tree, code)
    with pytest.raises(PermissionDenied, match="can no longer log in"):
        await tree.login_sessions.begin(
            ANA, method="key", verified_at=world.now(), scopes=key.scopes, key=key.id
        )


async def test_password_that_changed_while_it_was_verified_opens_nothing(
    tree: Tree, world: FakeClock
) -> None:
    await tree.passwords.set(SECRET)
    verified_at = world.now()
    person = await tree.passwords.verify("ana", SECRET)
    await tree.passwords.change("ana", SECRET, "another long password")
    with pytest.raises(PermissionDenied, match="can no longer log in"):
        await tree.login_sessions.begin(person, method="password", verified_at=verified_at)
    assert "action:login.create" in {one["permission"] for one in await events(
        tree, "permission.denied"
    )}  # fmt: skip


async def test_stranger_cannot_be_logged_in(tree: Tree, world: FakeClock) -> None:
    await tree.members.add("bob")
    with pytest.raises(PermissionDenied, match="can no longer log in"):
        await log_in(tree, world, Principal("human", "mallory"))
    with pytest.raises(InvalidOperation, match="only people are members"):
        await log_in(tree, world, Principal("agent", "atlas", ANA))
    assert await events(tree, "login_session.created") == []


async def test_forged_code_opens_nothing_and_is_recorded_for_a_known_id(
    tree: Tree, database: Database, world: FakeClock
) -> None:
    await tree.members.add("bob")
    id, code = await log_in(tree, world)
    unknown = make_code(LOGIN, database.workspace, "unknown", "guess").text
    _, key = await tree.keys.create("ci", expires_at=LATER)
    for text in (unknown, key, "", code[:-1], code.replace("tts_", "ttk_")):
        assert not await is_open(tree, text)
    assert await events(tree, "permission.denied") == []
    forged = make_code(LOGIN, database.workspace, "x", "y")
    with_id = forged.text.replace(forged.id, id)
    assert not await is_open(tree, with_id), "its checksum is wrong"
    head = with_id[:-CHECKSUM_CHARS]
    assert not await is_open(tree, head + _checksum(head))
    (denied,) = await events(tree, "permission.denied")
    assert denied["reason"] == f"login session {id}: the secret is wrong"
    assert await is_open(tree, code), "a guess ends no session"
    elsewhere = make_code(LOGIN, type(database.workspace)(int=7), "x", "y").text
    with pytest.raises(PermissionDenied, match="for another workspace"):
        await tree.login_sessions.verify(elsewhere)


async def test_sessions_of_others_are_absent_for_all_but_admins(
    tree: Tree, bob: Tree, world: FakeClock
) -> None:
    id, code = await log_in(tree, world)
    mine, _ = await log_in(tree, world, BOB)
    assert [one.id for one in await bob.login_sessions.list_all()] == [mine]
    with pytest.raises(NotFound):
        await bob.login_sessions.end(id)
    assert await is_open(tree, code)
    assert {one.id for one in await tree.login_sessions.list_all()} == {id, mine}
    ana = ExecutionContext.begin(ANA, Permissions(actions("read", "key.create")))
    with ana.entered():
        assert [one.id for one in await tree.login_sessions.list_all()] == [id]
        with pytest.raises(PermissionDenied, match=r"nothing allows action:key\.manage"):
            await tree.login_sessions.end(mine)
    await tree.login_sessions.end(mine)
    assert [one.id for one in await tree.login_sessions.list_all()] == [id]


async def test_only_the_digest_of_a_code_is_stored(
    tree: Tree, world: FakeClock, conninfo: str
) -> None:
    await tree.members.add("bob")
    _, code = await log_in(tree, world)
    with psycopg.connect(conninfo) as owner:
        rows = owner.execute(
            "SELECT t::text FROM turntree.login_sessions t"
            " UNION ALL SELECT e.body FROM turntree.events e"
        ).fetchall()
    assert len(rows) > 1
    assert not any(code in str(row) or code[38:] in str(row) for row in rows)
    assert list(find_keys([f"pasted {code} by mistake".encode()])) == [0]
