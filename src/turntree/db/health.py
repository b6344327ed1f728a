"""Checks whether a database can hold a ledger. It only reads, and starts nothing.

Whether the ledger's content is intact is for ``integrity.fsck`` to say.
"""

from typing import Final

import psycopg
from psycopg import AsyncConnection

from turntree.core.value import value
from turntree.db.database import SQL as DATABASE_SQL
from turntree.db.database import (
    Row,
    check_address,
    fetch,
    require_direct,
    translated,
)
from turntree.db.migrate import SQL as MIGRATION_SQL
from turntree.db.migrate import list_migrations
from turntree.db.pool import CONNECT_TIMEOUT_S
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

ROLES: Final = (
    "turntree_app",
    "turntree_eraser",
    "turntree_importer",
    "turntree_reader",
    "turntree_searcher",
)


@value
class Health:
    """The result of an examination."""

    version: str
    version_number: int
    missing_migrations: tuple[str, ...]
    missing_roles: tuple[str, ...]
    unwalled_tables: tuple[str, ...]
    """Tables whose rows other workspaces could see."""
    strayed_functions: tuple[str, ...]
    """SECURITY DEFINER functions that do not belong to the searcher."""
    size_bytes: int


async def examine(conninfo: str) -> Health:
    """Examine a database.

    Raises:
        DatabaseUnavailable: The database does not answer.
    """
    check_address(conninfo)
    try:
        connection = await AsyncConnection[Row].connect(
            conninfo, autocommit=True, connect_timeout=int(CONNECT_TIMEOUT_S)
        )
        async with connection:
            return await _examine(connection)
    except psycopg.Error as error:
        raise translated(error) from error


async def _examine(connection: AsyncConnection[Row]) -> Health:
    ((number, version, pid),) = await fetch(connection, DATABASE_SQL["server_version"])
    require_direct(connection, pid)
    ((is_known,),) = await fetch(connection, MIGRATION_SQL["migrations_exist"])
    applied = await fetch(connection, MIGRATION_SQL["list_migrations"]) if is_known else []
    done = {name for (name,) in applied}
    roles = {name for (name,) in await fetch(connection, SQL["list_roles"])}
    unprotected = await fetch(connection, SQL["list_tables_without_row_security"])
    misowned = await fetch(connection, MIGRATION_SQL["list_misowned_functions"])
    ((size,),) = await fetch(connection, SQL["database_size"])
    return Health(
        version=version,
        version_number=number,
        missing_migrations=tuple(m.name for m in list_migrations() if m.name not in done),
        missing_roles=tuple(role for role in ROLES if role not in roles),
        unwalled_tables=tuple(name for (name,) in unprotected),
        strayed_functions=tuple(name for (name,) in misowned),
        size_bytes=size,
    )
