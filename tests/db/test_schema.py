"""The schema number: no SQL changes without it."""

from turntree.db import schema
from turntree.db.schema import Schema, find_schema


def test_the_number_was_raised_with_the_sql() -> None:
    assert schema.digest_files() == schema.DIGEST, "run: python -m tests.schema_number"


def test_what_a_database_notes_is_read_again() -> None:
    ours = schema.this_schema()
    found = find_schema(["0001_pre_ledger", ours.mark])
    assert found is not None
    assert found[0] == ours


def test_functions_from_before_there_were_numbers_are_the_oldest() -> None:
    found = find_schema(["functions 0123456789abcdef"])
    assert found is not None
    assert found[0] == Schema(0, "0123456789abcdef")
