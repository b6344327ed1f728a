"""``session``: the config of a session, under the session's own id.

The ledger has its turns, its head and its reflog; the config has its owner and its model.
"""

from collections.abc import Mapping
from typing import Final

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.params import Params
from turntree.programs.kinds.typed_config import Address, TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation


class SessionConfig(TypedConfig):
    """The owner of a session, its model, its parameters and its instructions."""

    owner: Address | None = None
    default_model: Address | None = None
    situation: str | None = None
    params: Params | None = None
    system_prompt: str | None = None
    """Instructions besides those of its agent. Forks inherit them; an empty text means none."""


class SessionKind:
    """The kind ``session``."""

    kind: Final = Kind(
        "session",
        "The config of a session, under the session's own id.",
        LIFECYCLES["session"],
        (
            Option("--model", "default_model", "Model that replies in it.", "address"),
            Option("--owner", "owner", "Owner: an agent or a human.", "address"),
            Option("--situation", "situation", "Situation: the overlay of the model to use."),
            Option("--prompt", "system_prompt", "System prompt, which its forks inherit."),
        ),
        targets={"owner": ("agent", "human"), "default_model": ("model",)},
        move_events={"completed": "session.completed"},
        member_events={"default_model": "session.model_switched"},
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(SessionConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(SessionConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Send a message to the session, to its own model or to the one named."""
        if not call.request.get("message"):
            raise InvalidOperation("a session is sent a message: say one")
        if call.program.state == "completed":
            raise InvalidOperation("the session is completed: fork it to go on")
        return {"reply": await call.around.send(call.program, call.request)}
