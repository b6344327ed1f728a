"""The address and keys of a service: a provider's config with credentials filled in.

It replaces ``${NAME}`` by the credential of that name, and must never show the value, neither in a
``repr`` nor in an error. A literal key in a config is refused, because the ledger keeps configs
forever.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal
from urllib.parse import urlsplit

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, NotFound, PermissionDenied
from turntree.core.secret_refs import NAMED, carries_secret, is_only_named
from turntree.core.value import value
from turntree.models.provider import Credentials, ProviderSetup

Cache = Literal["5m", "1h"] | None

TIMEOUT_S: Final = 600.0
"""How long a service may send nothing, before the first byte or between two."""
# Connecting is quick or hopeless; only a reply may take minutes.
CONNECT_TIMEOUT_S: Final = 10.0
HIDDEN: Final = "•••"
NO_KEY: Final = "none"
"""Sent where no key is needed, because the vendors' libraries require one."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_SECRET_CHARS_MIN: Final = 4
"""Shorter credentials are not hidden: replacing them would only garble a message."""


@value
class Connection:
    """How to reach a service."""

    base_url: str | None
    key: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    cache: Cache
    """Lifetime of the provider's prompt cache; None if caching is not requested."""
    vendor: str | None
    """The vendor, if the config names one, for example behind a gateway."""
    secrets: frozenset[str] = field(repr=False)
    is_public_only: bool = False
    """Whether addresses that only this machine or its network reaches are refused."""

    def hide(self, text: str) -> str:
        """Return a text with credentials removed."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text


def connect(setup: ProviderSetup, *, key_names: tuple[str, ...] = ()) -> Connection:
    """Return the connection that a config describes; ``key_names`` are the vendor's variables.

    A config with a ``base_url`` need not name a key: a gateway may hold the keys itself, and a
    private server needs none.

    Raises:
        InvalidOperation: The config contains a literal key, or a key would be sent unencrypted.
        PermissionDenied: Access to a credential is denied.
        NotFound: A credential does not exist.
    """
    config = setup.config
    filled = _Credentials(setup.credentials)
    base_url = config.get("base_url")
    url = filled.text(str(base_url)) if base_url else None
    headers = {name: filled.header(name, value) for name, value in _headers(config).items()}
    key = filled.key(config.get("api_key"), key_names, is_needed=url is None)
    if filled.found:
        _check_address(url)
    vendor = config.get("vendor")
    timeout_s = config.get("timeout_s", TIMEOUT_S)
    if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool) or timeout_s <= 0:
        raise InvalidOperation(f"timeout_s is a number of seconds, not {timeout_s!r}")
    return Connection(
        url,
        key,
        headers,
        float(timeout_s),
        _cache(config),
        str(vendor) if vendor else None,
        frozenset(one for one in filled.found if len(one) >= _SECRET_CHARS_MIN),
        setup.is_public_only,
    )


class _Credentials:
    """Fills credentials into texts, and remembers which ones it used."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.found: set[str] = set()

    def text(self, text: str) -> str:
        return NAMED.sub(lambda match: self._get(match[1]), text)

    def header(self, name: str, value: str) -> str:
        if carries_secret(name) and not is_only_named(value):
            raise InvalidOperation(
                f"the header {name} carries a key: name it, as in ${{NAME}}, instead of "
                "writing it down"
            )
        return self.text(value)

    def key(self, said: Json, names: tuple[str, ...], *, is_needed: bool) -> str | None:
        if said is not None:
            if not isinstance(said, str) or not NAMED.fullmatch(said):
                raise InvalidOperation(
                    "api_key names a credential, as in ${NAME}; a key is never kept"
                )
            return self.text(said)
        for name in names:
            try:
                return self._get(name)
            except NotFound:
                continue
            except PermissionDenied:
                # The config does not name it: it is not sent, and may not be needed.
                if is_needed:
                    raise
        if names and is_needed:
            raise NotFound(
                f"the credential {' or '.join(names)} is neither in the context nor in the "
                "environment",
                hint=Hint("credential.export", {"credential": names[0]}),
            )
        return None

    def _get(self, name: str) -> str:
        value = self._credentials(name)
        self.found.add(value)
        return value


def _cache(config: Mapping[str, Json]) -> Cache:
    match config.get("cache", "5m"):
        case False:
            return None
        case "5m":
            return "5m"
        case "1h":
            return "1h"
        case other:
            raise InvalidOperation(f"cache is 5m, 1h or false, not {other!r}")


def _headers(config: Mapping[str, Json]) -> dict[str, str]:
    headers = config.get("headers")
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InvalidOperation("headers are names with their values")
    wrong = [name for name, value in headers.items() if not isinstance(value, str)]
    if wrong:
        raise InvalidOperation(f"the value of a header is a text: {', '.join(wrong)}")
    return {name: str(value) for name, value in headers.items()}


def _check_address(url: str | None) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise InvalidOperation(
            f"a key is sent by https or to this machine, and {parts.scheme}://{parts.hostname} "
            "is neither"
        )
