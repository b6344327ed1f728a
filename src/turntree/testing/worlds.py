"""Worlds that repeat themselves, and worlds in which processes die.

Two scripted worlds with the same seed give the same times and ids in the same order, so two runs
of one story must end with the same digests, whatever crashed in between.
"""

from collections.abc import Iterator
from typing import Literal

from turntree.domain.ids import RANDOM_BITS, Instant, instant, uuid7

START_MS = 1_790_000_000_000
_MASK = (1 << RANDOM_BITS) - 1

Fate = Literal["live", "die before", "die after"]


class ScriptedWorld:
    """A clock that ticks a second at every look, and ids that follow from a seed."""

    def __init__(self, seed: int = 0, *, tick_ms: int = 1000) -> None:
        """Begin at a fixed moment."""
        self._state = seed
        self._tick_ms = tick_ms
        self.ms = START_MS

    def now(self) -> Instant:
        """Return a moment one tick later than the last."""
        self.ms += self._tick_ms
        return instant(self.ms)

    def new_id(self) -> str:
        """Return the next id of the script."""
        return uuid7(self.ms, self._draw())

    def nonce(self) -> str:
        """Return the next word of the script."""
        return f"{self._draw():x}"

    def _draw(self) -> int:
        # A linear congruence is chance enough where nobody guesses.
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _MASK
        return self._state


class Crash(BaseException):
    """The process died here. Not an Exception, so that no handler can survive it."""


class Dying:
    """Decides, at each write, whether the process dies before it, after it, or not at all."""

    def __init__(self, fates: Iterator[Fate]) -> None:
        """Follow a script; when it ends, everybody lives."""
        self._fates = fates

    def before(self) -> Fate:
        """Draw the fate of the next write; dies here if it says so."""
        fate: Fate = next(self._fates, "live")
        if fate == "die before":
            raise Crash
        return fate
