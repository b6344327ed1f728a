"""A provider that uses pydantic-ai's model classes, and nothing else of that library.

It calls ``pydantic_ai.direct``: one request, one response. The library's agents, loop and message
store are not used, and its clients never retry: the runner retries and records every attempt.
"""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
)
from contextvars import ContextVar
from typing import Any, Final, cast

import anyio
import httpx2
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.settings import ModelSettings

from turntree.core.canonical import Json
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, Objects, ReplyDelta
from turntree.models.providers.connection import CONNECT_TIMEOUT_S, NO_KEY, Connection
from turntree.models.providers.errors import CAUGHT, failure_of
from turntree.models.providers.parameters import Api, check_model, settings_of
from turntree.models.providers.request import VendorRequest, asked, objects_in, vendor_name
from turntree.models.providers.response import DeltaReader, answer_of
from turntree.models.providers.vendor_metadata import ReplyAuthor
from turntree.system.public_addresses import PublicTransport

# Closing waits for the other side, and a command must not hang at its end for that.
CLOSING_TIMEOUT_S: Final = 2.0
_ANSWERS: ContextVar[list[httpx2.Response] | None] = ContextVar("answers", default=None)
"""HTTP responses received while a stream is being opened, to be closed with it."""


def http_client(connection: Connection) -> httpx2.AsyncClient:
    """Return an HTTP client for one vendor; it follows no redirects, which could leak a key."""
    # Without TLS, an empty context, which trusts no certificate: loading all CAs takes time.
    is_open = connection.base_url is not None and connection.base_url.startswith("http://")
    trusted, public = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_open else True), None
    if connection.is_public_only and connection.base_url is not None:
        public = PublicTransport(
            httpx2.AsyncHTTPTransport(verify=trusted),
            because=", and another person wrote this provider's config",
        )
    return httpx2.AsyncClient(
        headers=dict(connection.headers),
        timeout=httpx2.Timeout(connection.timeout_s, connect=CONNECT_TIMEOUT_S),
        event_hooks={"request": [_drop_missing_key], "response": [_remember]},
        verify=trusted,
        transport=public,
        follow_redirects=False,
        # A proxy would resolve names again, without the check for public addresses.
        trust_env=public is None,
    )


async def _drop_missing_key(request: httpx2.Request) -> None:
    # A gateway that stores the vendor's key uses it only if the request has none.
    for name in ("authorization", "x-api-key", "x-goog-api-key"):
        if request.headers.get(name) in {NO_KEY, f"Bearer {NO_KEY}"}:
            del request.headers[name]


async def _remember(response: httpx2.Response) -> None:
    # Set only while a stream is being opened, in its own task: requests of other tasks are not ours
    # to close.
    arrived = _ANSWERS.get()
    if arrived is not None:
        arrived.append(response)


@asynccontextmanager
async def _opened(
    asking: AbstractAsyncContextManager[StreamedResponse],
) -> AsyncGenerator[StreamedResponse, None]:
    """Open a stream, and abort its request on exit.

    Not every vendor's library does: an abandoned stream may stay open until garbage collection,
    while the vendor keeps generating tokens and charging for them.
    """
    arrived: list[httpx2.Response] = []
    token = _ANSWERS.set(arrived)
    async with AsyncExitStack() as stack:
        try:
            response = await stack.enter_async_context(asking)
        finally:
            _ANSWERS.reset(token)
        try:
            yield response
        finally:
            # Shielded, because this runs when the caller was canceled, and that is when it matters
            # most.
            with anyio.move_on_after(CLOSING_TIMEOUT_S, shield=True):
                for event in arrived:
                    await event.aclose()


class DirectProvider:
    """A provider for one vendor. Implements ``Provider``."""

    def __init__(
        self,
        author: ReplyAuthor,
        connection: Connection,
        objects: Objects,
        *,
        model_of: Callable[[str], Model],
        lists: Callable[[], Awaitable[list[str]]],
        raises: type[Exception],
        http: httpx2.AsyncClient,
    ) -> None:
        """Take the vendor's parts; the HTTP client is closed with the provider."""
        self._author = author
        self._connection = connection
        self._objects = objects
        self._model_of = model_of
        self._models: dict[str, Model] = {}
        self._lists = lists
        self._raises = raises
        self._http = http

    def __repr__(self) -> str:
        """Show the vendor and the API, never a key."""
        return f"<provider {self._author.vendor}, {self._author.api}>"

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._author.vendor

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield deltas of the reply as they arrive, and the complete reply last.

        Raises:
            ProviderError: There is no reply, or it is incomplete.
        """
        given, chosen = await self._given(model, prompt, settings)
        asking = model_request_stream(
            self._model(model),
            given.messages,
            model_settings=chosen,
            model_request_parameters=given.parameters,
        )
        tools = {vendor_name(tool.name): tool.name for tool in prompt.tools}
        spoken = DeltaReader(tools)
        try:
            async with _opened(asking) as response:
                async with aclosing(cast("AsyncGenerator[Any, None]", aiter(response))) as events:
                    async for event in events:
                        for delta in spoken.deltas(event):
                            yield delta
                yield answer_of(response.get(), self._author, model, tools)
        except CAUGHT as error:
            raise self._failure(error) from error

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the complete reply.

        Raises:
            ProviderError: There is no reply.
        """
        given, chosen = await self._given(model, prompt, settings)
        try:
            response = await model_request(
                self._model(model),
                given.messages,
                model_settings=chosen,
                model_request_parameters=given.parameters,
            )
            tools = {vendor_name(tool.name): tool.name for tool in prompt.tools}
            return answer_of(response, self._author, model, tools)
        except CAUGHT as error:
            raise self._failure(error) from error

    async def list_models(self) -> list[str]:
        """Return the names of its models.

        Raises:
            ProviderError: The service did not list them.
        """
        try:
            return sorted(await self._lists())
        except (self._raises, *CAUGHT) as error:
            raise self._failure(error) from error

    async def aclose(self) -> None:
        """Close pooled connections."""
        await self._http.aclose()

    async def _given(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> tuple[VendorRequest, ModelSettings]:
        api, cache = cast("Api", self._author.api), self._connection.cache
        chosen = settings_of(api, settings, cache=cache)
        check_model(model, self._model(model).profile, chosen)
        objects = {digest: await self._objects(digest) for digest in objects_in(prompt)}
        kept = cache if api == "anthropic" else None
        return asked(prompt, self._author, objects, cache=kept), cast("ModelSettings", chosen)

    def _model(self, name: str) -> Model:
        # Building one resolves its profile; a worker asks the same few models all day.
        if name not in self._models:
            self._models[name] = self._model_of(name)
        return self._models[name]

    def _failure(self, error: Exception) -> Exception:
        return failure_of(error, self.name, self._connection.hide)
