"""Store of linked accounts. Each link and its end is an event of the workspace's own stream."""

from collections.abc import Sequence

from turntree.auth.identities.identity import LinkedAccount, ProvenAccount
from turntree.auth.member import Role
from turntree.auth.member_store import ACCESS_CHANGES
from turntree.auth.permissions import EVERYTHING as ALL_RIGHTS
from turntree.core.canonical import canonical
from turntree.core.ids import Timestamp, instant
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@value
class IdentityStore:
    """The linked accounts of a workspace."""

    database: Database

    async def find_open_invitation(self, invitee: str, *, at: Timestamp) -> tuple[str, str] | None:
        """Return the id of an open invitation for a person or an address, and whom it names."""
        # As the system: only admins see invitations.
        everything = self.database.seen_by(EVERYTHING)
        found = await everything.fetch_one(SQL["find_open_invitation"], invitee=invitee, at=at)
        return None if found is None else (str(found[0]), str(found[1]))

    async def use_state(self, digest: bytes, *, expires_at: Timestamp, at: Timestamp) -> bool:
        """Note that the state of a login came back; False if it did before."""
        everything = self.database.seen_by(EVERYTHING)
        found = await everything.fetch_one(
            SQL["use_login_state"], digest=digest, expires_at=expires_at, at=at
        )
        return found is not None and bool(found[0])

    async def log_in(
        self,
        account: ProvenAccount,
        invited: tuple[str, str] | None,
        *,
        identity: str,
        login: str,
        digest: bytes,
        expires_at: Timestamp,
        at: Timestamp,
    ) -> tuple[str, str]:
        """Record a login session, and return its holder and the identity.

        ``invited`` is an invitation and the member that it makes, for an account that is not
        linked: it becomes the ``identity``.

        Raises:
            PermissionDenied: The account is not linked, and the invitation is not open.
            Conflict: The person who was invited is a member already.
        """
        invitation, member = invited or (None, None)
        # As the system: the person acts only once there is a session.
        found = await self.database.seen_by(EVERYTHING).fetch_one(
            SQL["log_in_with_identity"],
            issuer=account.issuer,
            subject=account.subject,
            invitation=invitation,
            member=member,
            identity=identity,
            id=login,
            digest=digest,
            scopes=canonical(ALL_RIGHTS.to_json()).decode(),
            expires_at=expires_at,
            at=at,
        )
        assert found is not None, "a function returns one row"
        return str(found[0]), str(found[1])

    async def link(
        self, id: str, account: ProvenAccount, *, login: str, member: str, at: Timestamp
    ) -> str:
        """Link an account to the holder of a login session, and return the identity.

        Raises:
            PermissionDenied: The session has ended, or the account is linked to another member.
        """
        found = await self.database.seen_by(EVERYTHING).fetch_one(
            SQL["link_identity"],
            id=id,
            issuer=account.issuer,
            subject=account.subject,
            login=login,
            member=member,
            at=at,
        )
        assert found is not None, "a function returns one row"
        return str(found[0])

    async def list_all(self) -> list[LinkedAccount]:
        """Return the linked accounts that the viewer sees, in the order in which they were."""
        rows = await self.database.fetch(SQL["list_identities"])
        return [LinkedAccount(id, issuer, holder, instant(at)) for id, issuer, holder, at in rows]

    async def unlink(self, id: str, *, by: str, at: Timestamp, roles: Sequence[Role]) -> None:
        """Unlink an account; ``roles`` may unlink those of others.

        Raises:
            NotFound: The viewer sees no such account.
        """
        # It ends login sessions, which the process may remember as verified.
        with ACCESS_CHANGES.changing():
            await self.database.run(SQL["unlink_identity"], id=id, by=by, at=at, roles=list(roles))
