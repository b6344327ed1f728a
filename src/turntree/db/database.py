"""Connections, roles and workspaces; translates PostgreSQL's errors into ours.

Each connection acts as ``turntree_app``. A new one is in no workspace and has no viewer, so nothing
is visible. Both are set when a connection is leased and either differs from the last lease:
one pool serves all workspaces and viewers of a database.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, cast
from urllib.parse import quote
from uuid import UUID

import anyio
import orjson
import psycopg
from psycopg import AsyncConnection, AsyncCursor, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from turntree.core.errors import (
    Canceled,
    Conflict,
    DatabaseUnavailable,
    Hint,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    StalePolicy,
    TurntreeError,
)
from turntree.core.ids import WorkspaceId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING, NOBODY, Sight
from turntree.db.arrays import register_arrays
from turntree.db.migrate import begin_epoch_if_moved, migrate
from turntree.db.pool import (
    CONNECT_TIMEOUT_S,
    CONNECTIONS_MAX,
    ConnectionPool,
    Connections,
    Scope,
    ScopedConnection,
)
from turntree.db.shard import Shard, place_id, read_record, require_slots, slot_of_name
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

Row = tuple[Any, ...]

Connection = AsyncConnection[Row]
AnyConnection = AsyncConnection[Row] | psycopg.Connection[Row]
# Earlier versions do not let a view run with the rights of its reader, on which row-level security
# depends.
POSTGRES_MAJOR_MIN = 15
NO_ADDRESS = "not a database address: write postgresql://USER:PASSWORD@HOST/NAME"

_ERRORS: Mapping[str, type[TurntreeError]] = {
    "TT001": Conflict,
    "TT002": NotFound,
    "TT003": InvalidOperation,
    "TT004": Canceled,
    "TT005": StalePolicy,
    "23505": Conflict,  # Two writers, one position.
    "40001": Conflict,
    "40P01": Conflict,
    "23503": NotFound,  # A reference to something that does not exist.
    "42501": PermissionDenied,
}


_DENIALS = ("42501", "TT002")
"""SQLSTATEs that our functions raise with a detail that says who was denied what."""

_KEPT: ContextVar["_SharedConnection | None"] = ContextVar("kept connection", default=None)
"""The connection of a task's current transaction."""


