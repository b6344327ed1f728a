"""Callers over the network: an API key, a token or a login session says who they are, and where.

    Authorization: Bearer ttk_…        an API key of the workspace
    Authorization: Bearer <token>      a token with the audience server:NAME
    Cookie: …turntree-login-…=tts_…    the login session of a browser

The workspace is in the path, and in the key or the audience. Without credentials nothing is looked
up, so that a stranger cannot learn which workspaces there are.
"""

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from http import HTTPStatus
from time import monotonic
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from starlette.requests import Request

from turntree.api import Tree
from turntree.auth import token
from turntree.auth.access_code import KEY, LOGIN, parse_code
from turntree.auth.api_keys import workspace_of_key
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import RIGHTS
from turntree.boot.open import Settings, load_token_key
from turntree.boot.shards import ShardDatabases
from turntree.core.errors import PermissionDenied
from turntree.core.ids import Timestamp
from turntree.core.viewer import sight_of
from turntree.db.database import Database
from turntree.server.access.caller import ApiCaller
from turntree.server.access.login_tries import LoginTries
from turntree.server.access.oidc.config import IdentityProviderConfig
from turntree.server.access.oidc.providers import IdentityProviders
from turntree.server.access.proxies import TrustedProxies
from turntree.server.access.rate_limits import RateLimits, RequestLimits
from turntree.server.access.session_cookie import cookie_name, read_cookie
from turntree.server.access.verified_callers import (
    VERIFIED_S,
    Credential,
    VerifiedCallers,
    VerifiedCredential,
)
from turntree.server.access.visitor import Visitor
from turntree.server.access.workspaces import ServedWorkspace, Workspaces
from turntree.server.api_hints import step_finder
from turntree.server.context import ServerContext, StreamHandle
from turntree.server.keys import AccessKeys
from turntree.server.problems import Refusal
from turntree.server.workspace_stream import StreamReader, WorkspaceStream
from turntree.system.clock import SystemClock

AUDIENCE: Final = "server"
"""Tokens for a server have the audience ``server:NAME``, with the name of the workspace."""
CREDENTIAL_CHARS_MAX: Final = 16_384
"""Longer than any token, whose chain has a limit of its own."""
_PLACE: Final = re.compile(r"/w/(?P<workspace>[^/]+)/")
_BEARER: Final = re.compile(r"(?i:Bearer) +(?P<credential>[!-~]+)")
_LONG_AGO: Final = Timestamp("1970-01-01T00:00:00.000Z")
_STEP: Final = (
    "send the header Authorization: Bearer ttk_…, with an API key of this workspace, or log in"
)


