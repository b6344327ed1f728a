"""The end of a process that sends spans, whatever their receiver does."""

import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from turntree.telemetry.tracing import FLUSH_S_MAX, SpanSender

SLACK_S = 2.0
"""What a busy machine adds."""


class _Slow(BaseHTTPRequestHandler):
    """Takes spans after half a second."""

    taken = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        threading.Event().wait(0.5)
        type(self).taken += 1
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextmanager
def stalled() -> Generator[str, None, None]:
    """Accept connections, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def absent() -> Generator[str, None, None]:
    """Name an address at which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


def send_and_close(monkeypatch: pytest.MonkeyPatch, url: str) -> tuple[bool, float]:
    """Send the span of a request; return what closing says, and how long it takes."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    sender = SpanSender("1.0")
    with sender.trace_request("POST", "/runs", None) as span:
        span.note_status(200)
    begun = time.monotonic()
    return sender.close(), time.monotonic() - begun


@pytest.mark.parametrize("receiver", [stalled, absent])
def test_close_without_an_answer_ends_within_seconds(
    receiver: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as url:
        was_sent, took_s = send_and_close(monkeypatch, url)
    assert not was_sent
    assert took_s < FLUSH_S_MAX + SLACK_S


def test_close_waits_for_a_receiver_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    _Slow.taken = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        was_sent, took_s = send_and_close(monkeypatch, url)
        server.shutdown()
    assert (was_sent, _Slow.taken) == (True, 1)
    assert took_s < FLUSH_S_MAX


def test_spans_that_no_receiver_takes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    with stalled() as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        sender = SpanSender("1.0")
        begun = time.monotonic()
        for _ in range(5_000):
            with sender.trace_request("POST", "/runs", None):
                pass
        assert time.monotonic() - begun < FLUSH_S_MAX + SLACK_S
        sender.close()
        assert time.monotonic() - begun < 2 * (FLUSH_S_MAX + SLACK_S)
