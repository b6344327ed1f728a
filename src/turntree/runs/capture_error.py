"""What an act ended in, for those who must outlive it."""

import asyncio
from collections.abc import Coroutine


async def error_of(act: Coroutine[object, object, None]) -> BaseException | None:
    """Carry an act out and return what it raised, or None.

    Nothing is swallowed: whoever calls this looks at what it returns. If the caller is canceled the
    act is canceled too, and awaited.
    """
    (ended,) = await asyncio.gather(act, return_exceptions=True)
    return ended
