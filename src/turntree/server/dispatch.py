"""Finds the route of a request, checks its values, and writes the answer or the problem.

Paths are matched as they were sent, still escaped: a label may contain a slash, which a server that
unescapes first could not tell from the one that separates two parameters.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, Self, cast

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from turntree.core.errors import Hint, TurntreeError
from turntree.server.access.caller import Callers
from turntree.server.access.open_streams import OpenStreams
from turntree.server.access.visitor import Visitor
from turntree.server.context import ServerContext
from turntree.server.idempotency import IdempotentAnswers
from turntree.server.problems import (
    Refusal,
    make_problem,
    problem_of,
    problem_of_input,
    problem_response,
)
from turntree.server.route import IF_MATCH, ROUTE_KEY, ApiRoute, adapter_of, check_routes

PREFIX: Final = "/api/v1"
JSON: Final = "application/json"
WATCHED_AFTER_S: Final = 0.05
"""Whether its client has left is asked of an answer that takes longer."""
DESCRIBED: Final = f"GET {PREFIX}/openapi.json"
"""Lists every route, for any caller."""
_BEGINNING: Final = re.compile(rf"\A(?:/w/[^/]+)?{PREFIX}(?=/|$)")
"""What stands before the path of a route; over the network it names the workspace."""


def is_call_of_workspace(scope: Scope) -> bool:
    """Return whether a request is for the API of a workspace, by its path as it was sent."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.startswith(b"/w/") and _BEGINNING.match(raw.decode("ascii", "replace")) is not None


