"""Spans of what a process does, where OpenTelemetry's own variables name an endpoint.

Without one, or without the extra ``otel``, nothing of it is loaded.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import anyio.to_thread

import turntree
from turntree.cli.command import Terminal

if TYPE_CHECKING:
    from turntree.telemetry.tracing import SpanSender

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@asynccontextmanager
async def tracing(terminal: Terminal) -> "AsyncGenerator[SpanSender | None, None]":
    """Send spans while the block lasts, if an endpoint is named; at its end, what is left."""
    if not any(os.environ.get(name) for name in _ENDPOINTS) or _is_true("OTEL_SDK_DISABLED"):
        yield None
        return
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        terminal.note("no spans are sent: they need pip install 'turntree[otel]'")
        yield None
        return
    from turntree.telemetry.tracing import FLUSH_S_MAX, SpanSender

    opened = SpanSender(turntree.__version__, has_content=_is_true(_CONTENT))
    try:
        yield opened
    finally:
        if not await anyio.to_thread.run_sync(opened.close):
            terminal.note(
                f"some spans are lost: their receiver did not take them within {FLUSH_S_MAX:g} s"
            )


def _is_true(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() == "true"
