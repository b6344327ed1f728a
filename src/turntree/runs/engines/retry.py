"""Retries a wake-up until its handler succeeds.

A handler can fail for a while: the database is unreachable, or our own code has a bug. The wake-up
stays claimed and is retried with a growing delay. Must never know which engine called it.
"""

import asyncio
import logging

from turntree.core.ids import SessionId
from turntree.runs.engine import Handle

RETRY_FIRST_S = 0.05
# A database that comes back is used again within this time.
RETRY_MAX_S = 10.0
_LOG = logging.getLogger(__name__)


async def handle_until_done(handle: Handle, session: SessionId) -> None:
    """Handle a wake-up, retrying until it succeeds; only a cancellation ends it earlier."""
    delay_s = RETRY_FIRST_S
    while True:
        try:
            return await handle(session)
        except Exception:
            # A wake-up that is given up is lost: only it says that the session has work.
            _LOG.warning("session %s failed, retrying in %.2f s", session, delay_s, exc_info=True)
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, RETRY_MAX_S)
