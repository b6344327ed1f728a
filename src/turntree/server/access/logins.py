"""``/login-sessions``: people log in with a browser, see where they are logged in, and log out.

What a person shows is a name and a password, an API key, or the code of an invitation. If it is
wrong, the answer is the same for every reason, in a workspace that exists or not.
"""

from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from turntree.auth.logins.login_session import LOGIN_DAYS_MAX, LoginSession
from turntree.auth.member import CREATE_KEYS
from turntree.core.errors import NotFound, PermissionDenied
from turntree.core.ids import days_after
from turntree.core.principal import Principal
from turntree.core.value import value
from turntree.server.access.login_tries import TooManyTries
from turntree.server.access.session_cookie import cookie_name, set_cookie
from turntree.server.access.visitor import Visitor
from turntree.server.access.workspaces import ServedWorkspace
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal
from turntree.server.route import ApiRoute, NoValues, adapter_of
from turntree.wire.accounts import LoginDocument, LoginList, LoginPreview

BROWSER_KNOWN_S: Final = 365 * 24 * 60 * 60
_DAY_S: Final = 24 * 60 * 60


@value
class Credentials:
    """What a person logs in with: a name and a password, a key, or an invitation."""

    name: str | None = None
    password: str | None = None
    key: str | None = None
    invitation: str | None = None

    @property
    def is_one(self) -> bool:
        """Whether it is exactly one of the three."""
        given = [name for name in ("password", "key", "invitation") if getattr(self, name)]
        return len(given) == 1 and (self.name is None) == (self.password is None)


@value
class LinkedCode:
    """What a link to log in has behind its ``#``: a key, or the code of an invitation."""

    key: str | None = None
    invitation: str | None = None


@value
class LoginId:
    """A login session."""

    login: str


async def log_in(visitor: Visitor, asked: Credentials) -> Response:
    """Begin a login session, and let the browser keep its code in a cookie.

    A session that the browser had is ended: its code is never used for another one.

    Raises:
        Refusal: What was sent is not valid here, or there were too many tries.
        InvalidOperation: The invitation was accepted or revoked, or has expired.
        Conflict: The person who was invited is a member already.
    """
    if not asked.is_one:
        detail = "send a name with a password, a key, or an invitation: one of the three"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", detail)
    try:
        made, code = await _begin(visitor, asked)
    except (NotFound, PermissionDenied) as error:
        raise _refuse() from error
    except TooManyTries as error:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too-many-tries",
            "too many tries to log in",
            str(error),
            headers={"retry-after": f"{error.wait_s:.0f}"},
        ) from error
    await end_current(visitor)
    response = Response(
        adapter_of(LoginDocument).dump_json(_document(made)), media_type="application/json"
    )
    name = cookie_name("login", visitor.host, visitor.asked)
    set_cookie(response, name, code, host=visitor.host, life_s=LOGIN_DAYS_MAX * _DAY_S)
    if asked.name is not None:
        mark = visitor.tries.mark(visitor.asked, asked.name)
        name = cookie_name("browser", visitor.host, visitor.asked)
        set_cookie(response, name, mark, host=visitor.host, life_s=BROWSER_KNOWN_S)
    return response


async def preview_login(visitor: Visitor, asked: LinkedCode) -> LoginPreview:
    """Return whom a key or an invitation would log in; neither is used up.

    A stranger can send a link that logs in as themselves. What its reader then writes would be
    theirs, so a page says who that is before it logs in.

    Raises:
        Refusal: What was sent is not valid here.
    """
    if (asked.key is None) == (asked.invitation is None):
        detail = "send a key or an invitation: one of the two"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", detail)
    workspace = await visitor.find_workspace()
    if workspace is None:
        raise _refuse()
    end = days_after(visitor.base.clock.now(), LOGIN_DAYS_MAX)
    try:
        if asked.key is None:
            person = await workspace.tree.invitations.find_person(asked.invitation or "")
            return LoginPreview(person, workspace.name, "invitation", end)
        verified = await workspace.tree.keys.verify(asked.key)
    except (NotFound, PermissionDenied) as error:
        raise _refuse() from error
    if verified.principal.kind != "human":
        raise _refuse()
    end = min(end, verified.record.expires_at)
    return LoginPreview(str(verified.principal), workspace.name, "key", end)


async def log_out(visitor: Visitor, _: NoValues) -> Response:
    """End the login session of the browser, if there is one, and let it forget the cookie."""
    await end_current(visitor)
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    name = cookie_name("login", visitor.host, visitor.asked)
    set_cookie(response, name, "", host=visitor.host, life_s=0)
    return response


