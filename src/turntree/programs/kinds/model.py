"""``model``: a named way to ask a provider, with overlays for situations."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from turntree.core.canonical import Json
from turntree.core.usage import family_of
from turntree.programs.kind import DefaultReference, Kind, Option
from turntree.programs.kinds.params import Params
from turntree.programs.kinds.typed_config import Address, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation


class ModelConfig(Params):
    """Which model it is, its provider, and its parameters."""

    name: str | None = None
    model_id: str = Field(min_length=1)
    provider: Address | None = None
    family: str | None = None
    """The vendor of the model; by default derived from its name, and stored."""
    description: str | None = None
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    """Size of its context window in tokens."""
    learned_context_tokens: Annotated[int, Field(ge=1)] | None = None
    """A limit learned when its provider refused a prompt; used if it is the smaller one."""
    situations: dict[str, Params] | None = None


class ModelKind:
    """The kind ``model``."""

    kind: Final = Kind(
        "model",
        "A named way to ask a provider.",
        LIFECYCLES["model"],
        (
            Option("--backend", "model_id", "Name of the model at its provider."),
            Option("--provider", "provider", "Provider to ask.", "address"),
            Option("--temperature", "temperature", "Temperature.", "number"),
            Option("--max-tokens", "max_tokens", "Maximum length of a reply in tokens.", "integer"),
            Option("--top-p", "top_p", "Nucleus sampling: the top_p probability mass.", "number"),
            Option("--thinking", "thinking", "Reasoning effort: none, low, medium or high."),
            Option(
                "--context-tokens",
                "context_tokens",
                "Size of its context window in tokens.",
                "integer",
            ),
            Option("--description", "description", "Description."),
        ),
        targets={"provider": ("provider",)},
        fills=(DefaultReference("provider", "provider", "provider_type", "family"),),
        overlays="situations",
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored; without a provider, with the model's family."""
        known = check_config(ModelConfig, self.kind, config)
        family = family_of(str(known["model_id"]))
        if "provider" in known or "family" in known or family is None:
            return known
        return {**known, "family": family}

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(ModelConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Have the model reply to a message."""
        return {"reply": await call.around.ask_model(call.program, call.request)}
