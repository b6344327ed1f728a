"""``conversation``: people and agents together; see the package ``conversations``."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.typed_config import TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation


class ConversationConfig(TypedConfig):
    """What a conversation is called, and how long its agents may answer each other."""

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    description: str | None = None
    agent_turns_max: Annotated[int, Field(ge=0, le=1000)] | None = None
    """How many turns agents may take after a person's post, each because of the one before."""
    triage: bool | None = None
    """Whether a triage agent decides who answers a post without a mention; by default not."""


class ConversationKind:
    """The kind ``conversation``."""

    kind: Final = Kind(
        "conversation",
        "People and agents who talk, each answer a turn.",
        LIFECYCLES["conversation"],
        (
            Option("--title", "title", "Title."),
            Option("--description", "description", "Description."),
            Option(
                "--agent-turns",
                "agent_turns_max",
                "Maximum number of agents' turns after a person's post; by default 8.",
                "integer",
            ),
            Option(
                "--triage",
                "triage",
                "A triage agent decides who answers a post without a mention.",
                "flag",
            ),
        ),
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(ConversationConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(ConversationConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Refuse: a conversation is posted to, in the name of a participant."""
        raise InvalidOperation(
            f"{call.program.address} is not invoked: post to it",
            hint=Hint("conversation.post", {"conversation": call.program.name}),
        )
