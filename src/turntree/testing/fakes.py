"""Deterministic clocks, and ledgers whose process crashes.

Two fake clocks with the same seed give the same times and ids in the same order, so two runs of one
scenario must end with the same digests, whatever crashed in between.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeVar

from turntree.core.event import SealedEvent
from turntree.core.ids import (
    RANDOM_BITS,
    Digest,
    RunId,
    SessionId,
    Timestamp,
    TurnId,
    instant,
    uuid7,
)
from turntree.core.run import RunEvent
from turntree.core.thread import SealResult
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.ledger.store import Build, Ledger

T = TypeVar("T")

START_MS = 1_790_000_000_000
_MASK = (1 << RANDOM_BITS) - 1

Fate = Literal["live", "die before", "die after"]


class FakeClock:
    """A clock that advances a second per call, with ids derived from a seed."""

    def __init__(self, seed: int = 0, *, tick_ms: int = 1000) -> None:
        """Start at a fixed time."""
        self._state = seed
        self._tick_ms = tick_ms
        self.ms = START_MS

    def now(self) -> Timestamp:
        """Return a time one second later than the last."""
        self.ms += self._tick_ms
        return instant(self.ms)

    def new_id(self) -> str:
        """Return the next id."""
        return uuid7(self.ms, self._draw())

    def nonce(self) -> str:
        """Return the next nonce."""
        return f"{self._draw():x}"

    def _draw(self) -> int:
        # A linear congruential generator is random enough where there is no attacker.
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _MASK
        return self._state


class Crash(BaseException):
    """The process died here. Not an Exception, so that no handler can survive it."""


class CrashPlan:
    """Decides at each write whether the process dies before it, after it, or not at all."""

    def __init__(self, fates: Iterable[Fate] = ()) -> None:
        """Follow a script; after its end, no process dies."""
        self._fates = iter(fates)
        self.writes = 0
        """Number of attempted writes."""

    async def write(self, act: Callable[[], Awaitable[T]]) -> T:
        """Execute a write and return its result, if the process survives.

        Raises:
            Crash: The script says so; the caller does not learn whether the write happened.
        """
        self.writes += 1
        fate = next(self._fates, "live")
        if fate == "die before":
            raise Crash
        result = await act()
        if fate == "die after":
            raise Crash
        return result


@value
class CrashingLedger(Ledger):
    """A ledger whose process dies around its writes; reading never crashes."""

    dying: CrashPlan

    async def seal(
        self,
        sealed: SealedTurn,
        parent: TurnId | None,
        *,
        by: str,
        at: Timestamp,
        session: SessionId | None = None,
        calls: Sequence[ModelCall] = (),
        journal: Sequence[SealedEvent] = (),
        epoch: int | None = None,
        key: str | None = None,
    ) -> SealResult:
        """Store a turn, or die."""
        return await self.dying.write(
            lambda: Ledger.seal(
                self,
                sealed,
                parent,
                by=by,
                at=at,
                session=session,
                calls=calls,
                journal=journal,
                epoch=epoch,
                key=key,
            )
        )

    async def seal_at_head(
        self,
        build: Build,
        session: SessionId,
        *,
        by: str,
        at: Timestamp,
        calls: Sequence[ModelCall] = (),
        key: str | None = None,
    ) -> tuple[SealResult, SealedTurn]:
        """Build and store a turn, or die."""
        return await self.dying.write(
            lambda: Ledger.seal_at_head(self, build, session, by=by, at=at, calls=calls, key=key)
        )

    async def start(self, run: RunId, session: SessionId | None, first: RunEvent) -> int:
        """Start a run, or die."""
        return await self.dying.write(lambda: Ledger.start(self, run, session, first))

    async def take(self, run: RunId) -> int:
        """Take a run over, or die."""
        return await self.dying.write(lambda: Ledger.take(self, run))

    async def append_fact(self, fact: RunEvent, *, epoch: int) -> bool:
        """Append an event to a run, or die."""
        return await self.dying.write(lambda: Ledger.append_fact(self, fact, epoch=epoch))

    async def append(self, recorded: SealedEvent) -> bool:
        """Append an event, or die."""
        return await self.dying.write(lambda: Ledger.append(self, recorded))

    async def put_object(self, data: bytes) -> Digest:
        """Store bytes, or die."""
        return await self.dying.write(lambda: Ledger.put_object(self, data))
