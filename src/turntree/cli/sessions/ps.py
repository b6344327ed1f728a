"""``ps``: what the coding agents of this machine are doing.

Reads what hooks reported and the transcripts. Must never open the ledger: it works with the
database stopped.
"""

import gc
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import click

from turntree.boot.open import load_importers, load_prices
from turntree.cli.command import Terminal, verb
from turntree.cli.context import load_settings
from turntree.cli.output.stats import dollars
from turntree.cli.output.text import age, clean, cut, cut_path, table
from turntree.cli.settings import places_here
from turntree.core.ids import Timestamp, instant
from turntree.core.usage import ModelCall, Usage
from turntree.hooks.agents_at_work import AgentAtWork, AgentWatch, FileOverlap, find_overlaps
from turntree.hooks.board import FOLDER as BOARD
from turntree.hooks.board import AgentState, Board
from turntree.hooks.spool import FOLDER as SPOOL
from turntree.stats.costs import find_cost
from turntree.system.clock import SystemClock
from turntree.transcripts.display import tool_title

POLL_S: Final = 0.5
AGES_S: Final = 1.0
NEW_OBJECTS_MAX: Final = 20_000
PRICED_CALLS_MAX: Final = 10_000
ID_SHOWN: Final = 8
FOLDER_WIDTH: Final = 24
FILES_SHOWN: Final = 3
CLEAR: Final = "\x1b[H\x1b[2J"
WORDS: Final[dict[AgentState, str]] = {
    "waiting": "waits for you",
    "working": "working",
    "done": "done",
    "open": "no turn yet",
    "closed": "closed",
}


@verb()
@click.option("--all", "-a", "all_states", is_flag=True,
              help="Sessions that were closed, or done for long, too.")  # fmt: skip
@click.option("--watch", "-w", is_flag=True, help="Every change as it happens, until Ctrl-C.")
@click.option("--for", "seconds", type=float, metavar="SECONDS",
              help="Time limit of --watch in seconds.")  # fmt: skip
def ps(terminal: Terminal, all_states: bool, watch: bool, seconds: float | None) -> None:
    """List the agents on this machine: who works, who waits for you, who is done.

    Shows for each session of an agent with hooks what it does and since when, its last question,
    the cost at list prices so far, and the files that its turn edits with an edit tool; what it
    changes in a shell is not known before the turn ends. Names files that two agents edit at the
    same time. Needs no database.
    """
    if seconds is not None and not watch:
        raise click.UsageError("--for goes with --watch")
    spool = load_settings().home / SPOOL
    agents = AgentWatch(Board(spool / BOARD), load_importers(), places_here(), _find_cost)
    if not watch:
        _tell(terminal, agents.look(all_states=all_states))
        return
    # Ctrl-C is how people end this.
    with suppress(KeyboardInterrupt):
        _watch(terminal, lambda: agents.look(all_states=all_states), seconds)


def _watch(
    terminal: Terminal, look: Callable[[], list[AgentAtWork]], seconds: float | None
) -> None:
    until = None if seconds is None else time.monotonic() + seconds
    before: list[AgentAtWork] | None = None
    shown_at = 0.0
    with _rare_collections():
        while until is None or time.monotonic() < until:
            found, now = look(), time.monotonic()
            # On a screen the ages go on too.
            is_aged = terminal.is_live and now - shown_at >= AGES_S
            if found is not before or is_aged:
                if terminal.is_live:
                    click.echo(CLEAR, nl=False)
                _tell(terminal, found)
                before, shown_at = found, now
            time.sleep(POLL_S)


@contextmanager
def _rare_collections() -> Generator[None]:
    """Have Python look for cyclic garbage rarely, and not in what was loaded before.

    Reading a transcript makes thousands of objects and leaves few. One collection that went
    through all loaded modules and prices took as long as watching for five seconds.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _tell(terminal: Terminal, found: Sequence[AgentAtWork]) -> None:
    if terminal.as_json:
        terminal.document(_document(found))
        return
    for line in _lines(terminal, found):
        terminal.say(line)
    if not found:
        terminal.note("no agent has reported anything in the last hours")
        terminal.note("next: turntree on     record your agents")


def _document(found: Sequence[AgentAtWork]) -> dict[str, Any]:
    overlaps = [overlap.to_json() for overlap in find_overlaps(found)]
    return {"agents": [agent.to_json() for agent in found], "overlaps": overlaps}


def _lines(terminal: Terminal, found: Sequence[AgentAtWork]) -> Iterator[str]:
    now = SystemClock().now()
    for line in table([_row(agent, now) for agent in found]) if found else ():
        yield cut(line, terminal.width)
    for overlap in find_overlaps(found):
        yield terminal.paint(_sentence(overlap), "bad")


def _row(agent: AgentAtWork, now: Timestamp) -> tuple[str, ...]:
    entry = agent.entry
    folder = (entry.place or "").replace(str(Path.home()), "~", 1)
    names = [Path(path).name for path in agent.files]
    more = f" +{len(names) - FILES_SHOWN}" if len(names) > FILES_SHOWN else ""
    return (
        WORDS[entry.state],
        age(instant(entry.since_ms), now),
        tool_title(entry.tool),
        clean(entry.session[:ID_SHOWN]),
        cut_path(clean(folder), FOLDER_WIDTH),
        "" if agent.cost is None else dollars(agent.cost),
        clean(", ".join(names[:FILES_SHOWN])) + more,
        clean(agent.title or ""),
    )


def _sentence(overlap: FileOverlap) -> str:
    count = {2: "two"}.get(len(overlap.agents), str(len(overlap.agents)))
    names = ", ".join(
        f"{tool_title(agent.entry.tool)} {agent.entry.session[:ID_SHOWN]}"
        for agent in overlap.agents
    )
    what = "are editing" if overlap.is_going_on else "edited at the same time:"
    return clean(f"{count} agents {what} {overlap.path} ({names})")


@cache
def _prices() -> Any:
    return load_prices()


def _find_cost(call: ModelCall, at: Timestamp) -> Decimal | None:
    return _cost_on(Timestamp(at[:10]), call.model, call.provider, call.usage)


@lru_cache(maxsize=PRICED_CALLS_MAX)
def _cost_on(day: Timestamp, model: str, provider: str | None, usage: Usage) -> Decimal | None:
    """Return the cost of a call; those of a turn are asked for again with each of its steps."""
    return find_cost(ModelCall(model, usage, provider), day, _prices())
