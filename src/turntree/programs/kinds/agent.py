"""``agent``: a program that acts in sessions. Parameters of inference are its model's, not its."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AliasChoices, Field
from pydantic.alias_generators import to_camel

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.typed_config import Address, TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation

_MAX_STEPS: Final = ("max_steps", "max_turns")
"""Elsewhere a step is called a turn."""


class Harness(TypedConfig):
    """How an agent is held."""

    max_steps: Annotated[
        int | None,
        Field(ge=1, validation_alias=AliasChoices(*_MAX_STEPS, *map(to_camel, _MAX_STEPS))),
    ] = None
    """How often a model may answer in a turn."""
    reflect_on_failure: bool | None = None
    checkpoint_every: Annotated[int, Field(ge=1)] | None = None


class AgentConfig(TypedConfig):
    """What an agent is told, what it may use, and how it is held."""

    name: str | None = None
    description: str | None = None
    system_prompt: str | None = None
    tools: list[Address] | None = None
    functions: list[Annotated[str, Field(min_length=1)]] | None = None
    """Functions of the workers' that it may call. With neither tools nor functions: all of them."""
    default_model: Address | None = None
    harness: Harness | None = None
    system_agent_kind: str | None = None
    """What a system agent is for: ``triage``."""


class AgentKind:
    """The kind ``agent``."""

    kind: Final = Kind(
        "agent",
        "A program that acts in sessions.",
        LIFECYCLES["agent"],
        (
            Option("--prompt", "system_prompt", "What it is told before anything else."),
            Option("--model", "default_model", "Which model answers.", "address"),
            Option("--tool", "tools", "A program it may use.", "address", many=True),
            Option("--function", "functions", "A worker's function it may call.", many=True),
            Option(
                "--max-steps",
                "harness/max_steps",
                "How often a model may answer in a turn.",
                "integer",
            ),
            Option("--max-turns", "harness/max_steps", "The same as --max-steps.", "integer"),
            Option(
                "--checkpoint-every",
                "harness/checkpoint_every",
                "After how many answers of a model it notes where it is.",
                "integer",
            ),
            Option(
                "--reflect-on-failure",
                "harness/reflect_on_failure",
                "Whether it gets one more turn to put right what failed.",
                "flag",
            ),
            Option("--description", "description", "What it is for."),
        ),
        targets={"default_model": ("model",)},
        move_events={
            "thinking": "agent.thinking",
            "executing": "agent.executing",
            "idle": "agent.completed",
            "error>idle": "agent.reset",
            "paused>idle": "agent.reset",
        },
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(AgentConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(AgentConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Accept a task, for which a session begins, or a message, which a model has to answer."""
        match call.request:
            case {"task": str(name)}:
                task = await call.around.assign(await call.around.get(name), call.program)
                return {"task": task.name, "session": task.details.get("session")}
            case {"message": str()}:
                told = call.program.config.get("system_prompt")
                request = {**call.request} if told is None else {"system": told, **call.request}
                return {"reply": await call.around.ask_model(call.program, request)}
            case _:
                raise InvalidOperation("an agent accepts a task or a message: say which")
