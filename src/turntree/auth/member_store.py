"""Store of who belongs to a workspace. Every change is an event of the workspace's own stream."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from turntree.auth.api_key import ApiKey
from turntree.auth.member import Invitation, Member, Role, read_role
from turntree.auth.permissions import Permissions
from turntree.core.canonical import canonical
from turntree.core.ids import Timestamp, instant
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@dataclass(slots=True, eq=False)
class AccessChanges:
    """Counts what one process changes about who may do what, in all of its workspaces.

    A server remembers for a moment that a credential is valid. What its own process revokes opens
    nothing from then on, so what was verified before such a change counts no longer. A change that
    another process makes is seen when the credential is next verified.
    """

    made: int = 0
    """What was verified under another number may have been revoked since."""

    @contextmanager
    def changing(self) -> Generator[None, None, None]:
        """Count the block as a change, also if it fails: its transaction may have ended before."""
        try:
            yield
        finally:
            # Afterwards: what was verified while the block ran has seen the state before it.
            self.made += 1


ACCESS_CHANGES: Final = AccessChanges()
"""Those of this process."""


@value
class MemberStore:
    """The members of a workspace."""

    database: Database
    founder: str
    """The person who opened the process, or nothing: the admin of a workspace in which no person
    worked yet. Not the viewer, who may be a stranger for whom a server acts."""

    async def ensure(self, *, at: Timestamp) -> None:
        """Record the people who worked here so far as members, unless there are members."""
        # As the system: the first person may have worked in private sessions only.
        everything = self.database.seen_by(EVERYTHING)
        await everything.run(SQL["ensure_members"], by=self.founder, at=at)

    async def list_all(self, *, at: Timestamp) -> list[Member]:
        """Return the members in the order in which they got their roles."""
        everything = self.database.seen_by(EVERYTHING)
        rows = await everything.fetch(SQL["list_members"], by=self.founder, at=at)
        return [Member(who, read_role(role), instant(since)) for who, role, since in rows]

    async def find_role(self, principal: str) -> Role | None:
        """Return the role of a person; None if the person is no member."""
        # As the system: who asks is known only after the credentials were verified.
        everything = self.database.seen_by(EVERYTHING)
        found = await everything.fetch_one(SQL["find_role"], principal=principal)
        return None if found is None or found[0] is None else read_role(found[0])

    async def set_role(
        self,
        member: str,
        role: Role | None,
        *,
        is_new: bool,
        by: str,
        at: Timestamp,
        roles: list[Role],
    ) -> Role | None:
        """Give a person a role, or none, and return the one before.

        Raises:
            PermissionDenied: The viewer has none of ``roles``.
            Conflict: ``is_new``, and the person is a member.
            NotFound: Not ``is_new``, and the person is not a member.
            InvalidOperation: The workspace would have no admin.
        """
        with ACCESS_CHANGES.changing():
            found = await self.database.fetch_one(
                SQL["set_member"], member=member, role=role, is_new=is_new, by=by, at=at,
                roles=roles,
            )  # fmt: skip
        return None if found is None or found[0] is None else read_role(found[0])

    async def add_invitation(self, made: Invitation, digest: bytes, *, roles: list[Role]) -> None:
        """Record an invitation.

        Raises:
            PermissionDenied: The viewer has none of ``roles``.
        """
        await self.database.run(
            SQL["create_invitation"],
            id=made.id,
            digest=digest,
            invitee=made.invitee,
            role=made.role,
            expires_at=made.expires_at,
            by=made.created_by,
            at=made.created_at,
            roles=roles,
        )

    async def list_invitations(self) -> list[Invitation]:
        """Return the invitations that the viewer sees, in the order in which they were made."""
        rows = await self.database.fetch(SQL["list_invitations"])
        return [
            Invitation(
                id,
                invitee,
                read_role(role),
                by,
                instant(created),
                instant(expires),
                accepted,
                revoked,
                None if ended is None else instant(ended),
            )
            for id, invitee, role, by, created, expires, accepted, revoked, ended in rows
        ]

    async def find_invitee(self, id: str, digest: bytes) -> str | None:
        """Return whom an invitation is for, to a holder of its code; None without one."""
        # As the system: only admins see invitations.
        everything = self.database.seen_by(EVERYTHING)
        found = await everything.fetch_one(SQL["find_invitee"], id=id, digest=digest)
        return None if found is None else str(found[0])

    async def accept_invitation(
        self, id: str, digest: bytes, member: str, *, at: Timestamp
    ) -> Role:
        """Make a person a member by an invitation, and return the role.

        Raises:
            NotFound: No invitation has this digest.
            PermissionDenied: It is for another person.
            InvalidOperation: It has ended.
            Conflict: The person is a member already.
        """
        # As the system: the person is not a member yet, and only admins see invitations.
        everything = self.database.seen_by(EVERYTHING)
        found = await everything.fetch_one(
            SQL["accept_invitation"], id=id, digest=digest, member=member, at=at
        )
        assert found is not None, "a function returns one row"
        return read_role(found[0])

    async def revoke_invitation(
        self, id: str, *, by: str, at: Timestamp, roles: list[Role]
    ) -> None:
        """End an invitation.

        Raises:
            PermissionDenied: The viewer has none of ``roles``.
            NotFound: There is no such invitation.
            InvalidOperation: It has ended already.
        """
        await self.database.run(SQL["revoke_invitation"], id=id, by=by, at=at, roles=roles)

    async def add_key(self, made: ApiKey, digest: bytes, *, roles: list[Role]) -> None:
        """Record an API key.

        Raises:
            PermissionDenied: The viewer has none of ``roles``.
        """
        await self.database.run(
            SQL["create_api_key"],
            id=made.id,
            digest=digest,
            name=made.name,
            holder=made.holder,
            agent=made.agent,
            scopes=canonical(made.scopes.to_json()).decode(),
            expires_at=made.expires_at,
            at=made.created_at,
            roles=roles,
        )

    async def list_keys(self) -> list[ApiKey]:
        """Return the API keys that the viewer sees, in the order in which they were made."""
        return [_key(row) for row in await self.database.fetch(SQL["list_api_keys"])]

    async def find_key(self, id: str) -> tuple[bytes, Role | None, ApiKey] | None:
        """Return the digest of a key, the role that its holder has, and its record."""
        # As the system: who acts is known only after the key was verified.
        found = await self.database.seen_by(EVERYTHING).fetch_one(SQL["find_api_key"], id=id)
        if found is None:
            return None
        digest, role, *row = found
        return bytes(digest), None if role is None else read_role(role), _key(row)

    async def find_latest_change(self) -> int:
        """Return the number of the newest event about members, keys and login sessions.

        While it stays the same, each of them opens what it opened before, until it expires.
        """
        found = await self.database.seen_by(EVERYTHING).fetch_one(SQL["find_latest_change"])
        assert found is not None, "an aggregate always has a row"
        return int(found[0])

    async def touch_key(self, id: str, *, at: Timestamp) -> None:
        """Note that a key was used."""
        await self.database.seen_by(EVERYTHING).run(SQL["touch_api_key"], id=id, at=at)

    async def revoke_key(
        self, id: str, reason: str, *, by: str, at: Timestamp, roles: list[Role]
    ) -> None:
        """Revoke a key; ``roles`` may revoke the keys of others.

        Raises:
            NotFound: The viewer sees no such key.
            InvalidOperation: It was revoked already.
        """
        with ACCESS_CHANGES.changing():
            await self.database.run(
                SQL["revoke_api_key"], id=id, reason=reason, by=by, at=at, roles=roles
            )

    async def require_role(self, by: str, right: str, roles: list[Role]) -> None:
        """Refuse a viewer who has none of the roles.

        Raises:
            PermissionDenied: The viewer has none; the denial is recorded.
        """
        await self.database.run(SQL["require_role"], by=by, right=right, roles=roles)

    async def find_password(self, member: str, *, roles: list[Role]) -> str | None:
        """Return the hash of a person's password; None without one, or without such a role."""
        # As the system: who asks is known only after the password was verified.
        everything = self.database.seen_by(EVERYTHING)
        found = await everything.fetch_one(SQL["find_password"], member=member)
        return found[0] if found is not None and found[1] in roles else None

    async def set_password(self, member: str, hash: str | None, *, by: str, at: Timestamp) -> bool:
        """Set the hash of a person's password, or remove it; False if there was none."""
        everything = self.database.seen_by(EVERYTHING)
        with ACCESS_CHANGES.changing():
            found = await everything.fetch_one(
                SQL["set_password"], member=member, hash=hash, by=by, at=at
            )
        return found is not None and bool(found[0])

    async def note_denial(self, by: str, right: str, reason: str) -> None:
        """Record that a principal was denied an action that concerns no session."""
        # As the system: the principal that was denied must not be able to prevent the record.
        everything = self.database.seen_by(EVERYTHING)
        await everything.run(SQL["record_denied_action"], by=by, right=right, reason=reason)


def _key(row: Sequence[Any]) -> ApiKey:
    id, name, holder, agent, scopes, created, expires, used, revoked_by, revoked, reason = row
    return ApiKey(
        id,
        name,
        holder,
        agent,
        Permissions.from_json(scopes),
        instant(created),
        instant(expires),
        None if used is None else instant(used),
        revoked_by,
        None if revoked is None else instant(revoked),
        reason,
    )
