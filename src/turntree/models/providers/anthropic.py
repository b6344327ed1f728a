"""Anthropic's Messages API, and services that implement it.

Configures the vendor's client. Must never know a message.
"""

from anthropic import AnthropicError, AsyncAnthropic
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from turntree.models.provider import Objects, Provider
from turntree.models.providers.connection import NO_KEY, Connection
from turntree.models.providers.direct import DirectProvider, http_client
from turntree.models.providers.vendor_metadata import ReplyAuthor

URL = "https://api.anthropic.com"


class _AnthropicClient(AsyncAnthropic):
    """The vendor's client without the headers it takes from environment variables."""

    def forget_environment(self) -> None:
        """Drop the headers that it read from the environment: it would send them to any base
        URL."""
        self._custom_headers = {}


def build_anthropic(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``anthropic``."""
    http = http_client(connection)
    client = _AnthropicClient(
        api_key=connection.key or NO_KEY,
        base_url=connection.base_url or URL,
        timeout=http.timeout,
        max_retries=0,
        http_client=http,
    )
    client.forget_environment()
    vendor = AnthropicProvider(anthropic_client=client)

    async def lists() -> list[str]:
        return [model.id async for model in client.models.list()]

    return DirectProvider(
        ReplyAuthor("anthropic", name, vendor.name),
        connection,
        objects,
        model_of=lambda model: AnthropicModel(model, provider=vendor),
        lists=lists,
        raises=AnthropicError,
        http=http,
    )
