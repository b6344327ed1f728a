"""Whether a provider that gave no answer is asked again, and after how long.

The kind of the failure decides. What a provider says of itself (``Retry-After``) is obeyed; where
it says nothing the pauses double, and chance, which somebody else draws, spreads those who wait.
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
"""How often a prompt is sent in all; what cannot change by waiting is sent once."""
FIRST_PAUSE_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0
RETRY_AFTER_MAX_S: Final = 300.0
"""Whoever wants to be asked later than this is not waited for: somebody sits at the other end."""


def find_pause(
    kind: Failure, attempt: int, *, retry_after_s: float | None, chance: float
) -> float | None:
    """Return how many seconds to wait before the next attempt, or None if there is to be none.

    ``attempt`` is the one that failed, counted from 1; ``chance`` lies between 0 and 1.
    """
    if attempt >= ATTEMPTS_MAX[kind]:
        return None
    if retry_after_s is not None:
        if retry_after_s > RETRY_AFTER_MAX_S:
            return None
        # Never earlier than asked for, and not everybody in the same moment.
        return max(0.0, retry_after_s) + chance * FIRST_PAUSE_S
    pause = min(PAUSE_MAX_S, FIRST_PAUSE_S * 2.0 ** (attempt - 1))
    return pause * (0.5 + chance / 2)
