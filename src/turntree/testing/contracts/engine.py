"""The contract of engines, as tests that any implementation can run.

Inherit from the class in a test module and give it a fixture ``engine`` that is not serving yet.
The tests are coroutines: mark the module for AnyIO.

    class TestMyEngine(EngineContract): ...

This module knows the interface. It must never know an implementation or a test runner.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from turntree.core.ids import SessionId, Timestamp, uuid7
from turntree.runs.engine import Engine

ONE: Final = SessionId(uuid7(1, 1))
TWO: Final = SessionId(uuid7(1, 2))
PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.02
MOMENT_S: Final = 0.5
"""Long enough for a forbidden event to occur, if it does."""
FEW: Final = 2
FOREVER: Final = Timestamp("9999-01-01T00:00:00.000Z")


class InjectedFailure(Exception):
    """An unexpected error."""


@dataclass(slots=True)
class EngineHarness:
    """Records which sessions were handled, and misbehaves on request."""

    seen: list[SessionId] = field(default_factory=list[SessionId])
    canceled: list[SessionId] = field(default_factory=list[SessionId])
    mishaps: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: int = 0
    at_once_max: int = 0

    async def handle(self, session: SessionId) -> None:
        """Handle a session: record it, fail if failures are left, and wait at the gate."""
        self.seen.append(session)
        if self.mishaps:
            self.mishaps -= 1
            raise InjectedFailure
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.canceled.append(session)
            raise
        finally:
            self.at_once -= 1

    async def wait_for(self, count: int) -> None:
        """Wait until a number of sessions were handled, or at least started."""

        async def are_seen() -> bool:
            return len(self.seen) >= count

        await until(are_seen)


def open_desk(*, mishaps: int = 0) -> EngineHarness:
    """Return a harness whose gate is open: no session waits."""
    desk = EngineHarness(mishaps=mishaps)
    desk.gate.set()
    return desk


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - No event to wait for, so poll.
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def serving(
    engine: Engine, desk: EngineHarness, worker: str = "w1", *, at_once: int = 10
) -> AsyncGenerator["asyncio.Task[None]", None]:
    """Serve for a while."""
    ready = asyncio.Event()
    task = asyncio.create_task(engine.serve(worker, desk.handle, at_once=at_once, ready=ready.set))
    try:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            task.result()
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def wake(
    engine: Engine, session: SessionId, number: int = 1, *, delay_s: float = 0.0
) -> None:
    """Wake a session in a transaction of its own."""
    async with engine.transaction() as transaction:
        await transaction.wake(session, number, delay_s=delay_s)


async def until_idle(engine: Engine, *wakes: tuple[SessionId, int]) -> None:
    """Wait until all wake-ups are handled."""

    async def are_over() -> bool:
        return not await engine.list_live(wakes)

    await until(are_over)


class EngineContract:
    """The promises of an ``Engine``."""

    async def test_what_was_committed_is_handled(self, engine: Engine) -> None:
        desk = open_desk()
        await wake(engine, ONE)
        async with serving(engine, desk):
            await wake(engine, TWO)
            await desk.wait_for(2)
        assert sorted(desk.seen) == [ONE, TWO]

    async def test_what_was_undone_is_handled_by_nobody(self, engine: Engine) -> None:
        desk = open_desk()
        with suppress(InjectedFailure):
            async with engine.transaction() as transaction:
                await transaction.wake(ONE, 1)
                raise InjectedFailure
        async with serving(engine, desk):
            await wake(engine, TWO)
            await desk.wait_for(1)
            await asyncio.sleep(MOMENT_S)
        assert desk.seen == [TWO]

    async def test_a_number_counts_once(self, engine: Engine) -> None:
        desk = open_desk()
        await wake(engine, ONE)
        await wake(engine, ONE)
        async with serving(engine, desk):
            await until_idle(engine, (ONE, 1))
            await wake(engine, ONE)
            await wake(engine, ONE, 2)
            await desk.wait_for(2)
            await asyncio.sleep(MOMENT_S)
        assert desk.seen == [ONE, ONE]

    async def test_what_failed_is_handled_again(self, engine: Engine) -> None:
        desk = open_desk(mishaps=2)
        async with serving(engine, desk):
            await wake(engine, ONE)
            await desk.wait_for(3)
            await until_idle(engine, (ONE, 1))
        assert desk.seen == [ONE] * 3

    async def test_a_wake_up_may_be_for_later(self, engine: Engine) -> None:
        desk = open_desk()
        async with serving(engine, desk):
            await wake(engine, ONE, delay_s=0.5)
            await wake(engine, TWO)
            await desk.wait_for(2)
        assert desk.seen == [TWO, ONE]

    async def test_no_more_than_so_many_are_handled_at_once(self, engine: Engine) -> None:
        desk = EngineHarness()
        async with serving(engine, desk, at_once=FEW):
            for number in range(4):
                await wake(engine, ONE, number)
            await desk.wait_for(2)
            await asyncio.sleep(MOMENT_S)
            assert desk.at_once == FEW
            desk.gate.set()
            await desk.wait_for(4)
        assert desk.at_once_max == FEW

    async def test_what_is_cut_short_is_handled_by_the_next(self, engine: Engine) -> None:
        slow, quick = EngineHarness(), open_desk()
        await wake(engine, ONE)
        async with serving(engine, slow):
            await slow.wait_for(1)
        assert slow.canceled == [ONE]
        async with serving(engine, quick, "w2"):
            await quick.wait_for(1)
            await until_idle(engine, (ONE, 1))

    async def test_whoever_takes_no_more_finishes_what_it_took(self, engine: Engine) -> None:
        slow, quick = EngineHarness(), open_desk()
        await wake(engine, ONE)
        async with serving(engine, slow):
            await slow.wait_for(1)
            stopping = asyncio.create_task(engine.stop_taking())
            await asyncio.sleep(MOMENT_S)
            await wake(engine, TWO)
            await asyncio.sleep(MOMENT_S)
            assert not stopping.done()
            slow.gate.set()
            await stopping
        assert (slow.seen, slow.canceled) == ([ONE], [])
        assert await engine.list_live([(ONE, 1), (TWO, 1)]) == {(TWO, 1)}
        async with serving(engine, quick, "w2"):
            await quick.wait_for(1)
        assert quick.seen == [TWO]

    async def test_what_a_dead_worker_took_is_given_back(self, engine: Engine) -> None:
        desk = EngineHarness()
        await wake(engine, ONE)
        async with serving(engine, desk):
            await desk.wait_for(1)
            assert await engine.recover(["somebody"]) == 0
            assert await engine.recover(["w1"]) == 1
            await desk.wait_for(2)
            desk.gate.set()
            await until_idle(engine, (ONE, 1))
        assert desk.seen == [ONE, ONE]

    async def test_live_is_what_waits_or_is_being_handled(self, engine: Engine) -> None:
        desk = EngineHarness()
        await wake(engine, ONE)
        asked = [(ONE, 1), (TWO, 1), (ONE, 2)]
        assert await engine.list_live(asked) == {(ONE, 1)}
        async with serving(engine, desk):
            await desk.wait_for(1)
            assert await engine.list_live(asked) == {(ONE, 1)}
            desk.gate.set()
            await until_idle(engine, *asked)
        assert await engine.list_live([]) == set()

    async def test_what_is_over_can_be_forgotten(self, engine: Engine) -> None:
        desk = open_desk()
        async with serving(engine, desk):
            for number in range(FEW):
                await wake(engine, ONE, number)
            await desk.wait_for(FEW)
            await until_idle(engine, *((ONE, number) for number in range(FEW)))
        await wake(engine, TWO)
        assert await engine.prune(before=Timestamp("2000-01-01T00:00:00.000Z")) == 0
        assert await engine.prune(before=FOREVER) == FEW
        assert await engine.prune(before=FOREVER) == 0
        assert await engine.list_live([(TWO, 1)]) == {(TWO, 1)}
