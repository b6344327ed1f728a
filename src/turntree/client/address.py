"""Where a server is, and whether a key may be sent there."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

PREFIX: Final = "/api/v1"
_PATH: Final = re.compile(r"(?P<workspace>.*/w/[^/]+)(?:/(?:api(?:/v1)?/?)?)?")
_KEY: Final = re.compile(r"[\x21-\x7e]+")


@value
class ServerAddress:
    """The workspace of a server, as a URL without a slash at its end."""

    url: str
    is_encrypted: bool

    @property
    def api(self) -> str:
        """The URL below which the routes are."""
        return f"{self.url}{PREFIX}"


def read_address(url: str, *, allow_http: bool = False) -> ServerAddress:
    """Return the address that a URL stands for, with the path of the API or without it.

    Without TLS a key could be read by every machine on the way, so http is for loopback, where
    there is none.

    Raises:
        InvalidOperation: It is not the URL of a workspace, or a key would travel unencrypted.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidOperation(f"{_shown(url)} is not a URL: {error}") from error
    if parts.username is not None or parts.password is not None:
        # Not quoted: what stands there may be a secret.
        raise InvalidOperation("the URL of a server holds no user and no password")
    path = _PATH.fullmatch(parts.path)
    if parts.scheme not in ("http", "https") or not host or path is None:
        raise InvalidOperation(
            f"{_shown(url)} is not like https://turntree.example.net/w/WORKSPACE"
        )
    is_encrypted = parts.scheme == "https"
    if not is_encrypted and not allow_http and not is_loopback(host):
        raise InvalidOperation(f"http would send your key to {host} unencrypted; use https")
    return ServerAddress(f"{parts.scheme}://{parts.netloc}{path['workspace']}", is_encrypted)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine; a name other than localhost may be any machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_key(key: str) -> str:
    """Return a key that can be sent in a header.

    Raises:
        InvalidOperation: It cannot. The message does not quote it.
    """
    if _KEY.fullmatch(key) is None:
        raise InvalidOperation("the key is empty or has a character that no key has")
    return key


def _shown(url: str) -> str:
    # A key that was typed in the place of the URL must not be printed.
    return "the URL of the server" if url.startswith("ttk_") else repr(url[:80])
