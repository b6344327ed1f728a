"""``show --context``: what the model saw for a turn.

Gathers the data; ``cli.output.context`` prints it.
"""

from functools import partial

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.context import context_document, draw_call, draw_context
from turntree.core.errors import NotFound
from turntree.runs.model_context import TurnContext


def show_context(terminal: Terminal, revision: str, number: int | None) -> None:
    """Print what the model saw for a turn, call by call, or one call in full.

    Instructions and tools come first, then the thread, then the turn's own messages. Prompts are
    not stored: they are assembled again from what was recorded, and each request's digest shows
    whether the result is identical. With --json the prompts are complete.
    """
    seen = with_ledger(terminal, partial(_read, revision=revision))
    if number is not None and seen.absence is None and number > len(seen.calls):
        raise NotFound(f"the turn has {len(seen.calls)} call(s) of a model, not {number}")
    if terminal.as_json:
        terminal.document(context_document(seen, number))
    elif number is None or seen.absence is not None:
        terminal.page(draw_context(seen, terminal))
    else:
        terminal.page(draw_call(seen.calls[number - 1], terminal))
    if not terminal.as_json and number is None and seen.calls:
        terminal.note(f"all of it with: turntree show {revision} --call {len(seen.calls)}")


async def _read(opened: CliContext, *, revision: str) -> TurnContext:
    return await opened.tree.contexts.read((await opened.tree.resolve(revision)).turn)
