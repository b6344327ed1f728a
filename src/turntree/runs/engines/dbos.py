"""Wake-ups by DBOS, in the same database as the ledger and in the same transactions.

DBOS serves one purpose: a durable queue of wake-ups. It stores no checkpoints and decides no order.
All workspaces of a database share one queue, in which each is a partition: polling costs the same
for one and for many, and a workspace with many wake-ups does not hold up the others. DBOS runs on
its own thread and event loop, because it writes to the database synchronously and would block
everything else on ours.

Only the documented API of DBOS is called. DBOS allows one worker name per process. This module must
never know SQL, or what is done for a session that was woken up.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import anyio

from turntree.core.errors import DatabaseUnavailable, InvalidOperation
from turntree.core.ids import SessionId, Timestamp, WorkspaceId
from turntree.core.value import value
from turntree.runs.engine import Handle, HandleAnywhere, Wake
from turntree.runs.engines.dbos_guard import require_portable_json
from turntree.runs.engines.dbos_queue import DbosQueue
from turntree.runs.engines.retry import handle_until_done

if TYPE_CHECKING:
    from dbos import DBOSClient, DBOSConfig
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

APPLICATION: Final = "turntree"
VERSION: Final = "wake-2"
"""The form of a wake-up. A worker claims only those of its own version, so change it together with
the arguments of the workflow."""
QUEUE: Final = "turntree.wake"
"""The queue of the database. Every process that serves claims from all of its partitions."""
SCHEMA: Final = "dbos"
WORKFLOW: Final = "turntree.wake"
POLL_S: Final = 0.08
"""Polling interval of DBOS: long enough that an idle worker costs little, short enough that a
sender does not notice the delay before the first event of a turn."""
SENDING_MAX: Final = 5
"""Connections with which an engine without an outbox sends."""
SERVING_MAX: Final = 3
"""Connections of the DBOS that serves: one that polls, and two that begin and end wake-ups."""
ROOM: Final = SERVING_MAX + 2
"""What a process that serves leaves to DBOS of its own connections: DBOS listens with one more, and
this engine looks with another one. Ten in all are what PostgreSQL can bear of each process."""
LOST_S: Final = 2.0
DRAIN_MAX_S: Final = 24 * 60 * 60
PRUNE_PAGE_MAX: Final = 1000
_BUILDING: Final = int.from_bytes(b"tt:dbos!", "big")
"""Advisory lock that serializes the creation of the DBOS tables."""
_LIVE: Final = ["ENQUEUED", "DELAYED", "PENDING"]
_OVER: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


@value
class _DbosTransaction:
    driver: object
    connection: "AsyncConnection"
    client: "DBOSClient"
    workspace: WorkspaceId

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Schedule a wake-up that takes effect on commit."""
        options: Any = {
            "workflow_name": WORKFLOW,
            "workflow_id": _name(self.workspace, (session, number)),
            "queue_name": QUEUE,
            "queue_partition_key": self.workspace,
            "app_version": VERSION,
        }
        if delay_s > 0:
            options["delay_seconds"] = delay_s

        def enqueue(connection: "Connection") -> None:
            self.client.enqueue_in_transaction(connection, options, self.workspace, session, number)

        await self.connection.run_sync(enqueue)


