"""Requests to a server: repeated when a connection is lost, and answered with values or errors.

Every write carries an idempotency key, so that it can be repeated as safely as a read: the server
gives the second request the answer of the first.
"""

import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import quote

import anyio
import httpx2

import turntree
from turntree.client.address import ServerAddress
from turntree.client.documents import read_document
from turntree.client.problems import ServerBusy, error_of
from turntree.core.errors import DatabaseUnavailable, ServerUnavailable
from turntree.core.value import value

T = TypeVar("T")
CONNECT_S_MAX: Final = 10.0
SILENCE_S_MAX: Final = 60.0
"""How long an answer may stay away. A stream is never silent this long: it carries comments."""
PAUSES_S: Final = (0.1, 0.4, 1.5)
"""The pauses before each repetition: a server that is restarted is back within two seconds."""
BUSY_S_MAX: Final = 20.0
"""How long to wait, each time, for a server that had too many requests of this caller."""
KEY_BYTES: Final = 16


@value
class StreamMessage:
    """One server-sent event."""

    id: str
    event: str
    data: Any


class HttpConnection:
    """What the facets of a client send their requests with."""

    def __init__(self, address: ServerAddress, key: str) -> None:
        """Connect to nothing yet."""
        self._api = address.api
        self._http = httpx2.AsyncClient(
            headers={
                "authorization": f"Bearer {key}",
                "user-agent": f"turntree/{turntree.__version__}",
            },
            timeout=httpx2.Timeout(SILENCE_S_MAX, connect=CONNECT_S_MAX),
            # To follow a redirect would send the key to an address that the caller did not name,
            # and a proxy would read it where nothing is encrypted.
            follow_redirects=False,
            trust_env=address.is_encrypted,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(
        self, path: str, kind: type[T], query: Mapping[str, object] | None = None, /, **names: str
    ) -> T:
        """Return the answer to a read.

        Raises:
            TurntreeError: The server refused it, or cannot be reached.
        """
        answer = await self._send("GET", path, names, params=_written(query or {}))
        is_text = kind is str
        return read_document(kind, answer.text if is_text else _document_of(answer))

    async def post(
        self,
        path: str,
        kind: type[T],
        body: Mapping[str, object],
        /,
        *,
        idempotency_key: str | None = None,
        **names: str,
    ) -> T:
        """Return the answer to a write, which happens once however often it is sent.

        Raises:
            TurntreeError: The server refused it, or cannot be reached.
        """
        given = {name: item for name, item in body.items() if item is not None}
        headers = {"idempotency-key": idempotency_key or secrets.token_hex(KEY_BYTES)}
        answer = await self._send("POST", path, names, json=given, headers=headers)
        return read_document(kind, _document_of(answer))

    async def stream(
        self, path: str, /, *, after: str = "", **names: str
    ) -> AsyncGenerator[StreamMessage, None]:
        """Yield the messages of a stream after a position, until it ends or is cut.

        Raises:
            TurntreeError: The server refused it, or the connection was lost.
        """
        headers = {"accept": "text/event-stream"} | ({"last-event-id": after} if after else {})
        url = self._url(path, names)
        try:
            async with self._http.stream("GET", url, headers=headers) as answer:
                if answer.is_error:
                    await answer.aread()
                    raise error_of(_document_of(answer), answer.status_code)
                position = event = ""
                async for line in answer.aiter_lines():
                    field, _, text = line.partition(": ")
                    match field:
                        case "id":
                            position = text
                        case "event":
                            event = text
                        case "data":
                            yield StreamMessage(position, event, json.loads(text))
                        case _:
                            pass
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise _unreachable(error) from error

    async def _send(
        self, method: str, path: str, names: Mapping[str, str], **request: Any
    ) -> httpx2.Response:
        url = self._url(path, names)
        for pause in PAUSES_S:
            try:
                return await self._send_once(method, url, request)
            except ServerBusy as error:
                if error.wait_s > BUSY_S_MAX:
                    raise
                await anyio.sleep(max(pause, error.wait_s))
            except (ServerUnavailable, DatabaseUnavailable):
                await anyio.sleep(pause)
        return await self._send_once(method, url, request)

    async def _send_once(
        self, method: str, url: str, request: Mapping[str, Any]
    ) -> httpx2.Response:
        try:
            answer = await self._http.request(method, url, **request)
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        if not answer.is_success:
            refusal = error_of(_document_of(answer), answer.status_code)
            if isinstance(refusal, ServerBusy):
                with suppress(ValueError):
                    refusal.wait_s = float(answer.headers.get("retry-after", ""))
            raise refusal
        return answer

    def _url(self, path: str, names: Mapping[str, str]) -> str:
        # A label may contain a slash, which would be another segment.
        return self._api + path.format_map({k: quote(text, safe="~") for k, text in names.items()})


def _written(query: Mapping[str, object]) -> dict[str, str]:
    """Return a query as text; what is None is not sent."""
    return {
        name: str(item).lower() if isinstance(item, bool) else str(item)
        for name, item in query.items()
        if item is not None
    }


def _document_of(answer: httpx2.Response) -> object:
    try:
        return answer.json()
    except ValueError:
        return None


def _unreachable(error: Exception) -> ServerUnavailable:
    # The text of the cause may hold the request with its headers: only its kind is told.
    if isinstance(error, httpx2.TimeoutException):
        return ServerUnavailable("the server does not answer")
    if isinstance(error, httpx2.ConnectError):
        return ServerUnavailable(f"the server cannot be reached: {error}")
    return ServerUnavailable("the connection to the server was lost")