@dataclass(slots=True, eq=False)
class NetworkCallers:
    """Members of any workspace of a database, and what acts for them."""

    base: ServerContext
    """That of the process's own user and workspace."""
    workspaces: Workspaces
    token_key: Callable[[], bytes]
    tries: LoginTries
    providers: IdentityProviders
    is_draining: Callable[[], bool] = lambda: False
    limits: RequestLimits = field(default_factory=RequestLimits)
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    _verified: VerifiedCallers = field(init=False)
    _server: str = field(default_factory=lambda: secrets.token_hex(8))
    _streams: dict[UUID, WorkspaceStream] = field(default_factory=dict[UUID, WorkspaceStream])

    def __post_init__(self) -> None:
        """Begin without a caller."""
        self._verified = VerifiedCallers(self.base.clock)

    async def identify(self, request: Request) -> ApiCaller:
        """Return the caller of a request, acting in the workspace that its path names.

        Raises:
            Refusal: There is no valid key or token for this workspace, or there were too many
                requests.
        """
        try:
            credential = _find_credential(request)
        except Refusal:
            self.limits.charge_stranger(self._find_address(request))
            raise
        is_known = self._verified.remembers(credential)
        address = "" if is_known else self._find_address(request)
        if not is_known:
            # Before anything is looked up, however many of them come at once.
            self.limits.charge_stranger(address)
        caller = await self._verified.identify(
            credential,
            partial(self._verify, credential, is_use=True),
            partial(self._make_caller, credential),
        )
        if not is_known:
            self.limits.credit_stranger(address)
        self.limits.charge_caller(credential.place)
        return caller

    def _make_caller(self, credential: Credential, verified: VerifiedCredential) -> ApiCaller:
        workspace, acting = verified.workspace, verified.acting

        async def is_admitted() -> bool:
            # Always by the ledger: a stream asks once after an event, and not again right away.
            try:
                again = await self._verify(credential, is_use=False)
            except Refusal:
                self._verified.forget(credential)
                return False
            # A role that was changed is another set of rights.
            return again.acting.chain == acting.chain

        reader = StreamReader(
            credential.text, str(acting.chain.root), sight_of(acting.principal), is_admitted
        )
        context = replace(
            self._context_of(workspace, acting, is_admitted),
            listening=StreamHandle(self._stream_of(workspace), reader),
            login=parse_code(LOGIN, credential.text).id if credential.kind == "cookie" else None,
        )
        return ApiCaller(context, acting)

    def welcome(self, request: Request) -> Visitor:
        """Return a caller of whom nothing is known.

        Raises:
            Refusal: There were too many requests from the address.
        """
        address = self._find_address(request)
        self.limits.charge_stranger(address)
        return Visitor(
            workspace_in(request),
            request.headers.get("host", ""),
            address,
            tuple(request.headers.getlist("cookie")),
            self.base,
            self.workspaces,
            self.tries,
            self.providers,
        )

    @property
    def streams(self) -> Collection[WorkspaceStream]:
        """The streams of the workspaces that were listened to."""
        return self._streams.values()

    def _stream_of(self, workspace: ServedWorkspace) -> WorkspaceStream:
        if workspace.id not in self._streams:
            stream = WorkspaceStream(workspace.database, self._server, self.is_draining)
            self._streams[workspace.id] = stream
        return self._streams[workspace.id]

    def _find_address(self, request: Request) -> str:
        peer = "" if request.client is None else request.client.host
        headers = request.headers
        return self.proxies.find_client(
            peer, headers.getlist("x-forwarded-for"), headers.getlist("forwarded")
        )

    async def _verify(self, credential: Credential, *, is_use: bool) -> VerifiedCredential:
        name, text = credential.workspace, credential.text
        if credential.kind == "cookie":
            return await self._verify_login(name, text, is_use=is_use)
        if text.startswith(f"{KEY}_"):
            return await self._verify_key(name, text)
        return await self._verify_token(name, text)

    async def _verify_key(self, name: str, key: str) -> VerifiedCredential:
        try:
            workspace = await self.workspaces.find(UUID(workspace_of_key(key)))
            if workspace is None:
                raise _unknown("the key is not one of this server's")
            latest = await self._find_latest(workspace)
            verified = await workspace.tree.keys.verify(key)
        except PermissionDenied as error:
            raise _unknown(str(error)) from error
        if workspace.name != name:
            # Whether the other workspace exists is not looked up: the answer is the same.
            reason = "the key is for another workspace"
            await workspace.tree.members.store.note_denial(
                str(verified.principal), "workspace.enter", reason
            )
            step = f"ask below /w/{workspace.name}/api/v1"
            raise Refusal(HTTPStatus.FORBIDDEN, "other-workspace", reason, step)
        return VerifiedCredential(
            workspace, ExecutionContext(verified.chain), verified.record.current_until, latest
        )

    async def _verify_login(self, name: str, code: str, *, is_use: bool) -> VerifiedCredential:
        # The same words, whether the workspace is missing or the session is not one of it.
        refused = _unknown("this login session has ended")
        try:
            workspace = await self.workspaces.find(UUID(parse_code(LOGIN, code).workspace))
            if workspace is None or workspace.name != name:
                raise refused
            latest = await self._find_latest(workspace)
            verified = await workspace.tree.login_sessions.verify(code, is_use=is_use)
        except PermissionDenied as error:
            raise refused from error
        return VerifiedCredential(
            workspace, ExecutionContext(verified.chain), verified.record.current_until, latest
        )

    async def _find_latest(self, workspace: ServedWorkspace) -> int:
        """Return the newest change from before a verification; an older one does no harm."""
        since = monotonic() - VERIFIED_S
        return (await self._verified.latest.find(workspace, since=since))[1]

    async def _verify_token(self, name: str, text: str) -> VerifiedCredential:
        # The same words, whether the workspace is missing or the token is not for it.
        refused = _unknown("the token is not valid for this workspace")
        key, audience = self.token_key(), f"{AUDIENCE}:{name}"
        try:
            # Whether it is ours, expired or not: for others nothing is looked up or recorded.
            ours = token.open_token(text, key=key, audience=audience, now=_LONG_AGO)
        except PermissionDenied as error:
            raise refused from error
        workspace = await self.workspaces.find_named(name)
        if workspace is None:
            raise refused
        store, by = workspace.tree.members.store, str(ours.chain.principal)
        try:
            opened = await workspace.tree.tokens.open(text, key=key, audience=audience)
        except PermissionDenied as error:
            await store.note_denial(by, "token.use", str(error))
            raise refused from error
        root = opened.chain.root
        role = None if root.kind != "human" else await store.find_role(str(root))
        if role is None:
            await store.note_denial(by, "token.use", f"{root} is no member")
            raise refused
        return VerifiedCredential(workspace, opened.child(RIGHTS[role]), ours.expires_at)

    def _context_of(
        self,
        workspace: ServedWorkspace,
        acting: ExecutionContext,
        is_admitted: Callable[[], Awaitable[bool]],
    ) -> ServerContext:
        settings = replace(
            self.base.settings.in_workspace(workspace.name),
            user=acting.chain.root.id,
            context=acting,
        )
        return replace(
            self.base,
            tree=workspace.tree.act_as(acting),
            database=workspace.database.seen_by(sight_of(acting.principal)),
            settings=settings,
            command_for=step_finder(workspace.name),
            can_run=self.base.can_run and workspace is self.workspaces.own,
            live=None,
            sample=None,
            is_local=False,
            is_admitted=is_admitted,
            is_draining=self.is_draining,
        )


