"""``provider``: a service that runs models. Its keys are named, never stored."""

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


def check_named(headers: dict[str, str]) -> dict[str, str]:
    """Refuse headers or variables that hold a key instead of its name.

    Raises:
        ValueError: One does.
    """
    for name, value in headers.items():
        if carries_secret(name) and not is_only_named(value):
            raise ValueError(f"{name} carries a key, which is never stored: name it as ${{NAME}}")
    return headers


class ProviderConfig(TypedConfig):
    """The address of a service, and its own settings, which are stored as written."""

    model_config = ConfigDict(extra="allow")

    provider_type: str = Field(min_length=1)
    base_url: str | None = None
    description: str | None = None
    params: Params | None = None
    """Default parameters of its model calls."""
    api_key: Annotated[str, AfterValidator(_named)] | None = None
    """Name of its key; without one the vendor's usual variable is tried."""
    headers: Annotated[dict[str, str], AfterValidator(check_named)] | None = None
    """Headers sent with every request, for example for a gateway."""
    vendor: str | None = None
    """The vendor of its models, if the type does not say."""
    account_id: str | None = None
    gateway_id: str | None = None
    """Account and gateway of the type ``cloudflare-ai-gateway``; usually in variables."""
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    cache: Literal["5m", "1h", False] | None = None
    """How long the service is asked to keep its prompt cache."""


class ProviderKind:
    """The kind ``provider``."""

    kind: Final = Kind(
        "provider",
        "A service that runs models.",
        LIFECYCLES["provider"],
        (
            Option(
                "--type",
                "provider_type",
                "Type of the service, such as anthropic or cloudflare-ai-gateway.",
            ),
            Option("--base-url", "base_url", "Base URL; ${NAME} names a secret."),
            Option("--description", "description", "Description."),
        ),
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(ProviderConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(ProviderConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Check the service's health and return its models."""
        return {"models": await call.around.ask_model(call.program, {"list": "models"})}
