"""Passwords: set by an admin, verified in constant work, never seen again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from turntree.api import Tree
from turntree.auth.logins import password as passwords
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.principal import Principal
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

SECRET, OTHER = "correct horse battery", "another long password"
WRONG = "^the name or the password is wrong$"


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for another person."""
    return tree_on(database, Settings(place, user="bob"), world)


async def events(tree: Tree, kind: str) -> list[Mapping[str, Any]]:
    return [event.data for _, event in await tree.feed.read() if event.kind == kind]


async def test_a_password_is_set_verified_changed_and_removed(tree: Tree) -> None:
    await tree.passwords.set(SECRET)
    assert await tree.passwords.verify("ana", SECRET) == Principal("human", "ana")
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify("ana", OTHER)
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.change("ana", OTHER, SECRET)
    with pytest.raises(InvalidOperation, match="is the current one"):
        await tree.passwords.change("ana", SECRET, SECRET)
    await tree.passwords.change("ana", SECRET, OTHER)
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify("ana", SECRET)
    assert await tree.passwords.verify("human:ana", OTHER) == Principal("human", "ana")
    assert await tree.passwords.remove()
    assert not await tree.passwords.remove()
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify("ana", OTHER)
    set_twice = await events(tree, "member.password_set")
    assert set_twice == [{"by": "human:ana", "member": "human:ana"}] * 2
    assert len(await events(tree, "member.password_removed")) == 1
    (denied,) = await events(tree, "permission.denied")
    assert denied["permission"] == "action:password.use"
    assert denied["by"] == {"kind": "system", "id": "turntree"}
    assert await tree.checks.fsck(full=True) == []


async def test_an_unknown_name_costs_as_much_work_as_a_wrong_password(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tree.passwords.set(SECRET)
    hasher = passwords.load_hasher()
    costs: list[str] = []

    class Counting:
        hash = hasher.hash

        def verify(self, hash: str, said: bytes) -> bool:
            # The parameters of a hash, without its salt, are what the work depends on.
            costs.append("$".join(hash.split("$")[:4]))
            return hasher.verify(hash, said)

    monkeypatch.setattr(passwords, "load_hasher", Counting)
    for name in ("ana", "unknown", "agent:atlas", "", "x" * 500):
        with pytest.raises(PermissionDenied, match=WRONG):
            await tree.passwords.verify(name, OTHER)
    assert len(costs) == 5
    assert len(set(costs)) == 1
    assert costs[0].startswith("$argon2id$v=19$m=65536,")


@pytest.mark.parametrize("name", ["ana", "unknown", "agent:atlas", ""])
async def test_a_denial_leaves_the_same_record_for_every_name(tree: Tree, name: str) -> None:
    """A write for known names only would take longer, and tell them apart."""
    await tree.passwords.set(SECRET)
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify(name, OTHER)
    (denied,) = await events(tree, "permission.denied")
    assert denied == {
        "by": {"kind": "system", "id": "turntree"},
        "permission": "action:password.use",
        "reason": "the name or the password is wrong",
    }


@pytest.mark.parametrize("name", ["ana", "unknown"])
async def test_the_first_answer_of_a_process_takes_equally_long(tree: Tree, name: str) -> None:
    await tree.passwords.set(SECRET)
    passwords._decoy.cache_clear()
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify(name, OTHER)
    assert passwords._decoy.cache_info().misses == 1


async def test_a_text_that_has_no_hash_is_never_right(tree: Tree) -> None:
    """Not even the one whose hash is verified instead."""
    del tree
    assert not await passwords.is_password("no password has this hash", None)


async def test_only_an_admin_has_a_password(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob", "admin")
    await bob.passwords.set(SECRET)
    await tree.members.set_role("bob", "member")
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify("bob", SECRET)
    with pytest.raises(PermissionDenied, match="takes the role admin"):
        await bob.passwords.set(OTHER)
    await tree.members.set_role("bob", "admin")
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify("bob", SECRET)
    await bob.passwords.set(OTHER)
    assert await tree.passwords.verify("bob", OTHER) == Principal("human", "bob")


@pytest.mark.parametrize("password", ["", "elevenchars", "x" * 1_001])
async def test_a_password_is_neither_short_nor_endless(tree: Tree, password: str) -> None:
    with pytest.raises(InvalidOperation, match="12 to 1000 characters"):
        await tree.passwords.set(password)


async def test_a_password_that_is_no_text_is_refused(tree: Tree) -> None:
    broken = f"{SECRET}\udcff"
    with pytest.raises(InvalidOperation, match="not valid text"):
        await tree.passwords.set(broken)
    await tree.passwords.set(SECRET)
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify("ana", broken)
    with pytest.raises(InvalidOperation, match="not valid text"):
        await tree.passwords.change("ana", SECRET, broken)


async def test_a_longer_text_than_the_longest_password_is_never_right(tree: Tree) -> None:
    longest = "x" * passwords.CHARS_MAX
    await tree.passwords.set(longest)
    assert await tree.passwords.verify("ana", longest) == Principal("human", "ana")
    with pytest.raises(PermissionDenied, match=WRONG):
        await tree.passwords.verify("ana", f"{longest}x")


async def test_one_password_may_be_typed_as_different_code_points(tree: Tree) -> None:
    await tree.passwords.set("caf\u00e9 on the corner")
    verified = await tree.passwords.verify("ana", "cafe\u0301 on the corner")
    assert verified == Principal("human", "ana")


async def test_a_hash_is_seen_by_the_system_alone(
    tree: Tree, database: Database, conninfo: str
) -> None:
    await tree.passwords.set(SECRET)
    query = "SELECT count(*) FROM turntree.passwords"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for role, sight, count in (
            ("turntree_app", "system:turntree", 1),
            ("turntree_app", "human:ana", 0),
        ):
            connection.execute(
                "SELECT set_config('role', %s, false), set_config('turntree.workspace', %s, false),"
                " set_config('turntree.viewer', %s, false)",
                (role, str(database.workspace), sight),
            )
            assert connection.execute(query).fetchone() == (count,)
        connection.execute("SELECT set_config('role', 'turntree_reader', false)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(query)
    lines: list[bytes] = []
    await tree.archives.export(lines.append)
    assert b"argon2" not in b"".join(lines)
    assert b"password" not in b"".join(lines)
