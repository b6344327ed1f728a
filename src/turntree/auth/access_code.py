"""Access codes: the form of API keys, of invitations, and of the cookies of login sessions.

    ttk_<workspace>_<id>_<secret><checksum>

All parts are letters and digits, so that no shell and no URL changes a code. The workspace is its
id: a server knows where to look before any query. The id of the code is public, and hexadecimal,
because people type it. The secret has 256 bits, so that a plain sha256 of the code can be stored:
there is no dictionary to try. The checksum tells a typing error, or a guess, from a code without a
query.

The prefix and the length are what scanners for secrets look for, ours in ``core.redaction`` too.
"""

import hashlib
from typing import Final, Literal
from uuid import UUID
from zlib import crc32

from turntree.core.errors import PermissionDenied
from turntree.core.ids import Timestamp, WorkspaceId, instant, unix_ms
from turntree.core.value import value

Prefix = Literal["ttk", "tti", "tts"]
KEY: Final[Prefix] = "ttk"
INVITATION: Final[Prefix] = "tti"
LOGIN: Final[Prefix] = "tts"

WORKSPACE_CHARS: Final = 22
ID_CHARS: Final = 12
SECRET_CHARS: Final = 43
CHECKSUM_CHARS: Final = 6
CODE_CHARS: Final = 3 + 1 + WORKSPACE_CHARS + 1 + ID_CHARS + 1 + SECRET_CHARS + CHECKSUM_CHARS
USE_NOTED_MS: Final = 60_000
"""A use is noted at most once a minute, so that reading with a code does not write each time."""
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUES: Final = {digit: number for number, digit in enumerate(_DIGITS)}


@value
class AccessCode:
    """A code that was checked for typing errors, and not yet against the ledger."""

    text: str
    workspace: WorkspaceId
    id: str

    def __repr__(self) -> str:
        """Return what the code is for, and nothing of its secret."""
        return f"AccessCode({self.id})"

    @property
    def digest(self) -> bytes:
        """The sha256 of the code, which is what is stored."""
        return hashlib.sha256(self.text.encode()).digest()


def make_code(prefix: Prefix, workspace: UUID, id_nonce: str, secret_nonce: str) -> AccessCode:
    """Return a new code; the nonces must be unguessable."""
    id = hashlib.sha256(id_nonce.encode()).hexdigest()[:ID_CHARS]
    secret = hashlib.sha256(secret_nonce.encode()).digest()
    number = int.from_bytes(secret, "big")
    place = _base62(workspace.int, WORKSPACE_CHARS)
    head = f"{prefix}_{place}_{id}_{_base62(number, SECRET_CHARS)}"
    return AccessCode(f"{head}{_checksum(head)}", WorkspaceId(str(workspace)), id)


def parse_code(prefix: Prefix, text: str) -> AccessCode:
    """Return the parts of a code.

    Raises:
        PermissionDenied: It is not a code of this kind, or has a typing error.
    """
    wrong = PermissionDenied(f"this is not a valid {prefix}_… code: check it for typos")
    # Compared before anything is computed: any client can send any text.
    if len(text) != CODE_CHARS or not text.isascii() or not text.startswith(f"{prefix}_"):
        raise wrong
    head, checksum = text[:-CHECKSUM_CHARS], text[-CHECKSUM_CHARS:]
    _, *parts = head.split("_")
    wanted = [WORKSPACE_CHARS, ID_CHARS, SECRET_CHARS]
    if [len(part) for part in parts] != wanted or not all(part.isalnum() for part in parts):
        raise wrong
    number = _number(parts[0])
    if _checksum(head) != checksum or number >= 1 << 128:
        raise wrong
    return AccessCode(text, WorkspaceId(str(UUID(int=number))), parts[1])


def is_use_due(last_used_at: Timestamp | None, now: Timestamp) -> bool:
    """Return whether a use at a time is to be noted: the last one was noted a minute before."""
    return last_used_at is None or use_due_at(last_used_at) <= now


def use_due_at(last_used_at: Timestamp) -> Timestamp:
    """Return from when on another use is to be noted."""
    return instant(unix_ms(last_used_at) + USE_NOTED_MS)


def _checksum(head: str) -> str:
    return _base62(crc32(head.encode()), CHECKSUM_CHARS)


def _base62(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    assert number == 0, "a number that fits"
    return digits


def _number(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number * 62 + _VALUES[digit]
    return number
