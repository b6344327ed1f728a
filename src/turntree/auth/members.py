"""``tree.members``: who belongs to a workspace, and as what.

``auth.member`` has the table of what a role may do, and the database checks the role of the person
who asks. This module asks the execution context first: a token narrows what its holder may manage.
"""

from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.member import MANAGE_MEMBERS, Member, Role, as_person, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.permissions import Right
from turntree.core.clock import Clock
from turntree.core.errors import Conflict, PermissionDenied
from turntree.core.value import Facet, value
from turntree.core.viewer import sight_of


@value
class Members(Facet):
    """``tree.members``: the members of the workspace."""

    store: MemberStore
    world: Clock
    own: ExecutionContext
    """The tree's own context, for calls outside of every other."""

    async def list_all(self) -> list[Member]:
        """Return the members in the order in which they got their roles.

        Before the first change these are the people who worked in the workspace, the first of
        them as its admin.
        """
        return await self.store.list_all(at=self.world.now())

    async def find_role(self, name: str) -> Role | None:
        """Return the role of a person; None if the person is not a member."""
        person = as_person(name)
        return next((one.role for one in await self.list_all() if one.principal == person), None)

    async def add(self, name: str, role: Role = "member") -> Member:
        """Make a person a member.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            Conflict: The person is a member already.
        """
        person = as_person(name)
        await self._set(person, role, is_new=True)
        return await self._get(person)

    async def set_role(self, name: str, role: Role) -> tuple[Member, Role]:
        """Give a member another role; return the member, and the role before.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """
        person = as_person(name)
        before = await self._set(person, role, is_new=False)
        assert before is not None, "a person without a role is not a member"
        return await self._get(person), before

    async def remove(self, name: str) -> Role:
        """Remove a member and return the role before. Members may remove themselves.

        Raises:
            PermissionDenied: Only an admin removes others; the denial is recorded.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """
        before = await self._set(as_person(name), None, is_new=False)
        assert before is not None, "a person without a role is not a member"
        return before

    async def _set(self, person: str, role: Role | None, *, is_new: bool) -> Role | None:
        by = await require_action(self.store, MANAGE_MEMBERS, self.own)
        await self.store.ensure(at=self.world.now())
        return await self.store.set_role(
            person,
            role,
            is_new=is_new,
            by=by,
            at=self.world.now(),
            roles=roles_with(MANAGE_MEMBERS),
        )

    async def _get(self, person: str) -> Member:
        for one in await self.list_all():
            if one.principal == person:
                return one
        raise Conflict(f"{person} was removed meanwhile")


async def require_action(store: MemberStore, wanted: Right, own: ExecutionContext) -> str:
    """Return the acting principal and the person behind it, if its context permits an action.

    Raises:
        PermissionDenied: It does not; the denial is recorded.
    """
    acting = find_current() or own
    decision = acting.decide(wanted)
    if not decision.allowed:
        by = str(acting.principal)
        await store.note_denial(by, wanted.removeprefix("action:"), decision.reason)
        raise PermissionDenied(f"{decision.right} is denied: {decision.reason}")
    return sight_of(acting.principal)
