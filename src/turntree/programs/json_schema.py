"""Validate values against JSON Schema, with the location of each fault. Fetches nothing.

A schema may come from any user, and a pattern in it can take practically forever. A check that
could be slow runs in a process with limits of time and memory, so that the worker's event loop
continues; a check that cannot be slow runs inline.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import orjson

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.programs import schema_process
from turntree.programs.schema_process import NoSchemaError

CHECK_S: Final = 5.0
"""Time limit of a check in a separate process, including its start."""
PROCESSES_MAX: Final = 2
WEIGHT_MAX: Final = 2_000
"""Maximum number of parts of a schema that is checked inline; every reference counts again."""
VALUE_BYTES_MAX: Final = 100_000
"""Maximum size of a value that is checked inline."""
# Without -P a file beside it, or in the worker's folder, could shadow a module.
_COMMAND: Final = (sys.executable, "-P", schema_process.__file__)
_SLOW: Final = frozenset(
    {"pattern", "patternProperties", "format", "uniqueItems", "unevaluatedItems"}
    | {"unevaluatedProperties", "$dynamicRef", "$recursiveRef", "$id"}
)
_DEFS: Final = "#/$defs/"


def check_schema(schema: Json) -> Mapping[str, Any] | bool:
    """Return a JSON Schema unchanged.

    Raises:
        InvalidOperation: It is not a JSON Schema.
    """
    try:
        return schema_process.check(schema)
    except NoSchemaError as error:
        raise InvalidOperation(str(error)) from error


async def find_faults(schema: Json, value: Json) -> list[str]:
    """Return the first few faults of a value, each with its location.

    Raises:
        InvalidOperation: The schema is invalid, refers to what it does not contain, or takes too
            long to check.
    """
    if is_quick(schema, value):
        return list_faults(schema, value)
    asked = orjson.dumps({"schema": schema, "value": value})
    async with _places():
        try:
            with anyio.fail_after(CHECK_S):
                # A check that takes too long is killed with the scope.
                ended = await anyio.run_process(
                    _COMMAND, input=asked, stderr=subprocess.DEVNULL, check=False
                )
        except TimeoutError as error:
            raise InvalidOperation(
                f"the schema was not checked within {CHECK_S:g} seconds"
            ) from error
    match json.loads(ended.stdout) if ended.returncode == 0 else None:
        case {"faults": [*faults]}:
            return [str(one) for one in faults]
        case {"refused": str(why)}:
            raise InvalidOperation(why)
        case _:
            raise InvalidOperation("the schema was not checked: that took too much memory or time")


def list_faults(schema: Json, value: Json) -> list[str]:
    """Return what ``find_faults`` does, in this process, however long it takes.

    Raises:
        InvalidOperation: The schema is invalid, or refers to what it does not contain.
    """
    try:
        return schema_process.list_faults(schema, value)
    except NoSchemaError as error:
        raise InvalidOperation(str(error)) from error


def is_quick(schema: Json, value: Json) -> bool:
    """Whether a check cannot be slow: a small value, a small schema, and no pattern in it."""
    if not isinstance(schema, Mapping):
        return True
    try:
        return _is_light(schema) and len(orjson.dumps(value)) <= VALUE_BYTES_MAX
    except orjson.JSONEncodeError:
        # What cannot be measured is checked in the process with limits.
        return False


_LIMITERS: Final[dict[object, anyio.CapacityLimiter]] = {}


def _places() -> anyio.CapacityLimiter:
    """Return the process limiter of this event loop: a limiter belongs to one loop."""
    token = anyio.lowlevel.current_token()
    return _LIMITERS.setdefault(token, anyio.CapacityLimiter(PROCESSES_MAX))


def _is_light(schema: Mapping[str, Json]) -> bool:
    """Whether a schema has few parts, and no slow ones."""
    named = schema.get("$defs")
    definitions = cast("Mapping[str, Json]", named if isinstance(named, Mapping) else {})
    left: list[tuple[Json, tuple[str, ...]]] = [(schema, ())]
    for _ in range(WEIGHT_MAX):
        if not left:
            return True
        part, within = left.pop()
        match part:
            case Mapping():
                # A property named like a slow keyword counts as slow too, which is safe.
                if not _SLOW.isdisjoint(part):
                    return False
                left += [(one, within) for one in part.values()]
                if "$ref" in part:
                    name = str(part["$ref"]).removeprefix(_DEFS)
                    # A recursive reference can double the work with each step.
                    is_known = part["$ref"] == f"{_DEFS}{name}" and name in definitions
                    if name in within or not is_known:
                        return False
                    left.append((definitions[name], (*within, name)))
            case list():
                left += [(one, within) for one in part]
            case _:
                pass
    return False