@value
class Database:
    """One workspace of a database, for one viewer; the pool serves other workspaces too."""

    conninfo: str
    workspace: UUID
    pool: Connections
    sight: Sight = NOBODY

    def seen_by(self, sight: Sight) -> "Database":
        """Return the same database for another viewer; the connections are shared."""
        return replace(self, sight=sight)

    def in_workspace(self, workspace: WorkspaceId) -> "Database":
        """Return another workspace of the same database; the connections are shared.

        It has no viewer yet: who may see one workspace need not be a member of another.
        """
        return replace(self, workspace=UUID(workspace), sight=NOBODY)

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

    def connection(self) -> AbstractAsyncContextManager[ScopedConnection]:
        """Return a connection of the pool, or that of this task's current transaction.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        kept = _KEPT.get()
        # Another pool may lead to another database, and another workspace must not lose what it
        # wrote because of this one: their statements do not join this transaction. Nor do those of
        # a task that was started in the block: it would change the viewer between two statements.
        if (
            kept is not None
            and kept.pool is self.pool
            and kept.workspace == self.workspace
            and kept.task is asyncio.current_task()
            and kept.connection is not None
        ):
            return _TransactionConnection(self, kept, kept.connection)
        return _PooledConnection(self)

    @asynccontextmanager
    async def keep_together(self) -> AsyncGenerator[None, None]:
        """Run all queries of this task within the block in one transaction.

        Many small queries then cost one transaction. Do not wait for anything else in the block:
        the connection stays in use.
        """
        async with self.connection() as connection, connection.transaction():
            with self._keeping(connection):
                yield

    @asynccontextmanager
    async def joining(self, connection: ScopedConnection) -> AsyncGenerator[None, None]:
        """Run all queries of this task within the block in the transaction of a connection.

        The caller opened both, and has no more to do on the connection afterwards than to commit.
        """
        with self._keeping(connection):
            yield

    @contextlib.contextmanager
    def _keeping(self, connection: ScopedConnection) -> Generator[None, None, None]:
        kept = _SharedConnection(self.pool, self.workspace, connection)
        token = _KEPT.set(kept)
        try:
            yield
        finally:
            # First: a generator may end in another context than it began in, where the variable
            # cannot be reset.
            kept.connection = None
            _KEPT.reset(token)

    @asynccontextmanager
    async def seeing_everything(self, connection: ScopedConnection) -> AsyncGenerator[None, None]:
        """Act as the system within the block, in the current transaction, and so see hidden rows
        too.

        After an error the connection is still the system's, and only good for a rollback.
        """
        await connection.enter((self.workspace, EVERYTHING))
        yield
        await connection.enter((self.workspace, self.sight))

    @asynccontextmanager
    async def hurry(self) -> AsyncGenerator[None, None]:
        """Commit asynchronously: after a crash, the writes of the block may be missing.

        Use only for idempotent work whose completion a later durable write records. If that record
        is missing, the work is repeated.
        """
        async with self.connection() as connection:
            is_durable = False
            try:
                await run(connection, SQL["async_commit_on"])
                with self._keeping(connection):
                    yield
            finally:
                try:
                    with anyio.CancelScope(shield=True):
                        await run(connection, SQL["async_commit_off"])
                    is_durable = True
                except psycopg.OperationalError:
                    pass  # A broken connection is not reused.
                finally:
                    # The next user of the connection relies on durable commits, and the shield does
                    # not hold off ``Task.cancel``.
                    if not is_durable:
                        await connection.close()

    @asynccontextmanager
    async def acting_as(self, role: str) -> AsyncGenerator[ScopedConnection, None]:
        """Open a connection under another role, for the same workspace and viewer."""
        async with ErrorTranslator():
            connection = await ScopedConnection.connect(self.conninfo, autocommit=True)
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

    async def connect() -> ScopedConnection:
        connection = await _connect_configured(conninfo)
        # Prepare at the first use: every statement has a name and is used again.
        connection.prepare_threshold = 0
        return connection

    pool = ConnectionPool(connect, connections_max=connections_max, retry_s=CONNECT_TIMEOUT_S)
    async with ErrorTranslator():
        await pool.putconn(await pool.getconn())
    try:
        yield Database(conninfo, UUID(workspace), pool, sight)
    finally:
        await pool.close()


@asynccontextmanager
async def open_plain_database(
    conninfo: str, workspace_name: str, new_id: str, shard: Shard | None = None
) -> AsyncGenerator[Database, None]:
    """Open and migrate a database for a short-lived process, on the connection that migrated it.

    The connection that migrates is also the one that is used. Nothing is visible before ``seen_by``
    sets a viewer.

    Raises:
        DatabaseUnavailable: The database does not answer.
        InvalidOperation: The server is too old, its schema is newer than ours, a pooler is
            between this process and PostgreSQL, or the database is another shard's.
    """
    check_address(conninfo)
    async with ErrorTranslator():
        first = await _connect(conninfo)
        is_ready = False
        try:
            scope = UUID(await _prepare(first, workspace_name, new_id, shard))
            await _configure(first)
            is_ready = True
        finally:
            if not is_ready:
                await first.close()

    connections = ConnectionPool(partial(_connect_configured, conninfo), first)
    try:
        yield Database(conninfo, scope, connections)
    finally:
        await connections.close()


async def _connect(conninfo: str) -> ScopedConnection:
    # Each statement is its own transaction, because each of our SQL functions is one. A transaction
    # that a forgotten commit leaves open would block the next writer.
    return await ScopedConnection.connect(
        conninfo, autocommit=True, connect_timeout=int(CONNECT_TIMEOUT_S)
    )


async def _connect_configured(conninfo: str) -> ScopedConnection:
    connection = await _connect(conninfo)
    is_ready = False
    try:
        await _configure(connection)
        is_ready = True
    finally:
        if not is_ready:
            await connection.close()
    return connection


async def _configure(connection: ScopedConnection) -> None:
    register_arrays(connection.adapters)
    # In no workspace and for no viewer, even if the address of the database sets them.
    await _take_role(connection, "turntree_app", None, NOBODY)
    await use_indexes(connection)


async def use_indexes(connection: Connection) -> None:
    """Have a connection prefer indexes, so that its plans stay right while tables grow."""
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


async def prepare_database(
    conninfo: str, workspace_name: str, new_id: str, shard: Shard | None = None
) -> WorkspaceId:
    """Migrate the database, make sure the workspace exists and return its id.

    Raises:
        DatabaseUnavailable: The database does not answer.
        InvalidOperation: The server is too old, its schema is newer than ours, a pooler is
            between this process and PostgreSQL, or the database is another shard's.
    """
    check_address(conninfo)
    async with ErrorTranslator(), await _connect(conninfo) as connection:
        return await _prepare(connection, workspace_name, new_id, shard)


async def upgrade_database(conninfo: str, shard: Shard) -> None:
    """Migrate the database of a shard, and create no workspace.

    Raises:
        DatabaseUnavailable: The database does not answer.
        InvalidOperation: The server is too old, its schema is newer than ours, a pooler is
            between this process and PostgreSQL, or the database is another shard's.
    """
    check_address(conninfo)
    async with ErrorTranslator(), await _connect(conninfo) as connection:
        await _upgrade(connection)
        await _claim_slots(connection, shard)


async def find_slots(conninfo: str) -> str | None:
    """Return the slots that a database records; None if it was never opened with a map."""
    async with ErrorTranslator(), await _connect(conninfo) as connection:
        ((slots,),) = await fetch(connection, SQL["find_slots"])
    return None if slots is None else str(slots)


async def replace_slots(shard: Shard) -> None:
    """Have the database of a shard record the slots of the map, instead of what it recorded."""
    async with ErrorTranslator(), await _connect(shard.database_url) as connection:
        await run(connection, SQL["replace_slots"], {"slots": shard.record})


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


async def _prepare(
    connection: Connection, workspace_name: str, new_id: str, shard: Shard | None
) -> WorkspaceId:
    await _upgrade(connection)
    if shard is not None:
        await _claim_slots(connection, shard)
    found = await fetch(connection, SQL["find_workspace"], name=workspace_name)
    if not found:
        if shard is None:
            await _require_no_shard(connection, workspace_name)
        # With or without a map of shards: a ledger may get one later.
        place = {"id": place_id(new_id, workspace_name), "name": workspace_name}
        await run(connection, SQL["create_workspace"], place)
        found = await fetch(connection, SQL["find_workspace"], name=workspace_name)
    return WorkspaceId(str(found[0][0]))


async def _claim_slots(connection: Connection, shard: Shard) -> None:
    """Refuse a database that is another shard's, and record the slots of one that was new."""
    ((record,),) = await fetch(connection, SQL["find_slots"])
    if record == shard.record:
        return
    rows = await fetch(connection, SQL["list_workspaces"])
    require_slots(shard, record, [(id, name) for id, name in rows])
    await run(connection, SQL["record_slots"], {"slots": shard.record})
    ((record,),) = await fetch(connection, SQL["find_slots"])
    require_slots(shard, record, ())


