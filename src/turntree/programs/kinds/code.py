"""``code``: a script with one JSON document in and one out, inside a sandbox."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from turntree.auth.permissions import EFFECTS, Effect
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import Hint, InvalidOperation
from turntree.programs.json_schema import check_schema, find_faults
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.typed_config import TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation

TIMEOUT_DEFAULT_S: Final = 10.0


class CodeConfig(TypedConfig):
    """What to run, and its time limit."""

    language: Literal["python", "javascript", "typescript"]
    source: str = Field(min_length=1)
    timeout_s: Annotated[float, Field(gt=0, le=600)] | None = None
    description: str | None = None
    input_schema: dict[str, JsonValue] | None = None
    """JSON Schema of the input, which is an object; without one, any input."""
    repeatable: bool | None = None
    """Whether running it twice has the same effect as running it once."""
    effects: list[Effect] | None = None
    """What calling it as a tool may do. One that declares none counts as having them all."""


class CodeKind:
    """The kind ``code``."""

    kind: Final = Kind(
        "code",
        "A script: one JSON document in, one out.",
        LIFECYCLES["code"],
        (
            Option("--language", "language", "Language: python, javascript or typescript."),
            Option("--source", "source", "Source code."),
            Option("--timeout", "timeout_s", "Time limit in seconds.", "number"),
            Option("--description", "description", "Description."),
            Option(
                "--input-schema",
                "input_schema",
                "JSON Schema of the input, which is an object.",
                "json",
            ),
            Option(
                "--repeatable",
                "repeatable",
                "Idempotent: running it twice is the same as once.",
                "flag",
            ),
            Option(
                "--effect",
                "effects",
                f"Effect of calling it: {', '.join(EFFECTS)}; by default all; repeatable.",
                many=True,
            ),
        ),
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored; ``input_schema`` must describe an object."""
        known = check_config(CodeConfig, self.kind, config)
        if (schema := known.get("input_schema")) is not None:
            check_schema(schema)
            if not isinstance(schema, Mapping) or schema.get("type") != "object":
                raise InvalidOperation(
                    'input_schema is the schema of an object: {"type": "object", …}'
                )
        return known

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(CodeConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Run it on the input document; the event records the digests of input and output."""
        config, document = call.program.version.config, dict(call.request)
        faults = await find_faults(config.get("input_schema", True), document)
        if faults:
            lines = "\n".join([f"{call.program.address} takes another input", *faults])
            shown = {"kind": self.kind.name, "program": call.program.name}
            raise InvalidOperation(lines, hint=Hint("program.show", shown))
        more: dict[str, Json] = {
            "input": digest_bytes(canonical(document)),
            "number": call.program.version.number,
        }
        program = await call.around.tell(call.program, "code.invoked", more=more)
        limit = config.get("timeout_s")
        try:
            result = await call.around.run_code(
                str(config["language"]),
                str(config["source"]),
                document,
                timeout_s=float(limit) if isinstance(limit, int | float) else TIMEOUT_DEFAULT_S,
            )
        except InvalidOperation as error:
            await call.around.tell(program, "code.finished", more={**more, "error": str(error)})
            raise
        output = digest_bytes(canonical(result))
        await call.around.tell(program, "code.finished", more={**more, "output": output})
        return {"output": result}
