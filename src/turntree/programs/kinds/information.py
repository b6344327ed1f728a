"""``information``: something known, with its sources, of a shape that can be checked."""

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
    """What is known, of which shape, and from where."""

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
        "Something known, of a shape that can be checked.",
        LIFECYCLES["information"],
        (
            Option("--type", "info_type", "fact, schema, workflow or pattern."),
            Option("--content", "content", "What is known, as JSON.", "json"),
            Option("--schema", "schema", "The program that says its shape.", "address"),
            Option("--source", "sources", "Where it is from.", "address", many=True),
            Option("--description", "description", "What it is about."),
        ),
        targets={"schema": ("information",)},
        move_events={"validated": "information.validated"},
        earned={"validated": {}},
        configured_event="information.updated",
        configured_state="draft",
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored; what says it is a schema has to be one."""
        known = check_config(InformationConfig, self.kind, config)
        if known["info_type"] == "schema":
            check_schema(known["content"])
        return known

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(InformationConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Check the content against its schema and return it; a draft is validated by that."""
        program = call.program
        await check_content(program, call.around)
        if program.state == "draft":
            program = await call.around.tell(program, "information.validated", to="validated")
        return {"content": program.config["content"], "state": program.state}


async def check_content(program: Program, around: ProgramContext) -> None:
    """Refuse a program whose content is not of the shape that its schema says.

    Raises:
        InvalidOperation: It is not; the message says where.
    """
    named = program.config.get("schema")
    if named is None:
        return
    schema = await around.get(str(named))
    if schema.config.get("info_type") != "schema":
        raise InvalidOperation(f"{schema.address} is no schema, so it validates nothing")
    faults = await find_faults(schema.config["content"], program.config["content"])
    if faults:
        raise InvalidOperation(
            "\n".join([f"{program.address} is not as {schema.address} says", *faults])
        )
