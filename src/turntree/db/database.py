"""Connections, roles and workspaces; translates PostgreSQL's errors into ours.

Each connection acts as ``turntree_app`` inside one workspace, set when the connection is opened: a
forgotten filter shows nothing instead of everything. The viewer is set then too, and may change
each time a connection is taken from the pool.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, Protocol, cast
from urllib.parse import quote
from uuid import UUID
from weakref import WeakKeyDictionary

import anyio
import orjson
import psycopg
from psycopg import AsyncConnection, AsyncCursor, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from turntree.core.errors import (
    Canceled,
    Conflict,
    DatabaseUnavailable,
    Hint,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    TurntreeError,
)
from turntree.core.ids import WorkspaceId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING, NOBODY, Sight
from turntree.db.arrays import register_arrays
from turntree.db.migrate import begin_epoch_if_moved, migrate
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

Row = tuple[Any, ...]
Connection = AsyncConnection[Row]
AnyConnection = AsyncConnection[Row] | psycopg.Connection[Row]
# A canceled query leaves its connection unusable, and the pool replaces it. That is worth a line in
# a program's log, but not on the screen of a program that keeps none.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
# Earlier versions do not let a view run with the rights of its reader, on which row-level security
# depends.
POSTGRES_MAJOR_MIN = 15
# Per process. PostgreSQL allows 100 by default, which hooks, workers and commands share.
CONNECTIONS_MAX = 10
NO_ADDRESS = "not a database address: write postgresql://USER:PASSWORD@HOST/NAME"
CONNECT_TIMEOUT_S = 10.0
RECONNECT_TIMEOUT_S = 3.0
"""Seconds after which the pool stops doubling its delay; the next call connects again at once."""

_ERRORS: Mapping[str, type[TurntreeError]] = {
    "TT001": Conflict,
    "TT002": NotFound,
    "TT003": InvalidOperation,
    "TT004": Canceled,
    "23505": Conflict,  # Two writers, one position.
    "40001": Conflict,
    "40P01": Conflict,
    "23503": NotFound,  # A reference to something that does not exist.
    "42501": PermissionDenied,
}


_DENIALS = ("42501", "TT002")
"""SQLSTATEs that our functions raise with a detail that says who was denied what."""

_KEPT: ContextVar["tuple[Connections, Connection] | None"] = ContextVar(
    "kept connection", default=None
)
"""The connection of a task's current transaction."""


class Connections(Protocol):
    """A source of connections, such as a pool."""

    async def getconn(self) -> Connection:
        """Return a connection that is used by no other task."""
        ...

    async def putconn(self, conn: Connection, /) -> None:
        """Return a connection to the pool."""
        ...


