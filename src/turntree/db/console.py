"""Runs SQL queries of people, with a login that can only read.

A query can change any setting of its connection while it runs, so a role or workspace that is
merely set does not restrict it. It therefore runs on a connection of its own, whose login is a
member of the reader role and of nothing else, in a transaction that the application has bound to a
workspace and a viewer, and through a cursor, which accepts only queries.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import psycopg
from psycopg import AsyncConnection

from turntree.core.errors import Hint, InvalidOperation, PermissionDenied
from turntree.core.pattern import pattern
from turntree.core.value import value
from turntree.db.database import (
    Connection,
    Database,
    ErrorTranslator,
    Row,
    check_address,
    fetch,
    run,
    translated,
)
from turntree.db.pool import CONNECT_TIMEOUT_S
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

READER = "turntree_reader"
TOOK_TOO_LONG = "the query took too long"
READ_ONLY = "the console is read-only"
# How a statement begins that is valid SQL but not a query, after blanks and comments.
CHANGES = pattern(
    r"(?is)(?:\s|--[^\n]*\n|/\*.*?\*/|\()*"
    r"(?:alter|analyze|begin|call|cluster|comment|commit|copy|create|delete|do|drop|grant|import"
    r"|insert|listen|lock|merge|notify|reassign|refresh|reindex|reset|revoke|rollback|set|truncate"
    r"|update|vacuum)\b"
)
PATIENCE_S = 5.0
"""Seconds to wait after the server's own timeout should have ended the query."""


@value
class QueryResult:
    """The rows of a query."""

    columns: tuple[str, ...]
    rows: list[Row]
    is_cut: bool
    """Whether there were more rows than the limit."""


async def ask(
    database: Database, console: str, statement: str, *, limit: int, timeout_s: float
) -> QueryResult:
    """Run one query as the console's login and return its first rows.

    Raises:
        InvalidOperation: The server cannot parse it, it is not a query, or it takes too long.
        PermissionDenied: The console's login may do more than read.
    """
    async with _open_console(database, console, timeout_s) as connection:
        try:
            with anyio.fail_after(timeout_s + PATIENCE_S):
                # A server-side cursor: the server parses the statement as a query or rejects it,
                # there can be no second statement, and it computes no more rows than are fetched.
                async with connection.cursor(name="question") as cursor:
                    await cursor.execute(cast("Any", statement))
                    rows = await cursor.fetchmany(limit + 1)
                    columns = tuple(column.name for column in cursor.description or ())
                return QueryResult(columns, rows[:limit], is_cut=len(rows) > limit)
        except TimeoutError as error:
            raise InvalidOperation(TOOK_TOO_LONG, hint=Hint("sql.extend_timeout")) from error
        except psycopg.Error as error:
            known = translated(error)
            if known is error or isinstance(error, psycopg.errors.QueryCanceled):
                raise _explain(error, statement) from error
            raise known from error


async def list_views(database: Database) -> list[tuple[str, list[str]]]:
    """Return the views that people may query, each with its columns."""
    return [(view, columns) for view, columns in await database.fetch(SQL["list_views"])]


@asynccontextmanager
async def _open_console(
    database: Database, console: str, timeout_s: float
) -> AsyncGenerator[Connection, None]:
    check_address(console)
    async with ErrorTranslator():
        connection = await AsyncConnection[Row].connect(
            console, connect_timeout=int(CONNECT_TIMEOUT_S)
        )
    async with connection:
        # All statements from here on are in one transaction, which cannot be made writable.
        await connection.set_read_only(True)
        async with ErrorTranslator():
            await _require_reader(connection)
            scope = {"workspace": str(database.workspace), "viewer": database.sight}
            await run(connection, SQL["set_console_role"], {**scope, "timeout": f"{timeout_s}s"})
            await _bind(database, connection)
        yield connection
        await connection.rollback()


async def _require_reader(connection: Connection) -> None:
    """Refuse a login that could do more than a reader, even if an administrator configured it."""
    ((login, is_reader, powers, roles, owns),) = await fetch(connection, SQL["describe_login"])
    if not is_reader:
        raise PermissionDenied(
            f"the login {login} is not a member of {READER}: GRANT {READER} TO {login}"
        )
    found = [*powers, *(f"a member of {role}" for role in roles), *(["an owner"] if owns else [])]
    if found:
        raise PermissionDenied(
            f"the login {login} is {', '.join(found)}; questions are asked by one that is a member"
            f" of {READER} and nothing else: name another in console_url"
        )


async def _bind(database: Database, connection: Connection) -> None:
    """Bind the transaction to a workspace and a viewer, from another connection."""
    ((pid, transaction),) = await fetch(connection, SQL["name_transaction"])
    await database.run(SQL["bind_console"], pid=pid, transaction=transaction, viewer=database.sight)
    scope = {"workspace": database.workspace, "viewer": database.sight}
    ((is_bound,),) = await fetch(connection, SQL["is_bound"], **scope)
    if not is_bound:
        raise InvalidOperation("console_url names another database than the ledger's")


def _explain(error: psycopg.Error, statement: str) -> InvalidOperation:
    message = error.diag.message_primary or str(error).strip()
    match error:
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn():
            return InvalidOperation(message, hint=Hint("sql.list_views"))
        case psycopg.errors.QueryCanceled():
            return InvalidOperation(TOOK_TOO_LONG, hint=Hint("sql.extend_timeout"))
        case psycopg.errors.SyntaxError() if "multiple commands" in message:
            return InvalidOperation("several statements given: run one query at a time")
        case psycopg.errors.SyntaxError() if CHANGES.match(statement):
            return InvalidOperation(
                f"{READ_ONLY}\nonly a query can be asked (SELECT, VALUES, TABLE or WITH)",
                hint=Hint("sql.list_views"),
            )
        case psycopg.errors.ReadOnlySqlTransaction() | psycopg.errors.FeatureNotSupported() if (
            "read-only" in message or "data-modifying" in message
        ):
            return InvalidOperation(
                f"{READ_ONLY}: the query would change something", hint=Hint("sql.list_views")
            )
        case psycopg.errors.SyntaxError():
            return InvalidOperation(
                f"{message}: only a query can be asked (SELECT, VALUES, TABLE or WITH)"
            )
        case _:
            hint = error.diag.message_hint
            return InvalidOperation(message if hint is None else f"{message}\n{hint}")
