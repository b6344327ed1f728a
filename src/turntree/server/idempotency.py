"""Answers a write once: the same idempotency key gets the same answer, and nothing is done again.

Kept in memory and for the newest keys of each person only. A page repeats a request within seconds,
after a lost connection or a second click; a key that a restarted server has forgotten still meets
``expected_head``, which refuses a move that was already made.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from turntree.core.value import value
from turntree.server.access.caller import ApiCaller
from turntree.server.problems import Refusal

HEADER: Final = "idempotency-key"
ANSWERS_MAX: Final = 1000
"""Answers kept for one person: another who writes much does not make theirs be forgotten."""
KEY_CHARS_MAX: Final = 200


@value
class KeptAnswer:
    """An answer that was given, or is on its way, and the request that it belongs to."""

    request_digest: bytes
    response: "asyncio.Future[Response]"


class IdempotentAnswers:
    """The answers of the newest writes, by person and by their keys."""

    def __init__(self, answers_max: int = ANSWERS_MAX) -> None:
        """Keep no answer yet."""
        self._answers_max = answers_max
        self._answers: dict[str, OrderedDict[str, KeptAnswer]] = {}

    async def once(
        self,
        request: Request,
        caller: ApiCaller,
        body: bytes,
        act: Callable[[], Awaitable[Response]],
    ) -> Response:
        """Return the answer to a write; only the first request with its key acts.

        A key is its caller's: the same key of another caller is another key.

        A write that fails is forgotten, so that it can be tried again under the same key.

        Raises:
            Refusal: The key is missing, or belongs to another request.
        """
        key = request.headers.get(HEADER, "")
        if not 0 < len(key) <= KEY_CHARS_MAX:
            detail = f"a write needs an Idempotency-Key of at most {KEY_CHARS_MAX} characters"
            step = "send the header Idempotency-Key, with a text of your own for each write"
            raise Refusal(HTTPStatus.BAD_REQUEST, "no-idempotency-key", detail, step)
        sent = "\0".join((request.url.path, request.headers.get("if-match", ""), ""))
        digest = hashlib.sha256(sent.encode() + body).digest()
        key = f"{caller.name}\0{key}"
        answers = self._answers.setdefault(caller.person, OrderedDict())
        kept = answers.get(key)
        if kept is not None:
            if kept.request_digest != digest:
                detail = "this Idempotency-Key belongs to another request"
                step = "send another Idempotency-Key, or repeat the first request as it was"
                raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "key-reused", detail, step)
            # A page that goes away must not take the answer from the one that asked first.
            return await asyncio.shield(kept.response)
        future: asyncio.Future[Response] = asyncio.ensure_future(_run(act))
        answers[key] = KeptAnswer(digest, future)

        def forget_failed(done: "asyncio.Future[Response]") -> None:
            if done.cancelled() or done.exception() is not None:
                answers.pop(key, None)

        future.add_done_callback(forget_failed)
        while len(answers) > self._answers_max:
            answers.popitem(last=False)
        return await asyncio.shield(future)


async def _run(act: Callable[[], Awaitable[Response]]) -> Response:
    return await act()
