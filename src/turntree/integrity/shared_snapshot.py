"""One state of a workspace that several connections read, in this process and in others."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
from psycopg import ClientCursor, Connection, IsolationLevel

from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import SQL as DATABASE_SQL
from turntree.db.database import require_direct, take_role_params, translated
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@value
class SharedSnapshot:
    """A snapshot of a workspace, exported by a connection whose transaction is still open."""

    conninfo: str
    workspace: UUID
    snapshot: str

    @contextmanager
    def joined(self) -> Generator["Connection[tuple[Any, ...]]", None, None]:
        """Open a connection that uses it."""
        try:
            with psycopg.connect(self.conninfo, autocommit=True) as connection:
                role = take_role_params("turntree_app", self.workspace, EVERYTHING)
                taken = connection.execute(DATABASE_SQL["set_role"], role).fetchone()
                assert taken is not None, "it has one row"
                require_direct(connection, taken[0])
                # All readers see one state. A turn that is sealed while we read would otherwise be
                # in one table and not in another, and look like damage.
                connection.isolation_level = IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                connection.prepare_threshold = 0
                with connection.transaction():
                    ClientCursor(connection).execute(SQL["fsck_join"], {"snapshot": self.snapshot})
                    connection.execute(SQL["fsck_spelling"])
                    yield connection
        except psycopg.Error as error:
            raise translated(error) from error
