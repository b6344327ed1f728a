"""Standard Webhooks: how a message is signed, by whom it was sent, and whether it came in time.

A message has three headers. ``webhook-id`` stays the same with each attempt, so that a receiver
takes a message once. ``webhook-timestamp`` is the time of the attempt, and ``webhook-signature``
has an HMAC-SHA256 of both and of the body for each secret that is valid: two while one is replaced.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from typing import Final

from turntree.core.errors import InvalidOperation, PermissionDenied

PREFIX: Final = "whsec_"
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
TOLERANCE_S: Final = 5 * 60
"""How far the clocks of the two sides may be apart, with the time on the way."""
ID_CHARS_MAX: Final = 200
ID_HEADER: Final = "webhook-id"
TIME_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
_VERSION: Final = "v1"
_SIGNATURES_MAX: Final = 10
_TIME_DIGITS_MAX: Final = 15


def make_secret(nonce: str) -> str:
    """Return a new secret; the nonce must be unguessable."""
    return PREFIX + b64encode(hashlib.sha256(nonce.encode()).digest()).decode()


def check_secret(text: str) -> str:
    """Return a secret that another system made.

    Raises:
        InvalidOperation: It is not one; the error does not quote it.
    """
    if text.startswith(PREFIX):
        try:
            length = len(b64decode(text.removeprefix(PREFIX), validate=True))
        except Base64Error:
            length = 0
        if SECRET_BYTES_MIN <= length <= SECRET_BYTES_MAX:
            return text
    raise InvalidOperation(
        f"a secret is {PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes as Base64"
    )


def sign(secrets: Sequence[str], id: str, time_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message, with a signature for each of the secrets."""
    signatures = [f"{_VERSION},{_signature(secret, id, time_s, body)}" for secret in secrets]
    return {ID_HEADER: id, TIME_HEADER: str(time_s), SIGNATURE_HEADER: " ".join(signatures)}


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, *, now_s: float) -> str:
    """Return the id of a message that was signed with one of the secrets, a short time ago.

    Raises:
        PermissionDenied: A header is missing or invalid, it is too old or from the future, or no
            signature is right.
    """
    id, time = headers.get(ID_HEADER, ""), headers.get(TIME_HEADER, "")
    if not 0 < len(id) <= ID_CHARS_MAX or not id.isascii() or not id.isprintable():
        raise PermissionDenied("the message has no id")
    if not (time.isascii() and time.isdigit() and len(time) <= _TIME_DIGITS_MAX):
        raise PermissionDenied("the message has no timestamp")
    if abs(now_s - int(time)) > TOLERANCE_S:
        raise PermissionDenied("the message is too old, or from the future")
    given = headers.get(SIGNATURE_HEADER, "").split(" ")[:_SIGNATURES_MAX]
    wanted = [f"{_VERSION},{_signature(secret, id, int(time), body)}" for secret in secrets]
    # Every pair is compared, each in constant time: nothing tells how much of one is right.
    matches = [
        hmac.compare_digest(one.encode(errors="replace"), right.encode())
        for one in given
        for right in wanted
    ]
    if not any(matches):
        raise PermissionDenied("no signature of the message is right")
    return id


def _signature(secret: str, id: str, time_s: int, body: bytes) -> str:
    key = b64decode(secret.removeprefix(PREFIX))
    return b64encode(hmac.digest(key, f"{id}.{time_s}.".encode() + body, "sha256")).decode()
