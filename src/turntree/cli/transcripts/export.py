"""``export``: write the ledger as text: to verify, to read, or to send to a model."""

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from io import TextIOWrapper
from typing import IO, TYPE_CHECKING, Any, Final

import click

from turntree.boot.thread_objects import read_whole
from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.harmless import harmless, spelled
from turntree.cli.output.annotations import list_askers, list_sessions
from turntree.cli.output.output_file import output_file
from turntree.cli.output.progress import counting, no_progress
from turntree.cli.output.text import counted
from turntree.cli.param_types import REVISION
from turntree.core.ids import TurnId
from turntree.core.thread import ThreadTurn
from turntree.models.portable_thread import PortableMessage
from turntree.transcripts.exporters.anthropic import to_anthropic
from turntree.transcripts.exporters.html import to_html
from turntree.transcripts.exporters.jsonl import session_line, turn_line
from turntree.transcripts.exporters.markdown import to_markdown
from turntree.transcripts.exporters.openai import to_chat

if TYPE_CHECKING:
    from turntree.transfer.service import ExportResult

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

    --all writes an archive that `turntree import FILE` reads again: turns, objects, events,
    sessions with their reflogs, tags, programs and the files of snapshots, all with the same ids
    and digests. What is private to others is not in it.
    """
    if everything == (revision is not None):
        raise click.UsageError("say what to export: a REV, or --all")
    if everything and form != "jsonl":
        raise click.UsageError(f"only jsonl can hold everything; name a REV for {form}")
    if terminal.as_json and form in READ:
        raise click.UsageError(f"{form} is for people to read and is not JSON; jsonl is")
    if revision is None:
        _export_all(terminal, output)
        return
    with output_file(output) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="\n")
        note = _write(terminal, text, revision, form)
        text.detach()
    terminal.note(note)


def _export_all(terminal: Terminal, output: str) -> None:
    """Write an archive, and say what is not in it."""
    with output_file(output) as file:
        # A bar on a terminal that also shows the lines would be written into them.
        shows = (
            contextlib.nullcontext(no_progress)
            if output == "-"
            else counting(terminal, "exporting")
        )
        with shows as report:

            async def act(opened: CliContext) -> "ExportResult":
                def write(line: bytes) -> None:
                    text = spelled(line.decode()).encode() if file.isatty() else line
                    file.write(text)

                return await opened.tree.archives.export(write, report)

            done = with_ledger(terminal, act)
    if terminal.as_json and output != "-":
        terminal.document(asdict(done))
        return
    turns, sessions = done.counts.get("turn", 0), done.counts.get("session", 0)
    terminal.note(f"{counted(turns, 'turn')} and {counted(sessions, 'session')} written")
    if done.is_partial:
        terminal.note("what is private to others is not in it")
    if done.unfinished:
        terminal.note(f"{done.unfinished} unfinished runs, messages or plans are not in it")
    if done.missing_files:
        terminal.note(f"the files of {counted(done.missing_files, 'snapshot')} are not stored here")


def _write(terminal: Terminal, file: IO[str], revision: str, form: str) -> str:
    if form == "jsonl":
        turns, sessions = with_ledger(terminal, partial(_export, file=file, revision=revision))
        return f"{counted(turns, 'turn')} and {counted(sessions, 'session')} written"
    visible = form in TOLD
    thread = with_ledger(
        terminal, lambda opened: read_whole(opened.tree, revision, visible=visible)
    )
    if form in TOLD:
        text = json.dumps(TOLD[form](thread.told()), ensure_ascii=False, indent=2) + "\n"
    else:
        askers = with_ledger(terminal, lambda opened: list_askers(opened, thread.turns))
        text = READ[form](thread.turns, thread.objects, askers)
    _print(file, text, is_json=form in TOLD)
    return f"{counted(len(thread.turns), 'turn')} written"


async def _export(opened: CliContext, *, file: IO[str], revision: str) -> tuple[int, int]:
    written: set[TurnId] = set()
    async with aclosing(_read_thread(opened, revision)) as turns:
        async for placed in turns:
            _print(file, turn_line(placed) + "\n", is_json=True)
            written.add(placed.turn.id)
    found = await list_sessions(opened, with_archived=True)
    sessions = [session for session in found if session.head in written]
    for session in sessions:
        _print(file, session_line(session) + "\n", is_json=True)
    return len(written), len(sessions)


def _print(file: IO[str], text: str, *, is_json: bool) -> None:
    """Write text unchanged, or without what a terminal would obey if stdout is one."""
    if _is_terminal(file):
        text = spelled(text) if is_json else harmless(text)
    click.echo(text, file=file, nl=False)


async def _read_thread(opened: CliContext, revision: str) -> AsyncGenerator[ThreadTurn, None]:
    head = await opened.tree.turns.get(revision)
    for low in range(1, head.depth + 1, PAGE_TURNS_MAX):
        high = min(low + PAGE_TURNS_MAX - 1, head.depth)
        for placed in await opened.tree.threads.page(head.turn.id, low=low, high=high):
            yield placed


def _is_terminal(file: IO[str]) -> bool:
    return file.isatty()
