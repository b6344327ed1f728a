"""A client of one workspace of a server: the facets of a tree, over HTTP."""

from types import TracebackType
from typing import Self, Unpack

from turntree.client.accounts import (
    IdentitiesApi,
    InvitationsApi,
    KeysApi,
    LoginSessionsApi,
    MembersApi,
)
from turntree.client.address import check_key, read_address
from turntree.client.approvals import ApprovalsApi
from turntree.client.connection import HttpConnection
from turntree.client.conversations import ConversationsApi
from turntree.client.files import FilesApi
from turntree.client.inbox import InboxApi
from turntree.client.runs import MessageOptions, RunsApi
from turntree.client.search import SearchApi, ShapeApi, StatsApi
from turntree.client.sessions import SessionsApi
from turntree.client.turns import AuthorityApi, CausesApi, ContextsApi, ThreadsApi, TurnsApi
from turntree.client.webhooks import TriggersApi, WebhooksApi
from turntree.wire.me import Me
from turntree.wire.threads import TurnDocument


class Client:
    """What a key opens on a server; its verbs are those of a ``Tree``, its answers documents.

    A request that meets a lost connection is repeated, a write under the same idempotency key.
    """

    def __init__(self, url: str, key: str, *, allow_http: bool = False) -> None:
        """Take the URL of a workspace, as ``https://turntree.example.net/w/team``, and a key.

        Raises:
            InvalidOperation: It is not such a URL, or the key would travel unencrypted to another
                machine; ``allow_http`` permits that.
        """
        self.address = read_address(url, allow_http=allow_http)
        self._http = http = HttpConnection(self.address, check_key(key))
        self.sessions = SessionsApi(http)
        self.turns = TurnsApi(http)
        self.threads = ThreadsApi(http)
        self.runs = RunsApi(http)
        self.search = SearchApi(http)
        self.shape = ShapeApi(http)
        self.files = FilesApi(http)
        self.contexts = ContextsApi(http)
        self.causes = CausesApi(http)
        self.authority = AuthorityApi(http)
        self.stats = StatsApi(http)
        self.inbox = InboxApi(http)
        self.approvals = ApprovalsApi(http)
        self.conversations = ConversationsApi(http)
        self.webhooks = WebhooksApi(http)
        self.triggers = TriggersApi(http)
        self.members = MembersApi(http)
        self.invitations = InvitationsApi(http)
        self.keys = KeysApi(http)
        self.login_sessions = LoginSessionsApi(http)
        self.identities = IdentitiesApi(http)

    def __repr__(self) -> str:
        # Without the key: a representation ends up in logs.
        return f"<Client of {self.address.url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def me(self) -> Me:
        """Return whom the key stands for, and which server answers.

        Raises:
            PermissionDenied: The key opens nothing there.
        """
        return await self._http.get("/me", Me)

    async def ask(
        self,
        target: str,
        said: str,
        *,
        key: str | None = None,
        timeout_s: float | None = None,
        **asked: Unpack[MessageOptions],
    ) -> TurnDocument:
        """Send a message, wait for its turn, and return it; see ``runs.ask``."""
        return await self.runs.ask(target, said, key=key, timeout_s=timeout_s, **asked)
