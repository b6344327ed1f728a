"""The real world: the machine's clock and its source of randomness."""

import secrets
import time

from turntree.core.ids import RANDOM_BITS, Timestamp, instant, uuid7

_MS = 1_000_000


class SystemClock:
    """The machine this process runs on. See ``ports.world``."""

    def __init__(self) -> None:
        """Begin at the present."""
        self._latest_ms = 0

    def now(self) -> Timestamp:
        """Return the present moment; a clock set back does not turn time back."""
        self._latest_ms = max(self._latest_ms, time.time_ns() // _MS)
        return instant(self._latest_ms)

    def new_id(self) -> str:
        """Return a UUIDv7 nobody else has."""
        return uuid7(time.time_ns() // _MS, secrets.randbits(RANDOM_BITS))

    def nonce(self) -> str:
        """Return an unguessable word."""
        # Only letters and digits: one that began with a dash could not be typed after a command.
        return secrets.token_hex(16)