async def list_logins(context: ServerContext, _: NoValues) -> LoginList:
    """Return the login sessions of the caller that are open, or those of all for an admin."""
    now = context.clock.now()
    sessions = await context.tree.login_sessions.list_all()
    return LoginList(tuple(_document(one) for one in sessions if one.state_at(now) == "valid"))


async def end_login(context: ServerContext, asked: LoginId) -> None:
    """End a login session: its cookie opens nothing from now on."""
    await context.tree.login_sessions.end(asked.login)


def _refuse() -> Refusal:
    return Refusal(
        HTTPStatus.FORBIDDEN,
        "login-refused",
        "this opens nothing in this workspace",
        "compare it, and the address, with what you were given",
    )


async def _begin(visitor: Visitor, asked: Credentials) -> tuple[LoginSession, str]:
    workspace = await visitor.find_workspace()
    if asked.password is not None:
        return await _with_password(visitor, workspace, asked)
    if workspace is None:
        raise NotFound("there is no such workspace")
    if asked.key is not None:
        return await _with_key(visitor, workspace, asked.key)
    return await _with_invitation(visitor, workspace, asked.invitation or "")


async def _with_password(
    visitor: Visitor, workspace: ServedWorkspace | None, asked: Credentials
) -> tuple[LoginSession, str]:
    # In a workspace that does not exist there is no such name either: it takes as long.
    tree = (workspace or visitor.workspaces.own).tree
    name = (asked.name or "") if workspace is not None else ""
    verified_at = visitor.base.clock.now()
    browser = visitor.read_cookie("browser")
    with visitor.tries.trying(visitor.address, visitor.asked, asked.name or "", browser):
        person = await tree.passwords.verify(name, asked.password or "")
    return await tree.login_sessions.begin(person, method="password", verified_at=verified_at)


async def _with_key(
    visitor: Visitor, workspace: ServedWorkspace, key: str
) -> tuple[LoginSession, str]:
    verified_at = visitor.base.clock.now()
    verified = await workspace.tree.keys.verify(key)
    if verified.principal.kind != "human":
        reason = "only a person logs in"
        store = workspace.tree.members.store
        await store.note_denial(str(verified.principal), "login.create", reason)
        raise PermissionDenied(reason)
    return await workspace.tree.login_sessions.begin(
        verified.principal,
        method="key",
        verified_at=verified_at,
        scopes=verified.record.scopes,
        key=verified.id,
        expires_at=verified.record.expires_at,
    )


async def _with_invitation(
    visitor: Visitor, workspace: ServedWorkspace, code: str
) -> tuple[LoginSession, str]:
    verified_at = visitor.base.clock.now()
    # One transaction: a code that was used up without a session would leave a member who cannot
    # get in.
    async with workspace.database.keep_together():
        member = await workspace.tree.invitations.redeem(code)
        return await workspace.tree.login_sessions.begin(
            Principal("human", member.name), method="invitation", verified_at=verified_at
        )


async def end_current(visitor: Visitor) -> None:
    """End the login session that the browser has, if it has one."""
    code = visitor.read_cookie("login")
    workspace = None if code is None else await visitor.find_workspace()
    if code is not None and workspace is not None:
        await workspace.tree.login_sessions.log_out(code)


def _document(session: LoginSession) -> LoginDocument:
    return LoginDocument(
        session.id,
        session.holder,
        session.method,
        session.created_at,
        session.expires_at,
        session.last_used_at,
    )


ROUTES: Final = (
    ApiRoute(
        "POST", "/login-sessions", None, log_in,
        "Log in with a browser, which keeps the session in a cookie.",
        Credentials, LoginDocument, is_open=True,
    ),
    ApiRoute(
        "POST", "/login-previews", None, preview_login,
        "Whom a key or an invitation would log in.", LinkedCode, LoginPreview, is_open=True,
    ),
    ApiRoute(
        "POST", "/logout", None, log_out, "End the login session of this browser.", is_open=True
    ),
    ApiRoute(
        "GET", "/login-sessions", CREATE_KEYS, list_logins,
        "Where the caller is logged in; for an admin, where all members are.", answers=LoginList,
    ),
    ApiRoute(
        "POST", "/login-sessions/{login}/end", CREATE_KEYS, end_login, "End a login session.",
        LoginId, None, "write",
    ),
)  # fmt: skip
