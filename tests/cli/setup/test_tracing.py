"""Spans, sent to a receiver: a server and a worker in processes of their own, in one trace."""

import asyncio
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from proofs.http_world import serving_apart
from tests.cli.setup.planted import LABEL, MODEL, TEXT, WORKSPACE, first_key
from tests.cli.setup.test_shards import running
from tests.telemetry.test_tracing import SLACK_S, stalled
from turntree.boot.open import Settings
from turntree.telemetry.tracing import FLUSH_S_MAX

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(400)]
SOON_S = 180.0
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Receiver(ThreadingHTTPServer):
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[tuple[str, Span]] = []
        self.bodies = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/v1/traces"
        self.server.bodies += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.server.spans += [(named["service.name"], span) for span in scope.spans]
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver, None, None]:
    """A receiver on loopback that the processes of the test send to."""
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        yield server
        server.shutdown()


def attributes(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


async def test_message_over_http_is_one_trace_of_two_processes(
    planted: Settings, receiver: Receiver
) -> None:
    async with asyncio.timeout(SOON_S):
        async with (
            serving_apart(planted, "--no-worker") as served,
            httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
        ):
            caller = await first_key(http, served)
            headers = {
                **caller, "idempotency-key": "once", "traceparent": f"00-{TRACE}-{SPAN}-01",
            }  # fmt: skip
            path = f"/w/{WORKSPACE}/api/v1/runs"
            body = {"to": LABEL, "text": TEXT, "model": MODEL}
            sent = await http.post(path, json=body, headers=headers)
            assert sent.status_code == 200, sent.text
            run = sent.json()["run"]
            with running("worker", "--name", "apart"):
                async with http.stream("GET", f"{path}/{run}/events", headers=caller) as stream:
                    assert '"outcome":"completed"' in (await stream.aread()).decode()
        # Both have ended, and have sent what was left.
    spans = {span.name.partition(" ")[0]: span for _, span in receiver.spans}
    assert len(receiver.spans) == len(spans) == 3, [span.name for _, span in receiver.spans]
    request, whole, chat = spans["POST"], spans["invoke_agent"], spans["chat"]
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert request.parent_span_id.hex() == SPAN
    assert (whole.parent_span_id, chat.parent_span_id) == (request.span_id, whole.span_id)
    assert (request.name, request.kind) == ("POST /runs", Span.SPAN_KIND_SERVER)
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(whole)["turntree.turn.id"] == run
    assert attributes(chat)["gen_ai.request.model"] == "scripted-1"
    assert attributes(chat)["gen_ai.provider.name"] == "scripted"
    assert {name for name, _ in receiver.spans} == {"turntree"}
    assert TEXT.encode() not in receiver.bodies


async def test_content_is_sent_only_where_it_is_asked_for(
    planted: Settings, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    async with asyncio.timeout(SOON_S):
        async with (
            serving_apart(planted) as served,
            httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
        ):
            caller = await first_key(http, served)
            headers = {**caller, "idempotency-key": "once"}
            path = f"/w/{WORKSPACE}/api/v1/runs"
            body = {"to": LABEL, "text": TEXT, "model": MODEL}
            run = (await http.post(path, json=body, headers=headers)).json()["run"]
            async with http.stream("GET", f"{path}/{run}/events", headers=caller) as stream:
                assert '"outcome":"completed"' in (await stream.aread()).decode()
    (whole,) = [span for _, span in receiver.spans if span.name.startswith("invoke_agent")]
    assert TEXT in attributes(whole)["gen_ai.input.messages"]


async def test_server_ends_within_seconds_where_no_receiver_answers(
    planted: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with stalled() as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        async with (
            asyncio.timeout(SOON_S),
            serving_apart(planted) as served,
            httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
        ):
            headers = {**await first_key(http, served), "idempotency-key": "once"}
            body = {"to": LABEL, "text": TEXT, "model": MODEL}
            path = f"/w/{WORKSPACE}/api/v1/runs"
            run = (await http.post(path, json=body, headers=headers)).json()["run"]
            async with http.stream("GET", f"{path}/{run}/events", headers=headers) as stream:
                assert '"outcome":"completed"' in (await stream.aread()).decode()
            asked = time.monotonic()
            served.process.terminate()
            assert await served.process.wait() == 0
            took_s = time.monotonic() - asked
    assert took_s < FLUSH_S_MAX + 2 * SLACK_S
    assert "some spans are lost: their receiver did not" in capfd.readouterr().err
