"""Store of who belongs to a workspace. Every change is an event of the workspace's own stream."""

from turntree.auth.member import Member, Role, read_role
from turntree.core.ids import Timestamp, instant
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@value
class MemberStore:
    """The members of a workspace."""

    database: Database

    async def ensure(self, by: str, *, at: Timestamp) -> None:
        """Record the people who worked here so far as members, unless there are members."""
        # As the system: the first person may have worked in private sessions only.
        everything = self.database.seen_by(EVERYTHING)
        await everything.run(SQL["ensure_members"], by=by, at=at)

    async def list_all(self, by: str, *, at: Timestamp) -> list[Member]:
        """Return the members in the order in which they got their roles."""
        everything = self.database.seen_by(EVERYTHING)
        rows = await everything.fetch(SQL["list_members"], by=by, at=at)
        return [Member(who, read_role(role), instant(since)) for who, role, since in rows]

    async def find_role(self, principal: str) -> Role | None:
        """Return the role of a person; None if the person is no member."""
        found = await self.database.fetch_one(SQL["find_role"], principal=principal)
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
            NotFound: Not ``is_new``, and the person is no member.
            InvalidOperation: The workspace would have no admin.
        """
        found = await self.database.fetch_one(
            SQL["set_member"], member=member, role=role, is_new=is_new, by=by, at=at, roles=roles
        )
        return None if found is None or found[0] is None else read_role(found[0])

    async def note_denial(self, by: str, right: str, reason: str) -> None:
        """Record that a principal was denied an action that concerns no session."""
        # As the system: the principal that was denied must not be able to prevent the record.
        everything = self.database.seen_by(EVERYTHING)
        await everything.run(SQL["record_denied_action"], by=by, right=right, reason=reason)
