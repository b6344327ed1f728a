"""A database that a test gave back is as if nobody had ever had it."""

from collections.abc import Generator

import psycopg
import pytest

from tests.databases import Databases

ROWS = (
    "SELECT id::text, name FROM turntree.workspaces ORDER BY id",
    "SELECT name FROM turntree_migrations ORDER BY name",
    "SELECT count(*) FROM turntree.sessions",
    "SELECT seqrelid::regclass, pg_sequence_last_value(seqrelid) FROM pg_sequence",
    "SELECT count(*) FROM pg_proc",
    "SELECT count(*) FROM pg_statistic WHERE starelid >= 16384",
)
WRITES = {
    "a new row": "INSERT INTO turntree.workspaces (id, name) VALUES (gen_random_uuid(), 'new')",
    "a changed row": "UPDATE turntree.workspaces SET name = 'other'",
    "no rows": "TRUNCATE turntree_migrations",
    "a number": "SELECT nextval('turntree.events_n_seq')",
    "a temporary table": "CREATE TEMPORARY TABLE passing AS SELECT 1 AS one",
    "what was taken back": "BEGIN; DELETE FROM turntree.workspaces; ROLLBACK",
}
CHANGES = {
    "a function": "CREATE FUNCTION turntree.answer() RETURNS int LANGUAGE sql AS 'SELECT 42'",
    "a replaced function": (
        "CREATE OR REPLACE FUNCTION turntree.forbid_change() RETURNS trigger"
        " LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    ),
    "a table": "CREATE TABLE public.mine (one int)",
    "a column": "ALTER TABLE turntree.workspaces ADD COLUMN more text",
    "a right": "GRANT DELETE ON turntree.workspaces TO turntree_app",
    "a policy": "CREATE POLICY all_of_it ON turntree.workspaces USING (true)",
    "a sleeping trigger": "ALTER TABLE turntree.turns DISABLE TRIGGER USER",
    "a view": "CREATE VIEW turntree.seen AS SELECT 1 AS one",
    "a schema": "CREATE SCHEMA other",
    "a wall": "ALTER TABLE turntree.sessions DISABLE ROW LEVEL SECURITY",
    "statistics": "ANALYZE turntree.workspaces",
    "a setting": "ALTER DATABASE {name} SET work_mem = '7MB'",
}


@pytest.fixture
def own(server: str) -> Generator[Databases, None, None]:
    """Databases that no other test borrows."""
    databases = Databases(server)
    yield databases
    for clones in databases.idle.values():
        for clone in clones:
            databases.drop(clone.name)


def look(conninfo: str) -> list[object]:
    with psycopg.connect(conninfo) as connection:
        return [connection.execute(rows.encode()).fetchall() for rows in ROWS]


def do(conninfo: str, statement: str) -> None:
    options = "-c session_replication_role=replica"
    with psycopg.connect(conninfo, autocommit=True, options=options) as connection:
        connection.execute(statement.format(name=connection.info.dbname).encode())


@pytest.mark.parametrize("statement", WRITES.values(), ids=WRITES.keys())
def test_what_was_written_is_gone(own: Databases, template: str, statement: str) -> None:
    with own.lend(template) as first:
        before = look(first)
        do(first, statement)
    with own.lend(template) as second:
        assert second == first
        assert look(second) == before


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES.keys())
def test_a_database_with_another_schema_is_not_lent_again(
    own: Databases, template: str, statement: str
) -> None:
    with own.lend(template) as first:
        before = look(first)
        do(first, statement)
    with own.lend(template) as second:
        assert second != first
        assert look(second) == before


def test_a_connection_that_was_left_open_is_ended_before_the_next_test(
    own: Databases, template: str
) -> None:
    with own.lend(template) as first:
        left = psycopg.connect(first)
        left.execute("LOCK TABLE turntree.workspaces IN ACCESS EXCLUSIVE MODE")
    with own.lend(template) as second, left:
        assert second == first
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")


def test_two_tests_at_once_get_two_databases(own: Databases, template: str) -> None:
    with own.lend(template) as first, own.lend(template) as second:
        assert first != second


def test_a_clone_is_made_once_and_lent_often(own: Databases, template: str) -> None:
    for _ in range(5):
        with own.lend(template) as lent:
            do(lent, WRITES["a new row"])
    assert own.clones_made == 1
