"""Values checked against JSON Schema, with what is wrong said where. Fetches nothing.

A schema may be anyone's, and a pattern in it can take longer than the world will last. What could
take long is checked in a process of its own, which has a limit of time and of memory, so that the
loop of a worker goes on; what cannot is checked at once.
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
"""How long a check in a process of its own may take, its start included."""
PROCESSES_MAX: Final = 2
WEIGHT_MAX: Final = 2_000
"""How many parts a schema may have that is checked at once, each reference counted anew."""
VALUE_BYTES_MAX: Final = 100_000
"""How large a value may be that is checked at once."""
# Without -P a file beside it, or in the worker's folder, could stand in for a module.
_COMMAND: Final = (sys.executable, "-P", schema_process.__file__)
_SLOW: Final = frozenset(
    {"pattern", "patternProperties", "format", "uniqueItems", "unevaluatedItems"}
    | {"unevaluatedProperties", "$dynamicRef", "$recursiveRef", "$id"}
)
_DEFS: Final = "#/$defs/"


def check_schema(schema: Json) -> Mapping[str, Any] | bool:
    """Return a JSON Schema as it is; what is none is refused.

    Raises:
        InvalidOperation: It is none.
    """
    try:
        return schema_process.check(schema)
    except NoSchemaError as error:
        raise InvalidOperation(str(error)) from error


async def find_faults(schema: Json, value: Json) -> list[str]:
    """Return what is wrong with a value, a few faults, each with its place.

    Raises:
        InvalidOperation: The schema is none, refers to what is not in it, or takes too long to
            check.
    """
    if is_quick(schema, value):
        return list_faults(schema, value)
    asked = orjson.dumps({"schema": schema, "value": value})
    async with _places():
        try:
            with anyio.fail_after(CHECK_S):
                # One that takes too long is killed with the scope.
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
        InvalidOperation: The schema is none, or refers to what is not in it.
    """
    try:
        return schema_process.list_faults(schema, value)
    except NoSchemaError as error:
        raise InvalidOperation(str(error)) from error


def is_quick(schema: Json, value: Json) -> bool:
    """Say whether a check cannot take long: a small value, a small schema, and no pattern in it."""
    if not isinstance(schema, Mapping):
        return True
    try:
        return _is_light(schema) and len(orjson.dumps(value)) <= VALUE_BYTES_MAX
    except orjson.JSONEncodeError:
        return False


_LIMITERS: Final[dict[object, anyio.CapacityLimiter]] = {}


def _places() -> anyio.CapacityLimiter:
    """Return what bounds the processes of this loop: a limiter belongs to one."""
    token = anyio.lowlevel.current_token()
    return _LIMITERS.setdefault(token, anyio.CapacityLimiter(PROCESSES_MAX))


def _is_light(schema: Mapping[str, Json]) -> bool:
    """Say whether a schema has few parts, and no slow ones."""
    named = schema.get("$defs")
    definitions = cast("Mapping[str, Json]", named if isinstance(named, Mapping) else {})
    left: list[tuple[Json, tuple[str, ...]]] = [(schema, ())]
    for _ in range(WEIGHT_MAX):
        if not left:
            return True
        part, within = left.pop()
        match part:
            case Mapping():
                # A property may be called as a slow keyword is: that is taken for slow, and safe.
                if not _SLOW.isdisjoint(part):
                    return False
                left += [(one, within) for one in part.values()]
                if "$ref" in part:
                    name = str(part["$ref"]).removeprefix(_DEFS)
                    # One that leads back to itself can double with each step.
                    is_known = part["$ref"] == f"{_DEFS}{name}" and name in definitions
                    if name in within or not is_known:
                        return False
                    left.append((definitions[name], (*within, name)))
            case list():
                left += [(one, within) for one in part]
            case _:
                pass
    return False
