"""Captures the error of a coroutine, for loops that must outlive it."""

import asyncio
from collections.abc import Coroutine


async def error_of(act: Coroutine[object, object, None]) -> BaseException | None:
    """Await a coroutine and return what it raised, or None.

    Nothing is swallowed: the caller has to match on the result. If the caller is canceled, the
    coroutine is canceled too and awaited.
    """
    (ended,) = await asyncio.gather(act, return_exceptions=True)
    return ended