class PlainConnections:
    """Connections of a short-lived process: one, and more only while that one is in use.

    A pool maintains its connections in background tasks. Importing and starting it takes as long as
    most commands take for all their queries.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], first: Connection) -> None:
        """Start with an open connection, and open others like it on demand."""
        self._connect = connect
        self._idle = [first]
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)

    async def getconn(self) -> Connection:
        """Return a connection that is used by no other task.

        Raises:
            DatabaseUnavailable: All connections stay in use.
        """
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._free.acquire()
        except TimeoutError as error:
            raise DatabaseUnavailable(f"all {CONNECTIONS_MAX} connections are in use") from error
        connection: Connection | None = None
        try:
            # The server closes idle connections when it restarts; the next one may still be open.
            while self._idle and (connection is None or connection.closed):
                connection = self._idle.pop()
            if connection is None or connection.closed:
                connection = None
                connection = await self._connect()
            return connection
        finally:
            # Canceled or refused while connecting: nothing will be returned by ``putconn``.
            if connection is None:
                self._free.release()

    async def putconn(self, conn: Connection, /) -> None:
        """Return a connection; one with an open transaction is closed."""
        self._free.release()
        # An open transaction would hold its locks, and the next task would continue inside it.
        if conn.info.transaction_status == TransactionStatus.IDLE:
            self._idle.append(conn)
        else:
            await conn.close()

    async def close(self) -> None:
        """Close all idle connections."""
        for connection in self._idle:
            await connection.close()


@value
class Database:
    """A pool of connections that act inside one workspace, for one viewer."""

    conninfo: str
    workspace: UUID
    pool: "Connections"
    sight: Sight = NOBODY
    sights: "ViewerConnections" = field(
        default_factory=lambda: ViewerConnections(WeakKeyDictionary()), repr=False
    )

    def seen_by(self, sight: Sight) -> "Database":
        """Return the same database for another viewer; the connections are shared."""
        return replace(self, sight=sight)

    async def fetch(self, query: bytes, /, **params: Any) -> list[Row]:
        """Run a statement in a transaction of its own and return its rows."""
        async with self.connection() as connection:
            return await fetch(connection, query, workspace=self.workspace, **params)

    async def fetch_one(self, query: bytes, /, **params: Any) -> Row | None:
        """Return the first row of a statement, or None."""
        async with self.connection() as connection:
            cursor = await run(connection, query, {"workspace": self.workspace, **params})
            return await cursor.fetchone()

    async def run(self, query: bytes, /, **params: Any) -> None:
        """Run a statement in a transaction of its own."""
        async with self.connection() as connection:
            await run(connection, query, {"workspace": self.workspace, **params})

    async def list_workspaces(self) -> list[tuple[str, str]]:
        """Return the id and the name of every workspace of the server's ledger."""
        return [(id, name) for id, name in await self.fetch(SQL["list_workspaces"])]

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """Return a connection of the pool, or that of this task's current transaction.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        kept = _KEPT.get()
        # Another pool may lead to another database: its statements must not join this transaction.
        if kept is None or kept[0] is not self.pool:
            return _PooledConnection(self)
        return _TransactionConnection(self, kept[1])

    @asynccontextmanager
    async def keep_together(self) -> AsyncGenerator[None, None]:
        """Run all queries of this task within the block in one transaction.

        Many small queries then cost one transaction. Do not wait for anything else in the block:
        the connection stays in use.
        """
        async with self.connection() as connection, connection.transaction():
            token = _KEPT.set((self.pool, connection))
            is_whole = False
            try:
                yield
                is_whole = True
            finally:
                _KEPT.reset(token)
                if not is_whole:
                    # A rollback also undoes the viewer that was set inside the block.
                    self.sights.forget(connection)

    @asynccontextmanager
    async def joining(self, connection: Connection) -> AsyncGenerator[None, None]:
        """Run all queries of this task within the block in the transaction of a connection.

        The caller opened both, and has no more to do on the connection afterwards than to commit.
        """
        # Its viewer was set when it was opened, and not by this database.
        self.sights.forget(connection)
        token = _KEPT.set((self.pool, connection))
        try:
            yield
        finally:
            _KEPT.reset(token)

    @asynccontextmanager
    async def seeing_everything(self, connection: Connection) -> AsyncGenerator[None, None]:
        """Act as the system within the block, in the current transaction, and so see hidden rows
        too.
        """
        is_whole = False
        try:
            await self.sights.take(connection, EVERYTHING)
            yield
            await self.sights.take(connection, self.sight)
            is_whole = True
        finally:
            if not is_whole:
                self.sights.forget(connection)

    @asynccontextmanager
    async def hurry(self) -> AsyncGenerator[None, None]:
        """Commit asynchronously: after a crash, the writes of the block may be missing.

        Use only for idempotent work whose completion a later durable write records. If that record
        is missing, the work is repeated.
        """
        async with self.connection() as connection:
            token = _KEPT.set((self.pool, connection))
            try:
                await run(connection, SQL["async_commit_on"])
                yield
            finally:
                _KEPT.reset(token)
                # The next user of the connection relies on durable commits. A broken connection is
                # not reused.
                with anyio.CancelScope(shield=True), contextlib.suppress(psycopg.OperationalError):
                    await run(connection, SQL["async_commit_off"])

    @asynccontextmanager
    async def acting_as(self, role: str) -> AsyncGenerator[Connection, None]:
        """Open a connection under another role, for the same workspace and viewer."""
        async with ErrorTranslator():
            connection = await AsyncConnection[Row].connect(self.conninfo, autocommit=True)
            async with connection:
                register_arrays(connection.adapters)
                await _take_role(connection, role, self.workspace, self.sight)
                yield connection

    async def run_as_login(self, query: bytes) -> None:
        """Run a statement as the login itself, for what only the owner of the tables may do."""
        async with ErrorTranslator():
            connection = await AsyncConnection[Row].connect(self.conninfo, autocommit=True)
            async with connection:
                await connection.execute(query)

    async def note_denial(self, error: BaseException) -> None:
        """Record that access was denied, after the transaction that asked has rolled back.

        Does nothing for an error that is not a denial.
        """
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        if isinstance(cause, psycopg.Error) and cause.sqlstate in _DENIALS:
            detail = _detail(cause)
            detail.pop("hint", None)
            if detail:
                # As the system: the principal that was denied must not be able to prevent the
                # record.
                await self.seen_by(EVERYTHING).run(SQL["record_denial"], **detail)

    @asynccontextmanager
    async def holding(self, key: str) -> AsyncGenerator[bool, None]:
        """Lock a key of the workspace for the duration of the block, and yield whether it worked.

        It is False if another process holds the lock. The lock belongs to a connection of its own,
        so it is released when that ends, for whatever reason.
        """
        async with self.acting_as("turntree_app") as connection:
            scope = {"workspace": self.workspace, "key": key}
            ((is_held,),) = await fetch(connection, SQL["lock_key"], **scope)
            try:
                yield bool(is_held)
            finally:
                # Unlock explicitly: a server may take its time to notice that a connection has
                # ended. A broken connection has released its locks already.
                with anyio.CancelScope(shield=True), contextlib.suppress(psycopg.OperationalError):
                    if is_held:
                        await fetch(connection, SQL["unlock_key"], **scope)

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[object, None]:
        """Start a transaction and yield its connection, for code that uses the driver directly."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def borrow(self, driver: object) -> AsyncGenerator[Connection, None]:
        """Act as the application on a connection whose transaction belongs to the caller.

        The caller's role is restored afterwards.
        """
        assert isinstance(driver, AsyncConnection), "expected a psycopg connection"
        connection = cast("Connection", driver)
        async with ErrorTranslator():
            role = {"role": "turntree_app", "workspace": str(self.workspace), "sight": self.sight}
            await run(connection, SQL["set_local_role"], role)
            yield connection
            await run(connection, SQL["reset_role"])


