"""A worker is killed in the middle of a run, or stops in it, and another goes on."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.core.ids import SessionId, WorkspaceId
from turntree.core.message import user
from turntree.db.database import Database, sqlalchemy_url
from turntree.runs.engine import Wake
from turntree.runs.engines.dbos import DbosEngine, open_dbos
from turntree.runs.inbox import Idle, ResumeRun, Work
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkerStore
from turntree.testing.contracts.engine import PATIENCE_S, until
from turntree.testing.fakes import FakeClock

pytest.importorskip("dbos")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("lone_worker.py")
LONG_S = 60.0


@dataclass(frozen=True)
class Scene:
    """A session with a message in it, and those who may answer."""

    engine: DbosEngine
    inbox: InboxStore
    workers: WorkerStore
    database: Database
    session: SessionId

    @asynccontextmanager
    async def other_process(self, name: str) -> AsyncGenerator[Process, None]:
        """Run a worker elsewhere until it holds a run; it is killed at the latest at the end."""
        place = self.database.conninfo, str(self.database.workspace), name
        process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, *place, stdout=PIPE)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await process.stdout.readline() == b"ready\n"
                assert await process.stdout.readline() == b"holding\n"
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    @asynccontextmanager
    async def served_here(self, found: list[Work]) -> AsyncGenerator[None, None]:
        """Serve in this process and note what there is to do."""

        async def handle(session: SessionId) -> None:
            found.append(await self.inbox.next_work(session, worker="w2"))

        await self.workers.lease("w2")
        ready = asyncio.Event()
        serving = asyncio.create_task(self.engine.serve("w2", handle, at_once=4, ready=ready.set))
        await ready.wait()
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await self.workers.leave("w2")


@pytest.fixture
async def scene(tree: Tree, database: Database, world: FakeClock) -> AsyncGenerator[Scene, None]:
    """A message that waits."""
    session = (await tree.sessions.create("main")).id
    workspace = WorkspaceId(str(database.workspace))
    async with open_dbos(sqlalchemy_url(database.conninfo), workspace) as engine:
        inbox = InboxStore(database, engine)
        await inbox.post(session, user("hello"), by="human:ana", at=world.now())
        yield Scene(engine, inbox, WorkerStore(database, engine), database, session)


async def test_killed_workers_sessions_are_taken_over(scene: Scene) -> None:
    found: list[Work] = []
    async with scene.other_process("w1") as process:
        (held,) = await scene.workers.list_open()
        assert held.worker == "w1"
        async with scene.served_here(found):
            assert await scene.workers.list_dead(silent_s=LONG_S) == []
            process.send_signal(signal.SIGKILL)
            await process.wait()

            async def is_known() -> bool:
                return await scene.workers.list_dead(silent_s=LONG_S) == ["w1"]

            await until(is_known)
            assert await scene.engine.recover(["w1"]) == 1
            assert await scene.workers.wake_stuck(silent_s=LONG_S) == 0, "nothing is woken twice"
            await scene.workers.bury(["w1"])
            await until_found(found, 1)
    assert found == [ResumeRun(held.run, 2, is_canceled=False)]


async def test_what_another_has_taken_since_is_not_woken_again(scene: Scene) -> None:
    found: list[Work] = []

    class Late(DbosEngine):
        """Looks for wake-ups only when those that it gave back were handled."""

        async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
            await until_found(found, 1)
            await until(lambda: is_over(wakes))
            return await super().list_live(wakes)

    async def is_over(wakes: Sequence[Wake]) -> bool:
        return not await scene.engine.list_live(wakes)

    late = Late(scene.engine.url, scene.engine.workspace)
    async with scene.other_process("w1") as process, scene.served_here(found):
        process.kill()
        await process.wait()
        workers = WorkerStore(scene.database, late)
        assert await workers.wake_stuck(silent_s=LONG_S) == 0
    await late.close()


async def test_hung_worker_is_detected_by_missing_heartbeat(scene: Scene) -> None:
    found: list[Work] = []
    async with scene.other_process("w1") as process:
        process.send_signal(signal.SIGSTOP)
        async with scene.served_here(found):
            assert await scene.workers.list_dead(silent_s=LONG_S) == []

            async def is_taken_over() -> bool:
                # What whoever lives does once a second.
                await scene.workers.beat("w2")
                dead = await scene.workers.list_dead(silent_s=1.0)
                await scene.engine.recover(dead)
                await scene.workers.wake_stuck(silent_s=1.0)
                return any(isinstance(one, ResumeRun) for one in found)

            await until(is_taken_over)
    assert set(map(type, found)) <= {ResumeRun, Idle}
    assert sum(isinstance(one, ResumeRun) for one in found) == 1


async def until_found(found: list[Work], count: int) -> None:
    """Wait until there was so much to do."""

    async def are_found() -> bool:
        return len(found) >= count

    await until(are_found)
