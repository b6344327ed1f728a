"""``tree.passwords``: a password for an admin.

Only admins have one: it is meant for the first person, who logs in to a server before others are
invited. A hash never leaves the database, and no event has one.
"""

from typing import Final

from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.logins.password import hash_password, is_password
from turntree.auth.member import MANAGE_MEMBERS, as_person, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.principal import SYSTEM, Principal
from turntree.core.value import Facet, value

WRONG: Final = "the name or the password is wrong"


@value
class Passwords(Facet):
    """``tree.passwords``: set, verify and change an admin's password."""

    store: MemberStore
    world: Clock
    own: ExecutionContext

    async def set(self, password: str) -> None:
        """Set the password of the acting person.

        Raises:
            PermissionDenied: The person is not an admin.
            InvalidOperation: It is too short or too long, or is not valid text.
        """
        person = await self._require_admin()
        await self._set(person, await hash_password(password))

    async def remove(self) -> bool:
        """Remove the password of the acting person; False if there is none.

        Raises:
            PermissionDenied: The person is not an admin.
        """
        return await self._set(await self._require_admin(), None)

    async def verify(self, name: str, password: str) -> Principal:
        """Return the person who has a name and a password.

        A name without a password, or of a person who is not an admin, takes as long as a wrong
        password and gets the same words.

        Raises:
            PermissionDenied: The name or the password is wrong. The denial is recorded, without
                the name: a record for known names only would take longer, and so tell them apart.
        """
        person, hash = None, None
        try:
            person = as_person(name)
            hash = await self.store.find_password(person, roles=roles_with(MANAGE_MEMBERS))
        except InvalidOperation:
            pass  # No name of a person: verified against nothing, like any unknown name.
        is_right = await is_password(password, hash)
        if person is not None and is_right:
            return Principal("human", person.removeprefix("human:"))
        await self.store.note_denial(str(SYSTEM), "password.use", WRONG)
        raise PermissionDenied(WRONG)

    async def change(self, name: str, current: str, new: str) -> None:
        """Replace a password, for a person who knows it.

        Raises:
            PermissionDenied: The name or the current password is wrong.
            InvalidOperation: The new one is too short or too long, or is the current one.
        """
        person = str(await self.verify(name, current))
        if new == current:
            raise InvalidOperation("the new password is the current one")
        await self._set(person, await hash_password(new))

    async def _require_admin(self) -> str:
        acting = find_current() or self.own
        # The role of the viewer is checked: it must not vouch for a context of another principal.
        if acting.principal != self.own.principal or acting.principal.kind != "human":
            raise PermissionDenied(
                f"{acting.principal} cannot set this password: people set only their own"
            )
        by = await require_action(self.store, MANAGE_MEMBERS, self.own)
        await self.store.ensure(at=self.world.now())
        await self.store.require_role(by, "password.set", roles_with(MANAGE_MEMBERS))
        return as_person(by)

    async def _set(self, person: str, hash: str | None) -> bool:
        return await self.store.set_password(person, hash, by=person, at=self.world.now())
