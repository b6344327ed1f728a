"""What people ask in SQL of their own, answered under the role that can only read.

Whoever asks sees what they would see anywhere else, and the views of the schema ``ledger`` need not
be spelt out. Knows nothing of what is asked. Must never change anything.
"""

from dataclasses import dataclass
from typing import Any, cast

import psycopg

from turntree.domain.errors import Refused
from turntree.store.database import Connection, Database, Row, fetch, run, translated

READER = "turntree_reader"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave."""

    columns: tuple[str, ...]
    rows: list[Row]
    is_cut: bool
    """Whether there were more rows than were asked for."""


async def ask(database: Database, statement: str, *, limit: int, timeout_s: float) -> Answer:
    """Run one statement that reads, and return its first rows.

    Raises:
        Refused: The server cannot make sense of it, or it would change something, or it takes too
            long.
    """
    async with database.acting_as(READER) as connection:
        await run(connection, "ask_as_people", {"timeout": f"{timeout_s}s"})
        try:
            return await _first_rows(connection, statement, limit)
        except psycopg.Error as error:
            known = translated(error)
            if known is error or isinstance(error, psycopg.errors.QueryCanceled):
                raise Refused(_told(error)) from error
            raise known from error


async def list_views(database: Database) -> list[tuple[str, list[str]]]:
    """Return the views that are made for people, each with its columns."""
    async with database.acting_as(READER) as connection:
        return [(view, columns) for view, columns in await fetch(connection, "list_views")]


async def _first_rows(connection: Connection, statement: str, limit: int) -> Answer:
    rows: list[Row] = []
    async with connection.cursor() as cursor:
        # One row at a time, so that a statement without an end takes no room here. What people type
        # is what is sent: there is nothing to glue into it.
        async for row in cursor.stream(cast("Any", statement)):
            if len(rows) == limit:
                return Answer(_columns(cursor), rows, is_cut=True)
            rows.append(row)
        return Answer(_columns(cursor), rows, is_cut=False)


def _columns(cursor: psycopg.AsyncCursor[Row]) -> tuple[str, ...]:
    return tuple(column.name for column in cursor.description or ())


def _told(error: psycopg.Error) -> str:
    said = error.diag.message_primary or str(error).strip()
    match error:
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn():
            return f"{said}: the views are listed by `turntree sql`"
        case psycopg.errors.QueryCanceled():
            return "it took too long: --timeout gives it more seconds"
        case psycopg.errors.ReadOnlySqlTransaction():
            return f"{said}: nothing can be changed this way"
        case psycopg.errors.SyntaxError() if "multiple commands" in said:
            return "these are several statements: one at a time can be asked"
        case psycopg.ProgrammingError() if error.sqlstate is None:
            return "it has no answer: only what reads rows can be asked"
        case _:
            return said if error.diag.message_hint is None else f"{said}\n{error.diag.message_hint}"
