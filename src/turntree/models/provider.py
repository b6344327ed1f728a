"""A provider: it has a model answer a prompt, word by word or at once."""

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
    """Some words of an answer that is on its way."""

    kind: Literal["text", "reasoning", "tool"]
    text: str
    """For a tool the beginning of its arguments; its name comes first, in a delta of its own."""
    tool: str | None = None
    call_id: str | None = None


@value
class ModelReply:
    """A whole answer, as the provider gave it."""

    message: Message
    usage: Usage
    model: str
    """What the provider says that answered; not always what was asked."""
    finish_reason: str | None = None
    request_id: str | None = None


Credentials = Callable[[str], str]
"""Gives the credential of a name, or raises ``Denied`` or ``NotFound``."""
Objects = Callable[[Digest], Awaitable[bytes]]
"""Gives the bytes of an object: parts that were lifted, images, files."""


@value
class ProviderSetup:
    """What a provider is built from: the config of its program, and who fetches the rest."""

    config: Mapping[str, Json]
    credentials: Credentials = field(repr=False)
    objects: Objects = field(repr=False)
    is_public_only: bool = False
    """Whether it may reach public addresses alone: another person wrote the config."""


class Provider(Protocol):
    """A service that answers for models. One that fails raises ``ProviderFailed``."""

    @property
    def name(self) -> str:
        """Who answers, as lists of prices and turns call them: ``anthropic``."""
        ...

    def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield the answer in pieces as they come, and the whole of it last.

        Closing the generator ends the request.

        Raises:
            ProviderFailed: It gave no answer; the error says whether to try again.
        """
        ...

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the whole answer at once.

        Raises:
            ProviderFailed: It gave no answer.
        """
        ...

    async def list_models(self) -> list[str]:
        """Return the names of the models it has.

        Raises:
            ProviderFailed: It did not tell.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections that were kept for the next request."""
        ...


BuildsProvider = Callable[[ProviderSetup], Provider]
"""What the entry point of a provider's type names."""
