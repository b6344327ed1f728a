"""Sets up an embedded server: logins, roles, the database and its owners.

The only code that acts as a superuser. It runs when a home is new, or was created by a release
whose processes were all superusers: what those created is then given to the owner. Must never read
a row.
"""

from collections.abc import Mapping

import psycopg
from psycopg.conninfo import make_conninfo

from turntree.db.database import SQL as DATABASE_SQL
from turntree.db.embedded.logins import CONSOLE, DATABASE, ENGINE, OWNER, SUPERUSER, verifier_of
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

_Connection = psycopg.Connection[tuple[object, ...]]


def provision(conninfo: str, passwords: Mapping[str, str]) -> None:
    """Set up the cluster; repeating it changes nothing.

    ``conninfo`` is the superuser's, to any database.
    """
    with psycopg.connect(conninfo, dbname="postgres", autocommit=True) as connection:
        for login in (OWNER, CONSOLE, ENGINE, SUPERUSER):
            params = {"login": login, "verifier": verifier_of(passwords[login])}
            connection.execute(SQL["tell_login"], params)
            connection.execute(SQL["make_login"])
        connection.execute(SQL["make_roles"])
        # Only a superuser may install it, and every database created from now on has it.
        with psycopg.connect(conninfo, dbname="template1", autocommit=True) as model:
            model.execute(SQL["make_vectors"])
        if connection.execute(DATABASE_SQL["find_database"], {"name": DATABASE}).fetchone() is None:
            connection.execute(SQL["make_database"])
        names = connection.execute(SQL["list_databases"]).fetchall()
    for (name,) in names:
        with psycopg.connect(make_conninfo(conninfo, dbname=str(name)), autocommit=True) as inside:
            _hand_over(inside, is_main=name == DATABASE)


def _hand_over(connection: _Connection, *, is_main: bool) -> None:
    """Give the ledger's objects to its owner, and the queue to the engine."""
    row = connection.execute(SQL["holds_ledger"]).fetchone()
    if is_main or (row is not None and row[0]):
        with connection.transaction():
            connection.execute(SQL["make_vectors"])
            connection.execute(SQL["hand_over"])
