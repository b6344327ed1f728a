"""Permissions as facts: what was granted, used and denied, kept and read again."""

from collections.abc import Mapping
from typing import Any, Protocol

from turntree.auth.audit import Fact
from turntree.auth.token import TokenRecord
from turntree.core.canonical import Json
from turntree.core.ids import SessionId, Timestamp, TurnId


class PermissionPort(Protocol):
    """What sessions and turns tell of permissions. It only ever grows."""

    async def record(
        self, session: SessionId, kind: str, data: Mapping[str, Json], *, at: Timestamp
    ) -> None:
        """Write an event at the next place of a session's stream.

        Raises:
            NotFound: No such session.
        """
        ...

    async def list_facts(
        self, *, session: SessionId | None = None, until: Timestamp | None = None
    ) -> list[Fact]:
        """Return the facts of one session or of all, of its runs and its turns too, in order."""
        ...

    async def note_token(
        self, nonce: str, kind: str, data: Mapping[str, Json], *, at: Timestamp
    ) -> None:
        """Write down that a token was issued or revoked."""
        ...

    async def list_tokens(self, nonce: str | None = None) -> list[TokenRecord]:
        """Return what is known of one token or of all."""
        ...

    async def list_personas(self, turn: TurnId) -> list[Mapping[str, Any]]:
        """Return the personas that the turns of a thread pin, each once, the newest first."""
        ...

    async def find_persona(
        self, session: SessionId | None, head: TurnId | None
    ) -> Mapping[str, Any] | None:
        """Return the persona that a session was begun under, else the one that a turn pins."""
        ...
