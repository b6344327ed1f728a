"""Identifiers, each with its own type, so that a session id cannot be passed as a turn id.

An *id* identifies a thing from its creation on. A *digest* identifies content that can no longer
change. A *label* is a name for a head that moves.

Ids are UUIDv7: their first 48 bits are the time. This module builds them from a time and random
bits that the caller supplies; it never reads a clock.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import NewType

WorkspaceId = NewType("WorkspaceId", str)
"""The tenant: nothing refers across two workspaces."""

TurnId = NewType("TurnId", str)
"""Created when the run starts; the run and its turn share it."""

RunId = NewType("RunId", str)
"""One attempt at a turn; equal to the id of the turn it is sealed as."""

SessionId = NewType("SessionId", str)
"""A session, whatever its label is."""

ResourceId = NewType("ResourceId", str)
"""Something outside the ledger that a turn can change: a directory, a file, a container."""

SnapshotId = NewType("SnapshotId", str)
"""One saved state of a resource."""

PlanId = NewType("PlanId", str)
"""Steps that complete together or are rolled back; also the stream of their events."""

Label = NewType("Label", str)
"""A session's name, chosen by a person: ``main``, ``atlas:main``."""

ProgramId = NewType("ProgramId", str)
"""A program, whatever its version; a session's program has the session's id."""

Digest = NewType("Digest", str)
"""``sha256:`` and 64 hexadecimal digits."""

EventId = NewType("EventId", Digest)
"""The digest of an event."""

Timestamp = NewType("Timestamp", str)
"""A time in UTC with milliseconds: ``2026-11-15T09:30:00.000Z``. Sorts as text."""

# What version and variant leave of 128 bits after the 48 of the time.
RANDOM_BITS = 74
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {char: value for value, char in enumerate(_ALPHABET)}
_MS_BITS = 48
SHORT_ID_LENGTH = 26
_HEX_LENGTH = 32


def uuid7(unix_ms: int, randomness: int) -> str:
    """Return the UUIDv7 of a time and ``RANDOM_BITS`` random bits, as 36 characters."""
    assert 0 <= unix_ms < 1 << _MS_BITS, "a time between 1970 and 10889"
    assert 0 <= randomness < 1 << RANDOM_BITS, "exactly the bits that fit"
    high, low = randomness >> 62, randomness & ((1 << 62) - 1)
    digits = f"{unix_ms << 80 | 7 << 76 | high << 64 | 2 << 62 | low:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def derived_id(unix_ms: int, *content: str) -> str:
    """Return an id that depends only on the time and the content.

    An imported turn has no run of ours to create its id, and two people who import the same
    transcript must get the same turn.
    """
    # Prefixed with its length, no piece of content can be mistaken for two.
    counted = "".join(f"{len(piece)}:{piece}" for piece in content)
    seed = hashlib.sha256(counted.encode()).digest()
    return uuid7(unix_ms, int.from_bytes(seed, "big") >> (256 - RANDOM_BITS))


def short_id(id: str) -> str:
    """Return the 26 characters people see: the same 128 bits, without look-alikes."""
    number = int(id.replace("-", ""), 16)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def find_long_id(text: str) -> str | None:
    """Return the id that 26 characters or a UUID encode, or None if they encode none."""
    folded = text.lower()
    if len(folded) == SHORT_ID_LENGTH and all(char in _VALUES for char in folded):
        number = 0
        for char in folded:
            number = number << 5 | _VALUES[char]
        digits = f"{number:032x}"
    else:
        digits = folded.replace("-", "")
    if len(digits) != _HEX_LENGTH or any(char not in "0123456789abcdef" for char in digits):
        return None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def instant(unix_ms: int) -> Timestamp:
    """Return the timestamp of a number of milliseconds since 1970."""
    moment = _EPOCH + timedelta(milliseconds=unix_ms)
    return Timestamp(moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z")


def days_after(moment: Timestamp, days: int) -> Timestamp:
    """Return the timestamp that is some days after another."""
    return instant(unix_ms(moment) + days * _DAY_MS)


def is_instant(text: str) -> bool:
    """Return whether a text has the form of a ``Timestamp``."""
    return _INSTANT.fullmatch(text) is not None


def unix_ms(moment: Timestamp) -> int:
    """Return the number of milliseconds from the start of 1970 to a timestamp."""
    return (datetime.fromisoformat(moment) - _EPOCH) // timedelta(milliseconds=1)
