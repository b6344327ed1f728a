"""``agent``: a program that acts in sessions. Inference parameters belong to its model."""

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
"""Other tools call a step a turn."""


class Harness(TypedConfig):
    """The limits of an agent."""

    max_steps: Annotated[
        int | None,
        Field(ge=1, validation_alias=AliasChoices(*_MAX_STEPS, *map(to_camel, _MAX_STEPS))),
    ] = None
    """Maximum number of model calls in a turn."""
    reflect_on_failure: bool | None = None
    checkpoint_every: Annotated[int, Field(ge=1)] | None = None


class AgentConfig(TypedConfig):
    """An agent's instructions, tools and limits."""

    name: str | None = None
    description: str | None = None
    system_prompt: str | None = None
    tools: list[Address] | None = None
    functions: list[Annotated[str, Field(min_length=1)]] | None = None
    """Worker functions that it may call. With neither tools nor functions: all of them."""
    default_model: Address | None = None
    harness: Harness | None = None
    system_agent_kind: str | None = None
    """Purpose of a system agent: ``triage``."""


class AgentKind:
    """The kind ``agent``."""

    kind: Final = Kind(
        "agent",
        "A program that acts in sessions.",
        LIFECYCLES["agent"],
        (
            Option("--prompt", "system_prompt", "System prompt."),
            Option("--model", "default_model", "Model to ask.", "address"),
            Option("--tool", "tools", "Program it may use; repeatable.", "address", many=True),
            Option(
                "--function", "functions", "Worker function it may call; repeatable.", many=True
            ),
            Option(
                "--max-steps",
                "harness/max_steps",
                "Maximum number of model calls in a turn.",
                "integer",
            ),
            Option("--max-turns", "harness/max_steps", "Alias of --max-steps.", "integer"),
            Option(
                "--checkpoint-every",
                "harness/checkpoint_every",
                "Number of model calls between checkpoints.",
                "integer",
            ),
            Option(
                "--reflect-on-failure",
                "harness/reflect_on_failure",
                "One more turn to fix what failed.",
                "flag",
            ),
            Option("--description", "description", "Description."),
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
        """Accept a task, for which it creates a session, or a message for its model."""
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
