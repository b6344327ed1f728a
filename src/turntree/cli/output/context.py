"""Print what a model saw. Pure, like ``cli.output.text``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from turntree.cli.command import Terminal
from turntree.cli.output.parts import words_of
from turntree.cli.output.text import clean, clean_block, counted, cut, digits
from turntree.core.canonical import Json
from turntree.core.message import Message
from turntree.models.prompt import Prompt, PromptPrefix, ToolSpec
from turntree.models.token_estimate import estimate_text
from turntree.programs.model_choice import WindowSize, WindowSource
from turntree.runs.model_context import ModelCallContext, TurnContext

MARGIN: Final = 9
NAMES_SHOWN_MAX: Final = 12


def draw_context(seen: TurnContext, terminal: Terminal) -> Iterator[str]:
    """Yield what all calls of a turn had in common, then a few lines for each."""
    header = seen.placed.turn.header
    asked = clean(" · ".join(word for word in (header.model, header.provider) if word))
    yield terminal.spell(
        f"{terminal.paint(digits(seen.placed.turn.digest), 'head')}  {asked or 'no model'}"
    )
    if seen.absence is not None:
        yield seen.absence
        return
    first = seen.calls[0].prompt
    yield from _draw_before(first, terminal)
    yield from _draw_sandbox(seen.calls[0].taped.request, terminal)
    yield from _draw_window(seen.calls[0].taped.request)
    for call in seen.calls:
        yield from _draw_call_lines(call, seen, terminal)


def draw_call(call: ModelCallContext, terminal: Terminal) -> Iterator[str]:
    """Yield everything that one model call was given, in order."""
    prompt = call.prompt
    for text in prompt.system:
        yield terminal.paint("system", "head")
        yield from _indented(clean_block(text))
    for tool in prompt.tools:
        yield f"{terminal.paint('tool', 'head')} {clean(tool.name)}: {clean(tool.description)}"
        yield f"  effects: {_effects(tool)}"
    for place, said in enumerate(prompt.messages):
        if place == prompt.thread_messages:
            yield terminal.paint("the turn itself", "dim")
        yield terminal.paint(said.role, "head")
        for part in said.parts:
            yield from _indented(clean_block(words_of(part, "full")))


def context_document(seen: TurnContext, number: int | None) -> dict[str, Any]:
    """Return the same as a JSON document, with complete prompts."""
    calls = seen.calls if number is None else seen.calls[number - 1 : number]
    return {
        "turn": seen.placed.turn.id,
        "digest": seen.placed.turn.digest,
        "absence": seen.absence,
        "erased": seen.is_erased,
        "calls": [_call_document(call) for call in calls],
    }


def _call_document(call: ModelCallContext) -> dict[str, Any]:
    taped, used = call.taped, call.taped.call
    return {
        "number": taped.number,
        "request": dict(taped.request),
        "response": None if taped.response is None else dict(taped.response.data),
        "recorded_digest": taped.input,
        "same": call.is_same,
        "estimated_tokens": call.prompt.estimated_tokens,
        "reported_tokens": None if used is None else used.usage.context,
        "prompt": call.prompt.to_json(),
        "effects": {tool.name: tool.effects for tool in call.prompt.tools},
    }


def _draw_before(prompt: Prompt, terminal: Terminal) -> Iterator[str]:
    told = sum(map(estimate_text, prompt.system))
    yield _line("system", f"{counted(len(prompt.system), 'text')}, about {told:,} tokens")
    for text in prompt.system:
        yield _line("", cut(clean(text), terminal.width - MARGIN, ellipsis=terminal.spell("…")))
    names = [clean(tool.name) for tool in prompt.tools]
    more = len(names) - NAMES_SHOWN_MAX
    listed = ", ".join(names[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    cost = PromptPrefix((), prompt.tools).cost
    yield _line("tools", f"{listed}, about {cost:,} tokens" if names else "none")


def _effects(tool: ToolSpec) -> str:
    if tool.effects is None:
        return "not declared, so all of them"
    return ", ".join(tool.effects) or "none"


def _draw_sandbox(request: Mapping[str, Json], terminal: Terminal) -> Iterator[str]:
    match request.get("sandbox"):
        case {"profile": str(profile), "absent": str(reason)}:
            yield _line("sandbox", terminal.spell(f"{clean(profile)}, unused: {clean(reason)}"))
        case {"profile": str(profile), "folder": str(folder), "network": network}:
            reach = "with network" if network else "without network"
            yield _line("sandbox", f"{clean(profile)}, {reach}, in {clean(folder)}")
        case _:
            return


def _draw_window(request: Mapping[str, Json]) -> Iterator[str]:
    tokens, source = request.get("window_tokens"), request.get("window_source")
    if isinstance(tokens, int):
        known = WindowSize(tokens, cast("WindowSource", source))
        yield _line("window", f"{known}; {request.get('budget_tokens'):,} of them for the prompt")


def _draw_call_lines(
    call: ModelCallContext, seen: TurnContext, terminal: Terminal
) -> Iterator[str]:
    prompt = call.prompt
    own = len(prompt.messages) - prompt.thread_messages
    thread = f"{counted(prompt.thread_turns, 'turn')} of the thread"
    if prompt.folded_turns:
        thread += f", {prompt.folded_turns} of them folded"
    if prompt.titled_turns:
        thread += f", {prompt.titled_turns} as titles"
    if prompt.left_out:
        thread += f", {prompt.left_out} left out"
    roles = _roles(prompt.messages[prompt.thread_messages :])
    yield _line(
        f"call {call.taped.number}", f"{thread}; {counted(own, 'message')} of its own: {roles}"
    )
    yield _line("", _tokens(call))
    yield _line("", terminal.spell(_proof(call, seen)))


def _tokens(call: ModelCallContext) -> str:
    used = call.taped.call
    estimated = f"about {call.prompt.estimated_tokens:,} tokens estimated"
    if call.taped.is_refused:
        return f"{estimated}; refused as too long, so a shorter one followed"
    if call.taped.response is None:
        return f"{estimated}; it was never answered"
    if used is None or not used.usage.context:
        return f"{estimated}; the provider reported none"
    off = call.prompt.estimated_tokens / used.usage.context - 1
    cached = f", {used.usage.cached_input:,} of them cached" if used.usage.cached_input else ""
    return f"{estimated}, {used.usage.context:,} reported ({off:+.0%}){cached}"


def _proof(call: ModelCallContext, seen: TurnContext) -> str:
    if call.taped.input is None:
        return "its digest was not recorded"
    sent = f"request {digits(call.taped.input)}"
    if call.is_same is None:
        return f"{sent} · an earlier version assembled it differently, by {call.taped.recipe}"
    if call.is_same:
        return f"{sent} · assembled again it is the same"
    why = ": something was erased since" if seen.is_erased else ""
    return f"{sent} · assembled again it is {digits(call.prompt.digest)}{why}"


def _roles(messages: Sequence[Message]) -> str:
    counts: dict[str, int] = {}
    for said in messages:
        counts[said.role] = counts.get(said.role, 0) + 1
    return ", ".join(f"{count} {role}" for role, count in counts.items())


def _line(name: str, text: str) -> str:
    return f"{name:<{MARGIN}}{text}".rstrip()


def _indented(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}".rstrip() for line in lines)
