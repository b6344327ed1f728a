"""``model``: a named way of asking a provider, with overlays for situations."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from turntree.core.canonical import Json
from turntree.programs.kind import DefaultReference, Kind, Option
from turntree.programs.kinds.params import Params
from turntree.programs.kinds.typed_config import Address, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.model_config import family_of
from turntree.programs.program_kind import Invocation


class ModelConfig(Params):
    """Which model it is, who answers for it, and what it is asked with."""

    name: str | None = None
    model_id: str = Field(min_length=1)
    provider: Address | None = None
    family: str | None = None
    """Whose model it is; told by its name where nobody says, and kept."""
    description: str | None = None
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    """How much it can read and write at once."""
    situations: dict[str, Params] | None = None


class ModelKind:
    """The kind ``model``."""

    kind: Final = Kind(
        "model",
        "A named way of asking a provider.",
        LIFECYCLES["model"],
        (
            Option("--backend", "model_id", "The model's name at its provider."),
            Option("--provider", "provider", "Who answers for it.", "address"),
            Option("--temperature", "temperature", "How freely it chooses words.", "number"),
            Option("--max-tokens", "max_tokens", "How long an answer may be.", "integer"),
            Option("--top-p", "top_p", "How much of what is likely it chooses from.", "number"),
            Option("--thinking", "thinking", "How long it thinks: none, low, medium or high."),
            Option("--context-tokens", "context_tokens", "How much it reads at once.", "integer"),
            Option("--description", "description", "What it is for."),
        ),
        targets={"provider": ("provider",)},
        fills=(DefaultReference("provider", "provider", "provider_type", "family"),),
        overlays="situations",
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored; without a provider, with the family of the model."""
        known = check_config(ModelConfig, self.kind, config)
        family = family_of(str(known["model_id"]))
        if "provider" in known or "family" in known or family is None:
            return known
        return {**known, "family": family}

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(ModelConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Have the model answer a message."""
        return {"reply": await call.around.ask_model(call.program, call.request)}