@value
class ViewerConnections:
    """Remembers the viewer of each connection; a new one has none."""

    known: "WeakKeyDictionary[Connection, Sight | None]"

    async def take(self, connection: Connection, sight: Sight) -> None:
        """Set the viewer of a connection, if it is another one."""
        if self.known.get(connection, NOBODY) != sight:
            # If this is canceled, it is unknown whether the server has set it.
            self.forget(connection)
            await run(connection, SQL["set_viewer"], {"sight": sight})
            self.known[connection] = sight

    def forget(self, connection: Connection) -> None:
        """Mark the viewer of a connection as unknown: a rollback may have reset it."""
        self.known[connection] = None


@asynccontextmanager
async def open_database(
    conninfo: str,
    workspace: WorkspaceId,
    *,
    sight: Sight = NOBODY,
    connections_max: int = CONNECTIONS_MAX,
) -> AsyncGenerator[Database, None]:
    """Open a database that ``prepare_database`` has migrated, with a pool.

    Without a viewer, given here or by ``seen_by``, nothing in it is visible.

    Raises:
        DatabaseUnavailable: The database does not answer.
        InvalidOperation: A pooler is between this process and PostgreSQL.
    """
    # Imported here: a process that opens no pool need not load one.
    from psycopg_pool import AsyncConnectionPool, PoolTimeout

    scope = UUID(workspace)
    sights = ViewerConnections(WeakKeyDictionary())
    refusals: list[InvalidOperation] = []

    async def configure(connection: Connection) -> None:
        # Prepare at the first use: every statement has a name and is used again.
        connection.prepare_threshold = 0
        try:
            await _configure(connection, scope, sights, sight)
        except InvalidOperation as refusal:
            # The pool retries and finally only reports a timeout.
            refusals.append(refusal)
            raise

    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
        conninfo,
        min_size=1,
        max_size=connections_max,
        open=False,
        timeout=CONNECT_TIMEOUT_S,
        reconnect_timeout=RECONNECT_TIMEOUT_S,
        configure=configure,
        connection_class=AsyncConnection[Row],
        # Each statement is its own transaction, because each of our SQL functions is one. A
        # transaction that a forgotten commit leaves open would block the next writer.
        kwargs={"autocommit": True},
    )
    async with ErrorTranslator():
        try:
            await pool.open(wait=True, timeout=CONNECT_TIMEOUT_S)
        except PoolTimeout as late:
            raise refusals[0] if refusals else late from None
    try:
        yield Database(conninfo, scope, pool, sight, sights)
    finally:
        await pool.close()


