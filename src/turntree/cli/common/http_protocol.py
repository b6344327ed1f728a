"""Bounds what a peer can send before its request is known: no check of ours has seen it yet.

The fast parser has no limit of its own, so a single connection could fill the memory of the server
with a head that never ends. The slower one, which is used without it, refuses 64 KiB by itself,
and has no limit in time.
"""

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_BYTES_MAX: Final = 64 * 1024
"""More than any credential, position and address together."""
HEAD_S_MAX: Final = 10.0
"""A head that takes longer is refused, so that slow senders cannot hold all connections."""


class BoundedHttp(HttpToolsProtocol):
    """HTTP with a limit for the head of a request, and for the time until it has arrived."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Begin before the first byte."""
        super().__init__(*args, **kwargs)
        self._is_in_head = False
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a piece; what is left of a head in it counts towards the limit."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse()
            elif self._timer is None:
                # Most heads arrive in one piece, and need no timer.
                self._start_timer()

    def on_message_begin(self) -> None:
        """Begin a head, which has to end in time."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """End a head; the application limits the body."""
        self._is_in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEAD_S_MAX, self._refuse)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self) -> None:
        self._stop_timer()
        self._is_in_head = False
        # None before the first request, which its type does not say.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_answering = cycle is not None and not cycle.response_complete
        if self._head_bytes == 0 or is_answering:
            # Nothing was asked, or an answer to an earlier request would be mixed with this one.
            self.transport.close()
        else:
            self.send_400_response("The request headers are too large, or arrived too slowly.")