@value
class _LightTransaction:
    driver: object
    outbox: DbosQueue

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Schedule a wake-up that takes effect on commit."""
        await self.outbox.put(self.driver, session, number, delay_s)


_Place = tuple[WorkspaceId, SessionId]


@dataclass(slots=True)
class _Handlers:
    """The handlers that DBOS started in this process; they run on our event loop."""

    worker: str
    handle: HandleAnywhere
    loop: asyncio.AbstractEventLoop
    tasks: dict["asyncio.Task[None]", _Place] = field(
        default_factory=dict["asyncio.Task[None]", _Place]
    )
    ending: "asyncio.Task[None] | None" = None
    doubts: dict[str, tuple[_Place, float]] = field(default_factory=dict[str, tuple[_Place, float]])
    """Wake-ups that seem to be lost, each with its session and when it was first suspected."""

    async def take(self, workspace: WorkspaceId, session: SessionId, number: int) -> None:
        """Handle a session on our loop; called on the loop of DBOS.

        A cancellation is passed on. DBOS then records nothing, and the wake-up stays claimed.
        """
        work = asyncio.run_coroutine_threadsafe(self._work(workspace, session, number), self.loop)
        await asyncio.wrap_future(work)

    async def _work(self, workspace: WorkspaceId, session: SessionId, number: int) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        place = self.tasks[task] = (workspace, session)

        async def handle(session: SessionId) -> None:
            await self.handle(workspace, session, number)

        try:
            await handle_until_done(handle, session)
        finally:
            del self.tasks[task]
            # It may have started and ended between two looks. DBOS records the end only now.
            self.doubts = {name: one for name, one in self.doubts.items() if one[0] != place}

    def find_lost(self, workspace: WorkspaceId, taken: Mapping[str, SessionId]) -> list[str]:
        """Return wake-ups of a workspace that were claimed under our name and are not handled.

        DBOS may claim one and lose its connection before it starts the handler; only this process
        can tell. A wake-up that was claimed or handled just now looks the same, so it counts as
        lost only after ``LOST_S``.
        """
        handled, now = set(self.tasks.values()), self.loop.time()
        mine = {
            name: self.doubts.get(name, ((workspace, session), now))
            for name, session in taken.items()
            if (workspace, session) not in handled
        }
        others = {name: one for name, one in self.doubts.items() if one[0][0] != workspace}
        self.doubts = others | mine
        lost = [name for name, (_, since) in mine.items() if now - since >= LOST_S]
        # The caller requeues them, and DBOS may claim them again before the next look.
        for name in lost:
            del self.doubts[name]
        return lost

    def end(self, patience_s: int) -> "asyncio.Task[None]":
        """Stop DBOS after the wake-ups it has claimed are handled, or after ``patience_s``."""
        if self.ending is None:
            self.ending = asyncio.create_task(asyncio.to_thread(_stop, patience_s))
        return self.ending

    async def drop(self) -> None:
        """Cancel the running handlers."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


_served: _Handlers | None = None
_is_registered = False


