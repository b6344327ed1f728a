"""SQL of people's own: answered from the views, and unable to change anything."""

import pytest

from tests.cli.conftest import Call


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
        ("DELETE FROM turntree.turns", "read-only transaction: nothing can be changed this way"),
        ("CREATE TABLE mine (a int)", "read-only transaction: nothing can be changed this way"),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nothing", "does not exist\nnext: turntree sql\n"),
        ("SELECT colour FROM turns", "does not exist\nnext: turntree sql\n"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SET ROLE none", "only what reads rows can be asked"),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT pg_sleep(9)", "--timeout gives it more seconds"),
    ],
)
def test_what_cannot_be_asked_is_said(reader: Call, statement: str, told: str) -> None:
    answer = reader("sql", statement, "--timeout", "0.5")
    assert answer.code == 1
    assert told in answer.err
    assert answer.out == ""


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
