"""Google's Gemini API.

Configures the vendor's client. Must never know a message.
"""

from google.genai.errors import APIError
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

from turntree.models.provider import Objects, Provider
from turntree.models.providers.connection import NO_KEY, Connection
from turntree.models.providers.direct import DirectProvider, http_client
from turntree.models.providers.vendor_metadata import ReplyAuthor

_PREFIX = "models/"


def build_google(connection: Connection, name: str, objects: Objects) -> Provider:
    """Return a provider of type ``google``."""
    http = http_client(connection)
    vendor = GoogleProvider(
        api_key=connection.key or NO_KEY, base_url=connection.base_url, http_client=http
    )

    async def lists() -> list[str]:
        models = await vendor.client.aio.models.list()
        return [str(model.name).removeprefix(_PREFIX) async for model in models]

    return DirectProvider(
        ReplyAuthor("google", name, vendor.name),
        connection,
        objects,
        model_of=lambda model: GoogleModel(model, provider=vendor),
        lists=lists,
        raises=APIError,
        http=http,
    )