class RequestTrace(Protocol):
    """What lasts while a request is answered, for those who look at traces."""

    def __enter__(self) -> Self:
        """Begin: what the request sends is part of it."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: object
    ) -> None:
        """End."""
        ...

    def note_status(self, status: int) -> None:
        """Take the status of the answer."""
        ...


TraceRequest = Callable[[str, str, str | None], RequestTrace]
"""Takes the method and the route of a request, and the trace that it says it is a part of."""


class Dispatcher:
    """The API as an ASGI application, for paths below ``/api/v1``."""

    def __init__(
        self,
        callers: Callers,
        routes: Sequence[ApiRoute],
        *,
        streams: OpenStreams | None = None,
        trace: TraceRequest | None = None,
    ) -> None:
        """Serve these routes; one without parameters wins over one that has some.

        Every write is traced, if anything is.

        Raises:
            ValueError: A route does not say what it requires.
        """
        check_routes(routes)
        self.callers = callers
        self.routes = sorted(routes, key=lambda route: len(route.path_names))
        # By the first word and the number of pieces: each pattern that is tried costs time.
        self._by_form: dict[tuple[str, int], list[ApiRoute]] = {}
        for route in self.routes:
            self._by_form.setdefault((route.word, route.path.count("/")), []).append(route)
        self.answers = IdempotentAnswers()
        self.streams = streams or OpenStreams()
        self.trace = trace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # A stream lasts for hours: what was read of its request must not last with it.
        response = await self.respond(Request(scope, receive))
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        """Return the response to a request; an error of ours is a problem."""
        context: ServerContext | None = None
        route: ApiRoute | None = None
        try:
            route, in_path = self._find(request)
            request.scope[ROUTE_KEY] = route.path
            if route.right is None:
                return await self._answer(route, in_path, request, self.callers.welcome(request))
            caller = await self.callers.identify(request)
            await caller.require(route.right)
            context = caller.context
            act = partial(self._answer, route, in_path, request, context)
            if route.kind == "write":
                write = partial(self.answers.once, request, caller, await request.body(), act)
                if self.trace is None:
                    return await write()
                came_with = request.headers.get("traceparent")
                with self.trace(route.method, route.path, came_with) as span:
                    response = await write()
                    span.note_status(response.status_code)
                    return response
            if route.is_bounded and not context.is_local:
                return await self.streams.hold(caller, act)
            if route.method == "GET" and not context.is_local:
                return await _answer_while_heard(act, request.receive)
            return await act()
        except Refusal as refusal:
            response = problem_response(refusal.problem)
            response.headers.update(refusal.headers)
            return response
        except ValidationError as error:
            return problem_response(problem_of_input(error))
        except TurntreeError as error:
            # As long as it is not known who asks, it may be any stranger.
            command_for = _no_hint if context is None else context.command_for
            is_local = context is not None and context.is_local
            problem = problem_of(error, command_for, is_local=is_local)
            if problem.status == HTTPStatus.CONFLICT and _has_precondition(route, request):
                # RFC 9110 has a status of its own for a precondition of the client.
                failed = HTTPStatus.PRECONDITION_FAILED
                problem = replace(problem, status=int(failed), title=failed.phrase)
            return problem_response(problem)

    def _find(self, request: Request) -> tuple[ApiRoute, Mapping[str, str]]:
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        path = raw.decode("ascii", "replace").partition("?")[0]
        if (beginning := _BEGINNING.match(path)) is not None:
            path = path[beginning.end() :]
        method = "GET" if request.method == "HEAD" else request.method
        allowed: set[str] = set()
        for route in self._by_form.get((path[1:].partition("/")[0], path.count("/")), ()):
            if (in_path := route.match(path)) is not None:
                if route.method == method:
                    return route, in_path
                allowed.add(route.method)
        if allowed:
            detail = f"{path} takes {' or '.join(sorted(allowed))}, not {request.method}"
            raise Refusal(
                HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", detail, DESCRIBED,
                headers={"allow": ", ".join(sorted(allowed))},
            )  # fmt: skip
        raise Refusal(
            HTTPStatus.NOT_FOUND, "no-such-route", f"there is no route {path!r}", DESCRIBED
        )

    async def _answer(
        self,
        route: ApiRoute,
        in_path: Mapping[str, str],
        request: Request,
        context: ServerContext | Visitor,
    ) -> Response:
        values = {**await self._read_values(route, request), **in_path}
        answer = await route.handler(context, adapter_of(route.asks).validate_python(values))
        if isinstance(answer, Response):
            return answer
        match route.media:
            case "application/json" if route.answers is None:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            case "application/json":
                is_encoded = isinstance(answer, bytes)
                body = answer if is_encoded else adapter_of(route.answers).dump_json(answer)
                return _tagged(body, JSON, request)
            case "text/plain":
                return _tagged(answer.encode(), "text/plain", request)
            case media:
                return StreamingResponse(answer, media_type=media)

    async def _read_values(self, route: ApiRoute, request: Request) -> dict[str, Any]:
        """Return what the query or the body says, and the headers that the route asks for.

        Raises:
            Refusal: The body is not a JSON object, or a name is not one of the route's.
        """
        if route.method == "GET":
            has_query = bool(request.scope["query_string"])
            given: dict[str, Any] = dict(request.query_params) if has_query else {}
        elif route.is_raw:
            given = {"body": await request.body()}
        else:
            given = _read_object(await request.body())
        if unknown := sorted(given.keys() - route.names_in_request):
            detail = f"unknown: {', '.join(map(repr, unknown))}"
            names = ", ".join(sorted(route.names_in_request))
            step = f"use only the names of this route: {names}" if names else "send no values"
            raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", detail, step)
        for name in route.headers:
            if (text := request.headers.get(name.replace("_", "-"))) is not None:
                given[name] = text
        return given


async def _answer_while_heard(act: Callable[[], Awaitable[Response]], receive: Receive) -> Response:
    """Return the answer to a request without a body, or one that is not sent if its client left.

    Otherwise requests that are sent and abandoned in a loop line up for the connections of the
    database, and every other caller waits behind answers that no client reads.
    """
    watching: asyncio.Task[None] | None = None
    heard = asyncio.timeout(None)

    def watch() -> None:
        nonlocal watching
        watching = asyncio.create_task(_end_when_left(receive, heard))

    # Most answers are there sooner, and cost no task.
    timer = asyncio.get_running_loop().call_later(WATCHED_AFTER_S, watch)
    try:
        async with heard:
            return await act()
    except TimeoutError:
        if not heard.expired():
            raise
        return Response(status_code=HTTPStatus.REQUEST_TIMEOUT)
    finally:
        timer.cancel()
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


async def _end_when_left(receive: Receive, heard: asyncio.Timeout) -> None:
    await _wait_for_disconnect(receive)
    heard.reschedule(asyncio.get_running_loop().time())


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _tagged(body: bytes, media: str, request: Request) -> Response:
    """Return the answer to a read with the digest of its bytes, or 304 if the client has them.

    Of the bytes, and not of what they describe: the digest of a turn outlives the erasure of its
    messages, and a client would keep them for ever.
    """
    if request.method == "POST":
        return Response(body, media_type=media)
    tag = f'"{hashlib.sha256(body).hexdigest()}"'
    headers = {"etag": tag}
    kept = request.headers.get("if-none-match")
    if kept and any(one.strip().removeprefix("W/") in (tag, "*") for one in kept.split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type=media, headers=headers)


def _has_precondition(route: ApiRoute | None, request: Request) -> bool:
    """Return whether a route acts only if a session is where the client saw it, and was told so."""
    return route is not None and IF_MATCH in route.headers and "if-match" in request.headers


def _no_hint(_: Hint) -> None:
    """Return no command: it is not known yet who asks."""


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        document = from_json(body or b"{}")
    except ValueError as error:
        detail = f"the body is not JSON: {error}"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", detail) from error
    if not isinstance(document, dict):
        detail = "the body is not a JSON object"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", detail)
    return cast("dict[str, Any]", document)


async def answer_elsewhere(request: Request, error: Exception) -> Response:
    """Return the problem of a path outside the API at which there is nothing to get."""
    assert isinstance(error, HTTPException), "it is called for these alone"
    name = "method-not-allowed"
    detail = f"{request.url.path} does not take {request.method}"
    if error.status_code == HTTPStatus.NOT_FOUND:
        name, detail = "no-such-route", f"there is no route {request.url.path!r}"
    response = problem_response(make_problem(error.status_code, name, detail, [DESCRIBED]))
    response.headers.update(error.headers or {})
    return response


async def answer_unexpected(_: Request, __: Exception) -> Response:
    """Return the problem of an error that is ours; the server logs it with its traceback."""
    detail = "an unexpected error in the server; its log has the details"
    return problem_response(make_problem(HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected", detail))