async def _require_no_shard(connection: Connection, workspace_name: str) -> None:
    """Refuse to create a workspace of other slots in the database of a shard."""
    ((record,),) = await fetch(connection, SQL["find_slots"])
    if record is not None and not read_record(record).has(slot_of_name(workspace_name)):
        raise InvalidOperation(
            f"this database holds the slots {record} of a shard map, and the workspace"
            f" {workspace_name!r} leads to another shard: set shards instead of database_url",
            hint=Hint("config.list"),
        )


async def _upgrade(connection: Connection) -> None:
    ((number, version, pid),) = await fetch(connection, SQL["server_version"])
    require_direct(connection, pid)
    if number < POSTGRES_MAJOR_MIN * 10_000:
        raise InvalidOperation(
            f"PostgreSQL {version} is too old: Turntree needs {POSTGRES_MAJOR_MIN} or newer"
        )
    await migrate(connection)
    await begin_epoch_if_moved(connection)


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


def take_role_params(role: str, workspace: UUID | None, sight: Sight) -> dict[str, str]:
    """Return the parameters of the statement ``set_role``."""
    return {"role": role, "workspace": str(workspace or ""), "sight": sight}


async def _take_role(
    connection: Connection, role: str, workspace: UUID | None, sight: Sight
) -> None:
    params = take_role_params(role, workspace, sight)
    ((pid, *_),) = await fetch(connection, SQL["set_role"], **params)
    require_direct(connection, pid)


