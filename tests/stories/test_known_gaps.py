"""What an actor on a queue gets wrong if nobody thinks of it: each gap, and what closes it.

Every gap has a control that leaves the remedy out and shows it: here or, where the remedy is a lock
or a fence, in ``test_known_races``.
"""

from collections.abc import Callable, Coroutine
from dataclasses import replace

import anyio
import pytest

from tests.workshop import Workshop
from turntree.core.errors import NotFound
from turntree.core.ids import RunId
from turntree.core.message import ToolUse, user
from turntree.runs.model_call import PromptInput
from turntree.runs.session_loop import SessionLoop
from turntree.testing.fakes import Crash
from turntree.testing.scripted.provider import PlainRequest

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SOON_S = 30.0
NEVER_S = 1.0
"""So long one looks whether something happens that must not."""


async def post(shop: Workshop, text: str) -> RunId:
    posted = await shop.inbox.post(
        shop.session, user(text), by="human:ana", at=shop.world.now(), options={}
    )
    return posted.run


async def is_sealed(shop: Workshop, run: RunId) -> bool:
    try:
        await shop.turn(run)
    except NotFound:
        return False
    return True


def stumbling(shop: Workshop) -> SessionLoop:
    """Return an actor with a mistake in it."""

    async def stumble(question: PromptInput) -> PlainRequest:
        raise ZeroDivisionError(question.run.id)

    actor = shop.actor()
    actor.runner = replace(actor.runner, assemble=stumble)
    return actor


class TestAnErrorInTheMiddle:
    """An exception while a session is pumped must not leave it awake with nobody."""

    async def test_ends_the_run_and_lets_the_session_sleep(self, shop: Workshop) -> None:
        run = await post(shop, "hello")
        await stumbling(shop).handle(shop.session)
        assert (await shop.turn(run)).turn.header.outcome == "failed"
        assert await shop.workers.wake_stuck(silent_s=0.0) == 0

    async def test_would_otherwise_leave_it_awake(self, shop: Workshop) -> None:
        run = await post(shop, "hello")
        with pytest.raises(ZeroDivisionError):
            await stumbling(shop).pump(shop.session)
        assert not await is_sealed(shop, run)
        # Nothing is due for it, and it is awake: the next message would not wake it up either.
        due = set(shop.engine._due)
        await post(shop, "are you there?")
        assert set(shop.engine._due) == due

    async def test_is_found_by_the_reaper_if_all_else_fails(self, shop: Workshop) -> None:
        run = await post(shop, "hello")
        with pytest.raises(ZeroDivisionError):
            await stumbling(shop).pump(shop.session)
        shop.engine._due.clear()
        async with shop.worker("w2").running():
            placed = await shop.runs().wait(run, timeout_s=SOON_S)
        assert placed.turn.header.outcome == "completed"


class TestTheLease:
    """A worker that takes something before it is known to live could die unnoticed."""

    async def test_is_taken_before_the_first_wake_up(self, shop: Workshop) -> None:
        assert await self.known_when_served(shop, shop.worker("w1").running()) == [["w1"]]

    async def test_would_otherwise_come_too_late(self, shop: Workshop) -> None:
        @anyio_running
        async def hasty(ready: Callable[[], None]) -> None:
            await shop.engine.serve("w1", shop.actor("w1").handle, at_once=1, ready=ready)

        assert await self.known_when_served(shop, hasty()) == [[]]

    async def known_when_served(self, shop: Workshop, serving: object) -> list[list[str]]:
        known: list[list[str]] = []

        async def look(piece: str) -> None:
            del piece
            if not known:
                known.append(await shop.workers.list_workers())

        shop.provider.before_piece = look
        run = await post(shop, "hello")
        async with serving:  # type: ignore[attr-defined]
            await shop.runs().wait(run, timeout_s=SOON_S)
        return known


class _Running:
    """A loop in the background, ended with the block."""

    def __init__(self, loop: Callable[[Callable[[], None]], Coroutine[None, None, None]]) -> None:
        self._loop = loop

    async def __aenter__(self) -> None:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        ready = anyio.Event()
        self._group.start_soon(self._loop, ready.set)
        await ready.wait()

    async def __aexit__(self, *error: object) -> None:
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)


def anyio_running(
    loop: Callable[[Callable[[], None]], Coroutine[None, None, None]],
) -> Callable[[], _Running]:
    """Make a context manager of a loop that says when it is ready."""
    return lambda: _Running(loop)


class TestAToolInACrash:
    """A tool that was called and whose process died may have done its work, or not."""

    async def test_is_not_called_twice_unless_it_may_be(self, shop: Workshop) -> None:
        calls = await self.crash_after_the_deed(shop, "risk")
        assert calls == ["call-0-0"]

    async def test_is_known_by_its_intent(self, shop: Workshop) -> None:
        await self.crash_after_the_deed(shop, "risk")
        (run,) = {run for run, _ in shop.tools.made}
        kinds = await shop.kinds(run)
        assert (
            kinds.index("tool_call.started")
            < kinds.index("run.interrupted")
            < kinds.index("tool_call.finished")
        )

    async def test_would_otherwise_be_called_again(self, shop: Workshop) -> None:
        # A tool that vouches for itself has no such protection, and needs none.
        assert await self.crash_after_the_deed(shop, "tool") == ["call-0-0", "call-0-0"]

    async def crash_after_the_deed(self, shop: Workshop, word: str) -> list[str]:
        async def die(use: ToolUse, occasion: object) -> None:
            del use, occasion
            raise Crash

        async def live(use: ToolUse, occasion: object) -> None:
            del use, occasion

        shop.tools.after = die
        await post(shop, word)
        with pytest.raises(Crash):
            await shop.actor("w1").handle(shop.session)
        shop.tools.after = live
        await shop.actor("w2").handle(shop.session)
        return [call for _, call in shop.tools.made]


