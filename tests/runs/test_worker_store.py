"""Workers: a name held by a lock, silence, and sessions that nobody looks after."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import anyio
import psycopg
import pytest

from turntree.api import Tree
from turntree.core.errors import Conflict, DatabaseUnavailable
from turntree.core.event import Event
from turntree.core.ids import RunId, SessionId
from turntree.core.message import user
from turntree.core.run import RunEvent
from turntree.db.database import Database
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox import ResumeRun, StartRun
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkerStore
from turntree.testing.contracts.engine import until
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

LONG_S = 60.0
"""A silence that does not come about in a test."""


@dataclass(frozen=True)
class House:
    """Workers of one database, and a session they work for."""

    workers: WorkerStore
    inbox: InboxStore
    engine: InlineEngine
    world: FakeClock
    session: SessionId
    conninfo: str

    async def begin(self, worker: str, text: str = "hello") -> RunId:
        """Have a worker begin a run."""
        await self.inbox.post(self.session, user(text), by="human:ana", at=self.world.now())
        found = await self.inbox.next_work(self.session, worker=worker)
        assert isinstance(found, StartRun)
        run = found.messages[0].run
        first = RunEvent.of(Event(run, 0, "run.started", self.world.now(), {}), user(text))
        seqs = [one.seq for one in found.messages]
        await self.inbox.begin(run, self.session, [first], seqs, worker=worker)
        return run

    async def park(self, run: RunId) -> None:
        """Park a run."""
        parked = Event(run, 1, "run.parked", self.world.now(), {"reason": "approval"})
        await self.inbox.append_facts([RunEvent(parked)], epoch=1)

    def another_life(self) -> WorkerStore:
        """Return the workers of an engine that has forgotten every wake-up."""
        database = self.workers.database
        return WorkerStore(database, InlineEngine(database.lend))

    def execute(self, statement: str, *params: object) -> list[tuple[object, ...]]:
        """Do something to the database that no adapter would."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), params)
            return [] if cursor.description is None else cursor.fetchall()


@pytest.fixture
async def house(
    tree: Tree, database: Database, world: FakeClock, conninfo: str
) -> AsyncGenerator[House, None]:
    """One session and nobody who works for it."""
    session = await tree.sessions.create("main")
    engine = InlineEngine(database.lend)
    workers = WorkerStore(database, engine)
    inbox = InboxStore(database, engine)
    yield House(workers, inbox, engine, world, session.id, conninfo)
    for name in await workers.list_workers():
        await workers.leave(name)


async def test_a_name_is_held_by_one(house: House) -> None:
    await house.workers.lease("w1")
    other = WorkerStore(house.workers.database, house.engine)
    with pytest.raises(Conflict, match="w1"):
        await other.lease("w1")
    await house.workers.leave("w1")
    await other.lease("w1")
    await other.leave("w1")


async def test_the_name_is_held_before_the_first_beat(house: House) -> None:
    await house.workers.lease("w1")
    assert await house.workers.list_workers() == ["w1"]
    assert await house.workers.list_dead(silent_s=LONG_S) == []


async def test_worker_that_lost_its_connection_counts_as_dead(house: House) -> None:
    await house.workers.lease("w1")
    await house.workers.lease("w2")
    cut_off(house, "w1")
    assert await house.workers.list_dead(silent_s=LONG_S) == ["w1"]
    assert await house.workers.list_workers() == ["w2"]
    await house.workers.bury(["w1"])
    assert await house.workers.list_dead(silent_s=LONG_S) == []


async def test_worker_that_lost_its_connection_returns_with_later_heartbeat(house: House) -> None:
    await house.workers.lease("w1")
    cut_off(house, "w1")
    with pytest.raises(DatabaseUnavailable):
        await house.workers.beat("w1")
    await house.workers.beat("w1")
    assert await house.workers.list_workers() == ["w1"]


async def test_worker_leaving_during_heartbeat_releases_its_name(house: House) -> None:
    await house.workers.lease("w1")
    with anyio.move_on_after(0.0002):
        await house.workers.beat("w1")
    await house.workers.leave("w1")

    async def is_free() -> bool:
        try:
            await house.workers.lease("w1")
        except Conflict:
            return False
        return True

    await until(is_free)


async def test_silent_worker_counts_as_dead_despite_its_lock(house: House) -> None:
    await house.workers.lease("w1")
    house.execute("UPDATE turntree.workers SET heartbeat_at = heartbeat_at - interval '1 minute'")
    assert await house.workers.list_dead(silent_s=10) == ["w1"]
    await house.workers.beat("w1")
    assert await house.workers.list_dead(silent_s=10) == []


async def test_worker_declared_dead_is_recognized_when_it_returns(house: House) -> None:
    await house.workers.lease("w1")
    await house.workers.bury(["w1"])
    await house.workers.beat("w1")
    assert await house.workers.list_workers() == ["w1"]


