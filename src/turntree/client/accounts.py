"""Who gets in over HTTP: members, invitations, keys, login sessions and linked accounts."""

from collections.abc import Sequence
from typing import Final

from turntree.client.connection import HttpConnection
from turntree.core.value import Facet, value
from turntree.wire.accounts import (
    IdentityDocument,
    IdentityList,
    InvitationDocument,
    InvitationList,
    KeyDocument,
    KeyList,
    LoginDocument,
    LoginList,
    MemberDocument,
    MemberList,
    NewInvitation,
    NewKey,
)

_NOTHING: Final = type(None)
"""What is read of an answer without content."""


@value
class MembersApi(Facet):
    """The facet ``client.members``."""

    http: HttpConnection

    async def list_all(self) -> tuple[MemberDocument, ...]:
        """Return the members in the order in which they got their roles."""
        return (await self.http.get("/members", MemberList)).members

    async def add(self, name: str, role: str = "member") -> MemberDocument:
        """Make a person a member.

        Raises:
            PermissionDenied: Only an admin may.
            Conflict: The person is a member already.
        """
        return await self.http.post("/members", MemberDocument, {"name": name, "role": role})

    async def set_role(self, name: str, role: str) -> MemberDocument:
        """Give a member another role, and return the member.

        Raises:
            PermissionDenied: Only an admin may.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """
        body = {"role": role}
        return await self.http.post("/members/{member}/role", MemberDocument, body, member=name)

    async def remove(self, name: str) -> None:
        """Remove a member: their keys and login sessions open nothing from now on.

        Raises:
            PermissionDenied: Only an admin may.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """
        await self.http.post("/members/{member}/remove", _NOTHING, {}, member=name)


@value
class InvitationsApi(Facet):
    """The facet ``client.invitations``."""

    http: HttpConnection

    async def list_all(self) -> tuple[InvitationDocument, ...]:
        """Return all invitations, also those that have ended.

        Raises:
            PermissionDenied: Only an admin may.
        """
        return (await self.http.get("/invitations", InvitationList)).invitations

    async def create(
        self, invitee: str, role: str = "member", *, expires_in_days: int | None = None
    ) -> NewInvitation:
        """Return a new invitation with its code, which is shown this once.

        ``invitee`` is the name of a person or an e-mail address. Without ``expires_in_days`` the
        server decides.

        Raises:
            PermissionDenied: Only an admin may.
            InvalidOperation: It is for neither a name nor an address.
        """
        body = {"invitee": invitee, "role": role, "expires_in_days": expires_in_days}
        return await self.http.post("/invitations", NewInvitation, body)

    async def revoke(self, id: str) -> None:
        """End an invitation that was not accepted.

        Raises:
            PermissionDenied: Only an admin may.
            NotFound: There is no such invitation.
            InvalidOperation: It has ended already.
        """
        await self.http.post("/invitations/{invitation}/revoke", _NOTHING, {}, invitation=id)


@value
class KeysApi(Facet):
    """The facet ``client.keys``."""

    http: HttpConnection

    async def list_all(self) -> tuple[KeyDocument, ...]:
        """Return the caller's keys, or those of all members for an admin."""
        return (await self.http.get("/keys", KeyList)).keys

    async def create(
        self,
        name: str,
        *,
        allow: Sequence[str] | None = None,
        agent: str | None = None,
        expires_in_days: int | None = None,
    ) -> NewKey:
        """Return a new key of the caller, which is shown this once.

        It permits what the caller's own key permits, and with ``allow`` only what one of these
        patterns allows, such as ``action:read``. Without ``expires_in_days`` the server decides.

        Raises:
            PermissionDenied: The caller acts as an agent, or the key may not create others.
            InvalidOperation: The name, the agent's name or a pattern is invalid.
        """
        body = {
            "name": name, "allow": None if allow is None else list(allow), "agent": agent,
            "expires_in_days": expires_in_days,
        }  # fmt: skip
        return await self.http.post("/keys", NewKey, body)

    async def revoke(self, id: str, *, reason: str = "") -> None:
        """Revoke a key: from now on it opens nothing.

        Raises:
            NotFound: There is no such key, or it is another person's.
            InvalidOperation: It was revoked already, or the reason is too long.
        """
        await self.http.post("/keys/{key}/revoke", _NOTHING, {"reason": reason}, key=id)


@value
class LoginSessionsApi(Facet):
    """The facet ``client.login_sessions``."""

    http: HttpConnection

    async def list_all(self) -> tuple[LoginDocument, ...]:
        """Return where the caller is logged in, or where all members are for an admin."""
        return (await self.http.get("/login-sessions", LoginList)).login_sessions

    async def end(self, id: str) -> None:
        """End a login session: its browser is logged out.

        Raises:
            NotFound: There is no such session, or it is another person's.
        """
        await self.http.post("/login-sessions/{login}/end", _NOTHING, {}, login=id)


@value
class IdentitiesApi(Facet):
    """The facet ``client.identities``."""

    http: HttpConnection

    async def list_all(self) -> tuple[IdentityDocument, ...]:
        """Return the caller's linked accounts, or those of all members for an admin."""
        return (await self.http.get("/identities", IdentityList)).identities

    async def unlink(self, id: str) -> None:
        """Unlink an account: neither it nor a login session begun with it opens anything.

        Raises:
            NotFound: There is no such account, or it is another person's.
        """
        await self.http.post("/identities/{identity}/unlink", _NOTHING, {}, identity=id)