class TestToolsAtOnce:
    """Calls of one answer are made at once, and each result is kept as soon as it is there."""

    async def test_keep_what_is_done_when_the_other_dies(self, shop: Workshop) -> None:
        done = anyio.Event()

        async def second_dies(use: ToolUse) -> None:
            if use.call_id.endswith("-1"):
                await done.wait()
                raise Crash

        async def told(use: ToolUse, occasion: object) -> None:
            del use, occasion
            done.set()

        shop.tools.before, shop.tools.after = second_dies, told
        run = await post(shop, "tools")
        with pytest.raises(Crash):
            await shop.actor("w1").handle(shop.session)
        shop.tools.before = nothing
        await shop.actor("w2").handle(shop.session)
        assert (await shop.turn(run)).turn.header.outcome == "completed"
        assert [call for _, call in shop.tools.made].count("call-0-1") == 1


async def nothing(use: ToolUse) -> None:
    del use


class TestMessagesThatBelongTogether:
    """Whoever types three lines in a row may want one answer."""

    async def test_are_folded_if_asked_for(self, shop: Workshop) -> None:
        assert await self.turns(shop, fold=True) == [["one", "two", "three"]]

    async def test_are_answered_one_by_one_otherwise(self, shop: Workshop) -> None:
        assert await self.turns(shop, fold=False) == [["one"], ["two"], ["three"]]

    async def turns(self, shop: Workshop, *, fold: bool) -> list[list[str]]:
        runs = shop.runs()
        posted = [await runs.post("main", text, fold=fold) for text in ("one", "two", "three")]
        await shop.actor().handle(shop.session)
        ids = dict.fromkeys(one.run for one in posted)
        return [[said.text for said in (await shop.turn(run)).turn.query] for run in ids]


class TestACancellation:
    """It must reach a stream in flight, not wait for the next fact."""

    async def test_reaches_a_stream_that_never_ends(self, shop: Workshop) -> None:
        assert await self.cancel(shop, beat_s=0.05)

    async def test_would_otherwise_wait_for_the_next_fact(self, shop: Workshop) -> None:
        assert not await self.cancel(shop, beat_s=60.0)

    async def cancel(self, shop: Workshop, *, beat_s: float) -> bool:
        begun = anyio.Event()

        async def hang(piece: str) -> None:
            del piece
            begun.set()
            await anyio.sleep_forever()

        shop.provider.before_piece = hang
        worker = shop.worker()
        worker.beat_s, worker.grace_s = beat_s, 0.05
        run = await post(shop, "hello")
        async with worker.running():
            with anyio.fail_after(SOON_S):
                await begun.wait()
            await shop.inbox.cancel(shop.session, by="human:ana", at=shop.world.now())
            with anyio.move_on_after(SOON_S if beat_s < 1 else NEVER_S):
                await shop.runs().wait(run)
            return await is_sealed(shop, run)


class TestAHungWorker:
    """One that hangs keeps its connection, and with it the lock that says it lives."""

    async def test_is_overtaken_when_it_falls_silent(self, shop: Workshop) -> None:
        assert await self.overtake(shop, silent_s=0.3)

    async def test_would_otherwise_hold_its_sessions_for_ever(self, shop: Workshop) -> None:
        assert not await self.overtake(shop, silent_s=600.0)

    async def overtake(self, shop: Workshop, *, silent_s: float) -> bool:
        run = await self.hang(shop)
        worker = shop.worker("w2")
        worker.silent_s = silent_s
        async with worker.running():
            with anyio.move_on_after(SOON_S if silent_s < 1 else NEVER_S):
                await shop.runs().wait(run)
            return await is_sealed(shop, run)

    async def hang(self, shop: Workshop) -> RunId:
        """Have a worker stop in the middle of a word, with its lease and without a beat."""
        begun = anyio.Event()

        async def stop(piece: str) -> None:
            del piece
            begun.set()
            await anyio.sleep_forever()

        async def go_on(piece: str) -> None:
            del piece

        run = await post(shop, "hello")
        await shop.workers.lease("w1")
        shop.provider.before_piece = stop
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as group:
                group.start_soon(shop.actor("w1").handle, shop.session)
                await begun.wait()
                group.cancel_scope.cancel()
        shop.provider.before_piece = go_on
        shop.engine._due.clear()
        return run


class TestTheOrder:
    """Messages are answered in the order in which they were taken in, whoever sends them."""

    async def test_is_that_of_the_inbox_under_its_lock(self, shop: Workshop) -> None:
        order: list[tuple[int, RunId]] = []

        async def send(number: int) -> None:
            posted = await shop.inbox.post(
                shop.session, user(f"word{number}"), by="human:ana", at=shop.world.now()
            )
            order.append((posted.seq, posted.run))

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(send, number)
        assert sorted(seq for seq, _ in order) == list(range(1, 9))
        await shop.actor().handle(shop.session)
        depths = [(await shop.turn(run)).depth for _, run in sorted(order)]
        assert depths == list(range(1, 9))


class TestASeat:
    """Two workers, one run: the epoch lets one of them write."""

    async def test_a_worker_that_was_only_slow_writes_nothing_more(self, shop: Workshop) -> None:
        begun, go = anyio.Event(), anyio.Event()

        async def wait(use: ToolUse) -> None:
            del use
            if not begun.is_set():
                begun.set()
                await go.wait()

        shop.tools.before = wait
        run = await post(shop, "tool")
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as group:
                group.start_soon(shop.actor("w1").handle, shop.session)
                await begun.wait()
                await shop.actor("w2").handle(shop.session)
                before = await shop.ids(run)
                go.set()
        assert await shop.ids(run) == before
