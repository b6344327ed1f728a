"""The provider protocol: has a model reply to a prompt, streamed or at once."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol

from turntree.core.canonical import Json
from turntree.core.ids import Digest
from turntree.core.message import Message
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.models.prompt import Prompt


@value
class ReplyDelta:
    """Some text of a reply in progress."""

    kind: Literal["text", "reasoning", "tool"]
    text: str
    """For a tool call, part of its arguments; its name comes first, in a separate delta."""
    tool: str | None = None
    call_id: str | None = None


@value
class ModelReply:
    """A complete reply, as the provider gave it."""

    message: Message
    usage: Usage
    model: str
    """The model that the provider reports, which may differ from the one requested."""
    finish_reason: str | None = None
    request_id: str | None = None
    provider: str | None = None
    """The vendor that replied, if the provider serves several."""


Credentials = Callable[[str], str]
"""Returns the credential of a name, or raises ``PermissionDenied`` or ``NotFound``."""
Objects = Callable[[Digest], Awaitable[bytes]]
"""Returns the bytes of an object: offloaded parts, images, files."""


@value
class ProviderSetup:
    """What a provider is built from: its program's config, and access to credentials and
    objects."""

    config: Mapping[str, Json]
    credentials: Credentials = field(repr=False)
    objects: Objects = field(repr=False)
    is_public_only: bool = False
    """Whether it may reach only public addresses, because another person wrote the config."""


class Provider(Protocol):
    """A service that runs models. Its methods raise ``ProviderError`` when a call fails."""

    @property
    def name(self) -> str:
        """The provider's name in price lists and turns, such as ``anthropic``."""
        ...

    def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield deltas of the reply as they arrive, and the complete reply last.

        Closing the generator ends the request.

        Raises:
            ProviderError: There is no reply; the error's kind says whether to retry.
        """
        ...

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the complete reply.

        Raises:
            ProviderError: There is no reply.
        """
        ...

    async def list_models(self) -> list[str]:
        """Return the names of its models.

        Raises:
            ProviderError: The service did not list them.
        """
        ...

    async def aclose(self) -> None:
        """Close pooled connections."""
        ...


BuildsProvider = Callable[[ProviderSetup], Provider]
"""The signature of a provider type's entry point."""
