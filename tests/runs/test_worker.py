"""Workers: they serve, notice who is gone, hear cancellations, and leave nothing behind."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.workshop import Workshop
from turntree.core.errors import Conflict
from turntree.core.ids import RunId
from turntree.core.message import ToolUse
from turntree.runs.service import Runs
from turntree.runs.worker import Worker

pytestmark = pytest.mark.anyio

SOON_S = 30.0


async def test_posted_messages_are_answered_in_order(shop: Workshop) -> None:
    runs = shop.runs()
    async with shop.worker().running():
        posted = [await runs.post("main", f"word{number} ") for number in range(3)]
        placed = [await runs.wait(one.run, timeout_s=SOON_S) for one in posted]
    assert [one.depth for one in placed] == [1, 2, 3]
    assert await shop.workers.list_workers() == []


async def test_message_sent_before_worker_started_is_answered(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "hello")
    async with shop.worker().running():
        await runs.wait(posted.run, timeout_s=SOON_S)


async def test_sessions_are_served_side_by_side(shop: Workshop) -> None:
    together = anyio.Event()
    begun: list[str] = []

    async def meet(use: ToolUse) -> None:
        begun.append(use.call_id)
        if len(begun) == 3:
            together.set()
        with anyio.fail_after(SOON_S):
            await together.wait()

    shop.tools.before = meet
    runs = shop.runs()
    async with shop.worker().running():
        posted = [await runs.post(f"session-{number}", "tool") for number in range(3)]
        for one in posted:
            placed = await runs.wait(one.run, timeout_s=SOON_S)
            assert placed.turn.header.outcome == "completed"


async def test_the_name_is_taken_before_anything_else_is(shop: Workshop) -> None:
    held: list[list[str]] = []

    class Watching(type(shop.engine)):  # type: ignore[misc]
        """Looks who is announced at the moment it is asked to serve."""

        async def serve(self, *args: object, **kwargs: object) -> None:
            held.append(await shop.workers.list_workers())
            await super().serve(*args, **kwargs)

    shop.engine = Watching(shop.database.lend)
    async with shop.worker("w1").running():
        pass
    assert held == [["w1"]]


async def test_a_run_that_ended_is_forgotten(shop: Workshop) -> None:
    runs = shop.runs()
    async with shop.worker().running():
        answered = [await runs.post(name, "hello") for name in ("main", "other")]
        for each in answered:
            await runs.wait(each.run, timeout_s=SOON_S)
    # A server answers for weeks, and a thread may be long.
    assert sorted(shop.forgotten) == sorted(each.run for each in answered)


async def test_a_worker_that_drains_finishes_what_it_has_begun(shop: Workshop) -> None:
    begun, go = anyio.Event(), anyio.Event()

    async def wait(piece: str) -> None:
        del piece
        begun.set()
        await go.wait()

    shop.provider.before_piece = wait
    runs, worker = shop.runs(), shop.worker()
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as group:
            group.start_soon(worker.serve)
            first = await runs.post("main", "hello")
            await begun.wait()
            worker.drain()
            await anyio.sleep(0.05)
            second = await runs.post("other", "hello")
            go.set()
    assert (await shop.turn(first.run)).turn.header.outcome == "completed"
    # What came after it was told to go is left to others.
    assert await runs.status(second.run) == "waiting"
    async with shop.worker("w2").running():
        await runs.wait(second.run, timeout_s=SOON_S)


async def test_what_a_worker_cannot_finish_in_time_is_handed_over(shop: Workshop) -> None:
    begun = anyio.Event()

    async def hang(piece: str) -> None:
        del piece
        if not begun.is_set():
            begun.set()
            await anyio.sleep_forever()

    shop.provider.before_piece = hang
    runs, leaving, staying = shop.runs(), shop.worker("w1"), shop.worker("w2")
    leaving.grace_s = 0.05
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as group:
            group.start_soon(leaving.serve)
            posted = await runs.post("main", "hello")
            await begun.wait()
            leaving.drain()
        async with staying.running():
            placed = await runs.wait(posted.run)
    assert placed.turn.header.outcome == "completed"
    assert await shop.kinds(posted.run) == [
        "run.started", "model_call.started", "model_call.finished", "run.finished",
    ]  # fmt: skip


async def test_another_process_cancels_by_the_next_beat(shop: Workshop) -> None:
    async with hanging(shop) as (runs, run):
        # This facet knows no actor of its own, as in another process.
        assert await runs.cancel("main") == run
        placed = await runs.wait(run, timeout_s=SOON_S)
    assert placed.turn.header.outcome == "canceled"


@asynccontextmanager
async def hanging(shop: Workshop) -> AsyncGenerator[tuple[Runs, RunId], None]:
    """A worker whose model has stopped in the middle of a word."""
    begun = anyio.Event()

    async def hang(piece: str) -> None:
        del piece
        begun.set()
        await anyio.sleep_forever()

    shop.provider.before_piece = hang
    runs = shop.runs()
    async with shop.worker().running():
        posted = await runs.post("main", "hello")
        with anyio.fail_after(SOON_S):
            await begun.wait()
        yield runs, posted.run


async def test_a_session_whose_worker_is_gone_is_taken_over(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "tool")
    await die_in_the_middle(shop, "gone")
    async with shop.worker("w2").running():
        placed = await runs.wait(posted.run, timeout_s=SOON_S)
    assert placed.turn.header.outcome == "completed"


async def die_in_the_middle(shop: Workshop, name: str) -> None:
    """Let a worker die in the middle of a tool, with its lease and all it had taken."""
    begun = anyio.Event()

    async def hang(use: ToolUse) -> None:
        del use
        begun.set()
        await anyio.sleep_forever()

    shop.tools.before = hang
    await shop.workers.lease(name)
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as group:
            group.start_soon(shop.actor(name).handle, shop.session)
            await begun.wait()
            group.cancel_scope.cancel()
    # The connection breaks and nobody says good-bye.
    await shop.workers._drop(name)

    async def work(use: ToolUse) -> None:
        del use

    shop.tools.before = work


async def test_worker_survives_any_error_in_a_run(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, worker = shop.runs(), shop.worker()
    # Counted, not timed: the longer it stumbles, the longer it waits before it tries again.
    stumbles = ["out of nowhere", "and again", "and once more"]
    pump = worker.actor.pump

    async def stumble(session: object) -> None:
        if stumbles:
            raise ZeroDivisionError(stumbles.pop())
        await pump(session)  # type: ignore[arg-type]

    monkeypatch.setattr(type(worker.actor), "pump", lambda _self, session: stumble(session))
    async with worker.running():
        posted = await runs.post("main", "hello")
        placed = await runs.wait(posted.run, timeout_s=SOON_S)
    assert placed.turn.header.outcome == "completed"


async def test_two_workers_cannot_have_one_name(shop: Workshop) -> None:
    async with shop.worker("w1").running():
        others = type(shop.workers)(shop.database, shop.engine)
        second = Worker(shop.engine, others, shop.actor("w1"), shop.world)
        with pytest.raises(Conflict, match="is already running"):
            async with second.running():
                pass
