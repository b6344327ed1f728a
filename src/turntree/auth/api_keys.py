"""``tree.keys``: API keys, with which programs act for a person.

A key is shown once; the ledger keeps its sha256. ``verify`` is what a server calls for every
request: a text that is no key is refused before any query.
"""

import hmac
from dataclasses import replace
from typing import Final

from turntree.auth.access_code import KEY, is_use_due, make_code, parse_code
from turntree.auth.api_key import ApiKey, VerifiedKey, check_key_name
from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.member import CREATE_KEYS, MANAGE_KEYS, as_person, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.auth.permissions import EVERYTHING, Permissions
from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.ids import Timestamp, WorkspaceId
from turntree.core.program import check_name
from turntree.core.value import Facet, value

REASON_CHARS_MAX: Final = 1_000


@value
class ApiKeys(Facet):
    """``tree.keys``: the API keys of the workspace."""

    store: MemberStore
    world: Clock
    own: ExecutionContext

    async def create(
        self,
        name: str,
        *,
        expires_at: Timestamp,
        scopes: Permissions = EVERYTHING,
        agent: str | None = None,
    ) -> tuple[ApiKey, str]:
        """Return a new key's record, and the key, which is not stored.

        It permits what its scopes, this context and the role of its holder all permit. The role
        is the one that the holder has when the key is used.

        Raises:
            PermissionDenied: The acting principal is not a member, or not a person.
            InvalidOperation: The name or the agent's is invalid, or it would have expired already.
        """
        await require_action(self.store, CREATE_KEYS, self.own)
        acting = find_current() or self.own
        if acting.principal.kind != "human":
            reason = "only a person can create a key"
            await self.store.note_denial(str(acting.principal), "key.create", reason)
            raise PermissionDenied(f"{reason}, not {acting.principal}")
        now = self.world.now()
        if expires_at <= now:
            raise InvalidOperation(f"the expiry has to be in the future, not {expires_at}")
        holder = as_person(str(acting.principal))
        await self.store.ensure(at=now)
        workspace = self.store.database.workspace
        secret = self.world.nonce() + self.world.nonce()
        code = make_code(KEY, workspace, self.world.nonce(), secret)
        narrowed = acting.rights.intersect(scopes)
        made = ApiKey(code.id, check_key_name(name), holder, agent, narrowed, now, expires_at)
        if agent is not None:
            check_name(agent)
        await self.store.add_key(made, code.digest, roles=roles_with(CREATE_KEYS))
        return made, code.text

    async def list_all(self) -> list[ApiKey]:
        """Return the keys of the acting person, or of all if that is an admin.

        A context that may not manage keys shows an admin their own only.
        """
        acting = find_current() or self.own
        keys = await self.store.list_keys()
        if acting.decide(MANAGE_KEYS).allowed:
            return keys
        return [key for key in keys if key.holder == str(acting.principal)]

    async def revoke(self, id: str, *, reason: str = "") -> None:
        """Revoke a key: from now on it opens nothing.

        Raises:
            NotFound: There is no such key, or it is another person's.
            InvalidOperation: It was revoked already, or the reason is too long.
        """
        if len(reason) > REASON_CHARS_MAX:
            raise InvalidOperation(f"a reason has at most {REASON_CHARS_MAX} characters")
        acting = find_current() or self.own
        found = next((key for key in await self.store.list_keys() if key.id == id), None)
        # The database says whether there is a key; this says what a narrowed context lacks.
        is_own = found is None or found.holder == str(acting.principal)
        by = await require_action(self.store, CREATE_KEYS if is_own else MANAGE_KEYS, self.own)
        await self.store.revoke_key(
            id, reason, by=by, at=self.world.now(), roles=roles_with(MANAGE_KEYS)
        )

    async def verify(self, text: str) -> VerifiedKey:
        """Return who acts with a key, and what they may do.

        Raises:
            PermissionDenied: It is no key of this workspace, was revoked or has expired, or its
                holder was removed. If its id is known, the denial is recorded.
        """
        code = parse_code(KEY, text)
        if code.workspace != str(self.store.database.workspace):
            raise PermissionDenied("the key is for another workspace")
        found = await self.store.find_key(code.id)
        if found is None:
            raise PermissionDenied(f"there is no key {code.id}")
        digest, role, key = found
        now = self.world.now()
        if not hmac.compare_digest(digest, code.digest):
            # The same words as for an id that is not there: a guess learns nothing.
            reason, shown = "the secret is wrong", f"there is no key {code.id}"
        elif (state := key.state_at(now)) != "valid":
            reason = "it was revoked" if state == "revoked" else "it has expired"
            shown = f"the key {code.id} is not valid: {reason}"
        elif role is None:
            reason = f"{key.holder} is not a member"
            shown = f"the key {code.id} is not valid: {reason}"
        else:
            if is_use_due(key.last_used_at, now):
                await self.store.touch_key(code.id, at=now)
                key = replace(key, last_used_at=now)
            return VerifiedKey(key, code.workspace, key.chain_as(role))
        await self.store.note_denial(key.holder, "key.use", f"key {code.id}: {reason}")
        raise PermissionDenied(shown)


def workspace_of_key(text: str) -> WorkspaceId:
    """Return the workspace of a key, so that a server knows where to look.

    Raises:
        PermissionDenied: It is not a key, or has a typing error.
    """
    return parse_code(KEY, text).workspace
