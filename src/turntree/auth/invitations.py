"""``tree.invitations``: let people into a workspace, once each.

The code is shown once, to the admin who sends it; the ledger keeps its digest. Whom it is for is a
person's name, which only that person may use, or an e-mail address, which says where it was sent.
"""

import re
from typing import Final

from turntree.auth.access_code import INVITATION, AccessCode, make_code, parse_code
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import MANAGE_MEMBERS, Invitation, Member, Role, as_person, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.value import Facet, value

ADDRESS_CHARS_MAX: Final = 254
_ADDRESS: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")


@value
class Invitations(Facet):
    """``tree.invitations``: who was invited to the workspace."""

    store: MemberStore
    world: Clock
    own: ExecutionContext

    async def create(
        self, invitee: str, role: Role = "member", *, expires_at: Timestamp
    ) -> tuple[Invitation, str]:
        """Return a new invitation, and its code, which is not stored.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            InvalidOperation: It is for neither a name nor an address, or has expired already.
        """
        by = await require_action(self.store, MANAGE_MEMBERS, self.own)
        now = self.world.now()
        if expires_at <= now:
            raise InvalidOperation(f"the expiry has to be in the future, not {expires_at}")
        await self.store.ensure(at=now)
        workspace = self.store.database.workspace
        secret = self.world.nonce() + self.world.nonce()
        code = make_code(INVITATION, workspace, self.world.nonce(), secret)
        made = Invitation(code.id, _invitee(invitee), role, by, now, expires_at)
        await self.store.add_invitation(made, code.digest, roles=roles_with(MANAGE_MEMBERS))
        return made, code.text

    async def list_all(self) -> list[Invitation]:
        """Return all invitations, in the order in which they were made; only admins see them.

        Raises:
            PermissionDenied: The context does not permit to manage members.
        """
        await require_action(self.store, MANAGE_MEMBERS, self.own)
        return await self.store.list_invitations()

    async def accept(self, text: str) -> Member:
        """Make the acting person a member, as the invitation says; it cannot be used again.

        Raises:
            PermissionDenied: It is not a code, or the invitation is for another person.
            NotFound: There is no such invitation here.
            InvalidOperation: It was accepted or revoked, or has expired.
            Conflict: The person is a member already.
        """
        code = self._parse(text)
        person = self.own.principal
        if person.kind != "human":
            raise PermissionDenied(f"{person} is not a person: only people are members")
        return await self._accept(code, as_person(str(person)))

    async def find_person(self, text: str) -> str:
        """Return the person for whom an invitation is, as a principal, and do not use it up.

        Raises:
            PermissionDenied: It is not a code.
            NotFound: There is no such invitation here.
        """
        code = self._parse(text)
        invitee = await self.store.find_invitee(code.id, code.digest)
        if invitee is None:
            raise NotFound("there is no such invitation")
        return as_person(invitee)

    async def redeem(self, text: str) -> Member:
        """Make the person a member for whom an invitation is; it cannot be used again.

        For a server, to which a person shows the code and nothing else. An invitation for an
        e-mail address makes a person who is called by that address: a name of their own choice
        could be that of a person who worked here before.

        Raises:
            PermissionDenied: It is not a code.
            NotFound: There is no such invitation here.
            InvalidOperation: It was accepted or revoked, or has expired.
            Conflict: The person is a member already.
        """
        person = await self.find_person(text)
        return await self._accept(self._parse(text), person)

    async def revoke(self, id: str) -> None:
        """End an invitation that was not accepted.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            NotFound: There is no such invitation.
            InvalidOperation: It has ended already.
        """
        by = await require_action(self.store, MANAGE_MEMBERS, self.own)
        await self.store.revoke_invitation(
            id, by=by, at=self.world.now(), roles=roles_with(MANAGE_MEMBERS)
        )

    def _parse(self, text: str) -> AccessCode:
        code = parse_code(INVITATION, text)
        if code.workspace != str(self.store.database.workspace):
            raise PermissionDenied("the invitation is for another workspace")
        return code

    async def _accept(self, code: AccessCode, person: str) -> Member:
        now = self.world.now()
        role = await self.store.accept_invitation(code.id, code.digest, person, at=now)
        return Member(person, role, now)


def _invitee(text: str) -> str:
    """Return an address as it is, and a name as a principal."""
    if "@" not in text:
        return as_person(text)
    if _ADDRESS.fullmatch(text) is None or len(text) > ADDRESS_CHARS_MAX or not text.isprintable():
        raise InvalidOperation(f"{text!r} is neither a name nor an e-mail address")
    return text
