"""Programs of kind ``code`` as tools: a model may call those that its agent lists.

The tool's description comes from the program's config, and the turn pins the version that runs. It
runs in a sandbox or not at all, like every code program. This module must never know the journal.
"""

import re
from collections.abc import Mapping
from typing import Final

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, TurntreeError
from turntree.core.ids import Digest
from turntree.core.message import ToolResult, ToolUse
from turntree.core.program import Program
from turntree.core.value import value
from turntree.models.prompt import ToolSpec
from turntree.programs.service import Programs
from turntree.tools.toolset import ToolContext

ANY_OBJECT: Final[Mapping[str, Json]] = {"type": "object"}
TIMEOUT_DEFAULT_S: Final = 10.0
START_S: Final = 10.0
"""Added to a program's time limit, so that the sandbox reports it before the tool's timeout."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@value
class CodeTools:
    """The code programs of one run. Implements ``Toolset``."""

    programs: Programs
    specs: tuple[ToolSpec, ...]
    versions: Mapping[str, Digest]
    """The version of each program that the run pinned, by address."""

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Run a program with the arguments of a call."""
        spec = next(one for one in self.specs if one.name == use.tool)
        assert spec.program is not None, "only programs are here"
        document: Json = {} if use.args is None else use.args
        if not isinstance(document, Mapping):
            return ToolResult(use.call_id, "error", "the arguments are no document")
        told: dict[str, Json] = {"run": occasion.run, "call_id": occasion.call_id}
        try:
            done = await self.programs.invoke(
                spec.program, document, version=self.versions[spec.program], told=told
            )
        except TurntreeError as error:
            # The model reads the error as the tool's result and can correct its call.
            return ToolResult(use.call_id, "error", str(error))
        return ToolResult(use.call_id, "ok", done["output"])


def spec_of(program: Program) -> ToolSpec:
    """Return the tool that a program is offered as.

    Raises:
        InvalidOperation: Its name cannot be a tool's.
    """
    if not _NAME.fullmatch(program.name):
        raise InvalidOperation(
            f"{program.address} cannot be a tool: a tool's name has letters, digits, _ and -, "
            "and at most 64 of them"
        )
    config = program.config
    schema, limit = config.get("input_schema"), config.get("timeout_s")
    return ToolSpec(
        program.name,
        str(config.get("description") or f"Runs the program {program.name}."),
        schema if isinstance(schema, Mapping) else ANY_OBJECT,
        is_repeatable=bool(config.get("repeatable")),
        timeout_s=START_S + (limit if isinstance(limit, int | float) else TIMEOUT_DEFAULT_S),
        program=program.address,
    )
