"""``member``, ``invitation`` and ``key`` over a server: who gets in."""

from typing import Final, cast

from turntree.auth.api_key import ApiKey
from turntree.auth.member import Invitation, Member, as_person, read_role
from turntree.auth.permissions import Permissions
from turntree.cli.client.opened import OpenServer, on_server
from turntree.cli.command import Terminal
from turntree.cli.maintenance import invitation, key
from turntree.cli.maintenance.member import (
    MemberChange,
    tell_added,
    tell_members,
    tell_removed,
    tell_role,
)
from turntree.core.errors import Hint, NotFound
from turntree.core.ids import Timestamp
from turntree.wire.accounts import InvitationDocument, KeyDocument, MemberDocument

_MEMBERS: Final = Hint("member.list")


def list_members(terminal: Terminal) -> None:
    """List the members and their roles."""

    async def act(opened: OpenServer) -> tuple[list[Member], Timestamp]:
        return [*map(_member, await opened.client.members.list_all())], opened.now

    tell_members(terminal, *on_server(terminal, act))


def add_member(terminal: Terminal, *, name: str, role: str) -> None:
    """Make a person a member of the workspace."""

    async def act(opened: OpenServer) -> Member:
        return _member(await opened.client.members.add(name, role))

    tell_added(terminal, on_server(terminal, act))


def set_role(terminal: Terminal, *, name: str, role: str) -> None:
    """Give a member another role."""

    async def act(opened: OpenServer) -> MemberChange:
        before, by = await _find_before(opened, name)
        changed = _member(await opened.client.members.set_role(name, role))
        return MemberChange(changed, before.role, by)

    tell_role(terminal, on_server(terminal, act))


def remove_member(terminal: Terminal, *, name: str) -> None:
    """Remove a member from the workspace; what they wrote stays."""

    async def act(opened: OpenServer) -> tuple[Member, str]:
        before, by = await _find_before(opened, name)
        await opened.client.members.remove(name)
        return before, by

    before, by = on_server(terminal, act)
    tell_removed(terminal, name, before.role, by)


def list_invitations(terminal: Terminal, *, everything: bool) -> None:
    """List the invitations that can still be accepted."""

    async def act(opened: OpenServer) -> tuple[list[Invitation], Timestamp]:
        return [*map(_invitation, await opened.client.invitations.list_all())], opened.now

    invitation.tell_list(terminal, *on_server(terminal, act), everything=everything)


def create_invitation(terminal: Terminal, *, invitee: str, role: str, days: int) -> None:
    """Print a code that lets one person into the workspace, once."""

    async def act(opened: OpenServer) -> tuple[Invitation, str]:
        made = await opened.client.invitations.create(invitee, role, expires_in_days=days)
        return _invitation(made.invitation), made.code

    invitation.tell_created(terminal, *on_server(terminal, act))


def revoke_invitation(terminal: Terminal, *, id: str) -> None:
    """End an invitation that was not accepted."""
    on_server(terminal, lambda opened: opened.client.invitations.revoke(id))
    invitation.tell_revoked(terminal, id)


def list_keys(terminal: Terminal, *, everything: bool) -> None:
    """List your API keys; an admin sees those of all members."""

    async def act(opened: OpenServer) -> tuple[list[ApiKey], Timestamp]:
        return [*map(_key, await opened.client.keys.list_all())], opened.now

    key.tell_list(terminal, *on_server(terminal, act), everything=everything)


def create_key(
    terminal: Terminal, *, name: str, allow: tuple[str, ...], agent: str | None, days: int
) -> None:
    """Print a new API key; NAME says what it is for."""

    async def act(opened: OpenServer) -> tuple[ApiKey, str]:
        made = await opened.client.keys.create(
            name, allow=allow or None, agent=agent, expires_in_days=days
        )
        # The record has what the server made of the patterns: it narrows them to the caller's own.
        record = next(one for one in await opened.client.keys.list_all() if one.id == made.id)
        return _key(record), made.key

    key.tell_created(terminal, *on_server(terminal, act))


def revoke_key(terminal: Terminal, *, id: str, reason: str) -> None:
    """Revoke an API key: from now on it opens nothing."""
    on_server(terminal, lambda opened: opened.client.keys.revoke(id, reason=reason))
    key.tell_revoked(terminal, id, reason)


async def _find_before(opened: OpenServer, name: str) -> tuple[Member, str]:
    """Return a member as they are, and the person who asks.

    Raises:
        NotFound: There is no such member.
    """
    person = as_person(name)
    for found in map(_member, await opened.client.members.list_all()):
        if found.principal == person:
            return found, as_person((await opened.client.me()).user)
    raise NotFound(f"{person} is not a member", hint=_MEMBERS)


def _member(document: MemberDocument) -> Member:
    name, role = as_person(document.name), read_role(document.role)
    return Member(name, role, Timestamp(document.since))


def _invitation(document: InvitationDocument) -> Invitation:
    return Invitation(
        document.id, document.invitee, read_role(document.role), document.created_by,
        Timestamp(document.created_at), Timestamp(document.expires_at), document.accepted_by,
        document.revoked_by, cast("Timestamp | None", document.ended_at),
    )  # fmt: skip


def _key(document: KeyDocument) -> ApiKey:
    return ApiKey(
        document.id, document.name, document.holder, document.agent,
        Permissions.of_patterns(document.allow, document.deny), Timestamp(document.created_at),
        Timestamp(document.expires_at), cast("Timestamp | None", document.last_used_at),
        document.revoked_by, cast("Timestamp | None", document.revoked_at), document.reason,
    )  # fmt: skip
