"""``/identity-logins`` and ``/identities``: people log in with an account at an identity provider.

    POST /identity-logins           the login page asks where to go, and keeps a cookie
    (the provider)                  sends the browser back to the login page, with a code
    POST /identity-logins/finish    the page shows the code and the cookie, and is logged in

The page does both steps: so only its own requests carry a cookie, which stays SameSite=Strict, and
no address of the server does anything when it is opened. The place to which a browser is sent back
is always the login page of the same workspace; no request chooses another one.
"""

import re
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import Response

from turntree.api import Tree
from turntree.auth.identities.identity import ProvenAccount
from turntree.auth.logins.login_session import LOGIN_DAYS_MAX, VerifiedLogin
from turntree.auth.member import CREATE_KEYS
from turntree.core.errors import Conflict, PermissionDenied
from turntree.core.ids import instant, unix_ms
from turntree.core.principal import SYSTEM
from turntree.core.value import value
from turntree.server.access.login_tries import TooManyTries
from turntree.server.access.logins import end_current
from turntree.server.access.oidc.config import ProviderUnavailable
from turntree.server.access.oidc.pending_login import (
    PENDING_S,
    LoginAim,
    LoginPlace,
    PendingLogin,
    read_pending,
)
from turntree.server.access.session_cookie import cookie_name, origin_of, set_cookie
from turntree.server.access.visitor import Visitor
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute, NoValues, adapter_of
from turntree.wire.accounts import (
    FinishedLogin,
    IdentityDocument,
    IdentityList,
    ProviderDocument,
    StartedLogin,
)

if TYPE_CHECKING:
    from turntree.server.access.oidc.provider import IdentityProvider

NOT_LINKED: Final = (
    "this account is not linked to a member, and no invitation is open for it",
    "ask an admin to invite the verified address of the account",
    "if you are a member, log in with a key or an invitation, then link the account",
)
AGAIN: Final = "begin again on the login page"
_DAY_S: Final = 24 * 60 * 60
_ERROR_CODE: Final = re.compile("[a-z_]{1,40}")


@value
class LoginAimChoice:
    """What a login is for."""

    aim: LoginAim = "login"
    """``link`` links the account to the person who is logged in."""


@value
class ProviderAnswer:
    """With what a provider sent the browser back."""

    state: str = ""
    code: str | None = None
    iss: str | None = None
    """Which provider it is, if it says so."""
    error: str | None = None
    """Why there is no code."""


@value
class IdentityId:
    """A linked account."""

    identity: str


async def get_provider(visitor: Visitor, _: NoValues) -> ProviderDocument:
    """Return the identity provider of a workspace, which need not exist."""
    provider = visitor.providers.find(visitor.asked)
    if provider is None:
        return ProviderDocument(None, None)
    return ProviderDocument(provider.config.name, provider.config.issuer)


async def begin_identity_login(visitor: Visitor, asked: LoginAimChoice) -> Response:
    """Return where the browser goes, and let it keep what the login is tied to.

    Nothing is stored on the server, so that strangers can begin as often as they like.

    Raises:
        Refusal: There is no provider, it does not answer, or no person is logged in to link to.
    """
    provider = _require_provider(visitor)
    login = None if asked.aim == "login" else await _find_login(visitor)
    if asked.aim == "link" and login is None:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "not-logged-in",
            "an account is linked by the person who is logged in",
            "log in first, with a key or an invitation",
        )
    now_s = unix_ms(visitor.base.clock.now()) // 1000
    pending = PendingLogin(secrets.token_hex(32), now_s + PENDING_S, asked.aim)
    place = _place_of(visitor, provider, login)
    derived = pending.derive(visitor.providers.key, place)
    try:
        url = await provider.authorization_url(derived, place.redirect_uri)
    except ProviderUnavailable as error:
        raise _not_answering(error) from error
    response = Response(
        adapter_of(StartedLogin).dump_json(StartedLogin(url)), media_type="application/json"
    )
    _set_pending(response, visitor, pending.cookie, PENDING_S)
    return response


