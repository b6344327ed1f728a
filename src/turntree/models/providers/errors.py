"""Why a vendor gave no answer: its errors, and those of the wire, by kind.

Knows the library's and the vendors' error types. Whether to try again is decided by whoever reads
the kind; here nothing is ever tried twice.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import httpx2
from pydantic_ai import exceptions as library

from turntree.core.errors import Failure, ProviderError
from turntree.models.providers.public_addresses import NotPublicError

MESSAGE_CHARS_MAX: Final = 300
"""What is kept and shown of an error's body: a vendor's sentence, and no page."""
_CAUSES_MAX: Final = 8
_TIMEOUT: Final = 408
_CONFLICT: Final = 409
_TOO_MANY: Final = 429
_DENIED: Final = frozenset({401, 402, 403})
_SERVER_ERROR: Final = 500
_BAD_REQUEST: Final = 400
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)s")

CAUGHT: Final = (
    NotPublicError,
    library.ModelAPIError,
    library.UnexpectedModelBehavior,
    library.UserError,
    httpx2.HTTPError,
    httpx2.StreamError,
    # What a library says to an answer that is not JSON, or lacks what it must have.
    ValueError,
    TypeError,
    KeyError,
    AssertionError,
)
"""What may come out of the library when a vendor does not answer as it should."""

_KINDS: Final[tuple[tuple[type[BaseException], Failure], ...]] = (
    (library.ModelContextWindowExceededError, "too_long"),
    (library.ModelRateLimitError, "rate_limited"),
    # Waiting does not fill an account.
    (library.ModelQuotaExceededError, "denied"),
    (library.ModelAuthenticationError, "denied"),
    (library.ModelTimeoutError, "timeout"),
    (library.ModelRequestTimeout, "timeout"),
    (library.ModelUnavailableError, "overloaded"),
    (library.ModelServerError, "overloaded"),
    (library.ModelConnectionError, "broken"),
    (library.ModelRequestRejectedError, "refused"),
    (library.ContentFilterError, "refused"),
    (library.UnexpectedModelBehavior, "broken"),
    (library.UserError, "refused"),
    (httpx2.TimeoutException, "timeout"),
    (httpx2.HTTPError, "broken"),
    (httpx2.StreamError, "broken"),
)


def failure_of(error: Exception, provider: str, hide: Callable[[str], str]) -> ProviderError:
    """Return what an error means; ``hide`` takes credentials out of what is said about it."""
    if (refused := _not_public(error)) is not None:
        return ProviderError(f"{provider}: {refused}", "denied")
    message = _one_line(hide(f"{provider}: {_told(error)}"))
    return ProviderError(message, _kind(error), retry_after_s=_retry_after(error))


def _one_line(text: str) -> str:
    """Return words of a service as they can be kept and shown: short, and nothing to obey."""
    shown = "".join(sign for sign in " ".join(text.split()) if sign.isprintable())
    cut = len(shown) > MESSAGE_CHARS_MAX
    return f"{shown[: MESSAGE_CHARS_MAX - 1]}…" if cut else shown


def _not_public(error: BaseException) -> NotPublicError | None:
    """Return why nothing was sent, if that is what an error came from."""
    at: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if at is None or isinstance(at, NotPublicError):
            return at
        at = at.__cause__ or at.__context__
    return None


def _kind(error: Exception) -> Failure:
    status: object = getattr(error, "status_code", None) or getattr(error, "code", None)
    if status == _TIMEOUT:
        return "timeout"
    if status in _DENIED:
        return "denied"
    for known, kind in _KINDS:
        if isinstance(error, known):
            return kind
    if isinstance(status, int):
        return _kind_of_status(status)
    return "timeout" if isinstance(error.__cause__, httpx2.TimeoutException) else "broken"


def _kind_of_status(status: int) -> Failure:
    """Return what a status means that the library did not judge: a list of models, a new number."""
    if status == _TOO_MANY:
        return "rate_limited"
    if status >= _SERVER_ERROR or status == _CONFLICT:
        return "overloaded"
    return "refused" if status >= _BAD_REQUEST else "unknown"


def _retry_after(error: Exception) -> float | None:
    if not isinstance(error, library.ModelAPIError):
        return None
    # Google says it in the body, in words of its own.
    return error.retry_after if error.retry_after is not None else _google_delay(error.body)


def _google_delay(body: object) -> float | None:
    details = _member(_member(body, "error") or body, "details")
    if not isinstance(details, list):
        return None
    for detail in cast("list[object]", details):
        match = _DELAY.fullmatch(str(_member(detail, "retryDelay")))
        if match:
            return float(match[1])
    return None


def _told(error: Exception) -> str:
    """Return the vendor's own sentence, or what is known of the error without it."""
    if isinstance(error, library.ModelHTTPError):
        inner = _member(error.body, "error") or error.body
        said: object = _member(inner, "message") or inner or "no reason given"
        return f"{error.status_code}: {said}"
    text = str(error) or type(error).__name__
    cause = error.__cause__
    return f"{text} ({type(cause).__name__})" if cause is not None else text


def _member(value: object, name: str) -> Any:
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
