"""``tree.login_sessions``: browsers in which people have logged in to a server.

A session is a code in a cookie; the ledger keeps its sha256. What a person logs in with is verified
before: a password by ``tree.passwords``, an API key by ``tree.keys``, an invitation by
``tree.invitations``.
"""

import hmac
from contextlib import suppress
from dataclasses import replace

from turntree.auth.access_code import LOGIN, is_use_due, make_code, parse_code
from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.auth.logins.login_session import LOGIN_DAYS_MAX, LoginSession, Method, VerifiedLogin
from turntree.auth.logins.store import LoginStore
from turntree.auth.member import CREATE_KEYS, MANAGE_KEYS, as_person, roles_with
from turntree.auth.member_store import MemberStore
from turntree.auth.members import require_action
from turntree.auth.permissions import EVERYTHING, Permissions
from turntree.core.clock import Clock
from turntree.core.errors import NotFound, PermissionDenied
from turntree.core.ids import Timestamp, days_after
from turntree.core.principal import Principal
from turntree.core.value import Facet, value


@value
class LoginSessions(Facet):
    """``tree.login_sessions``: the login sessions of the workspace."""

    store: LoginStore
    members: MemberStore
    world: Clock
    own: ExecutionContext

    async def begin(
        self,
        person: Principal,
        *,
        method: Method,
        verified_at: Timestamp,
        scopes: Permissions = EVERYTHING,
        key: str | None = None,
        expires_at: Timestamp | None = None,
    ) -> tuple[LoginSession, str]:
        """Return a new session's record, and the code for its cookie, which is not stored.

        For a server that has verified who logs in. ``verified_at`` is when it began to: what was
        changed or revoked since then opens nothing.

        Raises:
            PermissionDenied: The person is not a member, or what they logged in with is no longer
                valid.
        """
        now = self.world.now()
        workspace = self.store.database.workspace
        secret = self.world.nonce() + self.world.nonce()
        code = make_code(LOGIN, workspace, self.world.nonce(), secret)
        end = days_after(now, LOGIN_DAYS_MAX)
        end = end if expires_at is None else min(end, expires_at)
        made = LoginSession(code.id, as_person(str(person)), method, scopes, now, end, now, key)
        await self.store.add(made, code.digest, verified_at=verified_at)
        return made, code.text

    async def list_all(self) -> list[LoginSession]:
        """Return the open sessions of the acting person, or of all if that is an admin.

        A context that may not manage keys shows an admin their own only.
        """
        acting = find_current() or self.own
        sessions = await self.store.list_all()
        if acting.decide(MANAGE_KEYS).allowed:
            return sessions
        return [session for session in sessions if session.holder == str(acting.principal)]

    async def end(self, id: str) -> None:
        """End a session: from now on its cookie opens nothing.

        Raises:
            NotFound: There is no such session, it has ended, or it is another person's.
        """
        acting = find_current() or self.own
        found = next((one for one in await self.store.list_all() if one.id == id), None)
        # The database says whether there is a session; this says what a narrowed context lacks.
        is_own = found is None or found.holder == str(acting.principal)
        by = await require_action(self.members, CREATE_KEYS if is_own else MANAGE_KEYS, self.own)
        await self.store.end(id, by=by, at=self.world.now(), roles=roles_with(MANAGE_KEYS))

    async def log_out(self, text: str) -> None:
        """End the session whose code this is, if it is one of this workspace."""
        try:
            verified = await self.verify(text)
        except PermissionDenied:
            return
        by = str(verified.chain.principal)
        with suppress(NotFound):  # Another request ended it meanwhile.
            await self.store.end(verified.id, by=by, at=self.world.now(), as_system=True)

    async def verify(self, text: str, *, is_use: bool = True) -> VerifiedLogin:
        """Return who acts in a session, and what they may do.

        Unless ``is_use``, its holder does nothing: a stream asks whether its reader still may.

        Raises:
            PermissionDenied: It is no session of this workspace, has ended or expired, or its
                holder was removed. A wrong code for a known id is recorded.
        """
        code = parse_code(LOGIN, text)
        if code.workspace != str(self.store.database.workspace):
            raise PermissionDenied("the login session is for another workspace")
        unknown = PermissionDenied("this login session has ended")
        found = await self.store.find(code.id)
        if found is None:
            raise unknown
        digest, role, session = found
        now = self.world.now()
        if not hmac.compare_digest(digest, code.digest):
            reason = f"login session {code.id}: the secret is wrong"
            await self.members.note_denial(session.holder, "login.use", reason)
            raise unknown
        # An old cookie is no attack: a browser sends it until it is told to forget it.
        if session.state_at(now) != "valid" or role is None:
            raise unknown
        if is_use and is_use_due(session.last_used_at, now):
            await self.store.touch(code.id, at=now)
            session = replace(session, last_used_at=now)
        return VerifiedLogin(session, code.workspace, session.chain_as(role))