async def make_callers(
    tree: Tree,
    database: Database,
    settings: Settings,
    keys: AccessKeys,
    closing: AsyncExitStack,
    *,
    is_draining: Callable[[], bool] = lambda: False,
    can_run: bool = False,
    providers: Sequence[IdentityProviderConfig] = (),
    rates: RateLimits | None = None,
    proxies: TrustedProxies | None = None,
) -> NetworkCallers:
    """Return the callers of a server on an open tree.

    The people who worked in its workspace so far become members now: from here on only members
    have keys. ``closing`` closes what other workspaces need.

    Raises:
        Unsupported: There is an identity provider, and what talks to it is not installed.
    """
    settings, clock = replace(settings, session=None), SystemClock()
    # A part of a label is for people who type; a program that asks for a name means that name.
    exact = tree.with_facets(revisions=replace(tree.revisions, abbreviates=False))
    await exact.members.store.ensure(at=clock.now())
    own = ServedWorkspace(database.workspace, settings.workspace, exact, database)
    base = ServerContext(
        tree=exact,
        database=database,
        settings=settings,
        clock=clock,
        command_for=step_finder(settings.workspace),
        keys=keys,
        can_run=can_run,
        is_local=False,
    )
    shards = ShardDatabases(database, settings, closing)
    workspaces = Workspaces(own, settings, clock, closing, shards)
    token_key = cache(partial(load_token_key, settings))
    # The same after a restart: a browser that is known stays so.
    tries = LoginTries(hmac.digest(token_key(), b"turntree.known-browsers", "sha256"), monotonic)
    # The same on each server with this key, any of which may finish what another one began.
    logins = hmac.digest(token_key(), b"turntree.identity-logins", "sha256")
    known = IdentityProviders(providers, logins)
    limits = RequestLimits(rates)
    return NetworkCallers(
        base, workspaces, token_key, tries, known, is_draining, limits, proxies or TrustedProxies()
    )


def workspace_in(request: Request) -> str:
    """Return the name of the workspace in the path of a request; empty if there is none."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    found = _PLACE.match(raw.decode("ascii", "replace"))
    return "" if found is None else unquote(found["workspace"])


def _find_credential(request: Request) -> Credential:
    """Return what a request sends to say who sends it.

    Raises:
        Refusal: It sends nothing that could be one.
    """
    name = workspace_in(request)
    if (bearer := _find_bearer(request)) is not None:
        return Credential("bearer", name, bearer)
    if (code := _find_login(request, name)) is not None:
        return Credential("cookie", name, code)
    raise _unknown("this request does not say who sends it")


def _find_bearer(request: Request) -> str | None:
    """Return the key or token of a request, or None if it sends no such header.

    Raises:
        Refusal: The header says nothing that could be one.
    """
    sent = request.headers.getlist("authorization")
    if not sent:
        return None
    found = _BEARER.fullmatch(sent[0]) if len(sent) == 1 else None
    if found is None:
        raise _unknown("this request does not say who sends it")
    if len(found["credential"]) > CREDENTIAL_CHARS_MAX:
        raise _unknown("this is neither an API key nor a token")
    return found["credential"]


def _find_login(request: Request, workspace: str) -> str | None:
    name = cookie_name("login", request.headers.get("host", ""), workspace)
    return read_cookie(name, request.headers.getlist("cookie"))


def _unknown(detail: str) -> Refusal:
    return Refusal(HTTPStatus.UNAUTHORIZED, "not-authenticated", detail, _STEP)
