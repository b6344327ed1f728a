"""OpenAI's Responses and Chat Completions APIs, and servers compatible with the latter.

Configures the vendor's client. Must never know a message.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from openai import AsyncOpenAI, OpenAIError
from openai.resources.chat import AsyncChat, AsyncCompletions
from openai.resources.responses import AsyncResponses
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from turntree.models.provider import Objects, Provider
from turntree.models.providers.connection import NO_KEY, Connection
from turntree.models.providers.direct import DirectProvider, http_client
from turntree.models.providers.parameters import Api
from turntree.models.providers.vendor_metadata import ReplyAuthor

URL = "https://api.openai.com/v1"
# Without it, a truncated reply whose connection was closed cleanly would pass for a complete one.
_WHOLE = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)


class _OpenAIClient(AsyncOpenAI):
    """The vendor's client without the headers and keys it takes from environment variables, and
    without its own look at each message."""

    @property
    def chat(self) -> AsyncChat:
        """The Chat Completions API."""
        return _Chat(self)

    @property
    def responses(self) -> AsyncResponses:
        """The Responses API."""
        return _Responses(self)

    def forget_environment(self) -> None:
        """Drop the headers and keys from the environment: it would send them to any base URL."""
        self._custom_headers = {}
        self._ambient_authorizations = frozenset()
        self.admin_api_key = self.organization = self.project = self.webhook_secret = None


# The vendor's own methods compare each message with every type of message, in each call, to rename
# members that need no other name. In a thread of 200 messages that was two thirds of a worker's CPU
# time. What ``extra_body`` holds replaces members of the body unseen; their order stays the same.
class _Chat(AsyncChat):
    @property
    def completions(self) -> AsyncCompletions:
        return _Completions(self._client)


class _Completions(AsyncCompletions):
    async def create(  # type: ignore[override]
        self,
        *,
        messages: Iterable[object],
        extra_body: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Any:
        body = {**(extra_body or {}), "messages": list(messages)}
        create = cast("Callable[..., Awaitable[Any]]", super().create)
        return await create(messages=(), extra_body=body, **options)


class _Responses(AsyncResponses):
    async def create(  # type: ignore[override]
        self, *, input: object, extra_body: Mapping[str, object] | None = None, **options: Any
    ) -> Any:
        body = {**(extra_body or {}), "input": input}
        create = cast("Callable[..., Awaitable[Any]]", super().create)
        return await create(input=[], extra_body=body, **options)


def build_responses(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``openai``: the Responses API."""
    return _build("openai-responses", _responses, connection, name, objects)


def build_chat(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``openai-chat``: OpenAI's own Chat Completions API."""
    return _build("openai-chat", _chat, connection, name, objects)


def build_compatible(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``openai-compatible``: another server of that API."""
    return _build("openai-compatible", _compatible, connection, name, objects)


def _responses(name: str, vendor: OpenAIProvider) -> Model:
    return OpenAIResponsesModel(name, provider=vendor)


def _chat(name: str, vendor: OpenAIProvider) -> Model:
    return OpenAIChatModel(name, provider=vendor, profile=_WHOLE)


def _compatible(name: str, vendor: OpenAIProvider) -> Model:
    # Leave out features newer than the API version that these servers implement.
    profile = OpenAIModelProfile(
        openai_chat_streaming_requires_finish_reason=True,
        openai_chat_supports_max_completion_tokens=False,
        openai_supports_strict_tool_definition=False,
    )
    return OpenAIChatModel(name, provider=vendor, profile=profile)


def _build(
    api: Api,
    model_of: Callable[[str, OpenAIProvider], Model],
    connection: Connection,
    name: str,
    objects: Objects,
) -> Provider:
    http = http_client(connection)
    client = _OpenAIClient(
        api_key=connection.key or NO_KEY,
        base_url=connection.base_url or URL,
        timeout=http.timeout,
        max_retries=0,
        http_client=http,
    )
    client.forget_environment()
    vendor = OpenAIProvider(openai_client=client)

    async def lists() -> list[str]:
        return [model.id async for model in client.models.list()]

    return DirectProvider(
        ReplyAuthor(api, name, vendor.name),
        connection,
        objects,
        model_of=lambda model: model_of(model, vendor),
        lists=lists,
        raises=OpenAIError,
        http=http,
    )