class ErrorTranslator:
    """Translates PostgreSQL's errors into errors that a caller can act on."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _raise_translated(error)


class _SharedConnection:
    """A connection that all queries of a task share within a block, until the block ends."""

    __slots__ = ("connection", "pool", "scopes", "task", "workspace")

    def __init__(self, pool: Connections, workspace: UUID, connection: ScopedConnection) -> None:
        self.pool = pool
        self.workspace = workspace
        self.connection: ScopedConnection | None = connection
        self.task = asyncio.current_task()
        self.scopes: list[Scope] = []
        """Of those who hold the connection at the moment, the innermost last."""


class _PooledConnection(AbstractAsyncContextManager[ScopedConnection]):
    """A connection of the pool, for one block.

    The pool's own context manager also ends a transaction. Ours are ended where they are started,
    and each call to the database passes through here.
    """

    __slots__ = ("_connection", "_database")

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> ScopedConnection:
        database = self._database
        try:
            self._connection = await database.pool.getconn()
            is_entered = False
            try:
                await self._connection.enter((database.workspace, database.sight))
                is_entered = True
            finally:
                if not is_entered:
                    await database.pool.putconn(self._connection)
        except psycopg.Error as error:
            _raise_translated(error)
            raise
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        connection = self._connection
        try:
            # Ours are in autocommit mode; those of the drills are not, so that they can be killed
            # in between.
            if not connection.autocommit and error is None:
                await connection.commit()
            elif not connection.autocommit:
                with contextlib.suppress(psycopg.Error):
                    await connection.rollback()
        finally:
            await self._database.pool.putconn(connection)
        if error is not None:
            await self._database.note_denial(error)
            _raise_translated(error)


class _TransactionConnection(AbstractAsyncContextManager[ScopedConnection]):
    """The connection of a transaction that this task has started in an outer block."""

    __slots__ = ("_connection", "_kept", "_scope")

    def __init__(
        self, database: Database, kept: _SharedConnection, connection: ScopedConnection
    ) -> None:
        self._scope = database.workspace, database.sight
        self._kept = kept
        self._connection = connection

    async def __aenter__(self) -> ScopedConnection:
        await self._connection.enter(self._scope)
        self._kept.scopes.append(self._scope)
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        connection, scopes = self._connection, self._kept.scopes
        scopes.pop()
        if connection.is_busy():
            # A command was canceled and did not end. As whom the block around this one would go on
            # is not certain, so it does not.
            await connection.close()
        # That block holds the same connection, and goes on as its own viewer.
        if scopes and not connection.closed and not connection.has_failed():
            await connection.enter(scopes[-1])
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
