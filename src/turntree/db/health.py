"""Whether a database is fit to hold a ledger. Looks, and never changes or starts anything.

Not whether its facts are true: that is ``store.fsck``'s.
"""

from typing import Final

import psycopg
from psycopg import AsyncConnection

from turntree.core.value import value
from turntree.db.database import (
    CONNECT_TIMEOUT_S,
    Row,
    check_address,
    fetch,
    require_direct,
    translated,
)
from turntree.db.migrate import list_migrations

ROLES: Final = (
    "turntree_app",
    "turntree_eraser",
    "turntree_importer",
    "turntree_reader",
    "turntree_searcher",
)


@value
class Health:
    """What was found."""

    version: str
    version_number: int
    missing_migrations: tuple[str, ...]
    missing_roles: tuple[str, ...]
    unwalled_tables: tuple[str, ...]
    """Tables whose rows other workspaces could see."""
    strayed_functions: tuple[str, ...]
    """Functions that lend the rights of somebody else than the searcher."""
    size_bytes: int


async def examine(conninfo: str) -> Health:
    """Return how a database is.

    Raises:
        Unreachable: It does not answer.
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
    ((number, version, pid),) = await fetch(connection, "server_version")
    require_direct(connection, pid)
    ((is_known,),) = await fetch(connection, "migrations_exist")
    applied = await fetch(connection, "list_migrations") if is_known else []
    done = {name for (name,) in applied}
    roles = {name for (name,) in await fetch(connection, "list_roles")}
    unwalled = await fetch(connection, "list_tables_without_row_security")
    strayed = await fetch(connection, "list_misowned_functions")
    ((size,),) = await fetch(connection, "database_size")
    return Health(
        version=version,
        version_number=number,
        missing_migrations=tuple(m.name for m in list_migrations() if m.name not in done),
        missing_roles=tuple(role for role in ROLES if role not in roles),
        unwalled_tables=tuple(name for (name,) in unwalled),
        strayed_functions=tuple(name for (name,) in strayed),
        size_bytes=size,
    )
