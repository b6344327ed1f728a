"""Store of login sessions. Each beginning and end is an event of the workspace's own stream."""

from collections.abc import Sequence
from typing import Any

from turntree.auth.logins.login_session import LoginSession
from turntree.auth.member import Role, read_role
from turntree.auth.member_store import ACCESS_CHANGES
from turntree.auth.permissions import Permissions
from turntree.core.canonical import canonical
from turntree.core.ids import Timestamp, instant
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@value
class LoginStore:
    """The login sessions of a workspace."""

    database: Database

    async def add(self, made: LoginSession, digest: bytes, *, verified_at: Timestamp) -> None:
        """Record a session.

        Raises:
            PermissionDenied: The holder is not a member, or the password or key with which they
                logged in was changed or revoked after ``verified_at``.
        """
        # As the system: the person acts only once there is a session.
        await self.database.seen_by(EVERYTHING).run(
            SQL["create_login_session"],
            id=made.id,
            digest=digest,
            holder=made.holder,
            method=made.method,
            scopes=canonical(made.scopes.to_json()).decode(),
            key=made.key,
            expires_at=made.expires_at,
            at=made.created_at,
            verified_at=verified_at,
        )

    async def list_all(self) -> list[LoginSession]:
        """Return the open sessions that the viewer sees, in the order in which they began."""
        return [_session(row) for row in await self.database.fetch(SQL["list_login_sessions"])]

    async def find(self, id: str) -> tuple[bytes, Role | None, LoginSession] | None:
        """Return the digest of a session, the role that its holder has, and its record."""
        # As the system: who acts is known only after the session was verified.
        found = await self.database.seen_by(EVERYTHING).fetch_one(SQL["find_login_session"], id=id)
        if found is None:
            return None
        digest, role, *row = found
        return bytes(digest), None if role is None else read_role(role), _session(row)

    async def touch(self, id: str, *, at: Timestamp) -> None:
        """Note that a session was used."""
        await self.database.seen_by(EVERYTHING).run(SQL["touch_login_session"], id=id, at=at)

    async def end(
        self,
        id: str,
        *,
        by: str,
        at: Timestamp,
        roles: Sequence[Role] = (),
        as_system: bool = False,
    ) -> None:
        """End a session; ``roles`` may end those of others.

        ``as_system`` is for a holder who has shown the code of the session.

        Raises:
            NotFound: The viewer sees no such session, or it has ended.
        """
        database = self.database.seen_by(EVERYTHING) if as_system else self.database
        with ACCESS_CHANGES.changing():
            await database.run(SQL["revoke_login_session"], id=id, by=by, at=at, roles=list(roles))


def _session(row: Sequence[Any]) -> LoginSession:
    id, holder, method, scopes, created, expires, used, key, ended, ended_by, identity = row
    return LoginSession(
        id,
        holder,
        method,
        Permissions.from_json(scopes),
        instant(created),
        instant(expires),
        instant(used),
        key,
        None if ended is None else instant(ended),
        ended_by,
        identity,
    )
