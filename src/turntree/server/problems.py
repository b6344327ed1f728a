"""Errors as ``application/problem+json``: the status, what is wrong, and what to do next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turntree.core.errors import (
    Ambiguous,
    Conflict,
    DatabaseUnavailable,
    DataMissing,
    Hint,
    InvalidOperation,
    InvalidQuery,
    InvalidRevision,
    NotFound,
    PathExists,
    PermissionDenied,
    ProviderError,
    ProviderNotConfigured,
    TurntreeError,
    UnsavedChanges,
    Unsupported,
)
from turntree.core.session import Session
from turntree.server.route import PROBLEM_KEY, adapter_of
from turntree.wire.problem import Problem

MEDIA: Final = "application/problem+json"


class HeadMoved(Conflict):
    """The session has another head than the client saw."""

    def __init__(self, session: Session) -> None:
        """Take the session as it is now."""
        super().__init__(f"the session {session.label} has moved since this page showed it")
        self.head = session.head


_STATUSES: Final[Sequence[tuple[type[TurntreeError], int, str]]] = (
    # The first that fits counts: a subclass stands before its base.
    (Ambiguous, HTTPStatus.CONFLICT, "ambiguous"),
    (DataMissing, HTTPStatus.GONE, "data-missing"),
    (NotFound, HTTPStatus.NOT_FOUND, "not-found"),
    (HeadMoved, HTTPStatus.CONFLICT, "head-moved"),
    (Conflict, HTTPStatus.CONFLICT, "conflict"),
    (PermissionDenied, HTTPStatus.FORBIDDEN, "denied"),
    (UnsavedChanges, HTTPStatus.CONFLICT, "unsaved-changes"),
    (PathExists, HTTPStatus.CONFLICT, "path-exists"),
    (Unsupported, HTTPStatus.UNPROCESSABLE_ENTITY, "unsupported"),
    (InvalidRevision, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-revision"),
    (InvalidQuery, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-query"),
    (InvalidOperation, HTTPStatus.UNPROCESSABLE_ENTITY, "refused"),
    (ProviderNotConfigured, HTTPStatus.UNPROCESSABLE_ENTITY, "provider-not-configured"),
    (ProviderError, HTTPStatus.BAD_GATEWAY, "provider-error"),
    (DatabaseUnavailable, HTTPStatus.SERVICE_UNAVAILABLE, "database-unavailable"),
)


class Refusal(Exception):
    """A request that the server itself refuses, before any handler."""

    def __init__(
        self,
        status: int,
        name: str,
        detail: str,
        *steps: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Take the status, the name of the problem, what is wrong, and what to do about it."""
        super().__init__(detail)
        self.headers = headers or {}
        self.problem = make_problem(status, name, detail, steps)


def make_problem(status: int, name: str, detail: str, steps: Sequence[str] = ()) -> Problem:
    """Return a problem; its type ends in its name."""
    title = HTTPStatus(status).phrase
    return Problem(f"urn:turntree:problem:{name}", title, int(status), detail, tuple(steps))


def problem_of(
    error: TurntreeError, command_for: Callable[[Hint], str | None], *, is_local: bool = True
) -> Problem:
    """Return the problem of an error of ours, with the command that its hint stands for.

    A caller over the network is not told the address or the login of the database.
    """
    status, name = next(
        ((status, name) for kind, status, name in _STATUSES if isinstance(error, kind)),
        (int(HTTPStatus.UNPROCESSABLE_ENTITY), "refused"),
    )
    command = None if error.hint is None else command_for(error.hint)
    is_told = is_local or not isinstance(error, DatabaseUnavailable)
    detail = str(error) if is_told else "the database does not answer"
    problem = make_problem(status, name, detail, [command] if command else ())
    if command is not None and error.hint is not None:
        problem = replace(problem, hint=error.hint.to_json())
    return replace(problem, head=error.head) if isinstance(error, HeadMoved) else problem


def problem_of_input(error: ValidationError) -> Problem:
    """Return the problem of values that do not fit, each named by its field."""
    complaints = [
        f"{'.'.join(map(str, one['loc'])) or 'request'}: {one['msg']}" for one in error.errors()
    ]
    return make_problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", "; ".join(complaints))


class ProblemResponse(Response):
    """A problem as a response, which tells the layers around it which one it is."""

    def __init__(self, problem: Problem) -> None:
        """Write the problem."""
        body = adapter_of(Problem).dump_json(problem, exclude_defaults=True)
        super().__init__(body, problem.status, media_type=MEDIA)
        self._name = problem.type.rpartition(":")[2]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        scope[PROBLEM_KEY] = self._name
        await super().__call__(scope, receive, send)


def problem_response(problem: Problem) -> Response:
    """Return the response of a problem."""
    response = ProblemResponse(problem)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        response.headers["www-authenticate"] = "Bearer"
    return response
