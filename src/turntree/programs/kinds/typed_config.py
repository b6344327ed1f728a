"""Typed configs, shared by all built-in kinds.

A member is stored as ``snake_case`` and may be written as ``camelCase``; an unknown one is refused.
Knows pydantic. Must never know what a member means.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.program import a_kind, address_of, name_in
from turntree.programs.kind import Kind

COMPLAINTS_MAX = 10


def _as_address(text: str) -> str:
    if not name_in(text).strip():
        raise ValueError("an address names a program: @(name)")
    return address_of(name_in(text).strip())


Address = Annotated[str, AfterValidator(_as_address)]
"""Another program, written ``@(name)`` or just ``name``."""


class TypedConfig(BaseModel):
    """A config, or a part of one."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # "model_id" is the usual name, so pydantic's reserved prefix "model_" is not enforced.
        protected_namespaces=(),
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, to_camel(name)),
            serialization_alias=lambda name: name,
        ),
    )


def check_config(
    model: type[TypedConfig], kind: Kind, config: Mapping[str, Json]
) -> dict[str, Json]:
    """Return a config as it is stored: typed and with one spelling per member.

    Raises:
        InvalidOperation: A member is missing, unknown or of another type.
    """
    try:
        known = model.model_validate(dict(config))
    except ValidationError as error:
        lines = [f"not a valid config of {a_kind(kind.name)}", *_complaints(error, kind)]
        hint = Hint("program.explain_options", {"kind": kind.name})
        raise InvalidOperation("\n".join(lines), hint=hint) from error
    return known.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def schema_of(model: type[TypedConfig]) -> dict[str, Any]:
    """Return the JSON Schema of a config."""
    return model.model_json_schema(by_alias=True, mode="serialization")


def _complaints(error: ValidationError, kind: Kind) -> list[str]:
    found = error.errors(include_url=False, include_input=False)
    lines = [_complaint(one, kind) for one in found[:COMPLAINTS_MAX]]
    left = len(found) - COMPLAINTS_MAX
    return [*lines, f"and {left} more"] if left > 0 else lines


def _complaint(found: ErrorDetails, kind: Kind) -> str:
    """Return what is wrong with a member, and the option that sets it."""
    member = "/".join(map(str, found["loc"])) or "config"
    flags = [
        one.flag
        for one in kind.options
        if member == one.member or member.startswith(f"{one.member}/")
    ]
    said = "is missing" if found["type"] == "missing" else found["msg"]
    said = said.replace("Input should be", "has to be").removeprefix("Value error, ")
    return f"{member}: {said}" + (f" ({flags[0]})" if flags else "")
