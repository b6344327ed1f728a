"""Databases that are put back instead of made anew: emptying a few tables is cheaper than a clone.

A test borrows a database that is as its template was. Afterwards all its connections are ended, and
the tables that were written get their rows of before. PostgreSQL counts what was written: where it
counted no change of a catalog and only a few pages of rows, those are deleted. Otherwise the schema
is compared and tables are truncated, which makes new files for them, their indexes and whatever
refers to them, and takes five times as long. A database whose schema is no longer the template's,
or that cannot be put back for any reason, is dropped: the next test gets a clone. Knows the
catalogs of PostgreSQL. Must never know what a table of ours means.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from turntree.db.embedded.logins import OWNER, SUPERUSER, as_login

Connection = psycopg.Connection[tuple[object, ...]]
Mark = tuple[int, int]
"""How many rows a table has and which transaction wrote the newest: both change with any write."""

FAREWELL_MAX_MS = 10_000
LOCK_MAX_MS = 10_000
DELETED_MAX_BYTES = 64 * 1024
"""A table of more is truncated. Below ten pages, the planner guesses ten for every table without
statistics, so that what was deleted does not change a plan."""

# Whatever defines something leaves a row here; whoever changes it leaves a newer one, whoever
# removes it one less. Temporary tables are left out, for they go when their connection does.
SCHEMA = """
SELECT 'class', count(*),
       md5(string_agg(format('%s %s %s %s %s %s %s %s', oid, relname, relnamespace, relowner,
                             relacl, reloptions, relrowsecurity, relforcerowsecurity),
                      ',' ORDER BY oid))
  FROM pg_class WHERE oid >= 16384 AND relpersistence <> 't'
UNION ALL SELECT 'namespace', count(*), md5(string_agg(concat(oid, xmin), ',' ORDER BY oid))
  FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
UNION ALL SELECT 'attribute', count(*), max(a.xmin::text::bigint)::text
  FROM pg_attribute AS a JOIN pg_class ON pg_class.oid = attrelid
 WHERE attrelid >= 16384 AND relpersistence <> 't'
UNION ALL SELECT 'default', count(*), max(d.xmin::text::bigint)::text
  FROM pg_attrdef AS d JOIN pg_class ON pg_class.oid = adrelid WHERE relpersistence <> 't'
UNION ALL SELECT 'constraint', count(*), max(c.xmin::text::bigint)::text
  FROM pg_constraint AS c JOIN pg_class ON pg_class.oid = conrelid WHERE relpersistence <> 't'
UNION ALL SELECT 'domain', count(*), max(xmin::text::bigint)::text
  FROM pg_type WHERE typrelid = 0 AND typelem = 0 AND oid >= 16384
UNION ALL SELECT 'rewrite', count(*), max(xmin::text::bigint)::text FROM pg_rewrite
UNION ALL SELECT 'function', count(*), max(xmin::text::bigint)::text FROM pg_proc WHERE oid >= 16384
UNION ALL SELECT 'trigger', count(*), max(xmin::text::bigint)::text FROM pg_trigger
UNION ALL SELECT 'policy', count(*), max(xmin::text::bigint)::text FROM pg_policy
UNION ALL SELECT 'rights', count(*), max(xmin::text::bigint)::text FROM pg_default_acl
UNION ALL SELECT 'extension', count(*), max(xmin::text::bigint)::text FROM pg_extension
UNION ALL SELECT 'publication', count(*), max(xmin::text::bigint)::text FROM pg_publication
UNION ALL SELECT 'large object', count(*), max(xmin::text::bigint)::text
  FROM pg_largeobject_metadata
UNION ALL SELECT 'statistics', count(*), max(s.xmin::text::bigint)::text FROM pg_statistic AS s
  JOIN pg_class ON pg_class.oid = starelid WHERE relpersistence <> 't' AND starelid >= 16384
UNION ALL SELECT 'setting', count(*), string_agg(concat(setrole, setconfig), ',' ORDER BY setrole)
  FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
 WHERE datname = current_database()
UNION ALL SELECT 'database', 1, concat(datacl, datdba) FROM pg_database
 WHERE datname = current_database()
"""
# What tells whether anything but rows may have changed. A catalog counts its rows like any table;
# counters that a test has reset are of another time. Statistics of tables are written in place.
STATE = """
SELECT (SELECT stats_reset::text FROM pg_stat_database WHERE datname = current_database()),
       (SELECT concat(datacl, datdba) FROM pg_database WHERE datname = current_database()),
       (SELECT string_agg(concat(setrole, setconfig), ',' ORDER BY setrole)
          FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
         WHERE datname = current_database()),
       (SELECT concat(sum(reltuples), ' ', sum(relpages)) FROM pg_class
         WHERE oid >= 16384 AND relkind = 'r' AND relpersistence <> 't'),
       (SELECT sum(pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
                   + pg_stat_get_tuples_deleted(oid))
          FROM pg_class WHERE oid < 16384 AND relkind = 'r' AND NOT relisshared)
