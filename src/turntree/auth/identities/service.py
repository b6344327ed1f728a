"""``tree.identities``: accounts at identity providers, with which members log in to a server.

An account lets in the member to whom it is linked, and no other. It is linked by its owner: with an
invitation for what the provider vouches for, or in a browser in which the member is logged in.
"""

from turntree.auth.access_code import ID_CHARS, LOGIN, make_code
from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.identities.identity import LinkedAccount, ProvenAccount
from turntree.auth.identities.store import IdentityStore
from turntree.auth.logins.login_session import LOGIN_DAYS_MAX, LoginSession, VerifiedLogin
from turntree.auth.member import CREATE_KEYS, MANAGE_KEYS, RIGHTS, as_person, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.auth.permissions import EVERYTHING
from turntree.core.clock import Clock
from turntree.core.errors import PermissionDenied
from turntree.core.ids import Timestamp, days_after
from turntree.core.value import Facet, value


@value
class Identities(Facet):
    """``tree.identities``: the linked accounts of the workspace."""

    store: IdentityStore
    members: MemberStore
    world: Clock
    own: ExecutionContext

    async def log_in(self, account: ProvenAccount) -> tuple[LoginSession, str]:
        """Return a new login session's record, and the code for its cookie, which is not stored.

        For a server to which an identity provider has proven who is here. An account that is not
        linked yet accepts an open invitation that names it, and is linked to the new member.

        Raises:
            PermissionDenied: The account is not linked, and no invitation names it.
            Conflict: The person who was invited is a member already, who can link the account.
        """
        now = self.world.now()
        invited = None
        if account.invitee is not None:
            invited = await self.store.find_open_invitation(account.invitee, at=now)
        if invited is not None:
            # By the spelling of the invitation: the admin has chosen the name.
            invited = (invited[0], as_person(invited[1]))
        workspace = self.members.database.workspace
        secret = self.world.nonce() + self.world.nonce()
        code = make_code(LOGIN, workspace, self.world.nonce(), secret)
        end = days_after(now, LOGIN_DAYS_MAX)
        holder, identity = await self.store.log_in(
            account,
            invited,
            identity=self.world.nonce()[:ID_CHARS],
            login=code.id,
            digest=code.digest,
            expires_at=end,
            at=now,
        )
        made = LoginSession(
            code.id, holder, "identity", EVERYTHING, now, end, now, identity=identity
        )
        return made, code.text

    async def link(self, account: ProvenAccount, login: VerifiedLogin) -> str:
        """Link an account to the holder of a login session, and return its id.

        Raises:
            PermissionDenied: The session has ended or permits less than its holder's role, or the
                account is linked to another member.
        """
        member = str(login.chain.principal)
        role = await self.members.find_role(member)
        # The account will open all that the role permits: a session that was begun with a key of
        # less must not widen itself by it.
        if role is None or login.chain.rights != RIGHTS[role].intersect(EVERYTHING):
            reason = "the login session permits less than the role of its holder"
            await self.members.note_denial(member, "identity.link", reason)
            raise PermissionDenied(reason)
        return await self.store.link(
            self.world.nonce()[:ID_CHARS],
            account,
            login=login.id,
            member=member,
            at=self.world.now(),
        )

    async def use_state(self, digest: bytes, *, expires_at: Timestamp) -> bool:
        """Note that the state of a login came back from the provider; False if it did before."""
        return await self.store.use_state(digest, expires_at=expires_at, at=self.world.now())

    async def list_all(self) -> list[LinkedAccount]:
        """Return the linked accounts of the acting person, or of all if that is an admin.

        A context that may not manage keys shows an admin their own only.
        """
        acting = find_current() or self.own
        identities = await self.store.list_all()
        if acting.decide(MANAGE_KEYS).allowed:
            return identities
        return [one for one in identities if one.holder == str(acting.principal)]

    async def unlink(self, id: str) -> None:
        """Unlink an account: it opens nothing from now on, nor do login sessions begun with it.

        Raises:
            NotFound: There is no such account, or it is another person's.
        """
        acting = find_current() or self.own
        found = next((one for one in await self.store.list_all() if one.id == id), None)
        # The database says whether there is one; this says what a narrowed context lacks.
        is_own = found is None or found.holder == str(acting.principal)
        by = await require_action(self.members, CREATE_KEYS if is_own else MANAGE_KEYS, self.own)
        await self.store.unlink(id, by=by, at=self.world.now(), roles=roles_with(MANAGE_KEYS))
