"""Names for things, one type each, so that a session can never be passed where a turn is meant.

An *id* says which thing is meant and exists from the first moment of its life. A *digest*
says what a thing is and exists once it can no longer change. A *label* says where a person
left off, and moves.

Ids are UUIDv7: their first 48 bits are the time. This module builds them from a time and
random bits that somebody else drew; it never looks at a clock.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import NewType

WorkspaceId = NewType("WorkspaceId", str)
"""The tenant: nothing refers across two of them."""

TurnId = NewType("TurnId", str)
"""Minted when the run starts; the run and the turn it leaves share it."""

RunId = NewType("RunId", str)
"""One attempt at a turn; equal to the id of the turn it leaves."""

SessionId = NewType("SessionId", str)
"""A session, whatever it is called at the moment."""

ResourceId = NewType("ResourceId", str)
"""Something outside of the ledger that a turn can change: a workspace, a file, a container."""

SnapshotId = NewType("SnapshotId", str)
"""One state of a resource that was kept."""

PlanId = NewType("PlanId", str)
"""Steps that are carried out as a whole or taken back; also the stream of their events."""

Label = NewType("Label", str)
"""A session's name, chosen by a person: ``main``, ``atlas:main``."""

ProgramId = NewType("ProgramId", str)
"""A program, whatever its config says; a session's program has the session's id."""

Digest = NewType("Digest", str)
"""``sha256:`` and 64 hexadecimal digits."""

EventId = NewType("EventId", Digest)
"""The digest of one recorded fact."""

Timestamp = NewType("Timestamp", str)
"""A moment in UTC to the millisecond: ``2026-11-15T09:30:00.000Z``. Sorts as text."""

RANDOM_BITS = 74
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {sign: value for value, sign in enumerate(_ALPHABET)}
_MS_BITS = 48
SHORT_ID_LENGTH = 26
_HEX_LENGTH = 32


def uuid7(unix_ms: int, randomness: int) -> str:
    """Return the UUIDv7 of a moment and ``RANDOM_BITS`` random bits, as 36 characters."""
    assert 0 <= unix_ms < 1 << _MS_BITS, "a time between 1970 and 10889"
    assert 0 <= randomness < 1 << RANDOM_BITS, "exactly the bits that fit"
    high, low = randomness >> 62, randomness & ((1 << 62) - 1)
    digits = f"{unix_ms << 80 | 7 << 76 | high << 64 | 2 << 62 | low:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def derived_id(unix_ms: int, *content: str) -> str:
    """Return the id that everybody gives to the same content recorded at the same time.

    An imported turn has no run of ours to mint its id, and two people who import one
    transcript must end with the same turn.
    """
    # With its length before it, no piece of content can pass for two.
    counted = "".join(f"{len(piece)}:{piece}" for piece in content)
    seed = hashlib.sha256(counted.encode()).digest()
    return uuid7(unix_ms, int.from_bytes(seed, "big") >> (256 - RANDOM_BITS))


def short_id(id: str) -> str:
    """Return the 26 characters people see: the same 128 bits, without look-alikes."""
    number = int(id.replace("-", ""), 16)
    signs = [_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)]
    return "".join(signs)


def find_long_id(text: str) -> str | None:
    """Return the id that 26 characters or a UUID stand for, or None if they stand for none."""
    folded = text.lower()
    if len(folded) == SHORT_ID_LENGTH and all(sign in _VALUES for sign in folded):
        number = 0
        for sign in folded:
            number = number << 5 | _VALUES[sign]
        digits = f"{number:032x}"
    else:
        digits = folded.replace("-", "")
    if len(digits) != _HEX_LENGTH or any(sign not in "0123456789abcdef" for sign in digits):
        return None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def instant(unix_ms: int) -> Timestamp:
    """Return the moment that many milliseconds after the beginning of 1970."""
    moment = _EPOCH + timedelta(milliseconds=unix_ms)
    return Timestamp(moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z")


def is_instant(text: str) -> bool:
    """Say whether a text is written as an ``Timestamp`` is."""
    return _INSTANT.fullmatch(text) is not None


def unix_ms(moment: Timestamp) -> int:
    """Return how many milliseconds after the beginning of 1970 a moment is."""
    return (datetime.fromisoformat(moment) - _EPOCH) // timedelta(milliseconds=1)
