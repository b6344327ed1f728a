"""Values checked against JSON Schema, with what is wrong said where. Fetches nothing."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from turntree.domain.canonical import Json
from turntree.domain.errors import Refused

FAULTS_MAX: Final = 10


def check_schema(schema: Json) -> Mapping[str, Any] | bool:
    """Return a JSON Schema as it is; what is none is refused.

    Raises:
        Refused: It is none.
    """
    if not isinstance(schema, Mapping | bool):
        raise Refused("this is no JSON Schema: that is a document, true or false")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Refused(f"this is no JSON Schema: {_told(error)}") from error
    return schema


def list_faults(schema: Json, value: Json) -> list[str]:
    """Return what is wrong with a value, at most ``FAULTS_MAX`` faults, each with its place.

    Raises:
        Refused: The schema is none, or refers to what is not in it.
    """
    # An empty registry: a schema that refers to an address elsewhere is refused, not fetched.
    registry: Registry[Any] = Registry()
    validator: Any = Draft202012Validator(check_schema(schema), registry=registry)
    try:
        found: list[ValidationError] = list(islice(validator.iter_errors(value), FAULTS_MAX))
    except Unresolvable as error:
        raise Refused(f"the schema refers to what is not in it: {error}") from error
    return sorted(map(_told, found))


def _told(fault: ValidationError | SchemaError) -> str:
    place = "/".join(map(str, fault.absolute_path)) or "the whole"
    return f"{place}: {fault.message[:200]}"
