"""Attacks on the members of a workspace: a person who is no admin never gets an admin's rights."""

import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import psycopg
import pytest

from proofs.transcripts.samples import SAMPLES
from tests.auth.test_token import forge
from tests.databases import Databases, as_owner
from tests.db.test_row_security import acting
from tests.stories.test_known_races import SOON_S, somebody_waits
from turntree.api import Tree
from turntree.auth.access_code import INVITATION, make_code
from turntree.auth.delegation import DelegationChain
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import MANAGE_MEMBERS, Invitation, Role
from turntree.auth.member_store import MemberStore
from turntree.auth.permissions import ALL_BUT_CREDENTIALS, EVERYTHING, Permissions, actions
from turntree.auth.persona import persona_of
from turntree.auth.token import issue, narrow, open_token
from turntree.boot.open import Settings, importing_on, load_importers, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.event import Event, record
from turntree.core.ids import Timestamp, WorkspaceId
from turntree.core.message import PART_INLINE_MAX_BYTES, assistant, user
from turntree.core.principal import SYSTEM, Principal
from turntree.core.viewer import sight_of
from turntree.db.database import Database, open_database
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

LATER = Timestamp("2099-01-01T00:00:00.000Z")
NOW = Timestamp("2026-11-18T12:00:00.000Z")
KEY = b"k" * 32
PASSWORD = "correct horse battery"
BOB = Principal("human", "bob")
FALSE_AGENT = Principal("agent", "x for human:ana")
REQUIRE_ADMIN = "SELECT turntree.require_role(%s, 'human:bob', 'member.manage', '{admin}')"


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same workspace, for another person."""
    return tree_on(database, Settings(place, user="bob"), world)


async def roles(tree: Tree) -> dict[str, str]:
    return {one.name: one.role for one in await tree.members.list_all()}


def context_of(name: str) -> ExecutionContext:
    return ExecutionContext.begin(Principal("human", name))


def test_an_agent_named_like_a_pair_gets_no_token() -> None:
    chain = DelegationChain.begin(BOB, EVERYTHING)
    text = issue(chain, key=KEY, nonce="01234567", audience="here", expires_at=LATER)
    with pytest.raises(InvalidOperation, match="not the id of a principal"):
        narrow(text, to=FALSE_AGENT, rights=EVERYTHING)
    # A holder signs any block: what narrow refuses, an attacker writes.
    to = {"kind": FALSE_AGENT.kind, "id": FALSE_AGENT.id}
    forged = forge(text, {"to": to, "rights": EVERYTHING.to_json()})
    with pytest.raises(PermissionDenied, match="not the id of a principal"):
        open_token(forged, key=KEY, audience="here", now=NOW)


def test_no_context_and_no_viewer_has_an_id_that_reads_like_a_pair() -> None:
    with pytest.raises(InvalidOperation, match="not the id of a principal"):
        ExecutionContext.begin(BOB).delegate(FALSE_AGENT, EVERYTHING)
    for root in (Principal("human", "bob for human:ana"), Principal("system", "x for human:ana")):
        with pytest.raises(InvalidOperation, match="not the id of a principal"):
            ExecutionContext.begin(root)
    for who in (
        Principal("agent", FALSE_AGENT.id, BOB),
        Principal("agent", "x", Principal("human", "bob for human:ana")),
        Principal("human", "bob for human:ana"),
    ):
        with pytest.raises(InvalidOperation, match="not the id of a principal"):
            sight_of(who)


async def test_the_person_behind_a_viewer_is_the_last_one(
    tree: Tree, database: Database, conninfo: str
) -> None:
    await tree.members.add("bob", "guest")
    viewer = f"{FALSE_AGENT} for {BOB}"
    with acting(conninfo, "turntree_app", database.workspace, viewer) as connection:
        found = connection.execute("SELECT turntree.person_behind(turntree.viewer())").fetchone()
        assert found == ("human:bob",)
        assert connection.execute("SELECT turntree.is_admin()").fetchone() == (False,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(REQUIRE_ADMIN, (database.workspace,))
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is a guest"):
            connection.execute(
                "SELECT turntree.require_member(%s, NULL, 'create')", (database.workspace,)
            )


@pytest.mark.parametrize("role", [None, "member"])
async def test_an_invitation_ends_when_its_author_is_no_longer_an_admin(
    tree: Tree, bob: Tree, role: Role | None
) -> None:
    """A removed admin would let themselves in again with it."""
    await tree.members.add("bob", "admin")
    _, hers = await tree.invitations.create("dora@example.org", expires_at=LATER)
    back, code = await bob.invitations.create("bob@example.org", "admin", expires_at=LATER)
    atlas = ExecutionContext.begin(BOB).delegate(Principal("agent", "atlas"), EVERYTHING)
    through, other = await bob.act_as(atlas).invitations.create(
        "eve@example.org", "admin", expires_at=LATER
    )
    assert through.created_by == "agent:atlas for human:bob"
    if role is None:
        await tree.members.remove("bob")
    else:
        await tree.members.set_role("bob", role)
    for text, person in ((code, bob), (other, bob.act_as(context_of("eve")))):
        with pytest.raises(InvalidOperation, match="was revoked"):
            await person.invitations.accept(text)
    ended = {one.id for one in await tree.invitations.list_all() if one.revoked_by == "human:ana"}
    assert ended == {back.id, through.id}
    assert (await bob.act_as(context_of("dora")).invitations.accept(hers)).role == "member"
    assert (await roles(tree)).get("bob") == role
    assert await tree.checks.fsck(full=True) == []


async def test_an_admin_who_leaves_keeps_no_way_back(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob", "admin")
    _, code = await bob.invitations.create("bob", "admin", expires_at=LATER)
    await bob.members.remove("bob")
    with pytest.raises(InvalidOperation, match="was revoked"):
        await bob.invitations.accept(code)


async def test_an_invitation_names_its_author_and_not_whom_the_caller_names(
    tree: Tree, bob: Tree, world: FakeClock
) -> None:
    await tree.members.add("bob", "admin")
    made = Invitation("1" * 12, "eve@example.org", "admin", "human:ana", world.now(), LATER)
    await bob.members.store.add_invitation(made, bytes(32), roles=["admin"])
    await tree.members.remove("bob")
    (listed,) = await tree.invitations.list_all()
    assert (listed.created_by, listed.revoked_by) == ("human:bob", "human:ana")


async def test_an_event_of_an_agent_names_the_person_behind_it(tree: Tree) -> None:
    ana = ExecutionContext.begin(Principal("human", "ana"))
    atlas = ana.delegate(Principal("agent", "atlas"), EVERYTHING)
    await tree.act_as(atlas).members.add("carl")
    added = [one.data for _, one in await tree.feed.read() if one.kind == "member.added"]
    assert added[-1]["by"] == "agent:atlas for human:ana"


async def test_a_key_stays_revoked_when_its_holder_comes_back(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    made, text = await bob.keys.create("ci", expires_at=LATER)
    hers, _ = await tree.keys.create("hers", expires_at=LATER)
    await tree.members.remove("bob")
    listed = {one.id: one for one in await tree.keys.list_all()}
    assert listed[made.id].revoked_by == "human:ana"
    assert listed[made.id].reason == "its holder was removed"
    assert listed[hers.id].revoked_at is None
    await tree.members.add("bob", "admin")
    with pytest.raises(PermissionDenied, match="it was revoked"):
        await tree.keys.verify(text)
    assert await tree.checks.fsck(full=True) == []


async def test_a_guest_who_leaves_takes_their_keys_along(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob", "guest")
    _, text = await bob.keys.create("ci", expires_at=LATER)
    await bob.members.remove("bob")
    (listed,) = await tree.keys.list_all()
    assert listed.revoked_by == "human:bob"
    with pytest.raises(PermissionDenied, match="it was revoked"):
        await tree.keys.verify(text)


async def test_a_password_does_not_come_back_with_its_holder(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob", "admin")
    await bob.passwords.set(PASSWORD)
    await tree.members.remove("bob")
    await tree.members.add("bob", "admin")
    with pytest.raises(PermissionDenied, match="the name or the password is wrong"):
        await tree.passwords.verify("bob", PASSWORD)
    with pytest.raises(PermissionDenied, match="the name or the password is wrong"):
        await tree.passwords.change("bob", PASSWORD, f"{PASSWORD}, new")
    await bob.passwords.set(PASSWORD)
    assert await tree.passwords.verify("bob", PASSWORD) == BOB
    assert await tree.checks.fsck(full=True) == []


async def test_a_password_set_by_a_slow_clock_counts(
    tree: Tree, database: Database, place: Path
) -> None:
    await tree.members.add("bob", "admin")
    slow = FakeClock()
    slow.ms -= 3_600_000
    bob = tree_on(database, Settings(place, user="bob"), slow)
    await bob.passwords.set(PASSWORD)
    assert await tree.passwords.verify("bob", PASSWORD) == BOB


@pytest.mark.parametrize("what", ["key", "invitation"])
async def test_nothing_is_made_while_its_author_is_removed(
    tree: Tree, bob: Tree, database: Database, conninfo: str, what: str
) -> None:
    """The role that allows it is checked under the lock that a removal holds."""
    await tree.members.add("bob", "admin")
    refused: list[PermissionDenied] = []

    async def make() -> None:
        try:
            if what == "key":
                await bob.keys.create("ci", expires_at=LATER)
            else:
                await bob.invitations.create("bob", "admin", expires_at=LATER)
        except PermissionDenied as error:
            refused.append(error)

    with acting(conninfo, "turntree_app", database.workspace, "human:ana") as removing:
        removing.execute("BEGIN")
        removing.execute(
            "SELECT turntree.set_member(%s, 'human:bob', NULL, false, 'human:ana', %s, '{admin}')",
            (database.workspace, NOW),
        )
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as group:
                group.start_soon(make)
                await somebody_waits(conninfo)
                removing.execute("COMMIT")
    assert len(refused) == 1
    assert await tree.keys.list_all() == []
    assert await tree.invitations.list_all() == []


async def test_revoking_waits_for_no_row_that_a_removal_needs(
    tree: Tree, bob: Tree, database: Database, conninfo: str
) -> None:
    """The other order of locks is a deadlock: one of the two would fail."""
    await tree.members.add("bob", "admin")
    made, _ = await bob.keys.create("ci", expires_at=LATER)
    outcomes: list[str] = []

    async def revoke() -> None:
        try:
            await tree.keys.revoke(made.id)
            outcomes.append("revoked")
        except InvalidOperation as error:
            outcomes.append(str(error))

    with acting(conninfo, "turntree_app", database.workspace, "human:ana") as removing:
        removing.execute("BEGIN")
        removing.execute("SELECT turntree.lock_members()")
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as group:
                group.start_soon(revoke)
                await somebody_waits(conninfo)
                removing.execute(
                    "SELECT turntree.set_member("
                    "%s, 'human:bob', NULL, false, 'human:ana', %s, '{admin}')",
                    (database.workspace, NOW),
                )
                removing.execute("COMMIT")
    assert outcomes == [f"the key {made.id} was revoked already, by human:ana"]


async def test_a_key_is_made_for_the_viewer_alone(
    tree: Tree, bob: Tree, database: Database, conninfo: str
) -> None:
    await tree.members.add("bob")
    # On bob's tree, in the context of ana: his rights would make a key of hers.
    with context_of("ana").entered(), pytest.raises(PermissionDenied, match="cannot make a key"):
        await bob.keys.create("ci", expires_at=LATER)
    with (
        acting(conninfo, "turntree_app", database.workspace, "human:bob") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="cannot make a key"),
    ):
        connection.execute(
            "SELECT turntree.create_api_key(%s, '0', sha256('x'), 'ci', 'human:ana', NULL, '{}',"
            " %s, %s, '{admin,member,guest}')",
            (database.workspace, LATER, NOW),
        )
    assert await tree.keys.list_all() == []
    denied = [one.data for _, one in await tree.feed.read() if one.kind == "permission.denied"]
    assert [one["by"] for one in denied] == [{"kind": "human", "id": "bob"}]


async def test_a_password_is_set_by_its_holder_alone(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob", "admin")
    for context in (
        context_of("ana"),
        ExecutionContext.begin(BOB).delegate(Principal("agent", "atlas"), EVERYTHING),
    ):
        with context.entered(), pytest.raises(PermissionDenied, match="people set only their own"):
            await bob.passwords.set(PASSWORD)
    with pytest.raises(PermissionDenied, match="the name or the password is wrong"):
        await tree.passwords.verify("ana", PASSWORD)


async def test_a_narrow_key_of_an_admin_shows_neither_invitations_nor_keys_of_others(
    tree: Tree, bob: Tree
) -> None:
    await tree.members.add("bob")
    await tree.invitations.create("carl@example.org", expires_at=LATER)
    his, _ = await bob.keys.create("his", expires_at=LATER)
    reading = Permissions(actions("read", "key.create"))
    _, text = await tree.keys.create("narrow", scopes=reading, expires_at=LATER)
    verified = await tree.keys.verify(text)
    narrow = tree.act_as(ExecutionContext(verified.chain))
    with pytest.raises(PermissionDenied, match=r"nothing allows action:member\.manage"):
        await narrow.invitations.list_all()
    assert [one.name for one in await narrow.keys.list_all()] == ["narrow"]
    with pytest.raises(PermissionDenied, match=r"nothing allows action:key\.manage"):
        await narrow.keys.revoke(his.id)
    with ExecutionContext(verified.chain).entered():
        assert [one.name for one in await tree.keys.list_all()] == ["narrow"]
    assert [one.name for one in await tree.keys.list_all()] == ["his", "narrow"]


@pytest.mark.parametrize("act", ["key", "invitation", "member", "password"])
async def test_a_stranger_for_whom_a_server_acts_founds_no_workspace(tree: Tree, act: str) -> None:
    """The first call makes the owner of the process the admin, and not its caller."""
    stranger = tree.act_as(context_of("eve"))
    assert await stranger.members.find_role("eve") is None
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "key": lambda: stranger.keys.create("ci", expires_at=LATER),
        "invitation": lambda: stranger.invitations.create("eve", "admin", expires_at=LATER),
        "member": lambda: stranger.members.add("mallory", "admin"),
        "password": lambda: stranger.passwords.set(PASSWORD),
    }
    with pytest.raises(PermissionDenied):
        await acts[act]()
    assert await roles(tree) == {"ana": "admin"}


async def test_an_archive_names_no_admin(
    bob: Tree, databases: Databases, template: str, workspace_id: WorkspaceId, place: Path
) -> None:
    """Its authors stand in its rows as its writer pleases, with times before all others."""
    await bob.turns.record("his", [user("hello")], [assistant("hi")])
    await bob.programs.create("task", "errand", {"title": "buy milk"})
    lines: list[bytes] = []
    await bob.archives.export(lines.append)
    with databases.lend(template) as lent:
        async with open_database(as_owner(lent), workspace_id) as opened:
            fresh = tree_on(opened, Settings(place, user="ana"), FakeClock(7))
            await fresh.archives.load(io.BytesIO(b"".join(lines)))
            assert await roles(fresh) == {"ana": "admin"}
            await fresh.members.add("carl")
            assert await roles(fresh) == {"ana": "admin", "carl": "member"}
            assert await fresh.checks.fsck(full=True) == []
            his = tree_on(opened, Settings(place, user="bob"), FakeClock(8))
            with pytest.raises(PermissionDenied):
                await his.members.add("mallory")


async def test_a_person_who_was_removed_changes_nothing_at_all(
    tree: Tree,
    bob: Tree,
    world: FakeClock,
    tmp_path: Path,
    database: Database,
    conninfo: str,
) -> None:
    await tree.members.add("bob")
    await bob.programs.create("task", "errand", {"title": "buy milk"})
    folder = await bob.resources.ensure("directory", str(tmp_path))
    await tree.members.remove("bob")
    event = record(Event(world.new_id(), 0, "acme.deployed", world.now(), {}))
    (tmp_path / "new").write_text("new", encoding="utf-8")
    for change in (
        lambda: bob.programs.grant("errand", "eve", "configure"),
        lambda: bob.ledger.put_object(b"his"),
        lambda: bob.ledger.append(event),
        lambda: bob.tokens.issue(context_of("bob"), key=KEY, audience="x", expires_at=LATER),
        lambda: bob.resources.ensure("directory", str(tmp_path / "more")),
        lambda: bob.resources.take(folder),
    ):
        with pytest.raises(PermissionDenied, match="human:bob was removed from this workspace"):
            await change()
    with (
        acting(conninfo, "turntree_app", database.workspace, "human:bob") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="was removed"),
    ):
        connection.execute(
            "SELECT turntree.start_plan(%s, %s, 'fork', %s, sha256('x'), '{}')",
            (database.workspace, world.new_id(), NOW),
        )


@pytest.mark.parametrize("role", [None, "guest"])
async def test_a_guest_or_a_removed_person_imports_nothing(
    tree: Tree, bob: Tree, database: Database, world: FakeClock, tmp_path: Path, role: Role | None
) -> None:
    """An import writes as the system, from which nothing is hidden."""
    lines: list[bytes] = []
    await tree.archives.export(lines.append)
    await tree.members.add("bob", "guest")
    if role is None:
        await tree.members.remove("bob")
    why = "is a guest" if role == "guest" else "was removed"
    with pytest.raises(PermissionDenied, match=why):
        await bob.archives.load(io.BytesIO(b"".join(lines)))
    importer = load_importers()["codex"]
    found = [(importer, bundle) for bundle in importer.open(SAMPLES["codex"](tmp_path))]
    importing = importing_on(database.seen_by(sight_of(BOB)), world)
    with pytest.raises(PermissionDenied, match=why):
        await importing.run(found)
    with pytest.raises(PermissionDenied, match=why):
        await importing.announce(*found[0])
    with pytest.raises(PermissionDenied, match=why):
        await importing.reproject(load_importers())
    assert [session.label async for session in tree.sessions.list_all()] == []


async def test_a_guest_works_with_objects_and_files_in_what_was_granted(
    tree: Tree, bob: Tree, tmp_path: Path
) -> None:
    await tree.programs.create("session", "shared", {})
    await tree.members.add("bob", "guest")
    await tree.programs.grant("shared", "bob", "invoke")
    await bob.resources.take(await bob.resources.ensure("directory", str(tmp_path)))
    long = "large " * PART_INLINE_MAX_BYTES
    await bob.turns.record("shared", [user(long)], [assistant("hi")])


async def test_the_system_makes_no_workspace_without_an_admin(
    database: Database, world: FakeClock, bob: Tree
) -> None:
    store, at = MemberStore(database, ""), world.now()
    with pytest.raises(InvalidOperation, match="the first one is an admin"):
        await store.set_role(
            "human:bob", "member", is_new=True, by=str(SYSTEM), at=at, roles=["admin"]
        )
    made = make_code(INVITATION, database.workspace, "id", "secret")
    invitation = Invitation(made.id, "bob@example.org", "guest", str(SYSTEM), at, LATER)
    await store.add_invitation(invitation, made.digest, roles=["admin"])
    with pytest.raises(InvalidOperation, match="the first one is an admin"):
        await bob.invitations.accept(made.text)
    await store.set_role("human:ana", "admin", is_new=True, by=str(SYSTEM), at=at, roles=["admin"])
    assert (await bob.invitations.accept(made.text)).role == "guest"


@pytest.mark.parametrize("config", [None, {}, {"role": "worker"}])
async def test_an_agent_without_a_list_of_permissions_manages_no_members(
    tree: Tree, bob: Tree, config: dict[str, Json] | None
) -> None:
    """A page that an admin's agent reads could otherwise talk it into inviting its author."""
    await tree.members.add("bob")
    his, _ = await bob.keys.create("his", expires_at=LATER)
    rights = ALL_BUT_CREDENTIALS if config is None else persona_of("atlas", 1, config).permitted
    atlas = context_of("ana").delegate(Principal("agent", "atlas"), rights)
    with atlas.entered():
        with pytest.raises(PermissionDenied, match=r"action:member\.manage is denied"):
            await tree.invitations.create("eve@example.org", expires_at=LATER)
        with pytest.raises(PermissionDenied, match=r"action:key\.manage is denied"):
            await tree.keys.revoke(his.id)
    listed = persona_of("atlas", 1, {"permissions": {"allow": ["action:member.manage"]}})
    assert listed.permitted.permits(MANAGE_MEMBERS)


async def test_a_token_of_a_removed_person_opens_nothing(tree: Tree, bob: Tree) -> None:
    await tree.members.add("bob")
    text, nonce = await bob.tokens.issue(
        context_of("bob"), key=KEY, audience="here", expires_at=LATER
    )
    delegated = narrow(text, to=Principal("agent", "atlas"), rights=EVERYTHING)
    for one in (text, delegated):
        assert (await tree.tokens.open(one, key=KEY, audience="here")).chain.root.id == "bob"
    await tree.members.remove("bob")
    for one in (text, delegated):
        with pytest.raises(PermissionDenied, match=f"{nonce} is not valid: human:bob was removed"):
            await tree.tokens.open(one, key=KEY, audience="here")
    await tree.members.add("bob")
    for one in (text, delegated):
        with pytest.raises(PermissionDenied, match=f"{nonce} is not valid: human:bob was removed"):
            await tree.tokens.open(one, key=KEY, audience="here")
    again, _ = await bob.tokens.issue(context_of("bob"), key=KEY, audience="here", expires_at=LATER)
    assert (await tree.tokens.open(again, key=KEY, audience="here")).chain.root.id == "bob"
