"""Who gets in, by the client before a real server: members, invitations, keys and accounts."""

import pytest

from proofs.http_world import OWNER, Team, Vault
from tests.client.conftest import Connect
from turntree.client import Client
from turntree.core.errors import Conflict, InvalidOperation, NotFound, PermissionDenied

pytestmark = pytest.mark.anyio


@pytest.fixture
def admin(connect: Connect) -> Client:
    """A client of the admin."""
    return connect("admin")


async def test_members_are_added_promoted_and_removed(
    admin: Client, client: Client, team: Team
) -> None:
    before = await admin.members.list_all()
    added = await admin.members.add("bo")
    assert (added.name, added.role) == ("bo", "member")
    assert await client.members.list_all() == (*before, added)
    with pytest.raises(Conflict):
        await admin.members.add("bo")
    assert (await admin.members.set_role("bo", "guest")).role == "guest"
    assert await team.tree.members.find_role("bo") == "guest"
    for denied in (client.members.add("cy"), client.members.remove("bo")):
        with pytest.raises(PermissionDenied):
            await denied
    await admin.members.remove("bo")
    assert await team.tree.members.find_role("bo") is None
    with pytest.raises(NotFound):
        await admin.members.remove("bo")
    with pytest.raises(InvalidOperation, match="role"):
        await admin.members.add("cy", "king")


async def test_name_with_a_slash_is_one_segment(admin: Client) -> None:
    await admin.members.add("team/bo")
    assert (await admin.members.set_role("team/bo", "guest")).name == "team/bo"
    await admin.members.remove("team/bo")


async def test_invitation_is_created_once_listed_and_revoked(
    admin: Client, client: Client, team: Team
) -> None:
    made = await admin.invitations.create("bo", "guest", expires_in_days=1)
    assert (made.invitation.invitee, made.invitation.role) == ("human:bo", "guest")
    (listed,) = await admin.invitations.list_all()
    assert listed == made.invitation
    with pytest.raises(PermissionDenied):
        await client.invitations.list_all()
    await admin.invitations.revoke(made.invitation.id)
    assert [one.state for one in await admin.invitations.list_all()] == ["revoked"]
    with pytest.raises(InvalidOperation):
        await team.tree.invitations.redeem(made.code)


async def test_key_of_a_client_makes_narrower_keys_that_end_at_once(
    client: Client, connect: Connect, team: Team
) -> None:
    made = await client.keys.create("reader", allow=["action:read"], agent="atlas")
    team.keys["made"] = made.key
    reader = connect("made")
    assert (await reader.me()).user == "mia"
    with pytest.raises(PermissionDenied):
        await reader.sessions.create("mine")
    listed = {one.id: one for one in await client.keys.list_all()}[made.id]
    assert (listed.name, listed.agent, listed.allow) == ("reader", "atlas", ("action:read",))
    # Another member neither sees nor ends it.
    with pytest.raises(NotFound):
        await connect("guest").keys.revoke(made.id)
    await client.keys.revoke(made.id, reason="a test")
    with pytest.raises(PermissionDenied):
        await reader.me()
    listed = {one.id: one for one in await client.keys.list_all()}[made.id]
    assert (listed.state, listed.reason) == ("revoked", "a test")


async def test_own_logins_and_accounts_are_listed_and_ended(
    client: Client, connect: Connect, team: Team
) -> None:
    owner = connect("owner")
    vault = await team.add_identity(await team.add_login(Vault("v", (), "", ())))
    assert [one.id for one in await owner.identities.list_all()] == [vault.identity]
    assert vault.login in [one.id for one in await owner.login_sessions.list_all()]
    assert await client.identities.list_all() == ()
    assert {one.holder for one in await client.login_sessions.list_all()} == {"human:mia"}
    for denied in (
        client.identities.unlink(vault.identity), client.login_sessions.end(vault.login),
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await denied
    await owner.identities.unlink(vault.identity)
    await owner.login_sessions.end(vault.login)
    assert await owner.identities.list_all() == ()
    assert vault.login not in [one.id for one in await owner.login_sessions.list_all()]
    assert OWNER in {one.name for one in await owner.members.list_all()}
