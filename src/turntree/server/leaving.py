"""Ends the work on a read once its client has gone.

Otherwise requests that are sent and abandoned in a loop line up for the connections of the
database, and every other caller waits behind answers that no client reads.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Receive


async def answer_while_heard(answer: Coroutine[Any, Any, Response], receive: Receive) -> Response:
    """Return the answer to a request without a body, or one that is not sent if its client left."""
    answering = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        return Response(status_code=HTTPStatus.REQUEST_TIMEOUT)
    finally:
        for task in (answering, leaving):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await leaving


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
