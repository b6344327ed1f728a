"""Send a message and wait for the reply: shared by the commands that talk to models."""

import difflib
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, Final, TypeVar

import click

from turntree.cli.command import Terminal
from turntree.cli.common.listen import ChatSession, Hear, ReplyListener
from turntree.cli.common.model_setup import ensure_model
from turntree.cli.context import CliContext
from turntree.cli.output.stream_printer import (
    FindCost,
    StreamPrinter,
    turn_document,
    write_documents,
)
from turntree.cli.output.text import clean, clean_block, counted
from turntree.core.canonical import Json
from turntree.core.errors import Hint, NotFound, TurntreeError
from turntree.core.ids import RunId
from turntree.core.message import Source, user
from turntree.core.message_context import attach
from turntree.core.revision import find_label
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.routing.target import TRIGGERS, ToSession
from turntree.runs.answer import check_outcome
from turntree.runs.follow import Heard, RunNotice
from turntree.runs.inbox import QueuedMessage
from turntree.stats.costs import find_cost

LABELS_READ_MAX: Final = 200
"""Number of labels searched for one that the user may have meant."""
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def talk_options(function: F) -> F:
    """Add the options of every command that has a message answered."""
    tools = click.option(
        "--tools",
        metavar="MODULE:NAME",
        multiple=True,
        help="Functions that models may call, as module:name; repeatable.",
    )
    worker = click.option(
        "--no-worker", is_flag=True, help="Workers elsewhere answer, never this process."
    )
    return tools(worker(function))


@value
class OutgoingMessage:
    """A message and its sender's options."""

    target: str
    text: str
    key: str | None = None
    options: dict[str, Json] | None = None
    is_new: bool = False
    """Whether a part of another session's label begins a new one."""
    source: Source = "human"
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Attached text files, by path."""


def post(terminal: Terminal, talk: ChatSession, outgoing: OutgoingMessage) -> QueuedMessage:
    """Send a message and return it as queued; creates a session or a fork where one is needed.

    Prints where the message went, a note about a new session, and about secrets redacted from the
    message.
    """
    begun: list[str] = []

    async def act(opened: CliContext) -> QueuedMessage:
        options: dict[str, Any] = dict(outgoing.options or {})
        runs, sessions, name = opened.tree.runs, opened.tree.sessions, outgoing.target
        existing = await sessions.ledger.find(name) if name else None
        if outgoing.source in TRIGGERS:
            existing = None  # A trigger names an agent first, and no part of a label.
        elif existing is None and not outgoing.is_new and find_label(name) is not None:
            with suppress(NotFound):
                existing = await sessions.get(name)
                terminal.note(
                    f"{clean(name)} is {clean(existing.label)} here; --new begins a session"
                )
        target = name if existing is None else existing.label
        route = await runs.route(target, outgoing.text, key=outgoing.key, source=outgoing.source)
        options["agent"] = await runs.find_agent(route, named=options.get("agent"))
        try:
            # Before anything is stored: a set-up that fails leaves no session and no turn.
            await ensure_model(opened, terminal, route, options)
        except TurntreeError:
            # A message with a key may have been answered before, and its reply can be read without
            # a model.
            if outgoing.key is None or await runs.find_by_key(outgoing.key) is None:
                raise
        if route.session is None:
            known = [one.label for one in await sessions.ledger.list_page(limit=LABELS_READ_MAX)]
            route = await runs.begin(route, key=outgoing.key)
            if route.label not in known:
                near = difflib.get_close_matches(route.label or "", known, 1)
                begun.extend((route.label or "", *near))
        message = user(outgoing.text, source=outgoing.source)
        if outgoing.files:
            message = attach(message, outgoing.files)
        posted = await runs.post(route, message, key=outgoing.key, **options)
        if not isinstance(route.target, ToSession):
            answers = "" if posted.agent is None else f", answered by @({clean(posted.agent)})"
            terminal.note(f"to {clean(posted.label or '')}{answers}: {clean(route.steps[-1])}")
        return posted

    try:
        posted = talk.call(act)
    finally:
        # Also if the message was refused: the session exists by now.
        if begun:
            label, *near = map(clean, begun)
            also = f" (there is {near[0]} too)" if near else ""
            terminal.note(f"{label} begins{also}; undo with: turntree session archive {label}")
    note_redacted(terminal, posted)
    return posted


def note_redacted(terminal: Terminal, posted: QueuedMessage) -> None:
    """Print how many secrets were redacted from a message before it was stored."""
    if posted.redacted:
        what = counted(posted.redacted, "secret key")
        terminal.note(f"{what} redacted before the message was stored; the model does not get it")


@value
class ReplyResult:
    """How a run ended."""

    turn: Turn
    reason: str = ""
    hint: Hint | None = None


def wait_for(
    talk: ChatSession, run: RunId, hear: Hear, *, ends: float | None = None
) -> ReplyResult:
    """Wait until a turn is sealed. Ctrl-C stops waiting; the run continues if a worker has it.

    Raises:
        TimeoutError: The turn is not sealed by this time of the monotonic clock.
    """
    ends_of: list[RunNotice] = []

    def heard(one: Heard) -> None:
        if isinstance(one, RunNotice) and one.kind in ("failed", "interrupted"):
            ends_of.append(one)
        hear(one)

    placed = wait(talk.listen(run), heard, ends=ends)
    hint = next((notice.hint for notice in ends_of if notice.hint is not None), None)
    return ReplyResult(placed.turn, "; ".join(notice.reason for notice in ends_of), hint)


def wait(listening: ReplyListener[T], hear: Hear, *, ends: float | None = None) -> T:
    """Pass on each item until the end, and return the result.

    Raises:
        TimeoutError: There may be more, and this time of the monotonic clock has passed.
    """
    try:
        with listening.hearing_interrupts():
            while (heard := listening.next(_left(ends))) is not None:
                hear(heard)
    except (KeyboardInterrupt, TimeoutError):
        listening.stop()
        raise
    return listening.result


def _left(ends: float | None) -> float | None:
    return None if ends is None else max(0.0, ends - time.monotonic())


def nothing(heard: Heard) -> None:
    """Show nothing: the reply is printed when it is complete."""


def streaming(terminal: Terminal, *, shows_query: bool = False) -> Hear:
    """Return a printer of items as they come: for people, or as JSON, one document per line."""
    if terminal.as_json:
        return write_documents(write_out)
    return StreamPrinter(terminal, write_out, price_finder(), shows_query=shows_query).hear


def tell_answer(
    terminal: Terminal, answered: ReplyResult, went: Mapping[str, Any] | None = None
) -> None:
    """Print a complete reply; as JSON together with where its message went.

    Raises:
        TurntreeError: The turn did not end well.
    """
    document = {**turn_document(answered.turn), **(went or {})}
    if terminal.as_json and answered.turn.header.outcome == "completed":
        terminal.document(document)
    elif document["text"]:
        for line in clean_block(str(document["text"])):
            terminal.say(line)
    check_answer(answered)


def check_answer(answered: ReplyResult) -> None:
    """Refuse a turn that did not end well.

    Raises:
        TurntreeError: The turn failed or was cut short.
    """
    check_outcome(answered.turn, answered.reason, answered.hint)


def price_finder() -> FindCost:
    """Return a function that prices a model call."""
    from turntree.boot.open import load_prices

    prices = load_prices()

    return lambda turn, call: find_cost(call, turn.header.sealed_at, prices)


def write_out(text: str) -> None:
    """Write to stdout at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
