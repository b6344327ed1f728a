"""Cookies over the network: their names, their attributes, and how they are read.

    __Host-turntree-login-<workspace>     a server that clients reach by a name, over TLS
    turntree-login-<port>-<workspace>     a server on this machine, over plain HTTP

A browser keeps a ``__Host-`` cookie only from HTTPS and for the whole of one host, so that neither
the network nor a neighbouring subdomain can plant one. Not all browsers take one from plain HTTP on
this machine, where no network is crossed; cookies do not know ports, so the name does. Which of the
two counts follows from the host that the request names.

The workspace is in the name as a digest: one browser may be logged in to several.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

from starlette.responses import Response

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
Purpose = Literal["login", "browser", "identity"]
"""A login session, a browser in which a person has logged in before, or a login that was begun with
an identity provider."""
_TAG_CHARS: Final = 12


def is_near(host: str) -> bool:
    """Return whether a Host header names this machine, as its own browser sees it."""
    return host.rpartition(":")[0].lower() in LOOPBACK_NAMES


def origin_of(host: str) -> str:
    """Return the origin of a page of a host: beyond this machine only TLS counts."""
    return f"{'http' if is_near(host) else 'https'}://{host.lower()}"


def cookie_name(purpose: Purpose, host: str, workspace: str) -> str:
    """Return the name of a cookie for a workspace."""
    tag = hashlib.sha256(workspace.encode()).hexdigest()[:_TAG_CHARS]
    if is_near(host):
        return f"turntree-{purpose}-{host.rpartition(':')[2]}-{tag}"
    return f"__Host-turntree-{purpose}-{tag}"


def read_cookie(name: str, headers: Iterable[str]) -> str | None:
    """Return the cookie of a name; None without one, or if two were sent: one is not ours."""
    pairs = (pair.strip().partition("=") for header in headers for pair in header.split(";"))
    found = [text for key, _, text in pairs if key == name]
    return found[0] if len(found) == 1 else None


def set_cookie(response: Response, name: str, text: str, *, host: str, life_s: int) -> None:
    """Let a browser keep a cookie that no script reads and no other site sends."""
    response.set_cookie(
        name, text, max_age=life_s, path="/", secure=not is_near(host), httponly=True,
        samesite="strict",
    )  # fmt: skip