@asynccontextmanager
async def open_plain_database(
    conninfo: str, workspace_name: str, new_id: str
) -> AsyncGenerator[Database, None]:
    """Open and migrate a database for a short-lived process, without a pool.

    The connection that migrates is also the one that is used. Nothing is visible before ``seen_by``
    sets a viewer.

    Raises:
        DatabaseUnavailable: The database does not answer.
        InvalidOperation: The server is too old, its schema is newer than ours, or a pooler is
            between this process and PostgreSQL.
    """
    check_address(conninfo)
    sights = ViewerConnections(WeakKeyDictionary())
    async with ErrorTranslator():
        first = await _connect(conninfo)
        is_ready = False
        try:
            scope = UUID(await _prepare(first, workspace_name, new_id))
            await _configure(first, scope, sights)
            is_ready = True
        finally:
            if not is_ready:
                await first.close()

    async def connect() -> Connection:
        connection = await _connect(conninfo)
        await _configure(connection, scope, sights)
        return connection

    connections = PlainConnections(connect, first)
    try:
        yield Database(conninfo, scope, connections, sights=sights)
    finally:
        await connections.close()


async def _connect(conninfo: str) -> Connection:
    return await AsyncConnection[Row].connect(
        conninfo, autocommit=True, connect_timeout=int(CONNECT_TIMEOUT_S)
    )


async def _configure(
    connection: Connection, workspace: UUID, sights: ViewerConnections, sight: Sight = NOBODY
) -> None:
    register_arrays(connection.adapters)
    await _take_role(connection, "turntree_app", workspace, sight)
    sights.known[connection] = sight
    await run(connection, SQL["disable_seqscan"])


def place_of(conninfo: str) -> str:
    """Return the location of a database, without user and password."""
    found = conninfo_to_dict(conninfo)
    return " ".join(f"{key}={found.get(key)}" for key in ("host", "port", "dbname"))


def sqlalchemy_url(conninfo: str) -> str:
    """Return the same address as a SQLAlchemy URL for the same driver."""
    found = {key: quote(str(value), safe="") for key, value in conninfo_to_dict(conninfo).items()}
    name, user, password = (found.pop(key, "") for key in ("dbname", "user", "password"))
    # User and password go where tools that print a URL mask the password. The host may be a
    # directory of sockets, which does not fit before the slash, so the rest are parameters of the
    # driver.
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    rest = "&".join(f"{key}={value}" for key, value in found.items())
    return f"postgresql+psycopg://{login}/{name}?{rest}"


async def ensure_database(conninfo: str, name: str) -> str:
    """Create a database if it is missing and return its conninfo."""
    async with ErrorTranslator():
        connection = await AsyncConnection[Row].connect(conninfo, autocommit=True)
        async with connection:
            if not await fetch(connection, SQL["find_database"], name=name):
                # Two processes may both find it missing. The attempt of the second is not an error,
                # whether it comes later (the name is taken) or at the same time (its row is).
                taken = psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation
                with contextlib.suppress(*taken):
                    await connection.execute(
                        sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
                    )
    return make_conninfo(conninfo, dbname=name)


