"""Store of permission events: granted, used and denied."""

from collections.abc import Mapping
from typing import Any, Protocol

from turntree.auth.audit import Fact
from turntree.auth.token import TokenRecord
from turntree.core.canonical import Json
from turntree.core.ids import SessionId, Timestamp, TurnId


class PermissionPort(Protocol):
    """The permission events of sessions and turns; append-only."""

    async def record(
        self, session: SessionId, kind: str, data: Mapping[str, Json], *, at: Timestamp
    ) -> None:
        """Append an event to a session's stream.

        Raises:
            NotFound: No such session.
        """
        ...

    async def list_facts(
        self, *, session: SessionId | None = None, until: Timestamp | None = None
    ) -> list[Fact]:
        """Return the facts of one session or of all, with its runs and turns, in order of time."""
        ...

    async def note_token(
        self, nonce: str, kind: str, data: Mapping[str, Json], *, at: Timestamp
    ) -> None:
        """Record that a token was issued or revoked."""
        ...

    async def list_tokens(self, nonce: str | None = None) -> list[TokenRecord]:
        """Return the records of one token or of all."""
        ...

    async def list_personas(self, turn: TurnId) -> list[Mapping[str, Any]]:
        """Return the personas of a thread's turns, each once, newest first."""
        ...

    async def find_persona(
        self, session: SessionId | None, head: TurnId | None
    ) -> Mapping[str, Any] | None:
        """Return the persona a session was created under, else the one of its turn."""
        ...
