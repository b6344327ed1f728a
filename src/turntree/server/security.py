"""Who may talk to the server: every request passes these checks before any other code sees it.

The server of the page listens on this machine only, which keeps neighbours on the network out and
the user's own browser in; ``NETWORK_CHECKS`` are those of a server for a team. A page of
another site can send requests to 127.0.0.1, and by DNS rebinding it can even be of the same origin
as the server, by its name. Each check below stops one such way, and
``proofs.ui_hostile`` removes them one by one to see that it is missed.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turntree.core.value import value
from turntree.server.access.session_cookie import origin_of
from turntree.server.dispatch import JSON, PREFIX
from turntree.server.keys import AccessKeys
from turntree.server.problems import make_problem, problem_response
from turntree.server.route import OWN_SEND, PROBLEM_KEY, ROUTE_KEY
from turntree.wire.problem import Problem

HEALTH_PATHS: Final = ("/healthz", "/readyz")
BODY_BYTES_MAX: Final = 1_000_000
BODY_S_MAX: Final = 10.0
"""A body that takes longer is refused, so that slow senders cannot hold all connections."""
POLICY: Final[Mapping[str, str]] = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "worker-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    # The one script that the page starts by its address: the worker that shares the stream.
    "trusted-types": "turntree-worker",
}
"""The content security policy: what the page may load and run, and who may frame it."""
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


@value
class RequestHead:
    """What the checks read of a request: everything but its body."""

    method: str
    path: str
    headers: Mapping[str, Sequence[str]]
    """By lower-case name; a header may have been sent more than once."""

    @property
    def is_api(self) -> bool:
        """Whether it asks for data rather than for the page."""
        return self.path == PREFIX or self.path.startswith((f"{PREFIX}/", "/w/"))

    @property
    def is_call(self) -> bool:
        """Whether it is for a route of a workspace, over the network.

        A page of the server is not one. The path is unescaped here, and the name of a workspace
        may contain a slash: so no part of it may decide.
        """
        is_page = self.method in ("GET", "HEAD") and f"{PREFIX}/" not in self.path
        return self.path.startswith("/w/") and not is_page

    @property
    def fetch_site(self) -> str | None:
        """Where the browser says that the request comes from; None from what is no browser."""
        return " ".join(self.headers.get("sec-fetch-site", ())) or None


@value
class Entrance:
    """What a request is measured against."""

    keys: AccessKeys
    hosts: frozenset[str]
    open_routes: frozenset[tuple[str, str]]
    """Method and path of what answers without the cookie."""


Check = Callable[[RequestHead, Entrance], Problem | None]


def check_host(head: RequestHead, entrance: Entrance) -> Problem | None:
    """Refuse every name but our own: a rebound name still says which site it belongs to."""
    sent = head.headers.get("host", ())
    if len(sent) == 1 and sent[0].lower() in entrance.hosts:
        return None
    detail = f"this server is not {', '.join(sent)}" if sent else "the request names no host"
    steps = ("use a host name that the server was started with",)
    return make_problem(HTTPStatus.MISDIRECTED_REQUEST, "wrong-host", detail, steps)


def check_origin(head: RequestHead, _: Entrance) -> Problem | None:
    """Refuse requests that say that they come from another origin, or from none."""
    ours = f"http://{head.headers.get('host', ('',))[0].lower()}"
    if all(origin.lower() == ours for origin in head.headers.get("origin", ())):
        return None
    return make_problem(HTTPStatus.FORBIDDEN, "foreign-origin", "another site sent this request")


def check_fetch_site(head: RequestHead, _: Entrance) -> Problem | None:
    """Refuse what the browser says another site asked for; a link to the page may be followed."""
    # "none" is an address that the user typed, or a bookmark.
    if head.fetch_site in {None, "same-origin", "none"}:
        return None
    is_link = head.headers.get("sec-fetch-dest") == ["document"] and head.method == "GET"
    if is_link and not head.is_api:
        return None
    return make_problem(HTTPStatus.FORBIDDEN, "foreign-site", "another site sent this request")


def check_write(head: RequestHead, _: Entrance) -> Problem | None:
    """Refuse a POST that does not say that our page sent it."""
    if head.method != "POST" or "origin" in head.headers or head.fetch_site == "same-origin":
        return None
    return make_problem(HTTPStatus.FORBIDDEN, "no-origin", "a write has to name its origin")


def check_media(head: RequestHead, _: Entrance) -> Problem | None:
    """Refuse bodies that a form of another site can send without asking first."""
    sent = " ".join(head.headers.get("content-type", ()))
    if head.method != "POST" or sent.partition(";")[0].strip().lower() == JSON:
        return None
    detail = f"a write is {JSON}, not {sent}" if sent else "a write needs a content type"
    steps = (f"send the header Content-Type: {JSON}",)
    return make_problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "wrong-media", detail, steps)


def check_cookie(head: RequestHead, entrance: Entrance) -> Problem | None:
    """Refuse data to those who have not shown the key."""
    if not head.is_api or (head.method, head.path) in entrance.open_routes:
        return None
    name = entrance.keys.cookie_name
    for header in head.headers.get("cookie", ()):
        for pair in header.split(";"):
            key, _, cookie = pair.strip().partition("=")
            if key == name and entrance.keys.accepts_cookie(cookie):
                return None
    detail = "this browser has not been let in, or its cookie has expired"
    steps = ("open the address that the command line prints",)
    return make_problem(HTTPStatus.UNAUTHORIZED, "no-cookie", detail, steps)


CHECKS: tuple[Check, ...] = (
    check_host,
    check_origin,
    check_fetch_site,
    check_write,
    check_media,
    check_cookie,
)
"""In order: a request for another host learns nothing else."""


def check_network_host(head: RequestHead, entrance: Entrance) -> Problem | None:
    """Refuse every name but the server's own; what asks for its health knows only its address."""
    return None if head.path in HEALTH_PATHS else check_host(head, entrance)


