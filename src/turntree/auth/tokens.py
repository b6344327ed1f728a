"""``tree.tokens``: issue, revoke and open tokens.

``auth.token`` validates a token. This module records that one was issued or revoked, and checks
that before opening one. It must never store a token: a reader could act with it.
"""

from collections.abc import Mapping
from typing import Final

from turntree.auth import token
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.store import PermissionStore
from turntree.auth.token import TokenRecord
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import Hint, InvalidOperation, PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal
from turntree.core.value import Facet, value

REASON_CHARS_MAX: Final = 1_000


@value
class Tokens(Facet):
    """``tree.tokens``: delegated permissions, and how to revoke them."""

    permissions: PermissionStore
    world: Clock
    by: Principal

    async def issue(
        self, context: ExecutionContext, *, key: bytes, audience: str, expires_at: Timestamp
    ) -> tuple[str, str]:
        """Return a token, and the nonce that revokes it.

        Raises:
            InvalidOperation: The key is too short, or the time is invalid.
        """
        # It is typed on command lines, where a leading dash would make it an option.
        nonce = self.world.nonce().strip("-_")
        made = token.issue(
            context.chain,
            key=key,
            nonce=nonce,
            audience=audience,
            expires_at=expires_at,
            config=context.config,
        )
        data: dict[str, Json] = {
            "by": str(self.by),
            "holder": str(context.principal),
            "audience": audience,
            "expires_at": expires_at,
        }
        await self.permissions.note_issue(nonce, data, at=self.world.now(), until=expires_at)
        return made, nonce

    async def revoke(self, nonce: str, *, reason: str = "") -> TokenRecord:
        """Revoke a token, and with it every token made by narrowing it.

        Any principal may revoke a token that this ledger has no record of.

        Raises:
            PermissionDenied: Another principal issued it.
            InvalidOperation: It was revoked already, or this is not a nonce.
        """
        if len(nonce) < token.NONCE_CHARS_MIN or len(reason) > REASON_CHARS_MAX:
            raise InvalidOperation("a token is revoked by its nonce", hint=Hint("token.list"))
        for known in await self.permissions.list_tokens(nonce):
            if known.revoked_at is not None:
                raise InvalidOperation(f"{nonce} was revoked already: {_told(known)}")
            if known.issued_by not in (None, str(self.by)) and self.by.kind != "system":
                raise PermissionDenied(
                    f"{self.by} cannot revoke {nonce}: {known.issued_by} issued it"
                )
        data: dict[str, Json] = {"by": str(self.by), "reason": reason}
        await self.permissions.note_revocation(nonce, data, at=self.world.now())
        (noted,) = await self.permissions.list_tokens(nonce)
        return noted

    async def open(
        self,
        text: str,
        *,
        key: bytes,
        audience: str,
        environment: Mapping[str, str] | None = None,
    ) -> ExecutionContext:
        """Return the context of a token, unless it was revoked in this ledger.

        Raises:
            PermissionDenied: The token is not valid, is for another audience, has expired or was
                revoked, or its person was removed from the workspace since it was issued.
        """
        opened = token.open_token(text, key=key, audience=audience, now=self.world.now())
        issued_at: Timestamp | None = None
        for known in await self.permissions.list_tokens(opened.nonce):
            issued_at = known.issued_at
            if known.revoked_at is not None:
                raise PermissionDenied(f"the token {opened.nonce} was revoked: {_told(known)}")
        # Like a key, a token does not come back with a person who was removed in between.
        if await self.permissions.was_removed(str(opened.chain.root), issued_at):
            raise PermissionDenied(
                f"the token {opened.nonce} is not valid: {opened.chain.root} was removed"
            )
        return ExecutionContext(opened.chain, config=opened.config, environment=environment or {})

    async def list_all(
        self, *, after: TokenRecord | None = None, limit: int | None = None
    ) -> list[TokenRecord]:
        """Return every token this ledger knows, in order of issue.

        With a ``limit`` it is a page of them; the next one comes ``after`` the last of this one.
        """
        last = None if after is None else after.nonce
        return await self.permissions.list_tokens(after=last, limit=limit)


def _told(known: TokenRecord) -> str:
    why = f", because {known.reason}" if known.reason else ""
    return f"{known.revoked_by} did so at {known.revoked_at}{why}"
