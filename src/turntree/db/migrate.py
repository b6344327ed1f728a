"""Brings a database up to the schema that this version of the code expects.

Migrations are numbered SQL files that run once, in order. A ``pre`` file must leave the previous
release working; a ``post`` file runs when no process of the previous release is left. Functions and
policies are replaced only by those of a higher schema number, or created again after a restore gave
them to another owner. Everything runs in one transaction under one lock, so several processes may
start at once.
"""

from typing import Any

from psycopg import AsyncConnection

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.db.schema import (
    Schema,
    find_schema,
    is_schema_mark,
    require_no_newer,
    this_schema,
)
from turntree.db.sql import load_files, load_statements

SQL = load_statements(__file__)

LOCK = 7_388_102_645  # Arbitrary, but the same in every process.


@value
class Migration:
    """One file that changes the schema."""

    name: str
    text: str

    @property
    def is_post(self) -> bool:
        """Whether it has to wait until no process of the previous release is left."""
        return self.name.split("_")[1] == "post"


def list_migrations() -> list[Migration]:
    """Return all migrations, in order."""
    return [Migration(name, text) for name, text in load_files("migrations")]


async def migrate(
    connection: AsyncConnection[Any], *, post: bool = True, upto: int | None = None
) -> list[str]:
    """Apply missing migrations and return their names; an up-to-date database is only read.

    ``upto`` stops after that many migrations, for tests that upgrade from each earlier one.

    Raises:
        InvalidOperation: The database has a newer schema, a different one with the same number, or
            one from before the first release.
    """
    ours = this_schema()
    wanted = [m for m in list_migrations()[:upto] if post or not m.is_post]
    done, is_in_force = await _applied(connection, ours)
    if {m.name for m in wanted} <= done and (is_in_force or upto is not None):
        return []
    async with connection.transaction():
        await connection.execute(SQL["migration_lock"], {"lock": LOCK})
        await connection.execute(SQL["create_migrations"])
        done, is_in_force = await _applied(connection, ours)
        steps = [(m.name, m.text) for m in wanted if m.name not in done]
        if upto is None and not is_in_force:
            await connection.execute(SQL["delete_function_versions"])
            steps.append((ours.mark, "\n".join(text for _, text in load_files("functions"))))
        for name, text in steps:
            await connection.execute(text.encode())
            await connection.execute(SQL["log_migration"], {"name": name})
        return [name for name, _ in steps]


async def begin_epoch_if_moved(connection: AsyncConnection[Any]) -> bool:
    """Start a new epoch of the feed if this database was restored into another cluster.

    Returns whether it did.
    """
    async with connection.transaction():
        cursor = await connection.execute(SQL["begin_epoch"])
        began = await cursor.fetchone() is not None
        if began:
            await connection.execute(SQL["set_epoch"])
        return began


def _require_known(names: set[str]) -> None:
    """Refuse a database from before the first release, whose migrations became one file.

    The names in it changed, and with them the digests of its events, so no migration could convert
    it.

    Raises:
        InvalidOperation: It has migrations that this release does not know.
    """
    known = {migration.name for migration in list_migrations()}
    if any(name not in known for name in names if not is_schema_mark(name)):
        raise InvalidOperation(
            "this database has a schema from before 0.1.0, which cannot be upgraded:"
            " import your sessions into a new one"
        )


async def _applied(connection: AsyncConnection[Any], ours: Schema) -> tuple[set[str], bool]:
    """Return the applied migrations, and whether our functions are installed."""
    exists = await (await connection.execute(SQL["migrations_exist"])).fetchone()
    if exists is None or not exists[0]:
        return set(), False
    rows = await connection.execute(SQL["list_migrations"])
    names = {name for (name,) in await rows.fetchall()}
    found = find_schema(names)
    if found is not None:
        require_no_newer(ours, *found)
    _require_known(names)
    if found is None:
        return names, False
    # After a restore without owners, SECURITY DEFINER functions run with the privileges of another
    # role than the searcher. Creating them again gives them their owner back.
    misowned = await connection.execute(SQL["list_misowned_functions"])
    return names, found[0] == ours and await misowned.fetchone() is None
