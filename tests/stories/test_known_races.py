"""Three races that an actor on a queue can lose: each with its remedy, and without it.

Every fault is provoked twice by the same lines. Where the remedy is taken out it is seen; that
shows that the test would notice if the product lost it.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import psycopg
import pytest

from tests.workshop import Workshop
from turntree.core.errors import Conflict, NotFound
from turntree.core.ids import RunId
from turntree.core.message import ToolUse, user
from turntree.core.run import RunEvent
from turntree.runs.attempt import Attempt
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox import QueuedMessage
from turntree.runs.inbox_store import InboxStore
from turntree.runs.session_loop import SessionLoop

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SOON_S = 20.0


def take_out(conninfo: str, function: str, remedy: str, instead: str = "") -> None:
    """Replace a function of the test's own database by one without its remedy."""
    with psycopg.connect(conninfo, autocommit=True) as owner:
        found = owner.execute("SELECT pg_get_functiondef(%s::regproc)", [function]).fetchone()
        assert found is not None
        definition: str = found[0]
        assert definition.count(remedy) > 0, "the remedy stands there"
        owner.execute(definition.replace(remedy, instead).encode())


async def is_sealed(shop: Workshop, run: RunId) -> bool:
    try:
        await shop.turn(run)
    except NotFound:
        return False
    return True


@dataclass(slots=True)
class Dawdling(InlineEngine):
    """Keeps its first transaction open until somebody else waits for it."""

    go: anyio.Event = field(default_factory=anyio.Event)
    begun: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Any, None]:
        """Begin a transaction; the first one is committed late."""
        is_first = not self.begun.is_set()
        async with InlineEngine.transaction(self) as transaction:
            yield transaction
            if is_first:
                self.begun.set()
                await self.go.wait()


class TestTwoWhoSendAtOnce:
    """A place in the inbox is given under the lock of the session's actor."""

    async def test_get_two_places(self, shop: Workshop, conninfo: str) -> None:
        assert await self.send_two(shop, conninfo) == [2, 3]

    async def test_would_otherwise_get_one(self, shop: Workshop, conninfo: str) -> None:
        take_out(conninfo, "turntree.lock_queue", "FOR NO KEY UPDATE")
        # The other message is refused, though nothing is wrong with it.
        assert await self.send_two(shop, conninfo) == [2]

    async def send_two(self, shop: Workshop, conninfo: str) -> list[int]:
        """Send a second message while the first is not committed; return the places they got."""
        # To begin an actor somebody has to wait anyhow, so it is there before.
        await shop.runs().post("main", "before")
        engine = Dawdling(shop.database.lend)
        inbox = InboxStore(shop.database, engine)
        places: list[int] = []

        async def send(text: str) -> None:
            try:
                posted: QueuedMessage = await inbox.post(
                    shop.session, user(text), by="human:ana", at=shop.world.now()
                )
            except Conflict:
                return
            places.append(posted.seq)

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as group:
                group.start_soon(send, "one")
                await engine.begun.wait()
                group.start_soon(send, "two")
                await somebody_waits(conninfo)
                engine.go.set()
        return sorted(places)


async def somebody_waits(conninfo: str) -> None:
    """Return when a statement waits for another's lock."""
    waiting = (
        "SELECT FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as owner:
        while await (await owner.execute(waiting)).fetchone() is None:  # noqa: ASYNC110
            await anyio.sleep(0.02)


class _NoLock:
    """Lets everybody in at once."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *error: object) -> None: ...


class Hasty(SessionLoop):
    """Records results of calls at once, as they come."""

    def _attempt(self, run: RunId, epoch: int, facts: Sequence[RunEvent]) -> Attempt:
        attempt = super()._attempt(run, epoch, facts)
        attempt.one_by_one = _NoLock()  # type: ignore[assignment]
        return attempt


class TestToolsThatEndTogether:
    """Results of calls that were made at once are recorded one after the other."""

    async def test_leave_both_results(self, shop: Workshop) -> None:
        assert await self.end_together(shop, shop.actor())

    async def test_would_otherwise_take_one_place(self, shop: Workshop) -> None:
        calm = shop.actor()
        hasty = Hasty(calm.worker, calm.inbox, calm.workers, calm.ledger, calm.runner, calm.moment)
        assert not await self.end_together(shop, hasty)

    async def end_together(self, shop: Workshop, actor: SessionLoop) -> bool:
        """Make two calls that end at the same moment; say whether the run came to its end."""
        begun: list[str] = []
        together = anyio.Event()

        async def meet(use: ToolUse) -> None:
            begun.append(use.call_id)
            if len(begun) == 2:
                together.set()
            await together.wait()

        shop.tools.before = meet
        posted = await shop.runs().post("main", "tools")
        with anyio.fail_after(SOON_S):
            await actor.handle(shop.session)
        return await is_sealed(shop, posted.run)


class TestAWorkerThatWasOvertaken:
    """Whoever takes a run over begins a new epoch, and the old one writes nothing more."""

    async def test_writes_nothing_more(self, shop: Workshop) -> None:
        before, after = await self.overtake(shop)
        assert after == before

    async def test_would_otherwise_go_on_beside_the_other(
        self, shop: Workshop, conninfo: str
    ) -> None:
        take_out(conninfo, "turntree.append_run_events", "r.epoch <> p_epoch", "false")
        before, after = await self.overtake(shop)
        assert after[: len(before)] == before
        assert after[len(before) :] == [
            "tool_call.finished",
            "model_call.started",
            "model_call.finished",
        ]

    async def overtake(self, shop: Workshop) -> tuple[list[str], list[str]]:
        """Let a slow worker go on while another has its run; return the facts before and after."""
        slow, other, go = anyio.Event(), anyio.Event(), anyio.Event()
        before, after = list[str](), list[str]()

        async def wait(use: ToolUse) -> None:
            del use
            if not slow.is_set():
                slow.set()
                await go.wait()
            else:
                other.set()
                await anyio.sleep_forever()

        shop.tools.before = wait
        run = (await shop.runs().post("main", "tool")).run
        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as overtaking:
                async with anyio.create_task_group() as group:
                    group.start_soon(shop.actor("w1").handle, shop.session)
                    await slow.wait()
                    overtaking.start_soon(shop.actor("w2").handle, shop.session)
                    await other.wait()
                    before = await shop.kinds(run)
                    go.set()
                after = await shop.kinds(run)
                overtaking.cancel_scope.cancel()
        return before, after
