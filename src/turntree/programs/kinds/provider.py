"""``provider``: a service that answers for models. Keys are named, never kept."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from turntree.core.canonical import Json
from turntree.core.secret_refs import carries_secret, is_only_named
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.params import Params
from turntree.programs.kinds.typed_config import TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation


def _named(text: str) -> str:
    if not is_only_named(text):
        raise ValueError("a key is never stored: name it as ${NAME}")
    return text


def _headers_named(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if carries_secret(name) and not is_only_named(value):
            raise ValueError(f"{name} carries a key, which is never stored: name it as ${{NAME}}")
    return headers


class ProviderConfig(TypedConfig):
    """Where a service is, and what its own settings are: those are kept as they are written."""

    model_config = ConfigDict(extra="allow")

    provider_type: str = Field(min_length=1)
    base_url: str | None = None
    description: str | None = None
    params: Params | None = None
    """What it is asked with where nobody says otherwise."""
    api_key: Annotated[str, AfterValidator(_named)] | None = None
    """The name of its key; without one the vendor's own name for it is tried."""
    headers: Annotated[dict[str, str], AfterValidator(_headers_named)] | None = None
    """Sent with every request: what a gateway wants to see."""
    vendor: str | None = None
    """Whose models there are, where the type does not say it."""
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    cache: Literal["5m", "1h", False] | None = None
    """How long a service is asked to keep what it has read."""


class ProviderKind:
    """The kind ``provider``."""

    kind: Final = Kind(
        "provider",
        "A service that answers for models.",
        LIFECYCLES["provider"],
        (
            Option("--type", "provider_type", "What kind of service it is."),
            Option("--base-url", "base_url", "Where it is reached; ${NAME} names a secret."),
            Option("--description", "description", "What it is for."),
        ),
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(ProviderConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(ProviderConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Ask the service whether it is well and which models it has."""
        return {"models": await call.around.ask_model(call.program, {"list": "models"})}
