"""Schemas are anyone's: what could take long is checked elsewhere, and not for ever."""

import sys
import time
from pathlib import Path

import anyio
import pytest

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.programs import json_schema
from turntree.programs.json_schema import find_faults, is_quick

pytestmark = pytest.mark.anyio

WORD: Json = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
DOUBLING: Json = {
    "$ref": "#/$defs/d0",
    "$defs": {
        **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)},
        "d30": {"type": "string"},
    },
}


@pytest.fixture
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a check less time than anybody should have to wait for."""
    monkeypatch.setattr(json_schema, "CHECK_S", 2.0)


@pytest.mark.usefixtures("quick_end")
@pytest.mark.parametrize(("schema", "value"), [(WORD, {"a": "a" * 40 + "!"}), (DOUBLING, "x")])
async def test_a_schema_that_takes_for_ever_stops_neither_the_loop_nor_the_machine(
    schema: Json, value: Json
) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await anyio.sleep(0.02)
            beats += 1

    began = time.monotonic()
    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        with pytest.raises(InvalidOperation, match="not checked within 2 seconds"):
            await find_faults(schema, value)
        group.cancel_scope.cancel()
    assert time.monotonic() - began < 10
    assert beats > 20


async def test_a_pattern_is_checked_all_the_same() -> None:
    assert await find_faults(WORD, {"a": "aaa"}) == []
    assert await find_faults(WORD, {"a": "b"}) == ["a: 'b' does not match '^(a+)+$'"]
    with pytest.raises(InvalidOperation, match="not a JSON Schema"):
        await find_faults({"pattern": 1}, "a")


async def test_a_module_of_the_folder_does_not_stand_in_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jsonschema.py").write_text("open('taken', 'w'); raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    assert await find_faults(WORD, {"a": "aaa"}) == []
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize(
    "schema",
    [
        WORD,
        DOUBLING,
        {"patternProperties": {"a": True}},
        {"items": {"format": "date"}},
        {"uniqueItems": True},
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
        {"$ref": "#/enum/0", "enum": [{}]},
        {"$ref": "#/$defs/none"},
        {"enum": list(range(json_schema.WEIGHT_MAX))},
    ],
)
def test_what_could_take_long_is_told(schema: Json) -> None:
    assert not is_quick(schema, {})


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {}}},
    ],
)
async def test_a_plain_schema_is_checked_at_once(
    schema: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_schema, "_COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))
    assert is_quick(schema, {"a": 1})
    assert await find_faults(schema, {"a": 1}) == []
    assert not is_quick(schema, "x" * json_schema.VALUE_BYTES_MAX) or schema is True
