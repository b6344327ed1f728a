"""Hashes of passwords, by Argon2id.

A hash takes as much memory and time as it should cost to try one password, so it is computed in a
thread, and few at once: otherwise a client that sends passwords could keep a server busy.
"""

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from turntree.core.errors import InvalidOperation, Unsupported

if TYPE_CHECKING:
    from argon2 import PasswordHasher

CHARS_MIN: Final = 12
CHARS_MAX: Final = 1_000
AT_ONCE_MAX: Final = 2
"""Passwords hashed at the same time; each takes 64 MiB."""
_LIMITER: Final[RunVar[CapacityLimiter]] = RunVar("password hashes")


async def hash_password(password: str) -> str:
    """Return the hash of a new password, with a salt of its own.

    Raises:
        InvalidOperation: It is too short or too long, or is not valid text.
        Unsupported: Argon2 is not installed.
    """
    if not CHARS_MIN <= len(password) <= CHARS_MAX:
        raise InvalidOperation(f"a password has {CHARS_MIN} to {CHARS_MAX} characters")
    if any("\ud800" <= char <= "\udfff" for char in password):
        # What Python reads where a byte is not UTF-8. No other client could send it.
        raise InvalidOperation("the password is not valid text: type it in UTF-8")
    hasher = load_hasher()
    return await run_sync(lambda: hasher.hash(_normal(password)), limiter=_limiter())


async def is_password(password: str, hash: str | None) -> bool:
    """Return whether a password has a hash. Without a hash this takes as long, and is False.

    Raises:
        Unsupported: Argon2 is not installed.
    """
    hasher = load_hasher()
    # Cut, not refused at once: a time that depends on the length would tell what the limit is.
    said = _normal(password[:CHARS_MAX]).encode(errors="surrogatepass")
    may_match = hash is not None and len(password) <= CHARS_MAX

    def verify() -> bool:
        from argon2.exceptions import Argon2Error, InvalidHashError  # noqa: PLC0415 - an extra

        # For a known name too: the first call of a process computes it, and would take longer.
        decoy = _decoy()
        try:
            return hasher.verify(decoy if hash is None else hash, said) and may_match
        except (Argon2Error, InvalidHashError):
            return False

    return await run_sync(verify, limiter=_limiter())


def _normal(password: str) -> str:
    # Two keyboards may write one letter as different code points.
    return unicodedata.normalize("NFKC", password)


@cache
def load_hasher() -> "PasswordHasher":
    """Return the hasher, with the cost that RFC 9106 recommends for little memory.

    Raises:
        Unsupported: Argon2 is not installed.
    """
    try:
        from argon2 import PasswordHasher  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise Unsupported("passwords need Argon2: pip install 'turntree[server]'") from error
    return PasswordHasher()


@cache
def _decoy() -> str:
    """Return a hash that is verified for names without one, so that both take equally long."""
    return load_hasher().hash("no password has this hash")


def _limiter() -> CapacityLimiter:
    # One for each event loop: a limiter cannot be shared by two.
    try:
        return _LIMITER.get()
    except LookupError:
        _LIMITER.set(limiter := CapacityLimiter(AT_ONCE_MAX))
        return limiter
