"""The secrets of a server: a one-time key in the address, then a cookie for the page.

A program that runs as another user of this machine, and every page that the user's browser shows,
can reach the port. Both lack the key, which is in a file that only its owner may read. The key
stands behind the ``#`` of the address, which no browser sends, and is exchanged once: what a
history or a terminal keeps of it opens nothing.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final, Literal

KEY_LIFE_S: Final = 3600
COOKIE_LIFE_S: Final = 30 * 24 * 3600
SECRET_BYTES: Final = 32
_NONCE_BYTES: Final = 16
Purpose = Literal["key", "cookie"]


class AccessKeys:
    """Issues and checks the keys and cookies of one server."""

    def __init__(self, secret: bytes, launch: str, port: int, now: Callable[[], float]) -> None:
        """Take the secret of the home folder, the name of this launch, and the port.

        A cookie outlives a restart on the same port. A key does not: which keys were used is known
        only to the process that exchanged them.
        """
        self._secret = secret
        self._scopes: dict[Purpose, str] = {"key": f"{port}.{launch}", "cookie": str(port)}
        self._now = now
        self._used: dict[str, float] = {}
        self.cookie_name = f"turntree-{port}"

    def issue_key(self) -> str:
        """Return a key that can be exchanged once, within the hour."""
        return self._sign("key", KEY_LIFE_S)

    def redeem_key(self, key: str) -> str | None:
        """Return a cookie for a key, or None if the key is forged, used or too old."""
        expires = self._check("key", key)
        if expires is None or key in self._used:
            return None
        now = self._now()
        self._used = {used: until for used, until in self._used.items() if until > now}
        self._used[key] = expires
        return self._sign("cookie", COOKIE_LIFE_S)

    def accepts_cookie(self, cookie: str) -> bool:
        """Whether a cookie is one of this server's, and not too old."""
        return self._check("cookie", cookie) is not None

    def _sign(self, purpose: Purpose, life_s: float) -> str:
        text = f"{int(self._now() + life_s)}.{_encode(secrets.token_bytes(_NONCE_BYTES))}"
        return f"{text}.{self._seal(purpose, text)}"

    def _check(self, purpose: Purpose, signed: str) -> float | None:
        """Return when a signed text expires, or None if it is not valid now."""
        text, _, seal = signed.rpartition(".")
        # Bytes, because the comparison of texts refuses what is not ASCII.
        if not hmac.compare_digest(seal.encode(), self._seal(purpose, text).encode()):
            return None
        expires = float(text.partition(".")[0])
        return expires if expires > self._now() else None

    def _seal(self, purpose: Purpose, text: str) -> str:
        said = f"turntree.ui.{purpose}\0{self._scopes[purpose]}\0{text}".encode()
        return _encode(hmac.digest(self._secret, said, hashlib.sha256))


def read_secret(text: str) -> bytes | None:
    """Return the secret that a text encodes, or None if it encodes none."""
    try:
        secret = bytes.fromhex(text)
    except (ValueError, binascii.Error):
        return None
    return secret if len(secret) == SECRET_BYTES else None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
