"""OpenAI's Responses and chat completions, and the many servers that copy the latter.

Knows how the vendor's client is set up. Must never know a message.
"""

from collections.abc import Callable

from openai import AsyncOpenAI, OpenAIError
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
# Without it half an answer, whose connection was closed politely, would pass for a whole one.
_WHOLE = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)


class _Client(AsyncOpenAI):
    """The vendor's client, which sends nothing that the environment holds and no config names."""

    def forget_environment(self) -> None:
        """Drop the headers and keys that it read there for whatever address it is given."""
        self._custom_headers = {}
        self._ambient_authorizations = frozenset()
        self.admin_api_key = self.organization = self.project = self.webhook_secret = None


def build_responses(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``openai``: Responses."""
    return _build("openai-responses", _responses, connection, name, objects)


def build_chat(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``openai-chat``: OpenAI's own chat completions."""
    return _build("openai-chat", _chat, connection, name, objects)


def build_compatible(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``openai-compatible``: a server that speaks chat completions."""
    return _build("openai-compatible", _compatible, connection, name, objects)


def _responses(name: str, vendor: OpenAIProvider) -> Model:
    return OpenAIResponsesModel(name, provider=vendor)


def _chat(name: str, vendor: OpenAIProvider) -> Model:
    return OpenAIChatModel(name, provider=vendor, profile=_WHOLE)


def _compatible(name: str, vendor: OpenAIProvider) -> Model:
    # What came later than the format they all copy is left out.
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
    client = _Client(
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
