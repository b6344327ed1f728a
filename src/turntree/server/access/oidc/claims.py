"""What an ID token has to say, and which account follows from it. Pure."""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from turntree.auth.identities.identity import SUBJECT_CHARS_MAX, ProvenAccount
from turntree.auth.member import as_person
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.value import value
from turntree.server.access.oidc.config import EMAIL, IdentityProviderConfig

LEEWAY_S: Final = 60
"""By how much the clocks of two machines may differ."""
TIME_S_MAX: Final = 10**11
HASHES: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "RS256": hashlib.sha256, "RS384": hashlib.sha384, "RS512": hashlib.sha512,
    "PS256": hashlib.sha256, "PS384": hashlib.sha384, "PS512": hashlib.sha512,
    "ES256": hashlib.sha256, "ES384": hashlib.sha384, "ES512": hashlib.sha512,
    "EdDSA": hashlib.sha512, "Ed25519": hashlib.sha512,
}  # fmt: skip
"""The algorithms of signatures that count, each with its hash. With all of them the provider has a
key of its own: never ``none``, and none whose key a client has too."""
_ADDRESS: Final = re.compile(r"[^\s@\"]+@[^\s@\"]+")


@value
class ExpectedToken:
    """What an ID token must be for."""

    issuer: str
    client_id: str
    nonce: str
    access_token: str
    """What came with it; its hash may be in the token."""


def check_claims(
    claims: Mapping[str, Any], algorithm: str, expected: ExpectedToken, now_s: float
) -> str:
    """Return the subject of an ID token whose signature was verified.

    Raises:
        PermissionDenied: It is not for this login. The reason quotes nothing of the token.
    """
    if claims.get("iss") != expected.issuer:
        raise PermissionDenied("the ID token is of another issuer")
    audience = claims.get("aud")
    # A token for others too may have come from one of them.
    if audience not in (expected.client_id, [expected.client_id]):
        raise PermissionDenied("the ID token is for another audience")
    if claims.get("azp", expected.client_id) != expected.client_id:
        raise PermissionDenied("the ID token was issued to another client")
    expires, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires is None or issued is None:
        raise PermissionDenied("the ID token does not say when it was issued and expires")
    if now_s >= expires + LEEWAY_S:
        raise PermissionDenied("the ID token has expired")
    if max(issued, _seconds(claims, "nbf") or 0) > now_s + LEEWAY_S:
        raise PermissionDenied("the ID token is not valid yet: compare the clocks")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not _is_same(nonce, expected.nonce):
        raise PermissionDenied("the ID token is for another login")
    if "at_hash" in claims:
        digest = HASHES[algorithm](expected.access_token.encode()).digest()
        half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()
        if not isinstance(claims["at_hash"], str) or not _is_same(claims["at_hash"], half):
            raise PermissionDenied("the ID token came with another access token")
    subject = claims.get("sub")
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= SUBJECT_CHARS_MAX
        or not subject.isascii()
        or not subject.isprintable()
    ):
        raise PermissionDenied("the ID token names no account")
    return subject


def account_of(
    config: IdentityProviderConfig, subject: str, claims: Mapping[str, Any]
) -> ProvenAccount:
    """Return the account that a token proves, if it is one of those that may log in.

    An address counts only if the provider has verified it. Another claim never stands for an
    address: what people enter there themselves may look like the address of another person.

    Raises:
        PermissionDenied: Neither its address nor its subject is listed.
    """
    address = claims.get(EMAIL)
    is_verified = claims.get("email_verified") is True
    if not is_verified or not isinstance(address, str) or _ADDRESS.fullmatch(address) is None:
        address = None
    if config.email_domains or config.subjects:
        domain = (address or "").rpartition("@")[2].lower()
        if subject not in config.subjects and domain not in config.email_domains:
            raise PermissionDenied("the account is not one of those that may log in")
    invitee = address
    if config.claim != EMAIL:
        text = subject if config.claim == "sub" else claims.get(config.claim)
        invitee = _find_person(text) if isinstance(text, str) else None
    return ProvenAccount(config.issuer, subject, invitee)


def _find_person(text: str) -> str | None:
    try:
        return as_person(text)
    except InvalidOperation:
        return None


def _is_same(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(errors="surrogatepass"), b.encode())


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    found: Any = claims.get(name)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    # Neither NaN, which is never too late, nor a number that no clock has.
    return found if is_number and 0 <= found < TIME_S_MAX else None
