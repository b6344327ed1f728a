"""``information``: a fact with its sources, validated against a schema."""

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, JsonValue

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.program import Program
from turntree.programs.json_schema import check_schema, find_faults
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.typed_config import Address, TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation, ProgramContext


class InformationConfig(TypedConfig):
    """A fact, its schema and its sources."""

    info_type: Literal["fact", "schema", "workflow", "pattern"]
    content: JsonValue
    validated_by: Address | None = Field(
        default=None, validation_alias="schema", serialization_alias="schema"
    )
    sources: list[Address] | None = None
    description: str | None = None


class InformationKind:
    """The kind ``information``."""

    kind: Final = Kind(
        "information",
        "A fact, validated against a JSON Schema.",
        LIFECYCLES["information"],
        (
            Option("--type", "info_type", "Type: fact, schema, workflow or pattern."),
            Option("--content", "content", "Content, as JSON.", "json"),
            Option("--schema", "schema", "Program that holds its schema.", "address"),
            Option("--source", "sources", "Source; repeatable.", "address", many=True),
            Option("--description", "description", "Description."),
        ),
        targets={"schema": ("information",)},
        move_events={"validated": "information.validated"},
        earned={"validated": {}},
        configured_event="information.updated",
        configured_state="draft",
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored; content of type schema must be a JSON Schema."""
        known = check_config(InformationConfig, self.kind, config)
        if known["info_type"] == "schema":
            check_schema(known["content"])
        return known

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(InformationConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Validate the content against its schema and return it; a draft becomes validated."""
        program = call.program
        await check_content(program, call.around)
        if program.state == "draft":
            program = await call.around.tell(program, "information.validated", to="validated")
        return {"content": program.version.config["content"], "state": program.state}


async def check_content(program: Program, around: ProgramContext) -> None:
    """Refuse a program whose content does not match its schema.

    Raises:
        InvalidOperation: It does not match; the message says where.
    """
    named = program.version.config.get("schema")
    if named is None:
        return
    schema = await around.get(str(named))
    if schema.version.config.get("info_type") != "schema":
        raise InvalidOperation(f"{schema.address} is not a schema, so it validates nothing")
    faults = await find_faults(schema.version.config["content"], program.version.config["content"])
    if faults:
        raise InvalidOperation(
            "\n".join([f"{program.address} does not match {schema.address}", *faults])
        )