def check_browser(head: RequestHead, _: Entrance) -> Problem | None:
    """Refuse what another site lets a browser send that is logged in, or that is to log in.

    A key stands in a header that no other site can set; a name and password in an address, which
    one can, become another header of that name.
    """
    sent = head.headers.get("authorization", ())
    if any(text.lower().startswith("bearer ") for text in sent) or not head.is_call:
        return None
    ours = origin_of(head.headers.get("host", ("",))[0])
    is_safe = head.method in ("GET", "HEAD")
    if any(origin.lower() != ours for origin in head.headers.get("origin", ())):
        return make_problem(
            HTTPStatus.FORBIDDEN, "foreign-origin", "another site sent this request"
        )
    # "none" is an address that the user typed, or a bookmark.
    if head.fetch_site not in ({None, "same-origin", "none"} if is_safe else {None, "same-origin"}):
        return make_problem(HTTPStatus.FORBIDDEN, "foreign-site", "another site sent this request")
    if is_safe or "cookie" not in head.headers or "origin" in head.headers:
        return None
    if head.fetch_site == "same-origin":
        return None
    return make_problem(HTTPStatus.FORBIDDEN, "no-origin", "a write has to name its origin")


NETWORK_CHECKS: tuple[Check, ...] = (check_network_host, check_browser, check_media)
"""For callers with a key, and for browsers that are logged in."""


Measure = Callable[[str, str, int, float, str | None], None]
"""Takes the route, method and status of a request, the seconds until its answer began, and the
name of the problem that it is, if any."""
ELSEWHERE: Final = "elsewhere"
"""The route of what is none: the page, its files, and every path at which there is nothing."""


class Door:
    """Lets a request in if every check agrees, and guards every response with headers."""

    def __init__(
        self,
        app: ASGIApp,
        entrance: Entrance,
        *,
        checks: Sequence[Check] = CHECKS,
        headers: Mapping[str, str] = HEADERS,
        measure: Measure | None = None,
    ) -> None:
        """Stand before an application; ``measure`` is told of every request that was answered."""
        self._app = app
        self._entrance = entrance
        self._checks = checks
        self._measure = measure
        self._headers = [(name.encode(), text.encode()) for name, text in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a problem."""
        if scope["type"] != "http":
            return  # No route takes a web socket: the server closes it.
        head = read_head(scope)
        is_read = head.method != "POST"
        send_guarded = self._guard(scope, send, is_api=head.is_api)

        problem: Problem | None = None
        for check in self._checks:
            problem = problem or check(head, self._entrance)
        body = b""
        if problem is None and not is_read:
            body, problem = await read_body(head, receive)
        if problem is not None:
            response = problem_response(problem)
            # What is left of the body is not read, so that nothing else can follow it.
            response.headers["connection"] = "close"
            await response(scope, receive, send_guarded)
            return
        # A stream guards the start of its response only, and then writes 10,000 times.
        scope[OWN_SEND] = send
        if is_read:
            # A stream lasts for hours: what was read of its request must not last with it.
            del head, problem
            await self._app(scope, receive, send_guarded)
        else:
            await self._app(scope, _repeat(body, receive), send_guarded)

    def _guard(self, scope: Scope, send: Send, *, is_api: bool) -> Send:
        """Return what sends a response with our headers, those that it has before them."""
        began = time.perf_counter()

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
                if is_api and not any(name == b"cache-control" for name, _ in sent):
                    sent.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*sent, *self._headers]}
                if self._measure is not None:
                    self._measure(
                        _route_of(scope), scope["method"], message["status"],
                        time.perf_counter() - began, scope.get(PROBLEM_KEY),
                    )  # fmt: skip
            await send(message)

        return send_guarded


def _route_of(scope: Scope) -> str:
    """Return the template of a request's route; never its path, which may hold any name."""
    route: str | None = scope.get(ROUTE_KEY)
    if route is not None:
        return route
    return scope["path"] if scope["path"] in HEALTH_PATHS else ELSEWHERE


def _repeat(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read, and then what comes after it."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def read_head(scope: Mapping[str, Any]) -> RequestHead:
    """Return what the checks read of a request."""
    headers: dict[str, list[str]] = {}
    for name, text in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(text.decode("latin-1"))
    return RequestHead(scope["method"], scope["path"], headers)


async def read_body(head: RequestHead, receive: Receive) -> tuple[bytes, Problem | None]:
    """Return the body of a request, or why it is refused: too large, or too slow."""
    too_large = make_problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"a body has at most {BODY_BYTES_MAX:,} bytes",
    )
    length = "".join(head.headers.get("content-length", ("0",)))
    if not length.isdigit() or int(length) > BODY_BYTES_MAX:
        return b"", too_large
    parts: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(BODY_S_MAX):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                parts.append(message.get("body", b""))
                total += len(parts[-1])
                if total > BODY_BYTES_MAX:
                    return b"", too_large
                if not message.get("more_body", False):
                    return b"".join(parts), None
    except TimeoutError:
        pass
    detail = f"the body did not arrive within {BODY_S_MAX:g} seconds"
    return b"", make_problem(HTTPStatus.REQUEST_TIMEOUT, "too-slow", detail)