async def finish_identity_login(visitor: Visitor, asked: ProviderAnswer) -> Response:
    """Begin a login session of the member whose account it is, or link it to who is logged in.

    Whatever comes of it, the browser forgets what it was tied to.

    Raises:
        Refusal: The provider or this workspace does not let the person in, or the answer is not
            the one to a login that this browser began.
    """
    provider = _require_provider(visitor)
    forgotten = Response()
    _set_pending(forgotten, visitor, "", 0)
    headers = {"set-cookie": forgotten.headers["set-cookie"]}
    workspace = await visitor.find_workspace()
    # In a workspace that does not exist there is no such account either: it takes as long.
    tree = (workspace or visitor.workspaces.own).tree
    try:
        pending, login, account = await _prove(visitor, provider, tree, asked)
    except PermissionDenied as error:
        # Of the system: it is not known who it is.
        await tree.members.store.note_denial(str(SYSTEM), "identity.use", str(error))
        raise _refusal(headers, str(error), AGAIN) from error
    except TooManyTries as error:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too-many-tries",
            "too many tries to log in",
            str(error),
            headers={**headers, "retry-after": f"{error.wait_s:.0f}"},
        ) from error
    except ProviderUnavailable as error:
        raise _not_answering(error, headers) from error
    if pending.aim == "link" and login is not None:
        try:
            await tree.identities.link(account, login)
        except PermissionDenied as error:
            raise _refusal(headers, str(error), "ask an admin") from error
        return _finished(visitor, FinishedLogin(str(login.chain.principal), None))
    if workspace is None:
        account = ProvenAccount("", "", "")
    try:
        made, code = await tree.identities.log_in(account)
    except PermissionDenied as error:
        raise _refusal(headers, *NOT_LINKED) from error
    except Conflict as error:
        reason = "the person who was invited is a member already"
        await tree.members.store.note_denial(str(SYSTEM), "identity.use", reason)
        raise _refusal(headers, *NOT_LINKED) from error
    await end_current(visitor)
    response = _finished(visitor, FinishedLogin(made.holder, made.expires_at))
    name = cookie_name("login", visitor.host, visitor.asked)
    set_cookie(response, name, code, host=visitor.host, life_s=LOGIN_DAYS_MAX * _DAY_S)
    return response


async def list_identities(context: ServerContext, _: NoValues) -> IdentityList:
    """Return the linked accounts of the caller, or those of all for an admin."""
    found = await context.tree.identities.list_all()
    return IdentityList(
        tuple(IdentityDocument(one.id, one.issuer, one.holder, one.linked_at) for one in found)
    )


async def unlink_identity(context: ServerContext, asked: IdentityId) -> None:
    """Unlink an account: neither it nor a login session begun with it opens anything from now."""
    await context.tree.identities.unlink(asked.identity)


async def _prove(
    visitor: Visitor, provider: "IdentityProvider", tree: Tree, asked: ProviderAnswer
) -> tuple[PendingLogin, VerifiedLogin | None, ProvenAccount]:
    """Return the login that was begun, and the account with which it ends.

    Raises:
        PermissionDenied: They do not fit together.
        TooManyTries: There were too many answers from the address of the browser.
        ProviderUnavailable: The provider does not answer as it should.
    """
    now = visitor.base.clock.now()
    pending = read_pending(visitor.read_cookie("identity"), unix_ms(now) / 1000)
    if pending is None:
        raise PermissionDenied("no login was begun in this browser, or it took too long")
    login = await _find_login(visitor) if pending.aim == "link" else None
    if pending.aim == "link" and login is None:
        raise PermissionDenied("the person who began to link an account is logged out")
    place = _place_of(visitor, provider, login)
    derived = pending.derive(visitor.providers.key, place)
    if not secrets.compare_digest(asked.state.encode(errors="replace"), derived.state.encode()):
        raise PermissionDenied("this is not the answer to the login of this browser")
    # Counted before anything is stored or asked: a stranger can begin as often as they like.
    with visitor.tries.redeeming(visitor.address):
        ends = instant(pending.expires_at * 1000)
        if not await tree.identities.use_state(derived.digest, expires_at=ends):
            raise PermissionDenied("this answer was used before")
        if asked.error is not None:
            reason = asked.error if _ERROR_CODE.fullmatch(asked.error) else "no reason"
            raise PermissionDenied(f"the identity provider refused: {reason}")
        await provider.check_issuer(asked.iss)
        if not asked.code:
            raise PermissionDenied("the identity provider sent no code")
        account = await provider.redeem(
            asked.code, derived, place.redirect_uri, unix_ms(now) / 1000
        )
    return pending, login, account


