"""A provider whose library is loaded on first use, in a thread.

A vendor's library takes seconds to import. A worker that serves many sessions cannot block its
event loop for that long. Knows no vendor.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

import anyio
import anyio.to_thread

from turntree.core.canonical import Json
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, Provider, ReplyDelta


class LazyProvider:
    """A provider that is built on first use. Implements ``Provider``."""

    def __init__(self, name: str, build: Callable[[], Provider]) -> None:
        """Take the vendor's name, and the function that builds its provider."""
        self._name = name
        self._build = build
        self._built: Provider | None = None

    def __repr__(self) -> str:
        """Show the vendor, never a key."""
        return f"<provider {self._name}>"

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._name

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield deltas of the reply as they arrive, and the complete reply last.

        Raises:
            ProviderError: There is no reply, or it is incomplete.
        """
        provider = await self._provider()
        async with aclosing(provider.stream(model, prompt, settings)) as pieces:
            async for piece in pieces:
                yield piece

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the complete reply.

        Raises:
            ProviderError: There is no reply.
        """
        return await (await self._provider()).request(model, prompt, settings)

    async def list_models(self) -> list[str]:
        """Return the names of its models.

        Raises:
            ProviderError: The service did not list them.
        """
        return await (await self._provider()).list_models()

    async def aclose(self) -> None:
        """Close pooled connections."""
        if self._built is not None:
            await self._built.aclose()

    async def _provider(self) -> Provider:
        if self._built is None:
            # A canceled run ends at once. The thread cannot be stopped, and what it builds has no
            # connections yet.
            built = await anyio.to_thread.run_sync(self._build, abandon_on_cancel=True)
            # Two calls may build at the same time. Keep the provider of the first that returns: a
            # request may already be using it.
            if self._built is None:
                self._built = built
            elif built is not self._built:
                await built.aclose()
        return self._built
