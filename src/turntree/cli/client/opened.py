"""The server of one command: a client for as long as it runs, and what HEAD means there."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from turntree.cli.command import Terminal
from turntree.cli.common.server_keys import find_key
from turntree.cli.output.session import session_row_document
from turntree.cli.settings import find_setting, merged_environment
from turntree.client import Client
from turntree.client.address import read_address
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, Label, SessionId, Timestamp, TurnId
from turntree.core.session import Session, SessionStatus
from turntree.core.value import value
from turntree.system.clock import SystemClock
from turntree.wire.sessions import SessionDocument

T = TypeVar("T")
SESSION_DEFAULT: Final = "main"
_HEAD: Final = re.compile(r"\AHEAD(?=\Z|[~^]|@\{|:(?:msg|tool)/)")


@value
class OpenServer:
    """A server, open for one command."""

    client: Client
    now: Timestamp
    current: str
    """The session that ``HEAD`` names; it may not exist there."""

    def name(self, revision: str) -> str:
        """Return a revision in words that the server knows: it has no current session."""
        return _HEAD.sub(lambda _: self.current, revision, count=1)

    async def find_session(self, name: str) -> SessionDocument | None:
        """Return a session, or None if the server has none of this name."""
        try:
            return await self.client.sessions.get(self.name(name))
        except NotFound:
            return None


def on_server(terminal: Terminal, act: Callable[[OpenServer], Awaitable[T]]) -> T:
    """Run one call on the server that the command was given.

    Raises:
        TurntreeError: There is no key for it, or it refuses the call.
    """
    url = terminal.find_server()
    assert url is not None, "the command is called with a server"
    allows_http = find_setting("server_http").value == "yes"
    address = read_address(url, allow_http=allows_http)
    key = find_key(address.url)
    current = merged_environment().get("TURNTREE_SESSION") or SESSION_DEFAULT

    async def run() -> T:
        async with Client(url, key, allow_http=allows_http) as client:
            return await act(OpenServer(client, SystemClock().now(), current))

    return asyncio.run(run())


def session_of(document: SessionDocument) -> Session:
    """Return a session as the commands print it; a server tells less than the ledger knows."""
    return Session(
        SessionId(document.id), Label(document.label),
        None if document.head is None else TurnId(document.head),
        None if document.digest is None else Digest(document.digest),
        document.version, cast("SessionStatus", document.status), Timestamp(document.created_at),
        Timestamp(document.worked_at), document.turns,
        aliases=tuple(map(Label, document.aliases)),
        head_sealed_at=Timestamp(document.worked_at),
    )  # fmt: skip


def session_row(document: SessionDocument, *, current: str | None = None) -> dict[str, Any]:
    """Return a session as it is listed in JSON, without what a server does not tell."""
    row = session_row_document(session_of(document))
    for unknown in ("updated_at", "origin", "spawned_by"):
        del row[unknown]
    return {**row, "current": document.label == current}