@dataclass(slots=True)
class DbosEngine:
    """Wake-ups that survive the process that scheduled them. Implements ``SharedEngine``."""

    url: str
    """The ledger's database, as a SQLAlchemy URL."""
    workspace: WorkspaceId
    outbox: DbosQueue | None = None
    """Used to send: loading DBOS takes longer than everything else a sender does, and a sender
    needs no permission to write to the tables of DBOS."""
    poll_s: float = POLL_S
    _link: "_Link" = field(default_factory=lambda: _Link())  # noqa: PLW0108 - defined below.

    def in_workspace(self, workspace: WorkspaceId, outbox: DbosQueue | None) -> "DbosEngine":
        """Return the engine of another workspace of the database; the connections are shared."""
        return replace(self, workspace=workspace, outbox=outbox)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[_DbosTransaction | _LightTransaction, None]:
        """Open a transaction: committed at the end of the block, rolled back on an error."""
        if self.outbox is not None:
            if not await self._is_built(self.outbox):
                await self._open()
            async with self.outbox.lend() as driver:
                yield _LightTransaction(driver, self.outbox)
            return
        sql, client = await self._open()
        with _translated():
            async with sql.begin() as connection:
                raw = await connection.get_raw_connection()
                yield _DbosTransaction(raw.driver_connection, connection, client, self.workspace)

    async def serve(
        self, worker: str, handle: Handle, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle wake-ups as ``worker`` until canceled; call ``ready`` once they are being claimed.

        Those of other workspaces are claimed too, and let go: their sessions stay marked as awake,
        and a worker that serves them finds them in its next look. A process that shares a database
        with others uses ``serve_all``.

        Raises:
            InvalidOperation: Another worker already serves in this process.
        """

        async def handle_own(workspace: WorkspaceId, session: SessionId, _: int) -> None:
            if workspace == self.workspace:
                await handle(session)

        await self.serve_all(worker, handle_own, at_once=at_once, ready=ready)

    async def serve_all(
        self, worker: str, handle: HandleAnywhere, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle the wake-ups of all workspaces as ``worker`` until canceled.

        Raises:
            InvalidOperation: Another worker already serves in this process.
        """
        global _served  # noqa: PLW0603 - DBOS itself is one a process.
        if _served is not None:
            raise InvalidOperation("this process serves already: one worker a process")
        served = _served = _Handlers(worker, handle, asyncio.get_running_loop())
        async with AsyncExitStack() as stack:
            try:
                if self.outbox is not None:
                    await stack.enter_async_context(self.outbox.making_room(ROOM))
                _, client = await self._open()
                with _translated():
                    await asyncio.to_thread(
                        client.register_queue,
                        QUEUE,
                        worker_concurrency=at_once,
                        # A limit of its own is what makes DBOS claim partition by partition, in
                        # random order. As high as that of the worker, it holds no workspace back.
                        partition_worker_concurrency=at_once,
                        polling_interval_sec=self.poll_s,
                    )
                    await asyncio.to_thread(_launch, self.url, worker)
                ready()
                await asyncio.Event().wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await served.drop()
                    await served.end(0)
                    _served = None
                    # Another worker requeues them when this one counts as dead.
                    with contextlib.suppress(DatabaseUnavailable):
                        await self.recover([worker])

    async def stop_taking(self) -> None:
        """Claim no more wake-ups, and return when those already claimed have been handled."""
        if _served is not None:
            await asyncio.shield(_served.end(DRAIN_MAX_S))

    async def recover(self, dead: Sequence[str]) -> int:
        """Requeue the wake-ups that dead workers had claimed; return how many."""
        if not dead:
            return 0
        _, client = await self._open()
        with _translated():
            workflows = await client.list_workflows_async(
                executor_id=list(dead),
                status="PENDING",
                queue_name=QUEUE,
                load_input=False,
                load_output=False,
            )
            if ids := [workflow.workflow_id for workflow in workflows]:
                await client.resume_workflows_async(ids, queue_name=QUEUE)
        return len(ids)

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those of these wake-ups that are queued or being handled."""
        if not wakes:
            return set()
        _, client = await self._open()
        names = {_name(self.workspace, wake): wake for wake in wakes}
        with _translated():
            workflows = await client.list_workflows_async(
                workflow_ids=list(names), status=_LIVE, load_input=False, load_output=False
            )
            taken = {
                workflow.workflow_id: names[workflow.workflow_id][0]
                for workflow in workflows
                if workflow.status == "PENDING"
                and _served
                and workflow.executor_id == _served.worker
            }
            if _served is not None and (lost := _served.find_lost(self.workspace, taken)):
                await client.resume_workflows_async(lost, queue_name=QUEUE)
        return {names[workflow.workflow_id] for workflow in workflows}

    async def prune(self, *, before: Timestamp) -> int:
        """Delete wake-ups that were handled before a timestamp; return how many."""
        _, client = await self._open()
        count = 0
        with _translated():
            while workflows := await client.list_workflows_async(
                workflow_id_prefix=f"{QUEUE}:{self.workspace}:",
                status=_OVER,
                completed_before=before,
                limit=PRUNE_PAGE_MAX,
                load_input=False,
                load_output=False,
            ):
                await client.delete_workflows_async(
                    [workflow.workflow_id for workflow in workflows]
                )
                count += len(workflows)
        return count

    async def close(self) -> None:
        """Close every connection; the next call opens them again."""
        sql, client = self._link.sql, self._link.client
        self._link.sql = self._link.client = None
        if sql is not None:
            await _dispose(sql)
        if client is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(client.destroy)

    async def _is_built(self, outbox: DbosQueue) -> bool:
        if not self._link.knows_way:
            async with outbox.lend() as driver:
                self._link.knows_way = await outbox.is_built(driver)
        return self._link.knows_way

    async def _open(self) -> "tuple[AsyncEngine, DBOSClient]":
        link = self._link
        async with link.opening:
            if link.sql is None or link.client is None:
                link.sql, link.client = await self._connect()
            return link.sql, link.client

    async def _connect(self) -> "tuple[AsyncEngine, DBOSClient]":
        dbos, sqlalchemy = _load()
        sql: AsyncEngine = sqlalchemy.ext.asyncio.create_async_engine(
            self.url, pool_size=SENDING_MAX, max_overflow=0
        )
        async with AsyncExitStack() as stack:
            # Nothing else knows this pool yet, and it holds a connection.
            stack.push_async_callback(_dispose, sql)
            if self.outbox is not None:
                await self.outbox.prepare()
            with _translated():
                await self._build(sql)
            if self.outbox is not None:
                await self.outbox.install()
                # What is sent goes through the outbox: the connection that built is not needed.
                await sql.dispose()
            stack.pop_all()
        client: DBOSClient = dbos.DBOSClient(
            system_database_url=self.url,
            dbos_system_schema=SCHEMA,
            serializer=dbos.DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            system_database_pool_size=1,
            retry_connection_errors=False,
            lazy=True,
        )
        return sql, client

    async def _build(self, sql: "AsyncEngine") -> None:
        """Create the tables of DBOS unless they exist."""
        dbos, sqlalchemy = _load()
        function = sqlalchemy.func
        # DBOS creates them in several transactions, so a second process could see half of them. The
        # lock is polled, because a process that waits inside a statement holds a snapshot, and the
        # indexes that DBOS builds concurrently wait for every snapshot to end.
        async with sql.connect() as plain:
            connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
            trying = sqlalchemy.select(function.pg_try_advisory_lock(_BUILDING))
            while not (await connection.execute(trying)).scalar_one():  # noqa: ASYNC110
                await asyncio.sleep(self.poll_s)
            try:
                is_there = await connection.run_sync(
                    lambda known: sqlalchemy.inspect(known).has_table("workflow_status", SCHEMA)
                )
                if not is_there:
                    await asyncio.to_thread(dbos.DBOS.migrate, self.url, schema=SCHEMA)
            finally:
                unlocking = sqlalchemy.select(function.pg_advisory_unlock(_BUILDING))
                with anyio.CancelScope(shield=True):
                    await connection.execute(unlocking)


@dataclass(slots=True)
class _Link:
    """The connections to a database, which the engines of all its workspaces share."""

    sql: "AsyncEngine | None" = None
    client: "DBOSClient | None" = None
    knows_way: bool = False
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)


async def _dispose(sql: "AsyncEngine") -> None:
    """Close the connections of a pool, also in a task that is canceled."""
    with anyio.CancelScope(shield=True):
        await sql.dispose()


@asynccontextmanager
async def open_dbos(url: str, workspace: WorkspaceId) -> AsyncGenerator[DbosEngine, None]:
    """Open the engine on a database and close its connections at the end.

    Raises:
        InvalidOperation: DBOS is not installed.
    """
    _load()
    engine = DbosEngine(url, workspace)
    try:
        yield engine
    finally:
        with anyio.CancelScope(shield=True):
            await engine.close()


def _name(workspace: WorkspaceId, wake: Wake) -> str:
    session, number = wake
    return f"{QUEUE}:{workspace}:{session}:{number}"


def _load() -> tuple[Any, Any]:
    """Return DBOS and SQLAlchemy, which take a while to load and may be missing.

    DBOS is not used before the guard has shown that it loads no pickles.
    """
    try:
        import_module("sqlalchemy.ext.asyncio")
        dbos, sqlalchemy = import_module("dbos"), import_module("sqlalchemy")
    except ImportError as error:
        raise InvalidOperation("DBOS is not installed: pip install 'turntree[run]'") from error
    require_portable_json()
    return dbos, sqlalchemy


@contextmanager
def _translated() -> Generator[None, None, None]:
    _, sqlalchemy = _load()
    try:
        yield
    except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError) as error:
        raise DatabaseUnavailable(f"the database does not answer: {error.orig}") from error
    except sqlalchemy.exc.TimeoutError as error:
        raise DatabaseUnavailable(f"the database does not answer: {error}") from error


def _launch(url: str, worker: str) -> None:
    """Start DBOS. Not called on an event loop: DBOS would take it for its own."""
    dbos, _ = _load()
    _register(dbos.DBOS)
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": url,
        "dbos_system_schema": SCHEMA,
        "executor_id": worker,
        "application_version": VERSION,
        "serializer": dbos.DBOSPortableJSONSerializer(),
        "sys_db_pool_size": SERVING_MAX,
        # A poll on a broken connection fails, and the next one succeeds. Pinging each connection
        # first would double the cost of polling.
        "db_engine_kwargs": {"pool_pre_ping": False},
        "log_level": "WARNING",
        "enable_otlp": False,
    }
    dbos.DBOS(config=config)
    dbos.DBOS.listen_queues([QUEUE])
    dbos.DBOS.launch()
    logging.getLogger("dbos").setLevel(logging.WARNING)


def _register(dbos: Any) -> None:
    """Register the wake-up workflow with DBOS, which keeps it until the process ends."""
    global _is_registered  # noqa: PLW0603 - As DBOS does.
    if _is_registered:
        return
    _is_registered = True

    async def wake(workspace: str, session: str, number: int) -> None:
        assert _served is not None, "DBOS is stopped before this process stops serving"
        await _served.take(WorkspaceId(workspace), SessionId(session), number)

    dbos.workflow(name=WORKFLOW, max_recovery_attempts=None)(wake)


def _stop(patience_s: int) -> None:
    dbos, _ = _load()
    dbos.DBOS.destroy(workflow_completion_timeout_sec=patience_s)