"""
WRITTEN = """
SELECT oid::regclass::text,
       pg_relation_size(oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0)
  FROM pg_class
 WHERE oid >= 16384 AND relkind = 'r' AND relpersistence <> 't'
   AND pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
       + pg_stat_get_tuples_deleted(oid) > 0
 ORDER BY 1
"""
TABLES = """
SELECT oid::regclass::text, pg_relation_size(oid) > 0 FROM pg_class
 WHERE oid >= 16384 AND relkind = 'r' AND relpersistence <> 't' ORDER BY 1
"""
REFERENCES = """
SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'
"""
SEQUENCES = """
SELECT seqrelid::regclass::text, pg_sequence_last_value(seqrelid), seqstart
  FROM pg_sequence ORDER BY 1
"""
LEFTOVERS = """
SELECT bool_and(pg_terminate_backend(pid, %s)) FROM pg_stat_activity
 WHERE datname = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
QUIETLY = (
    "-c session_replication_role=replica -c client_min_messages=warning"
    f" -c lock_timeout={LOCK_MAX_MS} -c statement_timeout=0"
)
"""No trigger and no foreign key stops whoever puts things back."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a template holds."""

    rows: Mapping[str, bytes]
    """Each table that is not empty, as COPY writes it."""
    sequences: list[tuple[object, ...]]
    above: Mapping[str, frozenset[str]]
    """The tables that cannot be emptied without these others."""


@dataclass(slots=True)
class Clone:
    """One database and how it looked when it was last as its template is."""

    name: str
    schema: list[tuple[object, ...]]
    marks: dict[str, Mark]
    state: list[tuple[object, ...]]


@dataclass(slots=True)
class Databases:
    """The databases of one test process."""

    server: str
    """How to reach the maintenance database."""
    idle: dict[str, list[Clone]] = field(default_factory=lambda: defaultdict(list))
    contents: dict[str, Content] = field(default_factory=dict[str, Content])
    clones_made: int = 0

    @contextmanager
    def lend(self, template: str) -> Generator[str, None, None]:
        """How to reach a database that is as the template was, as a superuser."""
        waiting = self.idle[template]
        clone = waiting.pop() if waiting else self._clone(template)
        try:
            yield make_conninfo(self.server, dbname=clone.name)
        finally:
            if self._put_back(clone, self.contents[template]):
                waiting.append(clone)
            else:
                self.drop(clone.name)

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(_with_names("DROP DATABASE IF EXISTS {} WITH (FORCE)", name))

    def _clone(self, template: str) -> Clone:
        name = f"test_{os.urandom(6).hex()}"
        self.clones_made += 1
        with psycopg.connect(self.server, autocommit=True) as connection:
            # Copying files takes half the time of logging their pages, where nothing has to last.
            made = "CREATE DATABASE {} OWNER turntree TEMPLATE {} STRATEGY FILE_COPY"
            connection.execute(_with_names(made, name, template))
        with self._enter(name) as connection:
            if template not in self.contents:
                self.contents[template] = _read_content(connection)
            content = self.contents[template]
            marks = _marks_of(connection, content.rows)
            return Clone(name, _schema_of(connection), marks, _begin_to_count(connection))

    def _put_back(self, clone: Clone, content: Content) -> bool:
        """Say whether the database is as its template was."""
        try:
            with self._enter(clone.name) as connection:
                if not _put_everybody_out(connection, clone.name):
                    return False
                if not _delete(connection, clone, content):
                    if _schema_of(connection) != clone.schema:
                        return False
                    _restore(connection, clone, content)
                clone.state = _begin_to_count(connection)
        except psycopg.Error:
            # A clone is always right, whatever a test has done to this one.
            return False
        return True

    def _enter(self, name: str) -> Connection:
        return psycopg.connect(self.server, dbname=name, autocommit=True, options=QUIETLY)


def as_superuser(conninfo: str) -> str:
    """How tests forge and tidy up: past every policy, in the maintenance database."""
    return make_conninfo(conninfo, user=SUPERUSER, dbname="postgres")


