"""A provider whose library is loaded when it is first asked, beside everything else that goes on.

A vendor's library takes seconds to load. Whoever serves many sessions cannot stand still for that
long, so it is done in a thread. Knows no vendor.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

import anyio
import anyio.to_thread

from turntree.core.canonical import Json
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, Provider, ReplyDelta


class LazyProvider:
    """See ``ports.provider``."""

    def __init__(self, name: str, build: Callable[[], Provider]) -> None:
        """Take who will answer, and what builds the provider that asks them."""
        self._name = name
        self._build = build
        self._built: Provider | None = None

    def __repr__(self) -> str:
        """Show who answers, and no key."""
        return f"<provider {self._name}>"

    @property
    def name(self) -> str:
        """Who answers."""
        return self._name

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield the answer in pieces as they come, and the whole of it last.

        Raises:
            ProviderFailed: It gave no answer, or only a part of one.
        """
        provider = await self._provider()
        async with aclosing(provider.stream(model, prompt, settings)) as pieces:
            async for piece in pieces:
                yield piece

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the whole answer at once.

        Raises:
            ProviderFailed: It gave no answer.
        """
        return await (await self._provider()).request(model, prompt, settings)

    async def list_models(self) -> list[str]:
        """Return the names of the models it has.

        Raises:
            ProviderFailed: It did not tell.
        """
        return await (await self._provider()).list_models()

    async def aclose(self) -> None:
        """Let go of connections that were kept for the next request."""
        if self._built is not None:
            await self._built.aclose()

    async def _provider(self) -> Provider:
        if self._built is None:
            built = await anyio.to_thread.run_sync(self._build)
            # Two may have come at once, and Python loads a library for one of them; the first
            # that is back is kept, for it may have been asked already.
            if self._built is None:
                self._built = built
            elif built is not self._built:
                await built.aclose()
        return self._built
