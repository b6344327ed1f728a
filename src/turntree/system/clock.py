"""The system clock and the system's source of randomness."""

import secrets
import time

from turntree.core.ids import RANDOM_BITS, Timestamp, instant, uuid7

_MS = 1_000_000


class SystemClock:
    """The clock of this machine. See ``core.clock.Clock``."""

    def __init__(self) -> None:
        """Start without a last time."""
        self._latest_ms = 0

    def now(self) -> Timestamp:
        """Return the current time; if the clock is set back, the last time is repeated."""
        self._latest_ms = max(self._latest_ms, time.time_ns() // _MS)
        return instant(self._latest_ms)

    def new_id(self) -> str:
        """Return a unique UUIDv7."""
        return uuid7(time.time_ns() // _MS, secrets.randbits(RANDOM_BITS))

    def nonce(self) -> str:
        """Return an unguessable string."""
        # Only letters and digits: a nonce that starts with a dash would be parsed as an option.
        return secrets.token_hex(16)
