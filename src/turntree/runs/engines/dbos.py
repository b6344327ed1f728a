"""Wake-ups by DBOS, in the same database as the ledger and in the same transactions.

DBOS is used for one thing: a durable queue of wake-ups. Nothing is checkpointed in it and nobody
takes order from it. It runs on a thread and an event loop of its own, because it writes to the
database in between, synchronously, and would hold up everything else on ours.

Only what DBOS documents is called. One process serves under one name: DBOS allows no more.
Must never know SQL, or what is done for a session that was woken up.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio

from turntree.core.errors import DatabaseUnavailable, InvalidOperation
from turntree.core.ids import SessionId, Timestamp, WorkspaceId
from turntree.core.value import value
from turntree.runs.engine import Handle, Wake
from turntree.runs.engines.dbos_guard import require_portable_json
from turntree.runs.engines.retry import handle_until_done

if TYPE_CHECKING:
    from dbos import DBOSClient, DBOSConfig
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

APPLICATION: Final = "turntree"
VERSION: Final = "wake-1"
"""The same for ever: a wake-up holds the id of a session, which new code reads as old code did."""
SCHEMA: Final = "dbos"
WORKFLOW: Final = "turntree.wake"
POLL_S: Final = 0.08
"""How often DBOS looks for wake-ups: so seldom that an idle worker costs little, and so often that
nobody waits for the first fact of a turn."""
CONNECTIONS_MAX: Final = 5
LOST_S: Final = 2.0
DRAIN_MAX_S: Final = 24 * 60 * 60
PRUNE_PAGE_MAX: Final = 1000
_BUILDING: Final = int.from_bytes(b"tt:dbos!", "big")
"""The lock under which the tables of DBOS are built."""
_LIVE: Final = ["ENQUEUED", "DELAYED", "PENDING"]
_OVER: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


@value
class _Transaction:
    driver: object
    connection: "AsyncConnection"
    client: "DBOSClient"
    queue: str

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Have a session handled once this is committed."""
        options: Any = {
            "workflow_name": WORKFLOW,
            "workflow_id": _name(self.queue, (session, number)),
            "queue_name": self.queue,
            "app_version": VERSION,
        }
        if delay_s > 0:
            options["delay_seconds"] = delay_s

        def enqueue(connection: "Connection") -> None:
            self.client.enqueue_in_transaction(connection, options, session)

        await self.connection.run_sync(enqueue)


class Outbox(Protocol):
    """A way into the queues of DBOS without DBOS: see ``store.dbos_queue``."""

    def lend(self) -> AbstractAsyncContextManager[object]:
        """Begin a transaction and lend its connection."""
        ...

    async def is_built(self, driver: object) -> bool:
        """Say whether it can be used in a database."""
        ...

    async def put(self, driver: object, session: SessionId, number: int, delay_s: float) -> None:
        """Have a session woken up once this is committed."""
        ...

    async def prepare(self) -> None:
        """Let the login of the engine build the tables of DBOS."""
        ...

    async def install(self) -> None:
        """Make the way in, now that the tables are there."""
        ...


