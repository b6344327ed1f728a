"""``export``: write the ledger as text: to verify, to read, or to send to a model."""

import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import IO, Any, Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.thread_objects import read_whole
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.harmless import harmless, spelled
from turntree.cli.output.annotations import list_sessions
from turntree.cli.param_types import REVISION
from turntree.core.errors import InvalidOperation
from turntree.core.ids import TurnId
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.models.portable_thread import PortableMessage
from turntree.transcripts.exporters.anthropic import to_anthropic
from turntree.transcripts.exporters.html import to_html
from turntree.transcripts.exporters.jsonl import session_line, turn_line
from turntree.transcripts.exporters.markdown import to_markdown
from turntree.transcripts.exporters.openai import to_chat

READ: Final = {"md": to_markdown, "html": to_html}
TOLD: Final[Mapping[str, Callable[[Sequence[PortableMessage]], Any]]] = {
    "openai": to_chat,
    "anthropic": to_anthropic,
}
FORMS: Final = ("jsonl", *READ, *TOLD)
PAGE_TURNS_MAX: Final = 500


@verb()
@click.argument("revision", metavar="[REV]", required=False, type=REVISION)
@click.option("--all", "-a", "everything", is_flag=True, help="All turns and sessions.")
@click.option("--format", "form", type=click.Choice(FORMS), default="jsonl", show_default=True,
              help="Output format.")  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", default="-", help="File to write, instead of stdout."
)
def export(
    terminal: Terminal, revision: str | None, everything: bool, form: str, output: str
) -> None:
    """Write a thread, or everything, as text.

    jsonl: turns root first, then the sessions whose heads are among them, one JSON document per
    line; each turn carries the header that its digest covers, so that it can be verified without
    Turntree. md and html: the thread for people to read. openai and anthropic: the messages of a
    request that gives a model the thread.
    """
    if everything == (revision is not None):
        raise click.UsageError("say what to export: a REV, or --all")
    if everything and form != "jsonl":
        raise click.UsageError(f"only jsonl can hold everything; name a REV for {form}")
    if terminal.as_json and form in READ:
        raise click.UsageError(f"{form} is for people to read and is not JSON; jsonl is")
    if output == "-":
        note = _write(terminal, sys.stdout, revision, form)
    else:
        try:
            with click.open_file(output, "w", encoding="utf-8", atomic=True) as file:
                note = _write(terminal, file, revision, form)
        except OSError as error:
            raise InvalidOperation(f"{output} cannot be written: {error.strerror}") from error
    terminal.note(note)


def _write(terminal: Terminal, file: IO[str], revision: str | None, form: str) -> str:
    if revision is None or form == "jsonl":
        turns, sessions = with_ledger(terminal, partial(_export, file=file, revision=revision))
        return f"{turns} turns and {sessions} sessions written"
    visible = form in TOLD
    thread = with_ledger(terminal, partial(read_whole, revision=revision, visible=visible))
    if form in TOLD:
        text = json.dumps(TOLD[form](thread.told()), ensure_ascii=False, indent=2) + "\n"
    else:
        text = READ[form](thread.turns, thread.objects)
    _print(file, text, is_json=form in TOLD)
    return f"{len(thread.turns)} turns written"


async def _export(opened: CliContext, *, file: IO[str], revision: str | None) -> tuple[int, int]:
    written: set[TurnId] = set()
    source = _read_all(opened) if revision is None else _read_thread(opened, revision)
    async with aclosing(source) as turns:
        async for placed in turns:
            _print(file, turn_line(placed) + "\n", is_json=True)
            written.add(placed.turn.id)
    sessions = await _list_standing(opened, written, everything=revision is None)
    for session in sessions:
        _print(file, session_line(session) + "\n", is_json=True)
    return len(written), len(sessions)


def _print(file: IO[str], text: str, *, is_json: bool) -> None:
    """Write text unchanged, or without what a terminal would obey if stdout is one."""
    if _is_terminal(file):
        text = spelled(text) if is_json else harmless(text)
    click.echo(text, file=file, nl=False)


async def _list_standing(
    opened: CliContext, turns: set[TurnId], *, everything: bool
) -> list[Session]:
    found = await list_sessions(opened, with_archived=True)
    return [session for session in found if everything or session.head in turns]


async def _read_thread(opened: CliContext, revision: str) -> AsyncGenerator[ThreadTurn, None]:
    head = await opened.tree.turns.get(revision)
    for low in range(1, head.depth + 1, PAGE_TURNS_MAX):
        high = min(low + PAGE_TURNS_MAX - 1, head.depth)
        for placed in await opened.tree.threads.page(head.turn.id, low=low, high=high):
            yield placed


async def _read_all(opened: CliContext) -> AsyncGenerator[ThreadTurn, None]:
    """Yield every turn by depth, so that a parent comes before its children."""
    index = opened.tree.turns.index
    page = await index.list_by_depth(limit=PAGE_TURNS_MAX)
    while page:
        for placed in page:
            yield placed
        last = page[-1]
        page = await index.list_by_depth(last.depth, last.turn.id, limit=PAGE_TURNS_MAX)


def _is_terminal(file: IO[str]) -> bool:
    return file.isatty()
