"""The spans of a run, from its recorded events: as OpenTelemetry's conventions for GenAI have them.

    invoke_agent AGENT        the run
    ├── chat MODEL            each model call
    └── execute_tool TOOL     each tool call

They are made when the turn is sealed, and from nothing but the events. So a run that one worker
began and another one finished has each call once, with the times at which they really happened, and
nothing of a run is told that the ledger does not hold.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, cast

from turntree.core.canonical import as_text
from turntree.core.ids import RunId, Timestamp, unix_ms
from turntree.core.message import Message, ToolResult, ToolUse
from turntree.core.run import RunEvent, agent_of
from turntree.core.turn import Header
from turntree.core.usage import Usage
from turntree.core.usage import from_json as call_from_json
from turntree.core.value import value
from turntree.system.trace import TraceParent, read_traceparent, span_of_run, trace_of_run

Attribute = str | int | float | bool | tuple[str, ...]
_PARAMS: Final = ("temperature", "top_p", "top_k", "max_tokens", "seed")
"""The parameters of a call that the conventions have names for."""


@value
class RunSpan:
    """Something that took time."""

    id: int
    parent: int | None
    """None at the beginning of a trace."""
    name: str
    kind: Literal["internal", "client"]
    begin_ns: int
    end_ns: int
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    error: str | None = None
    """What went wrong, in one word."""


@value
class RunTrace:
    """The spans of a run, the one that holds the others first."""

    trace: int
    parent: TraceParent | None
    """The request that the message came with."""
    spans: tuple[RunSpan, ...]


def trace_run(facts: Sequence[RunEvent], header: Header, *, has_content: bool = False) -> RunTrace:
    """Return the spans of a run that was sealed; ``has_content`` adds what was said."""
    run, started = RunId(facts[0].event.stream), facts[0].event
    parent = read_traceparent(started.data.get("traceparent"))
    root = span_of_run(run, 0)
    ended = header.sealed_at
    calls = [*_list_model_calls(run, root, facts, ended, has_content=has_content)]
    tools = [*_list_tool_calls(run, root, facts, ended, has_content=has_content)]
    failure = next((f.event.data for f in reversed(facts) if f.event.kind == "run.failed"), None)
    error: str | None = None if header.outcome == "completed" else header.outcome
    if failure is not None:
        error = str(failure.get("reason", error))
    agent = agent_of(started.data)
    attributes: dict[str, Attribute | None] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": _text(started.data.get("session")),
        "gen_ai.provider.name": header.provider,
        "gen_ai.request.model": header.model,
        "turntree.turn.id": run,
        "turntree.turn.outcome": header.outcome,
        **_usage(sum((_usage_of(fact) for fact in facts), Usage())),
    }
    if has_content:
        attributes["gen_ai.input.messages"] = _messages([facts[0].message])
        replies = [f.message for f in facts if f.event.kind == "model_call.finished"]
        attributes["gen_ai.output.messages"] = _messages(replies[-1:])
    whole = RunSpan(
        root, None if parent is None else parent.span,
        "invoke_agent" if agent is None else f"invoke_agent {agent}", "internal",
        _ns(started.at), _ns(ended), _present(attributes, error), error,
    )  # fmt: skip
    return RunTrace(
        trace_of_run(run) if parent is None else parent.trace, parent, (whole, *calls, *tools)
    )


def _list_model_calls(
    run: RunId, root: int, facts: Sequence[RunEvent], ended: Timestamp, *, has_content: bool
) -> list[RunSpan]:
    """Return a span for each request; one that was repeated after a crash is the same request."""
    spans: list[RunSpan] = []
    opened: RunEvent | None = None
    for fact in facts:
        match fact.event.kind:
            case "model_call.started":
                if opened is not None:
                    spans.append(_model_call(run, root, opened, fact.event.at, "too_long"))
                opened = fact
            case "model_call.finished" if opened is not None:
                spans.append(_answered_call(run, root, opened, fact, has_content=has_content))
                opened = None
            case "event.substituted":
                # The next answer is that of the replacement, which is open.
                pass
            case "run.failed" | "run.interrupted" if opened is not None:
                reason = str(fact.event.data.get("reason", "failed")).removeprefix("provider_")
                spans.append(_model_call(run, root, opened, fact.event.at, reason))
                opened = None
            case _:
                pass
    if opened is not None:
        spans.append(_model_call(run, root, opened, ended, "interrupted"))
    return spans


def _model_call(
    run: RunId,
    root: int,
    opened: RunEvent,
    at: Timestamp,
    error: str | None,
    more: Mapping[str, Attribute | None] | None = None,
) -> RunSpan:
    data = opened.event.data
    model = str(data.get("model", ""))
    params = data.get("params")
    attributes: dict[str, Attribute | None] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _text(data.get("provider")),
        "gen_ai.request.model": model or None,
        "turntree.turn.id": run,
        **(more or {}),
    }
    if isinstance(params, Mapping):
        for name in _PARAMS:
            given = params.get(name)
            if isinstance(given, int | float):
                attributes[f"gen_ai.request.{name}"] = given
    return RunSpan(
        span_of_run(run, opened.event.seq), root, f"chat {model}".strip(), "client",
        _ns(opened.event.at), _ns(at), _present(attributes, error), error,
    )  # fmt: skip


def _answered_call(
    run: RunId, root: int, opened: RunEvent, answer: RunEvent, *, has_content: bool
) -> RunSpan:
    data = answer.event.data
    call = call_from_json(cast("Mapping[str, Any]", data["call"]))
    reason = data.get("finish_reason")
    more: dict[str, Attribute | None] = {
        "gen_ai.provider.name": call.provider,
        "gen_ai.response.model": call.model,
        "gen_ai.response.id": _text(data.get("request_id")),
        "gen_ai.response.finish_reasons": None if reason is None else (str(reason),),
        "turntree.model_call.attempts": cast("int | None", data.get("attempts")),
        **_usage(call.usage),
    }
    if has_content:
        more["gen_ai.output.messages"] = _messages([answer.message])
    return _model_call(run, root, opened, answer.event.at, None, more)


def _list_tool_calls(
    run: RunId, root: int, facts: Sequence[RunEvent], ended: Timestamp, *, has_content: bool
) -> list[RunSpan]:
    opened = {
        str(fact.event.data["call_id"]): fact
        for fact in facts
        if fact.event.kind == "tool_call.started"
    }
    closed = {
        str(fact.event.data["call_id"]): fact
        for fact in facts
        if fact.event.kind == "tool_call.finished"
    }
    arguments = _list_arguments(facts) if has_content else {}
    spans: list[RunSpan] = []
    for call, fact in opened.items():
        result = closed.get(call)
        status = "interrupted" if result is None else str(result.event.data.get("status"))
        error = None if status == "ok" else status
        if result is not None and isinstance(why := result.event.data.get("error"), Mapping):
            error = str(why.get("code", error))
        tool = str(fact.event.data.get("tool"))
        attributes: dict[str, Attribute | None] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
            "turntree.turn.id": run,
            "gen_ai.tool.call.arguments": arguments.get(call),
        }
        if has_content and result is not None:
            attributes["gen_ai.tool.call.result"] = _result_in(result.message)
        spans.append(RunSpan(
            span_of_run(run, fact.event.seq), root, f"execute_tool {tool}", "internal",
            _ns(fact.event.at), _ns(ended if result is None else result.event.at),
            _present(attributes, error), error,
        ))  # fmt: skip
    return spans


def _list_arguments(facts: Sequence[RunEvent]) -> dict[str, str]:
    return {
        str(part.call_id): json.dumps(part.args, ensure_ascii=False)
        for fact in facts
        if fact.message is not None
        for part in fact.message.parts
        if isinstance(part, ToolUse)
    }


def _result_in(message: Message | None) -> str | None:
    parts = () if message is None else message.parts
    return next((as_text(one.output) for one in parts if isinstance(one, ToolResult)), None)


def _messages(messages: Sequence[Message | None]) -> str | None:
    """Return messages as the conventions have them: their text."""
    said = [
        {"role": one.role, "parts": [{"type": "text", "content": one.text}]}
        for one in messages
        if one is not None
    ]
    return json.dumps(said, ensure_ascii=False) if said else None


def _usage_of(fact: RunEvent) -> Usage:
    call = fact.event.data.get("call")
    if fact.event.kind != "model_call.finished" or not isinstance(call, Mapping):
        return Usage()
    return call_from_json(call).usage


def _usage(usage: Usage) -> dict[str, Attribute | None]:
    """Return tokens; by the conventions, cached ones are part of the input."""
    return {
        "gen_ai.usage.input_tokens": usage.context,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning or None,
    }


def _present(attributes: Mapping[str, Attribute | None], error: str | None) -> dict[str, Attribute]:
    given = {**attributes, "error.type": error}
    return {name: one for name, one in given.items() if one is not None}


def _text(given: object) -> str | None:
    return given if isinstance(given, str) else None


def _ns(at: Timestamp) -> int:
    return unix_ms(at) * 1_000_000