@value
class _LightTransaction:
    driver: object
    outbox: Outbox

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Have a session handled once this is committed."""
        await self.outbox.put(self.driver, session, number, delay_s)


@dataclass(slots=True)
class _Served:
    """What this process does for DBOS, on the loop that everything of ours runs on."""

    worker: str
    handle: Handle
    loop: asyncio.AbstractEventLoop
    tasks: dict["asyncio.Task[None]", SessionId] = field(
        default_factory=dict["asyncio.Task[None]", SessionId]
    )
    ending: "asyncio.Task[None] | None" = None
    doubts: dict[str, float] = field(default_factory=dict[str, float])
    """Wake-ups that seem to be lost, and since when."""

    async def take(self, session: SessionId) -> None:
        """Have a session handled on our loop; called on the loop of DBOS.

        A cancellation passes through. DBOS records nothing then, and the wake-up stays taken.
        """
        work = asyncio.run_coroutine_threadsafe(self._work(session), self.loop)
        await asyncio.wrap_future(work)

    async def _work(self, session: SessionId) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self.tasks[task] = session
        try:
            await handle_until_done(self.handle, session)
        finally:
            del self.tasks[task]

    def find_lost(self, taken: Mapping[str, SessionId]) -> list[str]:
        """Return wake-ups that were taken under our name and are not being handled.

        DBOS may take one and lose its connection before it begins with it. Nobody but this process
        can tell. What was taken or handled just now looks the same: it is asked for twice.
        """
        handled, now = set(self.tasks.values()), self.loop.time()
        idle = {name for name, session in taken.items() if session not in handled}
        self.doubts = {name: self.doubts.get(name, now) for name in idle}
        return [name for name, since in self.doubts.items() if now - since >= LOST_S]

    def end(self, patience_s: int) -> "asyncio.Task[None]":
        """Let DBOS take nothing more, wait for what it took, and stop it."""
        if self.ending is None:
            self.ending = asyncio.create_task(asyncio.to_thread(_stop, patience_s))
        return self.ending

    async def drop(self) -> None:
        """Cancel whatever is being handled."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_served: _Served | None = None
_is_registered = False


