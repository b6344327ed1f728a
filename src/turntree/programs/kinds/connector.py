"""``connector``: a server of tools, reached by the Model Context Protocol.

A connector starts a command or has an address. A person accepts the server's tools as it describes
them. The config keeps the accepted descriptions; a tool that is described otherwise is withheld.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from turntree.auth.permissions import Effect
from turntree.core.canonical import Json
from turntree.programs.kind import Kind, Option
from turntree.programs.kinds.provider import check_named
from turntree.programs.kinds.typed_config import TypedConfig, check_config, schema_of
from turntree.programs.lifecycles import LIFECYCLES
from turntree.programs.program_kind import Invocation

TIMEOUT_DEFAULT_S: Final = 60.0
ToolName = Annotated[str, Field(min_length=1, max_length=128)]


class AcceptedTool(TypedConfig):
    """A tool as its server described it when a person accepted it."""

    description: str
    input_schema: dict[str, JsonValue]
    hints: dict[str, bool] | None = None
    """What the server says of its effects, which only adds to the declared ones."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """The digest of the whole description."""


class ConnectorConfig(TypedConfig):
    """How to reach a server, and which of its tools are offered."""

    command: Annotated[str, Field(min_length=1)] | None = None
    """Started on the worker's machine, with its arguments, quoted as in a shell."""
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    headers: Annotated[dict[str, str], AfterValidator(check_named)] | None = None
    """Sent with every request; ``${NAME}`` names a secret."""
    env: Annotated[dict[str, str], AfterValidator(check_named)] | None = None
    """Variables of the command; ``${NAME}`` names a secret."""
    sandbox: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] | None = None
    """The sandbox profile that the command runs in, as the machine's user defines it."""
    tools: list[ToolName] | None = None
    """Names of the server's tools that may be accepted; by default all."""
    effects: dict[ToolName, list[Effect]] | None = None
    """What calling a tool may do, by its name; ``*`` for the others. Without: everything."""
    repeatable: list[ToolName] | None = None
    """Tools for which two equal calls have the effect of one."""
    watch: list[Annotated[str, Field(min_length=1, max_length=2000)]] | None = None
    """Resources of the server whose changes are recorded."""
    protocol: Literal["auto", "handshake"] | None = None
    """``handshake`` for a server that does not answer what it does not know."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    description: str | None = None
    accepted: dict[ToolName, AcceptedTool] | None = None

    @model_validator(mode="after")
    def _check_place(self) -> "ConnectorConfig":
        if (self.command is None) == (self.url is None):
            raise ValueError("a connector has either a command or a url")
        if self.url is not None and (self.env or self.sandbox):
            raise ValueError("env and sandbox are for a command")
        if self.command is not None and self.headers:
            raise ValueError("headers are for a url")
        return self


class ConnectorKind:
    """The kind ``connector``."""

    kind: Final = Kind(
        "connector",
        "A server of tools, reached by the Model Context Protocol.",
        LIFECYCLES["connector"],
        (
            Option("--command", "command", "Command that starts the server, with arguments."),
            Option("--url", "url", "URL of the server, for streamable HTTP."),
            Option("--sandbox", "sandbox", "Sandbox profile that the command runs in."),
            Option("--allow-tool", "tools", "Tool that may be accepted; repeatable.", many=True),
            Option(
                "--repeatable",
                "repeatable",
                "Tool that may be called again after a crash; repeatable.",
                many=True,
            ),
            Option("--watch", "watch", "Resource to watch, by its URI; repeatable.", many=True),
            Option("--timeout", "timeout_s", "Time limit of a call in seconds.", "number"),
            Option("--protocol", "protocol", "Protocol: auto, or handshake for older servers."),
            Option("--description", "description", "Description."),
        ),
    )

    def check(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Return a config as it is stored."""
        return check_config(ConnectorConfig, self.kind, config)

    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of its config."""
        return schema_of(ConnectorConfig)

    async def invoke(self, call: Invocation) -> dict[str, Json]:
        """Return the names of the accepted tools; the server is not asked."""
        accepted = call.program.config.get("accepted")
        return {"tools": sorted(accepted) if isinstance(accepted, Mapping) else []}
