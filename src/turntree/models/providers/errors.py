"""Maps errors of vendors and of the network to kinds of failure.

It knows the library's and the vendors' error types. ``models.retry`` decides by the kind whether to
retry; nothing is retried here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import httpx2
from pydantic_ai import exceptions as library

from turntree.core.errors import Failure, ProviderError
from turntree.system.public_addresses import NotPublicError

MESSAGE_CHARS_MAX: Final = 300
"""Limit of an error's body: enough for a sentence, not for an HTML page."""
_CAUSES_MAX: Final = 8
_TIMEOUT: Final = 408
_CONFLICT: Final = 409
_TOO_MANY: Final = 429
_DENIED: Final = frozenset({401, 402, 403})
_SERVER_ERROR: Final = 500
_BAD_REQUEST: Final = 400
_TOO_LARGE: Final = 413
# A body may consist of digits only: without a limit, each of them would begin a search.
_TOKENS: Final = r"(\d[\d,_]{0,15})"
_TOO_LONG: Final = re.compile(
    r"context[ _](?:length|window|size|limit)|prompt is too long|too many tokens"
    r"|maximum number of tokens|too large for model|maximum prompt length",
    re.IGNORECASE,
)
"""Words of services that refuse a long prompt and whose error the library does not recognize."""
_SENT: Final = tuple(
    re.compile(text, re.IGNORECASE)
    for text in (
        rf"{_TOKENS} in the messages",
        rf"{_TOKENS} input tokens",
        rf"resulted in {_TOKENS} tokens",
        rf"too long: {_TOKENS} tokens",
        rf"context limit: {_TOKENS} \+",
        rf"input token count \({_TOKENS}\)",
        rf"prompt contains {_TOKENS} tokens",
        rf"request \({_TOKENS} tokens\)",
        rf"requested {_TOKENS} tokens",
        rf"prompt_tokens\W+{_TOKENS}",
    )
)
"""How vendors say how long a prompt was, the most exact first."""
_ALLOWED: Final = tuple(
    re.compile(text, re.IGNORECASE)
    for text in (
        rf"maximum context length (?:is|of) {_TOKENS}",
        rf"> {_TOKENS}",
        rf"tokens allowed \({_TOKENS}\)",
        rf"{_TOKENS} maximum context length",
        rf"context (?:size|window|length) (?:of |is )?\(?{_TOKENS}",
        rf"maximum prompt length is {_TOKENS}",
        rf"n_ctx\W+{_TOKENS}",
    )
)
"""How vendors say how long a prompt may be."""
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)s")

CAUGHT: Final = (
    NotPublicError,
    library.ModelAPIError,
    library.UnexpectedModelBehavior,
    library.UserError,
    httpx2.HTTPError,
    httpx2.StreamError,
    # Raised by a library for a response that is not JSON, or lacks a required member.
    ValueError,
    TypeError,
    KeyError,
    AssertionError,
)
"""Exceptions that the library may raise when a vendor responds incorrectly."""

_KINDS: Final[tuple[tuple[type[BaseException], Failure], ...]] = (
    (library.ModelContextWindowExceededError, "too_long"),
    (library.ModelRateLimitError, "rate_limited"),
    # Waiting does not refill an account.
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
    """Return the failure that an error means; ``hide`` removes credentials from its message."""
    if (refused := _not_public(error)) is not None:
        return ProviderError(f"{provider}: {refused}", "denied", hint=refused.hint)
    said = _told(error)
    message, kind = _one_line(hide(f"{provider}: {said}")), _kind(error)
    if kind == "refused" and _is_too_long(error, said):
        kind = "too_long"
    if kind != "too_long":
        return ProviderError(message, kind, retry_after_s=_retry_after(error))
    sent, limit = _find_number(_SENT, said), _find_number(_ALLOWED, said)
    return ProviderError(message, kind, sent_tokens=sent, limit_tokens=limit)


def _is_too_long(error: Exception, said: str) -> bool:
    status: object = getattr(error, "status_code", None)
    return status == _TOO_LARGE or (status == _BAD_REQUEST and bool(_TOO_LONG.search(said)))


def _find_number(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    """Return the number that the first pattern that occurs in a text finds."""
    found = next((match for pattern in patterns if (match := pattern.search(text))), None)
    return None if found is None else int(re.sub(r"\D", "", found[1]))


def _one_line(text: str) -> str:
    """Return a service's text as one short line, without terminal control characters."""
    printable = "".join(
        character for character in " ".join(text.split()) if character.isprintable()
    )
    cut = len(printable) > MESSAGE_CHARS_MAX
    return f"{printable[: MESSAGE_CHARS_MAX - 1]}…" if cut else printable


def _not_public(error: BaseException) -> NotPublicError | None:
    """Return the ``NotPublicError`` that caused an error, if any."""
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
    """Return the kind of an HTTP status that the library did not classify."""
    if status == _TOO_MANY:
        return "rate_limited"
    if status >= _SERVER_ERROR or status == _CONFLICT:
        return "overloaded"
    return "refused" if status >= _BAD_REQUEST else "unknown"


def _retry_after(error: Exception) -> float | None:
    if not isinstance(error, library.ModelAPIError):
        return None
    # Google reports it in the body, in its own words.
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
    """Return the vendor's own message, or a description of the error."""
    if isinstance(error, library.ModelHTTPError):
        inner = _member(error.body, "error") or error.body
        reason: object = _member(inner, "message") or inner or "no reason given"
        return f"{error.status_code}: {reason}"
    text = str(error) or type(error).__name__
    cause = error.__cause__
    return f"{text} ({type(cause).__name__})" if cause is not None else text


def _member(value: object, name: str) -> Any:
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