@dataclass(slots=True)
class DbosEngine:
    """Wake-ups that survive the process that asked for them. See ``ports.engine``."""

    url: str
    """The database of the ledger, as SQLAlchemy writes it."""
    workspace: WorkspaceId
    outbox: Outbox | None = None
    """How everything is sent: to load DBOS takes longer than all else, and a sender need not
    be able to write to its tables."""
    poll_s: float = POLL_S
    _sql: "AsyncEngine | None" = None
    _client: "DBOSClient | None" = None
    _knows_way: bool = False
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def queue(self) -> str:
        """The name of the queue: a workspace has one of its own."""
        return f"turntree:{self.workspace}"

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[_Transaction | _LightTransaction, None]:
        """Begin a transaction; it is committed at the end of the block, or undone by an error."""
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
                yield _Transaction(raw.driver_connection, connection, client, self.queue)

    async def serve(
        self, worker: str, handle: Handle, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle wake-ups under a name until canceled; ``ready`` is called once they are taken.

        Raises:
            InvalidOperation: This process serves already.
        """
        global _served  # noqa: PLW0603 - DBOS itself is one a process.
        if _served is not None:
            raise InvalidOperation("this process serves already: one worker a process")
        served = _served = _Served(worker, handle, asyncio.get_running_loop())
        try:
            _, client = await self._open()
            with _translated():
                await asyncio.to_thread(
                    client.register_queue,
                    self.queue,
                    worker_concurrency=at_once,
                    polling_interval_sec=self.poll_s,
                )
                await asyncio.to_thread(_launch, self.url, worker, self.queue)
            ready()
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                await served.drop()
                await served.end(0)
                _served = None
                with contextlib.suppress(DatabaseUnavailable):
                    await self.recover([worker])

    async def stop_taking(self) -> None:
        """Take no more wake-ups and return when what was taken has been handled."""
        if _served is not None:
            await asyncio.shield(_served.end(DRAIN_MAX_S))

    async def recover(self, dead: Sequence[str]) -> int:
        """Give back what workers took that are dead; returns how many wake-ups that were."""
        if not dead:
            return 0
        _, client = await self._open()
        with _translated():
            taken = await client.list_workflows_async(
                executor_id=list(dead),
                status="PENDING",
                queue_name=self.queue,
                load_input=False,
                load_output=False,
            )
            if ids := [one.workflow_id for one in taken]:
                await client.resume_workflows_async(ids, queue_name=self.queue)
        return len(ids)

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those of these wake-ups that still have to be handled, or are being handled."""
        if not wakes:
            return set()
        _, client = await self._open()
        names = {_name(self.queue, wake): wake for wake in wakes}
        with _translated():
            found = await client.list_workflows_async(
                workflow_ids=list(names), status=_LIVE, load_input=False, load_output=False
            )
            taken = {
                one.workflow_id: names[one.workflow_id][0]
                for one in found
                if one.status == "PENDING" and _served and one.executor_id == _served.worker
            }
            if _served is not None and (lost := _served.find_lost(taken)):
                await client.resume_workflows_async(lost, queue_name=self.queue)
        return {names[one.workflow_id] for one in found}

    async def prune(self, *, before: Timestamp) -> int:
        """Forget wake-ups that were handled before a moment; returns how many."""
        _, client = await self._open()
        count = 0
        with _translated():
            while found := await client.list_workflows_async(
                workflow_id_prefix=f"{self.queue}:",
                status=_OVER,
                completed_before=before,
                limit=PRUNE_PAGE_MAX,
                load_input=False,
                load_output=False,
            ):
                await client.delete_workflows_async([one.workflow_id for one in found])
                count += len(found)
        return count

    async def close(self) -> None:
        """Close every connection; whatever is asked for next opens them again."""
        sql, client = self._sql, self._client
        self._sql = self._client = None
        if sql is not None:
            await sql.dispose()
        if client is not None:
            await asyncio.to_thread(client.destroy)

    async def _is_built(self, outbox: Outbox) -> bool:
        if not self._knows_way:
            async with outbox.lend() as driver:
                self._knows_way = await outbox.is_built(driver)
        return self._knows_way

    async def _open(self) -> "tuple[AsyncEngine, DBOSClient]":
        async with self._opening:
            if self._sql is None or self._client is None:
                self._sql, self._client = await self._connect()
            return self._sql, self._client

    async def _connect(self) -> "tuple[AsyncEngine, DBOSClient]":
        dbos, sqlalchemy = _load()
        sql: AsyncEngine = sqlalchemy.ext.asyncio.create_async_engine(
            self.url, pool_size=CONNECTIONS_MAX, max_overflow=0
        )
        if self.outbox is not None:
            await self.outbox.prepare()
        with _translated():
            await self._build(sql)
        if self.outbox is not None:
            await self.outbox.install()
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
        """Have the tables of DBOS built if nobody has."""
        dbos, sqlalchemy = _load()
        function = sqlalchemy.func
        # DBOS builds them in several transactions, and whoever came meanwhile would find half of
        # them. Nobody may wait inside of a statement either: some indexes are built concurrently,
        # which waits for everybody who has a snapshot.
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


def _name(queue: str, wake: Wake) -> str:
    session, number = wake
    return f"{queue}:{session}:{number}"


def _load() -> tuple[Any, Any]:
    """Return DBOS and SQLAlchemy, which take a while to load and may be missing.

    Nothing of DBOS is used before it is sure that it loads no pickles.
    """
    try:
        import_module("sqlalchemy.ext.asyncio")
        dbos, sqlalchemy = import_module("dbos"), import_module("sqlalchemy")
    except ImportError as error:
        raise InvalidOperation(
            "sessions are woken up by DBOS: pip install 'turntree[run]'"
        ) from error
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


def _launch(url: str, worker: str, queue: str) -> None:
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
        "sys_db_pool_size": CONNECTIONS_MAX,
        # A poll that finds its connection broken is followed by another. To ask first whether a
        # connection is alive would double what polling costs.
        "db_engine_kwargs": {"pool_pre_ping": False},
        "log_level": "WARNING",
        "enable_otlp": False,
    }
    dbos.DBOS(config=config)
    dbos.DBOS.listen_queues([queue])
    dbos.DBOS.launch()
    logging.getLogger("dbos").setLevel(logging.WARNING)


def _register(dbos: Any) -> None:
    """Tell DBOS what a wake-up is. It remembers that for as long as the process lives."""
    global _is_registered  # noqa: PLW0603 - As DBOS does.
    if _is_registered:
        return
    _is_registered = True

    async def wake(session: str) -> None:
        assert _served is not None, "DBOS is stopped before nobody serves"
        await _served.take(SessionId(session))

    dbos.workflow(name=WORKFLOW, max_recovery_attempts=None)(wake)


def _stop(patience_s: int) -> None:
    dbos, _ = _load()
    dbos.DBOS.destroy(workflow_completion_timeout_sec=patience_s)
