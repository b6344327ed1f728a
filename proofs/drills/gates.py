"""Every order in which two writers' statements can reach the server.

Each writer stops at a gate before every statement and every commit. One of those that stand at a
gate is let through, everybody is given time to come to rest (at the next gate, at the end, or
waiting for the other's lock, which the server is asked about), and then the next is chosen.
Choices are made in every possible way, the last one being varied first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from turntree.core.errors import TurntreeError
from turntree.db.database import Database

EVERY_STOP = frozenset(
    {
        "append_turn",
        "create_session",
        "insert_session",
        "find_session",
        "lock_session",
        "merge_sessions",
        "move_session",
        "name_session",
        "set_tag",
        "commit",
    }
)
"""Before what a writer stops: every write, every commit, and the look at where a session stands."""
REST_TIMEOUT_S = 20.0
POLL_S = 0.0005
WAITING = Path(__file__).with_name("waiting.sql").read_bytes()

Work = Callable[[Database], Awaitable[object]]


@dataclass(slots=True)
class Gate:
    """Where one writer waits to be let through. A hook of its connection."""

    stops: frozenset[str] = EVERY_STOP
    at: str | None = None
    passage: asyncio.Event = field(default_factory=asyncio.Event)

    async def before(self, statement: str) -> None:
        """Stand at the gate until somebody opens it."""
        if statement in self.stops:
            self.at = statement
            await self.passage.wait()
            self.passage.clear()

    async def after(self, statement: str) -> None:
        """Go on."""

    def open(self) -> str:
        """Let the writer through and return what it is about to do."""
        assert self.at is not None, "somebody stands here"
        passed, self.at = self.at, None
        self.passage.set()
        return passed


@dataclass(frozen=True, slots=True)
class Writer:
    """A connection with its gate."""

    database: Database
    pid: int
    gate: Gate


@dataclass(frozen=True, slots=True)
class Ran:
    """One order that was tried: what each writer got, and the order itself."""

    outcomes: tuple[object, ...]
    """What each writer returned, or the error it met."""
    order: str


@dataclass(slots=True)
class Orders:
    """Tries all orders of one pair of writers."""

    writers: Sequence[Writer]
    server: psycopg.AsyncConnection[Any]
    """Asked which backend waits for a lock."""
    ahead: list[int] = field(default_factory=list[int])
    taken: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Which of how many was chosen, at each choice."""

    async def run(self, works: Sequence[Work]) -> Ran:
        """Run the pair once, in the next order that was not tried."""
        self.taken = []
        order: list[str] = []
        tasks = [
            asyncio.ensure_future(work(writer.database))
            for work, writer in zip(works, self.writers, strict=True)
        ]
        try:
            while ready := await self._rest(tasks):
                place = len(self.taken)
                chosen = self.ahead[place] if place < len(self.ahead) else 0
                self.taken.append((chosen, len(ready)))
                number = ready[chosen]
                order.append(f"{'AB'[number]}:{self.writers[number].gate.open()}")
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, TurntreeError):
                raise outcome
        return Ran(tuple(outcomes), " ".join(order))

    def advance(self) -> bool:
        """Choose the next order; False if all were tried."""
        while self.taken and self.taken[-1][0] + 1 == self.taken[-1][1]:
            self.taken.pop()
        if not self.taken:
            return False
        chosen, _ = self.taken.pop()
        self.ahead = [*(earlier for earlier, _ in self.taken), chosen + 1]
        return True

    async def _rest(self, tasks: Sequence[asyncio.Future[object]]) -> list[int]:
        """Wait until everybody rests; return those who stand at a gate."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REST_TIMEOUT_S
        while True:
            alive = [number for number, task in enumerate(tasks) if not task.done()]
            ready = [number for number in alive if self.writers[number].gate.at is not None]
            waiting = [
                number for number in alive if number not in ready and await self._waits(number)
            ]
            # If all wait, the server will find the deadlock and end one of them.
            if len(ready) + len(waiting) == len(alive) and (ready or not alive):
                return ready
            if loop.time() > deadline:
                raise TimeoutError(f"no writer came to rest: {ready} ready, {waiting} waiting")
            await asyncio.sleep(POLL_S)

    async def _waits(self, number: int) -> bool:
        cursor = await self.server.execute(WAITING, {"pid": self.writers[number].pid})
        row = await cursor.fetchone()
        return row is not None and bool(row[0])
