"""Sending a message and waiting for the answer: what the commands share that talk."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from turntree.cli.opening import Opened
from turntree.cli.render import clean_block
from turntree.cli.speaker import FindCost, Speaker, turn_document, write_documents
from turntree.cli.talking import Hear, Listening, Talk
from turntree.cli.verb import Terminal
from turntree.domain.canonical import Json
from turntree.domain.ids import RunId
from turntree.domain.turn import Turn
from turntree.ports.inbox import Posted
from turntree.runtime.costs import find_cost
from turntree.runtime.following import Heard, Told
from turntree.runtime.voices import check_outcome

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def talk_options(function: F) -> F:
    """Add what every command takes that has something answered."""
    tools = click.option(
        "--tools",
        metavar="MODULE:NAME",
        multiple=True,
        help="Functions that models may call, as module:name; repeatable.",
    )
    worker = click.option(
        "--no-worker", is_flag=True, help="Leave the answering to workers that run elsewhere."
    )
    return tools(worker(function))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message, and what its sender asks for."""

    session: str
    text: str
    key: str | None = None
    options: dict[str, Json] | None = None


def post(talk: Talk, outgoing: Outgoing) -> Posted:
    """Send a message; somebody will answer."""

    async def act(opened: Opened) -> Posted:
        # Whoever misspells a session must not begin another one.
        await opened.tree.sessions.get(outgoing.session)
        options: dict[str, Any] = dict(outgoing.options or {})
        return await opened.tree.runs.post(
            outgoing.session, outgoing.text, key=outgoing.key, **options
        )

    return talk.call(act)


@dataclass(frozen=True, slots=True)
class Answered:
    """How a run ended."""

    turn: Turn
    reason: str = ""


def wait_for(talk: Talk, run: RunId, hear: Hear) -> Answered:
    """Wait until a turn is sealed. Ctrl-C leaves, and the run goes on where a worker is."""
    reasons: list[str] = []

    def heard(one: Heard) -> None:
        match one:
            case Told("failed", reason):
                reasons.append(reason)
            case _:
                pass
        hear(one)

    placed = wait(talk.listen(run), heard)
    return Answered(placed.turn, "; ".join(reasons))


def wait(listening: Listening[T], hear: Hear) -> T:
    """Hand over what is heard until there is no more, and return what it came to."""
    try:
        with listening.hearing_interrupts():
            while (heard := listening.next()) is not None:
                hear(heard)
    except KeyboardInterrupt:
        listening.stop()
        raise
    return listening.result


def nothing(heard: Heard) -> None:
    """Show nothing: the answer is printed when it is whole."""


def streaming(terminal: Terminal, *, shows_query: bool = False) -> Hear:
    """Return what shows everything as it comes: for people, or as JSON, one document a line."""
    if terminal.as_json:
        return write_documents(write_out)
    return Speaker(terminal, write_out, price_finder(), shows_query=shows_query).hear


def tell_answer(terminal: Terminal, answered: Answered) -> None:
    """Print an answer as a whole.

    Raises:
        TurntreeError: The turn did not end well.
    """
    document = turn_document(answered.turn)
    if terminal.as_json and answered.turn.header.outcome == "completed":
        terminal.document(document)
    elif document["text"]:
        for line in clean_block(str(document["text"])):
            terminal.say(line)
    check_answer(answered)


def check_answer(answered: Answered) -> None:
    """Refuse a turn that did not end well.

    Raises:
        TurntreeError: It did not.
    """
    check_outcome(answered.turn.header.outcome, *filter(None, [answered.reason]))


def price_finder() -> FindCost:
    """Return what says the price of a call, if a list of prices is installed."""
    from turntree.boot import find_prices

    prices = find_prices()

    return lambda turn, call: find_cost(call, turn.header.sealed_at, prices)


def write_out(text: str) -> None:
    """Write to stdout at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
