"""SQL of people's own: answered from the views, and unable to change anything."""

import os
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Call, forging
from turntree.db.embedded.logins import as_login


def test_views_are_asked_without_naming_their_schema(reader: Call) -> None:
    answer = reader("sql", "SELECT label, status FROM sessions WHERE label = 'demo/opus'")
    assert answer.code == 0
    assert answer.lines == ["label      status", "demo/opus  active"]


def test_every_value_has_a_form_in_json(reader: Call) -> None:
    answer = reader(
        "sql",
        "SELECT 1 AS one, 1.5::numeric AS some, null AS none, '{\"a\":[1]}'::jsonb AS doc, "
        "'\\x00ff'::bytea AS bytes, ARRAY['a','b'] AS list, '2026-11-15Z'::timestamptz AS at",
        "--json",
    )
    assert answer.document == {
        "one": 1, "some": "1.5", "none": None, "doc": {"a": [1]}, "bytes": "00ff",
        "list": ["a", "b"], "at": "2026-11-15T00:00:00+00:00",
    }  # fmt: skip


def test_columns_of_the_same_name_are_told_apart_in_json(reader: Call) -> None:
    answer = reader("sql", "SELECT 1 AS id, 2 AS id, 3 AS id_2, 4 AS id", "--json")
    assert answer.document == {"id": 1, "id_2": 2, "id_2_2": 3, "id_3": 4}


def test_without_a_statement_the_views_are_listed(reader: Call) -> None:
    answer = reader("sql", "--json")
    views = {one["view"]: one["columns"] for one in answer.documents}
    assert "ancestry" in views["threads"]
    assert {"turns", "sessions", "messages", "tool_calls", "compactions"} <= views.keys()
    shown = reader("sql")
    assert shown.lines[0].startswith("compactions  ")
    assert shown.err.startswith("next: turntree sql ")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM turntree.turns", "only a query can be asked"),
        ("CREATE TABLE mine (a int)", "only a query can be asked"),
        ("EXPLAIN ANALYZE SELECT 1", "only a query can be asked"),
        ("COPY (SELECT 1) TO PROGRAM 'true'", "only a query can be asked"),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nothing", "does not exist\nnext: turntree sql\n"),
        ("SELECT colour FROM turns", "does not exist\nnext: turntree sql\n"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SET ROLE none", "only a query can be asked"),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT pg_sleep(9)", "turntree sql --timeout SECONDS"),
    ],
)
def test_what_cannot_be_asked_is_said(reader: Call, statement: str, told: str) -> None:
    answer = reader("sql", statement, "--timeout", "0.5")
    assert answer.code == 1
    assert told in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    "statement",
    [
        "delete from turns",
        "/* all */ -- of it\n  DELETE FROM sessions WHERE true",
        "UPDATE sessions SET label = 'x'",
        "truncate turns",
        "WITH gone AS (DELETE FROM turntree.turns RETURNING id) SELECT id FROM gone",
        "SELECT lo_create(0)",
    ],
)
def test_a_change_is_answered_with_read_only_in_plain_words(reader: Call, statement: str) -> None:
    answer = reader("sql", statement)
    assert answer.code == 1
    assert answer.err.startswith("error: the console is read-only")
    assert answer.err.endswith("\nnext: turntree sql\n")
    assert "permission" not in answer.err
    assert "syntax" not in answer.err
    assert max(map(len, answer.err.splitlines())) <= 80


def test_rows_are_counted_off_and_not_gathered(reader: Call) -> None:
    answer = reader("sql", "SELECT generate_series(1, 1000000000)", "--rows", "2")
    assert answer.lines == ["generate_series", "1", "2"]
    assert answer.err == "there are more than 2 rows; --rows shows more of them\n"
    assert reader("sql", "SELECT 1 WHERE false").err == "no rows\n"


def test_long_values_are_cut_unless_they_stand_alone(reader: Call) -> None:
    long = "SELECT repeat('x', 200) AS a"
    assert reader("sql", long).lines[1] == "x" * 200
    assert reader("sql", f"{long}, 1 AS b").lines[1] == "x" * 59 + "…  1"
    assert reader("sql", f"{long}, 1 AS b", "--whole").lines[1] == "x" * 200 + "  1"


DO = """DO $$ BEGIN
 PERFORM set_config('role', 'none', false);
 PERFORM set_config('default_transaction_read_only', 'off', false);
 COMMIT;
 EXECUTE 'COPY (SELECT 1) TO PROGRAM $p$touch TRACE$p$';
 DELETE FROM turntree.tags;
 ALTER TABLE turntree.turns DISABLE TRIGGER refuse_delete;
 END $$"""
DEEP = "(SELECT string_agg(word, ' ') FROM ts_stat($q${}$q$))"


@pytest.mark.parametrize("before", ["", "SELECT 1; ", "SELECT 1;\n--\n", "/* */ "])
def test_a_do_block_runs_nothing(reader: Call, tmp_path: Path, before: str) -> None:
    trace = tmp_path / "trace"
    tmp_path.chmod(0o777)
    answer = reader("sql", before + DO.replace("TRACE", str(trace)))
    assert answer.code == 1
    assert not trace.exists()
    with psycopg.connect(forging()) as owner:
        enabled = owner.execute(
            "SELECT tgenabled FROM pg_trigger WHERE tgname = 'refuse_delete'"
            " AND tgrelid = 'turntree.turns'::regclass"
        ).fetchone()
    assert enabled == ("O",)