def check_address(conninfo: str) -> None:
    """Refuse a string that is not the address of a database.

    Raises:
        DatabaseUnavailable: It cannot be parsed.
    """
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        # Not the driver's message: it quotes passwords.
        raise DatabaseUnavailable(NO_ADDRESS) from error


async def prepare_database(conninfo: str, workspace_name: str, new_id: str) -> WorkspaceId:
    """Migrate the database, make sure the workspace exists and return its id.

    Raises:
        DatabaseUnavailable: The database does not answer.
        InvalidOperation: The server is too old, its schema is newer than ours, or a pooler is
            between this process and PostgreSQL.
    """
    check_address(conninfo)
    async with ErrorTranslator(), await _connect(conninfo) as connection:
        return await _prepare(connection, workspace_name, new_id)


async def delete_demo(conninfo: str, workspace_name: str) -> bool:
    """Delete the workspace of the sample data with all of its rows; False if there is none.

    Raises:
        InvalidOperation: It is another workspace.
    """
    check_address(conninfo)
    async with ErrorTranslator(), await _connect(conninfo) as connection:
        rows = await fetch(connection, SQL["find_workspace"], name=workspace_name)
        if not rows:
            return False
        async with connection.transaction():
            # As the login itself, which owns the tables: no role may change triggers.
            scope = {"workspace": str(rows[0][0]), "sight": EVERYTHING}
            await run(connection, SQL["set_scope"], scope)
            await run(connection, SQL["delete_demo"])
    return True


async def _prepare(connection: Connection, workspace_name: str, new_id: str) -> WorkspaceId:
    ((number, version, pid),) = await fetch(connection, SQL["server_version"])
    require_direct(connection, pid)
    if number < POSTGRES_MAJOR_MIN * 10_000:
        raise InvalidOperation(
            f"PostgreSQL {version} is too old: Turntree needs {POSTGRES_MAJOR_MIN} or newer"
        )
    await migrate(connection)
    await begin_epoch_if_moved(connection)
    found = await fetch(connection, SQL["find_workspace"], name=workspace_name)
    if not found:
        await run(connection, SQL["create_workspace"], {"id": new_id, "name": workspace_name})
        found = await fetch(connection, SQL["find_workspace"], name=workspace_name)
    return WorkspaceId(str(found[0][0]))


async def run(
    connection: Connection, query: bytes, params: Mapping[str, Any] | None = None
) -> AsyncCursor[Row]:
    """Run a statement on a connection."""
    return await connection.execute(query, params, binary=True)


async def fetch(connection: Connection, query: bytes, /, **params: Any) -> list[Row]:
    """Run a statement on a connection and return its rows."""
    return await (await run(connection, query, params or None)).fetchall()


def require_direct(connection: AnyConnection, pid: int) -> None:
    """Refuse a connection that is served by another process than the one it was opened to.

    Workspace and viewer are settings of one server process. A pooler gives that process to the next
    client, whose queries would then run with them.

    Raises:
        InvalidOperation: A pooler is between this process and PostgreSQL.
    """
    if connection.info.backend_pid != pid:
        raise InvalidOperation(
            "a pooler is between Turntree and PostgreSQL, and would show one viewer's rows to the"
            " next: connect directly, not through a pooler (name PostgreSQL's own host and port in"
            " database_url)"
        )


def take_role_params(role: str, workspace: UUID, sight: Sight) -> dict[str, str]:
    """Return the parameters of the statement ``set_role``."""
    return {"role": role, "workspace": str(workspace), "sight": sight}


async def _take_role(connection: Connection, role: str, workspace: UUID, sight: Sight) -> None:
    params = take_role_params(role, workspace, sight)
    ((pid, *_),) = await fetch(connection, SQL["set_role"], **params)
    require_direct(connection, pid)


