"""``compact``: have a model summarize a session, so that later prompts are shorter."""

from functools import partial

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.listen import open_talk
from turntree.cli.common.model_setup import ensure_model
from turntree.cli.common.reply import check_answer, nothing, wait_for
from turntree.cli.context import CliContext
from turntree.cli.output.stream_printer import turn_document
from turntree.cli.output.text import clean, counted, digits
from turntree.cli.param_types import PROGRAM, SESSION
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation
from turntree.core.turn import Turn
from turntree.models.compacting import KEEP_TURNS, KEEP_TURNS_MAX
from turntree.runs.inbox import QueuedMessage


@verb()
@click.argument("session", metavar="[SESSION]", default="HEAD", type=SESSION)
@click.option("--keep", metavar="N", type=click.IntRange(0, KEEP_TURNS_MAX), default=KEEP_TURNS,
              show_default=True, help="Number of last turns that stay whole.")  # fmt: skip
@click.option("--focus", metavar="TEXT", help="What the summary has to keep above all.")
@click.option("--model", type=PROGRAM, help="Model that writes the summary, this time.")
@click.option("--no-worker", is_flag=True, help="Workers elsewhere answer, never this process.")
def compact(
    terminal: Terminal,
    session: str,
    keep: int,
    focus: str | None,
    model: str | None,
    no_worker: bool,
) -> None:
    """Summarize a session, so that later prompts are shorter.

    The summary becomes the newest turn. Later prompts begin with it, then come the last N turns and
    what follows. Nothing is deleted: the summarized turns stay in the log and the search, an agent
    can recall and read them, and a fork from before the summary has all of them in its prompts.
    """
    with open_talk(terminal, serves=not no_worker) as talk:
        begin = partial(_begin, terminal=terminal, session=session, keep=keep, focus=focus)
        posted = talk.call(partial(begin, model=model))
        answered = wait_for(talk, posted.run, nothing)
    check_answer(answered)
    turn, label = answered.turn, clean(posted.label or "")
    terminal.tell(
        f"{label} stands at {digits(turn.digest)}: {say_compaction(turn)}",
        {"session": posted.label, **turn_document(turn), "compaction": _details(turn).to_json()},
        undo=f"turntree undo {label}",
        then=(f"read the summary with: turntree show {digits(turn.digest)}",),
    )


async def _begin(
    opened: CliContext,
    *,
    terminal: Terminal,
    session: str,
    keep: int,
    focus: str | None,
    model: str | None,
) -> QueuedMessage:
    runs = opened.tree.runs
    label = (await opened.tree.sessions.get(session)).label
    route = await runs.route(label)
    asked = {"model": model, "agent": await runs.find_agent(route)}
    options = {name: chosen for name, chosen in asked.items() if chosen is not None}
    await ensure_model(opened, terminal, route, options)
    return await runs.post_compaction(label, keep=keep, focus=focus, model=model)


def say_compaction(turn: Turn) -> str:
    """Return what a compaction covers and saves, in words.

    Raises:
        InvalidOperation: The model replied without a summary.
    """
    details = _details(turn)
    return (
        f"{counted(details.turns_summarized, 'turn')} summarized, about"
        f" {details.tokens_before:,} tokens are now {details.tokens_after:,}"
    )


def _details(turn: Turn) -> Compaction:
    if turn.header.compaction is None:
        raise InvalidOperation("the model replied without a summary; nothing was compacted")
    return turn.header.compaction