async def test_a_worker_hears_of_its_own_canceled_runs(house: House) -> None:
    await house.workers.lease("w1")
    await house.workers.lease("w2")
    run = await house.begin("w1")
    assert await house.workers.beat("w1") == []
    await house.inbox.cancel(house.session, by="human:ana", at=house.world.now())
    assert await house.workers.beat("w1") == [run]
    assert await house.workers.beat("w2") == []


async def test_the_session_of_a_dead_worker_is_woken_up_once(house: House) -> None:
    await house.workers.lease("w1")
    await house.begin("w1")
    assert await house.workers.wake_stuck(silent_s=LONG_S) == 0
    await house.workers.leave("w1")
    later = house.another_life()
    assert await later.wake_stuck(silent_s=LONG_S) == 1
    assert await later.wake_stuck(silent_s=LONG_S) == 0
    assert await later.engine.list_live([(house.session, 2)]) == {(house.session, 2)}


async def test_the_session_of_a_hung_worker_goes_to_another(house: House) -> None:
    await house.workers.lease("w1")
    await house.workers.lease("w2")
    run = await house.begin("w1")
    house.execute(
        "UPDATE turntree.workers SET heartbeat_at = heartbeat_at - interval '1 minute'"
        " WHERE name = 'w1'"
    )
    await house.workers.beat("w2")
    assert await house.another_life().wake_stuck(silent_s=10) == 1
    taken = await house.inbox.next_work(house.session, worker="w2")
    assert taken == ResumeRun(run, 2, is_canceled=False)
    late = RunEvent(Event(run, 1, "model_call.started", house.world.now(), {}))
    with pytest.raises(Conflict, match="taken over"):
        await house.inbox.append_facts([late], epoch=1)


async def test_a_session_that_is_awake_without_a_wake_up_is_found(house: House) -> None:
    later = house.another_life()
    await later.lease("w1")
    await house.begin("w1")
    assert await later.wake_stuck(silent_s=LONG_S) == 0, "it has not been awake for long"
    house.execute(
        "UPDATE turntree.session_queues SET awake_since = awake_since - interval '1 minute'"
    )
    assert await house.workers.wake_stuck(silent_s=10) == 0, "somebody who lives looks after it"
    assert await later.wake_stuck(silent_s=10) == 1
    await later.leave("w1")
    assert await later.engine.list_live([(house.session, 2)]) == {(house.session, 2)}


async def test_a_session_whose_wake_up_is_under_way_is_left_alone(house: House) -> None:
    await house.inbox.post(house.session, user("hi"), by="human:ana", at=house.world.now())
    house.execute(
        "UPDATE turntree.session_queues SET awake_since = awake_since - interval '1 minute'"
    )
    assert await house.workers.wake_stuck(silent_s=10) == 0
    assert await house.another_life().wake_stuck(silent_s=10) == 1


async def test_unclaimed_session_is_found_before_worker_counts_as_dead(house: House) -> None:
    later = house.another_life()
    await house.inbox.post(house.session, user("hi"), by="human:ana", at=house.world.now())
    assert await later.wake_stuck(silent_s=LONG_S) == 0
    assert await later.wake_stuck(silent_s=LONG_S, idle_s=0.0) == 1
    await later.lease("w1")
    await later.lease("w2")
    await house.begin("w1")
    assert await later.wake_stuck(silent_s=LONG_S, idle_s=0.0) == 0, "it is in somebody's hands"
    for name in ("w1", "w2"):
        await later.leave(name)


async def test_sweepers_do_not_read_parked_runs(house: House) -> None:
    await house.workers.lease("w1")
    run = await house.begin("w1")
    await house.park(run)
    await house.inbox.next_work(house.session, worker="w1")
    await house.workers.leave("w1")
    house.execute(
        "UPDATE turntree.session_queues SET awake_since = awake_since - interval '1 minute'"
    )
    assert await house.workers.wake_stuck(silent_s=1) == 0
    (found,) = await house.workers.list_open()
    assert (found.run, found.status, found.parked_reason) == (run, "parked", "approval")


async def test_open_runs_can_be_listed_by_session(house: House) -> None:
    run = await house.begin("w1")
    (found,) = await house.workers.list_open(house.session)
    assert (found.run, found.session, found.status, found.worker) == (
        run,
        house.session,
        "open",
        "w1",
    )
    assert await house.workers.list_open(SessionId(run)) == []


def cut_off(house: House, worker: str) -> None:
    """End the connection that holds a name, as a crash would, and wait until the server knows."""
    house.execute(
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l, turntree.workers w"
        " WHERE w.name = %s AND l.locktype = 'advisory' AND l.objid::bigint ="
        " turntree.worker_lock_key(w.workspace_id, w.name) & 4294967295",
        worker,
    )
