"""Decides whether a failed model call is retried, and after what pause.

The kind of failure decides. ``Retry-After`` is obeyed. Without it the pauses double, and jitter,
which the caller draws, spreads the clients that wait.
"""

from collections.abc import Mapping
from typing import Final

from turntree.core.errors import Failure

ATTEMPTS_MAX: Final[Mapping[Failure, int]] = {
    "rate_limited": 6,
    "overloaded": 6,
    "broken": 4,
    "timeout": 3,
    "unknown": 2,
    "too_long": 1,
    "refused": 1,
    "denied": 1,
}
"""Attempts in total; a request that waiting cannot help is sent once."""
FIRST_PAUSE_S: Final = 0.5
# A person may be waiting.
PAUSE_MAX_S: Final = 30.0
RETRY_AFTER_MAX_S: Final = 300.0
"""Give up if ``Retry-After`` exceeds this: a person may be waiting for the reply."""


def find_pause(
    kind: Failure, attempt: int, *, retry_after_s: float | None, chance: float
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up.

    ``attempt`` is the one that failed, counted from 1; ``chance`` is between 0 and 1.
    """
    if attempt >= ATTEMPTS_MAX[kind]:
        return None
    if retry_after_s is not None:
        if retry_after_s > RETRY_AFTER_MAX_S:
            return None
        # Never earlier than the provider asked, and not all clients at the same time.
        return max(0.0, retry_after_s) + chance * FIRST_PAUSE_S
    pause = min(PAUSE_MAX_S, FIRST_PAUSE_S * 2.0 ** (attempt - 1))
    return pause * (0.5 + chance / 2)
