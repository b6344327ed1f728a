"""Turns the problems that a server answers into the errors of the library."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

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
    PermissionDenied,
    ProviderError,
    ProviderNotConfigured,
    ServerUnavailable,
    TurntreeError,
    UnsavedChanges,
    Unsupported,
)
from turntree.core.ids import TurnId


class SessionMoved(Conflict):
    """The session has another head than the caller saw."""

    def __init__(self, message: str, head: TurnId | None, *, hint: Hint | None = None) -> None:
        """Take the message, and the head that the session has now."""
        super().__init__(message, hint=hint)
        self.head = head


class ServerBusy(ServerUnavailable):
    """The server refuses requests of this caller for a while."""

    wait_s: float = math.inf
    """Seconds until it takes one again; infinite if it does not say."""


_ERRORS: Final[Mapping[str, Callable[..., TurntreeError]]] = {
    "ambiguous": Ambiguous,
    "conflict": Conflict,
    "data-missing": DataMissing,
    "database-unavailable": DatabaseUnavailable,
    "denied": PermissionDenied,
    "invalid-query": InvalidQuery,
    "invalid-revision": InvalidRevision,
    "not-authenticated": PermissionDenied,
    "not-found": NotFound,
    "other-workspace": PermissionDenied,
    "provider-error": partial(ProviderError, kind="unknown"),
    "provider-not-configured": ProviderNotConfigured,
    "too-many-requests": ServerBusy,
    "unexpected": ServerUnavailable,
    "unsaved-changes": UnsavedChanges,
    "unsupported": Unsupported,
}
"""The error for each kind of problem; every other one is an operation that was refused."""


def error_of(document: object, status: int) -> TurntreeError:
    """Return the error that a problem describes, with what to do about it.

    The hint is data, as on every error of ours. The steps that the server names are requests of
    its API, which are notes of the error: a traceback shows them.
    """
    if not isinstance(document, Mapping) or "detail" not in document:
        # Not of ours: a proxy in front of the server, or another server.
        kind = ServerUnavailable if status >= 500 else InvalidOperation  # noqa: PLR2004
        return kind(f"the server answered with status {status}")
    problem = cast("Mapping[str, Any]", document)
    name = str(problem.get("type", "")).rpartition(":")[2]
    message, hint = str(problem["detail"]), Hint.from_json(problem.get("hint"))
    error: TurntreeError
    if name == "head-moved":
        error = SessionMoved(message, problem.get("head"), hint=hint)
    else:
        error = _ERRORS.get(name, InvalidOperation)(message, hint=hint)
    for step in problem.get("next", ()):
        error.add_note(f"next: {step}")
    return error
