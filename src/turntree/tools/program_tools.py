"""Programs as tools: a model may call those that its agent lists, of any kind.

The tool's description comes from the program's config, and the turn pins the version that is
invoked. Code runs in a sandbox or not at all. An agent, a model or a session is sent a message and
leaves a turn of its own. This module must never know the journal.
"""

import re
from collections.abc import Mapping
from typing import Final

from turntree.auth.permissions import Effect, read_effects
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
REPLY_TIMEOUT_S: Final = 600.0
"""How long an agent, a model or a session may take to reply."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OTHER_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_-]")


@value
class _KindRules:
    """How programs of a kind are offered."""

    description: str
    members: Mapping[str, Json]
    """The members of a request that a model may set, with their schemas. A person may be told
    something; what a person decides, no model decides."""
    replies: bool = False
    """Whether it leaves a turn. Such a call is repeatable: it sends its message only once."""
    effects: tuple[Effect, ...] | None = None
    """What a call may do; None where it depends on what the program itself is permitted."""


_TEXT: Final[Mapping[str, Json]] = {"type": "string", "minLength": 1}
_ACTIONS: Final[Mapping[str, Json]] = {"type": "string", "enum": ["start", "report", "complete"]}
_RULES: Final[Mapping[str, _KindRules]] = {
    "agent": _KindRules("Asks the agent {}.", {"message": _TEXT}, replies=True),
    "model": _KindRules(
        "Asks the model {}.",
        {"message": _TEXT},
        replies=True,
        effects=("untrusted_output", "external_write"),
    ),
    "session": _KindRules("Sends a message to the session {}.", {"message": _TEXT}, replies=True),
    "human": _KindRules("Sends a message to {}.", {"message": _TEXT}, effects=("external_write",)),
    "task": _KindRules("Starts the task {}, or reports on it.", {"action": _ACTIONS}),
    "information": _KindRules("Returns the information {}.", {}, effects=("reads_private",)),
    "provider": _KindRules("Lists the models of {}.", {}, effects=("untrusted_output",)),
}


@value
class ProgramTools:
    """The programs that one run may call. Implements ``Toolset``."""

    programs: Programs
    specs: tuple[ToolSpec, ...]
    versions: Mapping[str, Digest]
    """The version of each program that the run pinned, by address."""
    name: str = "program"
    """The server that its calls name."""

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Invoke a program with the arguments of a call."""
        spec = next(one for one in self.specs if one.name == use.tool)
        assert spec.program is not None, "only programs are here"
        document: Json = {} if use.args is None else use.args
        if not isinstance(document, Mapping):
            return ToolResult(use.call_id, "error", "the arguments must be a JSON object")
        told: dict[str, Json] = {"run": occasion.run, "call_id": occasion.call_id}
        try:
            kind = (await self.programs.get(spec.program)).kind
            if (rules := _RULES.get(kind)) is not None:
                document = _read_arguments(rules, document)
            done = await self.programs.invoke(
                spec.program, document, version=self.versions[spec.program], told=told
            )
        except TurntreeError as error:
            # The model reads the error as the tool's result and can correct its call.
            return ToolResult(use.call_id, "error", str(error))
        match done:
            case {"output": output} if kind == "code":
                return ToolResult(use.call_id, "ok", output)
            case {"reply": {"text": text, "turn": turn}}:
                return ToolResult(use.call_id, "ok", {"text": text, "turn": turn})
            case _:
                return ToolResult(use.call_id, "ok", done)


def spec_of(program: Program) -> ToolSpec:
    """Return the tool that a program is offered as.

    Raises:
        InvalidOperation: Its name cannot be a tool's.
    """
    # A session's label may have characters that a tool's name may not: atlas:main.
    is_session = program.kind == "session"
    name = _OTHER_CHARACTER.sub("_", program.name) if is_session else program.name
    if not _NAME.fullmatch(name):
        raise InvalidOperation(
            f"{program.address} cannot be a tool: a tool's name has letters, digits, _ and -, "
            "and at most 64 of them"
        )
    config, rules = program.config, _RULES.get(program.kind)
    limit = config.get("timeout_s")
    seconds = limit if isinstance(limit, int | float) else TIMEOUT_DEFAULT_S
    if rules is None:
        schema = config.get("input_schema")
        described = f"Runs the program {program.name}."
        parameters = schema if isinstance(schema, Mapping) else ANY_OBJECT
        is_repeatable = bool(config.get("repeatable"))
        declared = config.get("effects")
        effects = read_effects(declared) if isinstance(declared, list | tuple) else None
    else:
        described = rules.description.format(program.name)
        parameters = {"type": "object", "properties": dict(rules.members)}
        parameters |= {"required": [*rules.members]} if rules.members else {}
        seconds = REPLY_TIMEOUT_S if rules.replies else seconds
        is_repeatable = rules.replies
        effects = rules.effects
    return ToolSpec(
        name,
        str(config.get("description") or described),
        parameters,
        is_repeatable=is_repeatable,
        timeout_s=START_S + seconds,
        program=program.address,
        effects=effects,
    )


def _read_arguments(rules: _KindRules, given: Mapping[str, Json]) -> dict[str, Json]:
    """Return the request of a call.

    Raises:
        InvalidOperation: A member is missing, or is not one that a model may set.
    """
    if given.keys() != rules.members.keys():
        expected = ", ".join(rules.members) or "none"
        raise InvalidOperation(f"the arguments are not the expected ones: {expected}")
    return dict(given)