def forget_roles(server: str) -> None:
    """Make a cluster as bare as one that no release of ours has seen."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE turntree")
        for (role,) in connection.execute(
            "SELECT rolname::text FROM pg_roles WHERE rolname ~ '^turntree'"
        ).fetchall():
            connection.execute(_with_names("DROP ROLE {}", str(role)))


def as_owner(conninfo: str) -> str:
    """How the product connects to the same database."""
    return as_login(conninfo, OWNER)


def _put_everybody_out(connection: Connection, name: str) -> bool:
    ((ended,),) = connection.execute(LEFTOVERS, (FAREWELL_MAX_MS, name)).fetchall()
    return ended is not False


def _schema_of(connection: Connection) -> list[tuple[object, ...]]:
    return connection.execute(SCHEMA.encode()).fetchall()


def _read_content(connection: Connection) -> Content:
    tables = connection.execute(TABLES.encode()).fetchall()
    marks = _marks_of(connection, [str(table) for table, has_pages in tables if has_pages])
    rows = {table: _copy_out(connection, table) for table, (count, _) in marks.items() if count}
    below = connection.execute(REFERENCES.encode()).fetchall()
    above: dict[str, set[str]] = defaultdict(set)
    for table, reference in below:
        above[str(reference)].add(str(table))
    names = [str(table) for table, _ in tables]
    return Content(
        rows,
        connection.execute(SEQUENCES.encode()).fetchall(),
        {name: frozenset(_closure(name, above)) for name in names},
    )


def _closure(name: str, above: Mapping[str, set[str]]) -> set[str]:
    found, waiting = {name}, [name]
    while waiting:
        new = above.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _marks_of(connection: Connection, tables: Iterable[str]) -> dict[str, Mark]:
    """Return the mark of each table, in one question."""
    one = "SELECT '{0}', count(*), coalesce(max(xmin::text::bigint), 0) FROM {0}"
    question = " UNION ALL ".join(one.format(table) for table in tables)
    if not question:
        return {}
    found = connection.execute(question.encode()).fetchall()
    return {str(table): (int(str(count)), int(str(newest))) for table, count, newest in found}


def _copy_out(connection: Connection, table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)".encode()) as copy:
        return b"".join(bytes(block) for block in copy)


def _begin_to_count(connection: Connection) -> list[tuple[object, ...]]:
    """Set all counters back, which tests ask for too, and return what they begin with."""
    # What this connection has counted would come later otherwise.
    connection.execute("SELECT pg_stat_force_next_flush()")
    connection.execute("SELECT pg_stat_reset()")
    return connection.execute(STATE.encode()).fetchall()


def _delete(connection: Connection, clone: Clone, content: Content) -> bool:
    """Say whether the rows of the template are back, which few deleted rows are enough for."""
    if connection.execute(STATE.encode()).fetchall() != clone.state:
        return False
    written = connection.execute(WRITTEN.encode()).fetchall()
    if any(int(str(size)) > DELETED_MAX_BYTES for _, size in written):
        return False
    tables = [str(table) for table, _ in written]
    with connection.transaction():
        for table in tables:
            connection.execute(f"DELETE FROM {table}".encode())  # noqa: S608, names of catalogs
        _fill(connection, clone, [table for table in tables if table in content.rows], content)
        _restore_sequences(connection, content)
    return True


def _fill(connection: Connection, clone: Clone, tables: Iterable[str], content: Content) -> None:
    for table in tables:
        with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as copy:
            copy.write(content.rows[table])
    clone.marks.update(_marks_of(connection, tables))


def _restore(connection: Connection, clone: Clone, content: Content) -> None:
    """Empty what was written, and fill what was not empty."""
    tables = connection.execute(TABLES.encode()).fetchall()
    written = {str(t) for t, has_pages in tables if has_pages and t not in content.rows}
    marks = _marks_of(connection, content.rows)
    written |= {table for table in content.rows if marks[table] != clone.marks[table]}
    wiped = sorted(frozenset[str]().union(*(content.above[table] for table in written)))
    with connection.transaction():
        if wiped:
            connection.execute(f"TRUNCATE {', '.join(wiped)}".encode())
        _fill(connection, clone, [table for table in wiped if table in content.rows], content)
        _restore_sequences(connection, content)


def _restore_sequences(connection: Connection, content: Content) -> None:
    moved = set(connection.execute(SEQUENCES.encode()).fetchall()) - set(content.sequences)
    for name, _, _ in moved:
        ((before, start),) = [(last, start) for n, last, start in content.sequences if n == name]
        value = start if before is None else before
        connection.execute("SELECT setval(%s, %s, %s)", (name, value, before is not None))


def _with_names(statement: LiteralString, *names: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, names))
