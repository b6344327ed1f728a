"""Sends spans by OTLP, with OpenTelemetry's own SDK, which reads its own variables.

Imported only where an endpoint is named and the extra is installed. The SDK sends from a thread of
its own and drops what it cannot send: neither a request nor a run ever waits for it, and the end of
the process only for a moment.
"""

import threading
from collections.abc import Sequence
from contextvars import Token
from typing import Final, Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode

from turntree.core.run import RunEvent
from turntree.core.turn import Header
from turntree.system.trace import TRACEPARENT, TraceParent, read_traceparent
from turntree.telemetry.spans import RunSpan, RunTrace, trace_run

FLUSH_S_MAX: Final = 3.0
"""How long the end of a process waits for a receiver to take the spans that are left."""
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class PlannedIds(IdGenerator):
    """Gives the next span the ids that were planned for it, and every other one random ids."""

    def __init__(self) -> None:
        """Plan nothing yet."""
        self._random = RandomIdGenerator()
        self.trace: int | None = None
        self.span: int | None = None

    def generate_trace_id(self) -> int:
        """Return the id of a trace."""
        planned, self.trace = self.trace, None
        return self._random.generate_trace_id() if planned is None else planned

    def generate_span_id(self) -> int:
        """Return the id of a span."""
        planned, self.span = self.span, None
        return self._random.generate_span_id() if planned is None else planned


class SpanSender:
    """The spans of one process. A ``RunObserver``."""

    def __init__(self, version: str, *, has_content: bool = False) -> None:
        """Begin to send; ``has_content`` adds what was said and what tools were given."""
        self._has_content = has_content
        self._ids = PlannedIds()
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before what is given here.
        own = Resource.create({"service.name": "turntree"})
        named = own.merge(Resource({"service.version": version}))
        # At the exit of the interpreter the provider would wait for the receiver once more.
        self._provider = TracerProvider(
            resource=named, id_generator=self._ids, shutdown_on_exit=False
        )
        self._exporter = OTLPSpanExporter()
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("turntree", version)

    def close(self) -> bool:
        """Send what is left, and return whether the receiver answered within ``FLUSH_S_MAX``."""
        # The provider waits for 30 s where a receiver accepts and never answers, and for 10 s
        # where none listens; neither can be told to wait less. Its threads are daemons, so those
        # that still wait end with the process.
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(FLUSH_S_MAX)
        if not ending.is_alive():
            return True
        # Otherwise it would go on to try, and to say so, while the rest of the process ends.
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        return False

    def note_recorded(self, facts: Sequence[RunEvent]) -> None:
        """Wait for the whole run."""

    def note_sealed(self, facts: Sequence[RunEvent], header: Header) -> None:
        """Send the spans of a run."""
        self._send(trace_run(facts, header, has_content=self._has_content))

    def trace_request(self, method: str, route: str, came_with: str | None) -> "RequestSpan":
        """Return the span of a request; ``came_with`` is its header ``traceparent``."""
        parent = read_traceparent(came_with)
        return RequestSpan(self._tracer.start_span(
            f"{method} {route}",
            Context() if parent is None else _within(parent),
            SpanKind.SERVER,
            {"http.request.method": method, "http.route": route},
        ))  # fmt: skip

    def _send(self, run: RunTrace) -> None:
        whole, *parts = run.spans
        around = Context() if run.parent is None else _within(run.parent)
        self._ids.trace = run.trace
        begun = self._begin(whole, around)
        self._ids.trace = None
        inside = trace.set_span_in_context(begun, Context())
        for part in parts:
            self._begin(part, inside).end(part.end_ns)
        begun.end(whole.end_ns)

    def _begin(self, span: RunSpan, around: Context) -> trace.Span:
        self._ids.span = span.id
        begun = self._tracer.start_span(
            span.name, around, _KINDS[span.kind], span.attributes, start_time=span.begin_ns
        )
        self._ids.span = None
        if span.error is not None:
            begun.set_status(Status(StatusCode.ERROR, span.error))
        return begun


class RequestSpan:
    """Lasts while a request is answered; the messages that it sends become a part of it."""

    def __init__(self, span: trace.Span) -> None:
        """Take a span that has begun."""
        self._span = span
        self._before: Token[str | None] | None = None

    def __enter__(self) -> Self:
        """Let messages name this span."""
        its = self._span.get_span_context()
        here = TraceParent(its.trace_id, its.span_id, its.trace_flags.sampled)
        self._before = TRACEPARENT.set(str(here))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: object
    ) -> None:
        """End the span; an error is told by its type, as its text may name anything."""
        if self._before is not None:
            TRACEPARENT.reset(self._before)
        if kind is not None:
            self._span.set_attribute("error.type", kind.__name__)
        self._span.end()

    def note_status(self, status: int) -> None:
        """Take the status of the answer."""
        self._span.set_attribute("http.response.status_code", status)


def _within(parent: TraceParent) -> Context:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if parent.is_sampled else 0)
    context = SpanContext(parent.trace, parent.span, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(context), Context())
