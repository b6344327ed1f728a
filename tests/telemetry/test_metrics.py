"""The figures of a process: which series there can be, with any names of clients."""

from typing import Any

from turntree.core.event import Event
from turntree.core.ids import RunId, Timestamp, TurnId
from turntree.core.principal import Principal
from turntree.core.run import RunEvent
from turntree.core.turn import Header
from turntree.telemetry.metrics import ProcessMetrics, RequestMetrics, RunMetrics

RUN = RunId("01890000-0000-7000-8000-000000000001")
AT = Timestamp("2026-01-02T03:04:05.678Z")


def event(kind: str, **data: Any) -> RunEvent:
    return RunEvent.of(Event(RUN, 1, kind, AT, data))


def header(outcome: Any) -> Header:
    return Header(TurnId(RUN), None, Principal("human", "ana"), AT, AT, outcome=outcome)


def figure(metrics: ProcessMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_invented_methods_make_one_series() -> None:
    metrics = ProcessMetrics("0")
    requests = RequestMetrics(metrics)
    for number in range(50):
        requests.measure("elsewhere", f"METHOD{number}", 405, 0.01, "method-not-allowed")
    requests.measure("/me", "GET", 200, 0.01, None)
    counted = figure(
        metrics, "turntree_http_requests_total", route="elsewhere", method="other", status="405"
    )
    assert counted == 50
    assert b"METHOD" not in metrics.write()


def test_name_of_a_provider_is_told_only_if_it_is_ours() -> None:
    metrics = ProcessMetrics("0")
    runs = RunMetrics(metrics)
    for name in ("anthropic", "acme-secret-lab", None):
        call = {"model": "m", "usage": {"input": 3, "output": 2}, "provider": name}
        runs.note_recorded([event("model_call.finished", call=call, attempts=3, latency_ms=1500)])
    calls = "turntree_model_calls_total"
    assert figure(metrics, calls, provider="anthropic", outcome="ok") == 1
    assert figure(metrics, calls, provider="other", outcome="ok") == 2
    tokens = figure(metrics, "turntree_model_tokens_total", provider="anthropic", kind="input")
    retries = figure(metrics, "turntree_model_call_retries_total", provider="anthropic")
    assert (tokens, retries) == (3, 2)
    assert b"acme" not in metrics.write()


def test_failed_run_counts_the_call_that_failed_it() -> None:
    metrics = ProcessMetrics("0")
    runs = RunMetrics(metrics)
    asked = event("model_call.started", model="m", provider="openai")
    for reason in ("provider_overloaded", "provider_invented", "no_model"):
        facts = [asked, event("run.failed", reason=reason)]
        runs.note_sealed(facts, header("failed"))
    calls = "turntree_model_calls_total"
    assert figure(metrics, calls, provider="openai", outcome="overloaded") == 1
    assert figure(metrics, calls, provider="openai", outcome="other") == 1
    assert figure(metrics, "turntree_worker_runs_total", outcome="failed") == 3


def test_denials_and_tool_calls_are_counted_by_their_kind() -> None:
    metrics = ProcessMetrics("0")
    runs = RunMetrics(metrics)
    runs.note_recorded(
        [
            event("permission.denied", permission="tool:launch_rockets"),
            event("permission.denied", permission="invented:thing"),
            event("tool_call.finished", call_id="c", status="timeout"),
        ]
    )
    assert figure(metrics, "turntree_run_denials_total", kind="tool") == 1
    assert figure(metrics, "turntree_run_denials_total", kind="other") == 1
    assert figure(metrics, "turntree_tool_calls_total", status="timeout") == 1
    assert b"rockets" not in metrics.write()