async def _find_login(visitor: Visitor) -> VerifiedLogin | None:
    """Return the login session of the browser in the workspace, if it has one that is open."""
    code = visitor.read_cookie("login")
    workspace = None if code is None else await visitor.find_workspace()
    if code is None or workspace is None:
        return None
    try:
        return await workspace.tree.login_sessions.verify(code)
    except PermissionDenied:
        return None


def _place_of(
    visitor: Visitor, provider: "IdentityProvider", login: VerifiedLogin | None
) -> LoginPlace:
    page = f"{origin_of(visitor.host)}/w/{quote(visitor.asked, safe='')}/login"
    return LoginPlace(
        visitor.asked,
        provider.config.issuer,
        provider.config.client_id,
        page,
        "" if login is None else login.id,
    )


def _require_provider(visitor: Visitor) -> "IdentityProvider":
    provider = visitor.providers.find(visitor.asked)
    if provider is None:
        raise Refusal(
            HTTPStatus.NOT_FOUND,
            "no-identity-provider",
            "people do not log in to this workspace with an identity provider",
            "log in with a key, an invitation or a password",
        )
    return provider


def _set_pending(response: Response, visitor: Visitor, text: str, life_s: int) -> None:
    name = cookie_name("identity", visitor.host, visitor.asked)
    set_cookie(response, name, text, host=visitor.host, life_s=life_s)


def _finished(visitor: Visitor, document: FinishedLogin) -> Response:
    response = Response(
        adapter_of(FinishedLogin).dump_json(document), media_type="application/json"
    )
    _set_pending(response, visitor, "", 0)
    return response


def _refusal(headers: Mapping[str, str], detail: str, *steps: str) -> Refusal:
    return Refusal(HTTPStatus.FORBIDDEN, "login-refused", detail, *steps, headers=headers)


def _not_answering(error: Exception, headers: Mapping[str, str] | None = None) -> Refusal:
    return Refusal(
        HTTPStatus.BAD_GATEWAY,
        "provider-unavailable",
        f"the identity provider {error} does not answer as it should",
        "try again in a minute, or log in with a key",
        "the log of the server says why",
        headers=headers,
    )


ROUTES: Final = (
    ApiRoute(
        "GET", "/identity-provider", None, get_provider,
        "The identity provider with which people log in, if there is one.",
        answers=ProviderDocument, is_open=True,
    ),
    ApiRoute(
        "POST", "/identity-logins", None, begin_identity_login,
        "Begin to log in with the identity provider, or to link an account.",
        LoginAimChoice, StartedLogin, refusals=(404, 502), is_open=True,
    ),
    ApiRoute(
        "POST", "/identity-logins/finish", None, finish_identity_login,
        "Finish a login with what the identity provider sent back.",
        ProviderAnswer, FinishedLogin, refusals=(404, 429, 502), is_open=True,
    ),
    ApiRoute(
        "GET", "/identities", CREATE_KEYS, list_identities,
        "The linked accounts of the caller; for an admin, those of all members.",
        answers=IdentityList,
    ),
    ApiRoute(
        "POST", "/identities/{identity}/unlink", CREATE_KEYS, unlink_identity,
        "Unlink an account.", IdentityId, None, "write",
    ),
)  # fmt: skip