class ErrorTranslator:
    """Translates PostgreSQL's errors into errors that a caller can act on."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _raise_translated(error)


class _PooledConnection(AbstractAsyncContextManager[Connection]):
    """A connection of the pool, for one block.

    The pool's own context manager also ends a transaction. Ours are ended where they are started,
    and each call to the database passes through here.
    """

    __slots__ = ("_connection", "_database")

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> Connection:
        try:
            self._connection = await self._database.pool.getconn()
            is_taken = False
            try:
                await self._database.sights.take(self._connection, self._database.sight)
                is_taken = True
            finally:
                if not is_taken:
                    await self._database.pool.putconn(self._connection)
        except psycopg.Error as error:
            _raise_translated(error)
            raise
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # Ours are in autocommit mode; those of the drills are not, so that they can be killed in
        # between.
        if error is None and not self._connection.autocommit:
            await self._connection.commit()
        if error is not None and not self._connection.autocommit:
            self._database.sights.forget(self._connection)
        await self._database.pool.putconn(self._connection)
        if error is not None:
            await self._database.note_denial(error)
            _raise_translated(error)


class _TransactionConnection(AbstractAsyncContextManager[Connection]):
    """The connection of a transaction that this task has started in an outer block."""

    __slots__ = ("_connection", "_database")

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection

    async def __aenter__(self) -> Connection:
        await self._database.sights.take(self._connection, self._database.sight)
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            # A savepoint may have been rolled back, and with it the setting of the viewer.
            self._database.sights.forget(self._connection)
        _raise_translated(error)


def _raise_translated(error: BaseException | None) -> None:
    if isinstance(error, psycopg.Error):
        raise translated(error) from error


def translated(error: psycopg.Error) -> TurntreeError | psycopg.Error:
    """Return our error for one of PostgreSQL's, or the same one if a caller cannot act on it."""
    message = error.diag.message_primary or str(error)
    if error.sqlstate is not None and error.sqlstate in _ERRORS:
        return _ERRORS[error.sqlstate](message, hint=Hint.from_json(_detail(error).get("hint")))
    if isinstance(error, psycopg.DataError | psycopg.errors.CheckViolation):
        return InvalidOperation(message)
    if isinstance(error, psycopg.OperationalError):
        return _explain_unavailable(error, message)
    return error


def _explain_unavailable(error: psycopg.OperationalError, message: str) -> DatabaseUnavailable:
    """Return why a connection could not be made, in a sentence without the password."""
    # The driver has no SQLSTATE for an attempt to connect, so the server's words decide. In a
    # language that is not English they stay as they are.
    server = error.pgconn
    if server is None or error.sqlstate is not None:
        return DatabaseUnavailable(f"the database does not answer: {message}")
    host, port, user, name = (
        (word or b"").decode(errors="replace")
        for word in (server.host, server.port, server.user, server.db)
    )
    place = host if host.startswith("/") else f"{host or 'localhost'}:{port}"
    address: Hint | None = Hint("config.list")
    if server.needs_password:
        sentence = f"no password is given for the user {user!r} at {place}"
    elif "password authentication failed" in message:
        sentence = f"wrong password for the user {user!r} at {place}"
    elif "role " in message and "does not exist" in message:
        sentence = f"there is no user {user!r} at {place}"
    elif "database " in message and "does not exist" in message:
        sentence = f"there is no database {name!r} at {place}: create it, or correct the name"
    elif "FATAL" not in message:
        first = message.rpartition(" failed: ")[2].partition("\n")[0]
        sentence, address = f"no server answers at {place}: {first}", None
    else:
        sentence, address = f"the database does not answer: {message}", None
    return DatabaseUnavailable(sentence, hint=address)


def _detail(error: psycopg.Error) -> dict[str, Any]:
    """Return what one of our functions raised besides its message; PostgreSQL's own is text."""
    detail = error.diag.message_detail or ""
    return orjson.loads(detail) if detail.startswith("{") else {}


def as_uuid(id: str | None) -> UUID | None:
    """Return an id as the driver sends it."""
    return None if id is None else UUID(id)


def as_uuids(ids: Sequence[str]) -> list[UUID]:
    """Return ids as the driver sends them."""
    return [UUID(id) for id in ids]
