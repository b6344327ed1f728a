"""The figures of one process, which Prometheus reads.

No label has a text that a person, a program or a client chose: no workspace, name, address, model,
tool or path. Those would tell a reader of the figures what goes on in private sessions, and a
client could create as many series as it can invent names. What is not in a closed set is `other`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from turntree.core.errors import Failure
from turntree.core.run import RunEvent
from turntree.core.turn import Header
from turntree.core.value import value

OTHER: Final = "other"
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
PROVIDERS: Final = frozenset({"anthropic", "google", "openai", "openai-compatible", "scripted"})
"""The vendors whose clients are ours. Other names are chosen by those who create a provider."""
_FAILED_CALL: Final = "provider_"
"""What begins the reason of a run that a model call ended; then comes the kind of the error."""
_FAILURES: Final[frozenset[str]] = frozenset(get_args(Failure))
_STATUSES: Final = frozenset({"ok", "error", "timeout", "canceled", "interrupted"})
_NAMESPACES: Final = frozenset({"action", "credential", "tool"})
REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MODEL_CALL_S: Final = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)


@value
class Figure:
    """A figure that is looked up when it is asked for."""

    name: str
    help: str
    read: Callable[[], Mapping[Sequence[str], float]]
    """By the values of the labels, in their order."""
    labels: tuple[str, ...] = ()
    is_total: bool = False
    """Whether it only grows."""


class ProcessMetrics:
    """The figures of a process, each registered once."""

    def __init__(self, version: str) -> None:
        """Begin with those of the process itself: memory, processor time, open files."""
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        Info("turntree_build", "The version that runs.", registry=self.registry).info(
            {"version": version}
        )

    def add(self, *figures: Figure) -> None:
        """Add figures that are looked up at each figure."""
        self.registry.register(_Figures(figures))

    def write(self) -> bytes:
        """Return all figures as text."""
        return generate_latest(self.registry)


class _Figures(Collector):
    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """Yield each figure as it is now."""
        for figure in self._figures:
            kind = CounterMetricFamily if figure.is_total else GaugeMetricFamily
            family = kind(figure.name, figure.help, labels=figure.labels)
            for labels, number in figure.read().items():
                family.add_metric(labels, number)
            yield family


class RequestMetrics:
    """Requests by route, and how long they take until their answer begins.

    The end of an answer would tell of a stream only how long its client stayed.
    """

    def __init__(self, metrics: ProcessMetrics) -> None:
        """Register the figures."""
        self._requests = Counter(
            "turntree_http_requests", "Requests that were answered.",
            ("route", "method", "status"), registry=metrics.registry,
        )  # fmt: skip
        self._durations = Histogram(
            "turntree_http_request_duration_seconds", "Time until an answer begins.",
            ("route", "method"), buckets=REQUEST_S, registry=metrics.registry,
        )  # fmt: skip
        self._problems = Counter(
            "turntree_http_problems", "Requests that were refused, by the name of the problem.",
            ("problem",), registry=metrics.registry,
        )  # fmt: skip
        # Finding the series by their labels takes longer than counting does.
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def measure(
        self, route: str, method: str, status: int, seconds: float, problem: str | None
    ) -> None:
        """Count a request; the route is a template, the problem a name of the server's own."""
        key = route, method, status
        if (known := self._known.get(key)) is None:
            known = self._find(*key)
            if method in METHODS:
                self._known[key] = known
        requests, durations = known
        requests.inc()
        durations.observe(seconds)
        if problem is not None:
            self._problems.labels(problem).inc()

    def _find(self, route: str, method: str, status: int) -> tuple[Counter, Histogram]:
        # A client may send any word as the method.
        named = method if method in METHODS else OTHER
        return self._requests.labels(route, named, status), self._durations.labels(route, named)


class RunMetrics:
    """What the worker of a process does: runs, model calls, tool calls. A ``RunObserver``."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        """Register the figures."""
        registry = metrics.registry
        self._runs = Counter(
            "turntree_worker_runs", "Runs that this process sealed.", ("outcome",),
            registry=registry,
        )  # fmt: skip
        self._calls = Counter(
            "turntree_model_calls", "Model calls of this process.", ("provider", "outcome"),
            registry=registry,
        )  # fmt: skip
        self._durations = Histogram(
            "turntree_model_call_duration_seconds", "Time of the attempt that succeeded.",
            ("provider",), buckets=MODEL_CALL_S, registry=registry,
        )  # fmt: skip
        self._retries = Counter(
            "turntree_model_call_retries", "Attempts before the one that succeeded.",
            ("provider",), registry=registry,
        )  # fmt: skip
        self._tokens = Counter(
            "turntree_model_tokens", "Tokens; reasoning is part of output.", ("provider", "kind"),
            registry=registry,
        )  # fmt: skip
        self._tools = Counter(
            "turntree_tool_calls", "Tool calls of this process.", ("status",), registry=registry
        )
        self._denials = Counter(
            "turntree_run_denials", "Tools, credentials and actions denied to agents.", ("kind",),
            registry=registry,
        )  # fmt: skip

    def note_recorded(self, facts: Sequence[RunEvent]) -> None:
        """Count what these events tell."""
        for fact in facts:
            data = fact.event.data
            match fact.event.kind:
                case "model_call.finished":
                    self._count_call(data)
                case "tool_call.finished":
                    status = str(data.get("status"))
                    self._tools.labels(status if status in _STATUSES else OTHER).inc()
                case "permission.denied":
                    kind = str(data.get("permission")).partition(":")[0]
                    self._denials.labels(kind if kind in _NAMESPACES else OTHER).inc()
                case _:
                    pass

    def note_sealed(self, facts: Sequence[RunEvent], header: Header) -> None:
        """Count a run, and the model call that ended it if one did."""
        self._runs.labels(header.outcome).inc()
        asked: Mapping[str, Any] = {}
        for fact in facts:
            if fact.event.kind == "model_call.started":
                asked = fact.event.data
            elif fact.event.kind == "run.failed":
                reason = str(fact.event.data.get("reason"))
                kind = reason.removeprefix(_FAILED_CALL)
                if kind != reason:
                    outcome = kind if kind in _FAILURES else OTHER
                    self._calls.labels(_type_of(asked.get("provider")), outcome).inc()

    def _count_call(self, data: Mapping[str, Any]) -> None:
        call = cast("Mapping[str, Any]", data.get("call") or {})
        provider = _type_of(call.get("provider"))
        self._calls.labels(provider, "ok").inc()
        if math.isfinite(milliseconds := float(data.get("latency_ms", math.nan))):
            self._durations.labels(provider).observe(milliseconds / 1000)
        self._retries.labels(provider).inc(max(0, int(data.get("attempts", 1)) - 1))
        usage = cast("Mapping[str, Any]", call.get("usage") or {})
        for kind, tokens in usage.items():
            if kind in _TOKENS:
                self._tokens.labels(provider, kind).inc(max(0, int(tokens)))


_TOKENS: Final = frozenset({"input", "output", "cached_input", "cache_write", "reasoning"})


def _type_of(provider: object) -> str:
    return provider if isinstance(provider, str) and provider in PROVIDERS else OTHER