@pytest.mark.parametrize("role", ["none", "turntree", "turntree_app", "turntree_engine"])
def test_a_question_stays_the_consoles_whatever_role_it_names(reader: Call, role: str) -> None:
    inner = "SELECT array_to_tsvector(ARRAY[current_user::text])"
    answer = reader(
        "sql", f"SELECT set_config('role', '{role}', false), {DEEP.format(inner)}", "--whole"
    )
    if role == "none":
        assert "turntree_console" in answer.out
    else:
        assert answer.code != 0
        assert "permission denied to set role" in answer.err


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT array_to_tsvector(ARRAY[pg_read_file('/etc/passwd', 0, 200)])",
        "SELECT array_to_tsvector(array_agg(x)) FROM pg_ls_dir('.') x",
        "SELECT array_to_tsvector(ARRAY[pg_rotate_logfile()::text])",
        "SELECT array_to_tsvector(ARRAY[turntree.bind_console(0, '', NULL, '')::text])",
        "SELECT array_to_tsvector(array_agg(viewer)) FROM turntree.console_bindings",
    ],
)
def test_words_inside_words_do_no_more_than_the_console_may(reader: Call, inner: str) -> None:
    answer = reader("sql", f"SELECT set_config('role', 'none', false), {DEEP.format(inner)}")
    assert answer.code != 0
    assert "permission denied" in answer.err


@pytest.fixture
def elsewhere(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> str:
    """Another workspace with a session in it; its id."""
    monkeypatch.setenv("TURNTREE_WORKSPACE", "other")
    assert turntree("session", "create", "secret-in-other").code == 0
    with psycopg.connect(forging()) as owner:
        ((id,),) = owner.execute(
            "SELECT id::text FROM turntree.workspaces WHERE name = 'other'"
        ).fetchall()
    monkeypatch.setenv("TURNTREE_WORKSPACE", "tests")
    assert turntree("session", "create", "mine").code == 0
    return str(id)


def after_setting(name: str, value: str, table: str) -> str:
    """A question that reads a table after it has changed a setting of its own connection."""
    return (
        f"WITH a AS MATERIALIZED (SELECT set_config('{name}', '{value}', false) w)"  # noqa: S608
        f" SELECT s.* FROM a CROSS JOIN LATERAL (SELECT * FROM {table} WHERE a.w IS NOT NULL) s"
    )


def test_no_question_leaves_its_workspace(turntree: Call, elsewhere: str) -> None:
    for table in ("turntree.session_names", "turntree.events", "ledger.sessions"):
        answer = turntree("sql", after_setting("turntree.workspace", elsewhere, table), "--whole")
        assert answer.code == 0
        assert elsewhere not in answer.out
        assert "secret-in-other" not in answer.out
    assert turntree("sql", "SELECT name FROM turntree.workspaces").lines == ["name", "tests"]
    assert turntree("sql", "SELECT label FROM sessions").lines == ["label", "mine"]


def test_no_question_looks_with_other_eyes(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert turntree("session", "create", "closed", "--private").code == 0
    assert turntree("sql", "SELECT label FROM sessions").lines == ["label", "closed"]
    monkeypatch.setenv("TURNTREE_USER", "bob")
    for viewer in ("human:ana", "system:turntree"):
        for table in ("turntree.session_names", "turntree.events", "turntree.programs"):
            answer = turntree("sql", after_setting("turntree.viewer", viewer, table))
            assert (answer.code, len(answer.lines)) == (0, 1), (table, viewer)


def test_a_question_that_gives_itself_time_is_stopped_all_the_same(reader: Call) -> None:
    answer = reader(
        "sql", "SELECT set_config('statement_timeout', '0', false), pg_sleep(9)", "--timeout", "0.5"
    )
    assert "turntree sql --timeout SECONDS" in answer.err


def test_without_a_login_of_its_own_sql_says_how_to_make_one(
    reader: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNTREE_CONSOLE_URL")
    answer = reader("sql", "SELECT 1")
    assert answer.code == 1
    assert "GRANT turntree_reader TO turntree_console" in answer.err
    assert "turntree config set console_url" in answer.err


@pytest.mark.parametrize(
    ("login", "told"),
    [
        ("postgres", "a superuser"),
        ("turntree", "a member of turntree_app"),
        ("turntree_engine", "not a member of turntree_reader"),
    ],
)
def test_a_login_that_can_do_more_than_read_is_refused(
    reader: Call, login: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = os.environ["TURNTREE_DATABASE_URL"]
    monkeypatch.setenv("TURNTREE_CONSOLE_URL", as_login(url, login))
    answer = reader("sql", "SELECT 1")
    assert answer.code != 0
    assert told in answer.err


def test_a_login_that_owns_something_is_refused(turntree: Call) -> None:
    with psycopg.connect(forging(), autocommit=True) as owner:
        owner.execute("CREATE TABLE mine (a int)")
        owner.execute("ALTER TABLE mine OWNER TO turntree_console")
    answer = turntree("sql", "SELECT 1")
    assert answer.code != 0
    assert "an owner" in answer.err


def test_the_console_of_another_database_is_refused(
    turntree: Call, demo_to_read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_CONSOLE_URL", as_login(demo_to_read, "turntree_console"))
    assert "another database" in turntree("sql", "SELECT 1").err
