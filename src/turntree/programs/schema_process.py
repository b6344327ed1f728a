"""Validate one value against one JSON Schema: as a function, and as a short-lived process.

Run as a script it reads a document from stdin and writes one to stdout, under limits of its own: an
expensive schema exhausts this process and no other. It imports nothing of the package, which would
take longer to load than most checks take.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

FAULTS_MAX: Final = 10
FAULT_CHARS_MAX: Final = 200
# A pattern in a schema can take exponential time, and schemas come from users.
CPU_S: Final = 5
MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024


class NoSchemaError(ValueError):
    """The schema is invalid or cannot be checked; the message says why."""


def check(schema: Any) -> Mapping[str, Any] | bool:
    """Return a JSON Schema unchanged.

    Raises:
        NoSchemaError: It is not a JSON Schema.
    """
    if not isinstance(schema, Mapping | bool):
        raise NoSchemaError("not a JSON Schema: that is a document, true or false")
    document = cast("Mapping[str, Any] | bool", schema)
    try:
        Draft202012Validator.check_schema(document)
    except SchemaError as error:
        raise NoSchemaError(f"not a JSON Schema: {_told(error)}") from error
    except RecursionError as error:
        raise NoSchemaError("not a JSON Schema: it is nested too deeply") from error
    return document


def list_faults(schema: Any, value: Any) -> list[str]:
    """Return at most ``FAULTS_MAX`` faults of a value, each with its location.

    Raises:
        NoSchemaError: The schema is invalid, or refers to what it does not contain.
    """
    # An empty registry: a schema with a remote reference is refused, and nothing is fetched.
    registry: Registry[Any] = Registry()
    validator: Any = Draft202012Validator(check(schema), registry=registry)
    try:
        found: list[ValidationError] = list(islice(validator.iter_errors(value), FAULTS_MAX))
    except Unresolvable as error:
        raise NoSchemaError(f"the schema refers to what is not in it: {error}") from error
    except RecursionError as error:
        raise NoSchemaError("the value or its schema is nested too deeply") from error
    return sorted(map(_told, found))


def main() -> None:
    """Check the document on stdin."""
    _limit()
    asked: dict[str, Any] = json.load(sys.stdin.buffer)
    try:
        answer: dict[str, Any] = {"faults": list_faults(asked["schema"], asked["value"])}
    except NoSchemaError as error:
        answer = {"refused": str(error)}
    sys.stdout.write(json.dumps(answer))


def _limit() -> None:
    """Limit time and memory where the system can; the waiting process limits time anyway."""
    # Windows has no ``resource``.
    with suppress(ImportError):
        resource: Any = import_module("resource")
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def _told(fault: ValidationError | SchemaError) -> str:
    place = "/".join(map(str, fault.absolute_path)) or "the whole"
    return f"{place}: {fault.message[:FAULT_CHARS_MAX]}"


if __name__ == "__main__":
    main()
