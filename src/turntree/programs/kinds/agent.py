"""``agent``: a program that acts in sessions. Inference parameters belong to its model."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, AliasChoices, Field
from pydantic.alias_generators import to_camel

from turntree.auth.permissions import read_pattern
from turntree.auth.persona import persona_of
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.turn import AgentRole
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


def _check_pattern(text: str) -> str:
    try:
        return read_pattern(text)
    except InvalidOperation as error:
        raise ValueError(str(error)) from error


PatternText = Annotated[str, AfterValidator(_check_pattern)]
"""A permission or a prefix of many: ``tool:fs.*``."""


class AgentPermissions(TypedConfig):
    """What an agent may do. Without ``allow``: every tool and every action."""

    allow: list[PatternText] | None = None
    deny: list[PatternText] | None = None


class AgentConfig(TypedConfig):
    """An agent's identity, instructions, tools, permissions and limits."""

    name: str | None = None
    description: str | None = None
    system_prompt: str | None = None
    soul: str | None = None
    """Its character: precedes the system prompt, and is part of its persona."""
    emoji: str | None = None
    avatar_url: Annotated[str, Field(pattern=r"^https?://\S+$", max_length=2000)] | None = None
    """Where its picture is."""
    removable_by: Literal["participants", "owner"] | None = None
    """Who removes it from conversations besides their creators: by default every participant."""
    role: AgentRole | None = None
    permissions: AgentPermissions | None = None
    credentials: list[Annotated[str, Field(min_length=1)]] | None = None
    """Names of the credentials that its tools may look up."""
    sandbox: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] | None = None
    """The sandbox profile that its commands run in, or not at all. ``code`` runs code programs and
    nothing in a folder, ``folder`` works in the session's. The machine's user defines others."""
    toolset: str | None = None
    """Limits it to a named list of tools; by default that of its role."""
    tools: list[Address] | None = None
    connectors: list[Address] | None = None
    """Servers whose accepted tools it may call, besides its other ones."""
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
            Option("--soul", "soul", "Character, told before the system prompt."),
            Option("--role", "role", "Role: manager, worker or unified."),
            Option(
                "--allow",
                "permissions/allow",
                "Permission it has, like tool:fs.*; by default all tools; repeatable.",
                many=True,
            ),
            Option(
                "--deny",
                "permissions/deny",
                "Permission it never has; wins over --allow; repeatable.",
                many=True,
            ),
            Option(
                "--credential",
                "credentials",
                "Environment variable that its tools may read; repeatable.",
                many=True,
            ),
            Option(
                "--sandbox",
                "sandbox",
                "Sandbox profile for files and commands: folder, or one of yours; code for none.",
            ),
            Option("--toolset", "toolset", "Named list of tools it is limited to."),
            Option("--model", "default_model", "Model to ask.", "address"),
            Option("--tool", "tools", "Program it may use; repeatable.", "address", many=True),
            Option(
                "--connector",
                "connectors",
                "Connector whose accepted tools it may call; repeatable.",
                "address",
                many=True,
            ),
            Option(
                "--function",
                "functions",
                "Worker function it may call, or a prefix like fs.*; repeatable.",
                many=True,
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
            Option("--avatar", "avatar_url", "Address of its picture: https://…"),
            Option("--display-name", "name", "Name that people see."),
            Option(
                "--removable-by",
                "removable_by",
                "Who removes it from conversations: participants or owner.",
            ),
        ),
        targets={"default_model": ("model",), "connectors/*": ("connector",)},
        move_events={
            "thinking": "agent.thinking",
            "executing": "agent.executing",
            "idle": "agent.completed",
            "error>idle": "agent.reset",
            "paused>idle": "agent.reset",
            "deleted>idle": "agent.reset",
        },
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored.

        Raises:
            InvalidOperation: It is not valid, or names a toolset that does not exist.
        """
        checked = check_config(AgentConfig, self.kind, config)
        persona_of("agent", 1, checked)
        return checked

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(AgentConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Accept a task, for which it creates a session, or a message, which it answers."""
        match call.request:
            case {"task": str(name)}:
                task = await call.around.assign(await call.around.get(name), call.program)
                return {"task": task.name, "session": task.details.get("session")}
            case {"message": str()}:
                return {"reply": await call.around.ask_model(call.program, call.request)}
            case _:
                raise InvalidOperation("an agent accepts a task or a message: say which")
