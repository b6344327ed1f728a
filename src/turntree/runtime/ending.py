"""What an act ended in, for those who must outlive it."""

import asyncio
from collections.abc import Coroutine
from typing import cast


async def error_of(act: Coroutine[object, object, None]) -> BaseException | None:
    """Carry an act out and return what it raised, or None.

    Nothing is swallowed: whoever calls this looks at what it returns. If the caller is canceled the
    act is canceled too, and awaited.
    """
    (ended,) = await asyncio.gather(act, return_exceptions=True)
    return ended


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that came first among those of a group; the rest followed from it."""
    first = errors.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return first_of(cast("BaseExceptionGroup[BaseException]", first))
    return first
