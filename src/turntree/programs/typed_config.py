"""Configs with types: what all kinds that come with the product share.

A member is stored as ``snake_case`` and may be written ``camelCase``; one that nobody knows is
refused. Knows pydantic. Must never know what a member means.
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

from turntree.domain.canonical import Json
from turntree.domain.errors import Refused
from turntree.domain.program import a_kind, address_of, name_in

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
        # A model's id is what everybody calls it.
        protected_namespaces=(),
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, to_camel(name)),
            serialization_alias=lambda name: name,
        ),
    )


def check_config(
    model: type[TypedConfig], kind: str, config: Mapping[str, Json]
) -> dict[str, Json]:
    """Return a config as it is stored: what was said, typed and in one spelling.

    Raises:
        Refused: A member is missing, unknown or of another type.
    """
    try:
        known = model.model_validate(dict(config))
    except ValidationError as error:
        raise Refused(
            "\n".join([f"this is no config of {a_kind(kind)}", *_complaints(error)])
        ) from error
    return known.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def schema_of(model: type[TypedConfig]) -> dict[str, Any]:
    """Return the JSON Schema of a config."""
    return model.model_json_schema(by_alias=True, mode="serialization")


def _complaints(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_input=False)
    lines = [
        f"{'/'.join(map(str, one['loc'])) or 'config'}: {one['msg']}"
        for one in found[:COMPLAINTS_MAX]
    ]
    left = len(found) - COMPLAINTS_MAX
    return [*lines, f"and {left} more"] if left > 0 else lines
