"""``index``: the search indexes, of words and of embeddings.

Gathers the data; ``cli.output.embeddings`` prints it.
"""

import subprocess
import sys
from functools import partial
from typing import Final, NoReturn

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.embeddings import alike_document, draw_alike, draw_stats, stats_document
from turntree.cli.output.progress import IndexReport, progress
from turntree.cli.output.text import clean, counted, digits
from turntree.cli.param_types import REVISION
from turntree.search.embedding import EmbeddingStats, EmbedResult, SimilarNode

INTERRUPTED: Final = 130


@click.group()
def index() -> None:
    """Update and inspect the search indexes."""


@verb()
@click.option("--rebuild", is_flag=True, help="Rebuild from empty indexes.")
@click.option("--semantic/--no-semantic", default=None,
              help="Embeddings too; by default if an embedder is installed.")  # fmt: skip
def build(terminal: Terminal, rebuild: bool, semantic: bool | None) -> None:
    """Update the search indexes.

    A search updates the word index by itself; embeddings take longer and wait for this command. It
    can be stopped at any time and continues where it stopped.
    """
    reports: list[IndexReport] = []
    try:
        words, meanings = with_ledger(
            terminal, partial(_index, terminal, rebuild, semantic, reports)
        )
    except KeyboardInterrupt:
        _stop(terminal, reports, "build")
    rate = reports[-1].rate if meanings else None
    embedded = (
        "meanings were left alone"
        if meanings is None
        else f"meanings of {counted(meanings, 'turn')}"
    )
    embedded += "" if rate is None else f", {rate:.1f} turns/s"
    terminal.tell(
        "the search indexes are up to date"
        if words is None
        else f"indexed words of {counted(words, 'turn')}; {embedded}",
        {"words": words, "meanings": meanings, "turns_per_s": rate and round(rate, 2)},
        undo=None,
        then=("next: turntree search WORDS",),
    )


def _stop(terminal: Terminal, reports: list[IndexReport], verb_: str) -> NoReturn:
    """Say what stays, and end as other programs do that Ctrl-C stopped."""
    done = reports[-1] if reports else None
    count = f"{done.turns:,} turns, {done.rate:.1f}/s" if done and done.counts else "what was done"
    terminal.note(f"stopped; {count} stay indexed")
    terminal.note(f"next: turntree index {verb_}    to continue")
    raise click.exceptions.Exit(INTERRUPTED)


async def _index(
    terminal: Terminal,
    rebuild: bool,
    semantic: bool | None,
    reports: list[IndexReport],
    opened: CliContext,
) -> tuple[int | None, int | None]:
    search_ = opened.tree.search
    # The index covers hidden turns too, so a viewer who cannot see them gets no count.
    tells = await search_.reader.sees_everything()
    if rebuild:
        await search_.forget()
    with progress(terminal, "indexing words", counts=tells) as report:
        reports.append(report)
        words = await search_.fill(everything=True, report=report)
    wanted = search_.embedder is not None if semantic is None else semantic
    if not wanted or (semantic is None and not await search_.writer.prepare_meanings()):
        return (words.turns if tells else None), None
    with progress(terminal, "indexing meanings", counts=tells) as report:
        reports.append(report)
        meanings = await search_.fill_meanings(everything=True, report=report)
    return (words.turns, meanings.turns) if tells else (None, None)


@verb()
@click.argument("node", metavar="[NODE]", required=False, type=REVISION)
@click.option("--text", help="Text to embed for NODE instead of its own.")
@click.option("--stats", is_flag=True, help="Counts only; nothing is embedded.")
@click.option("--background", is_flag=True, help="Background process; the command returns at once.")
def embed(
    terminal: Terminal, node: str | None, text: str | None, stats: bool, background: bool
) -> None:
    """Embed a turn or a program, or everything that has no embedding yet.

    NODE is a revision, @(NAME) or an id. An existing embedding of the same text is reused. It can
    be stopped at any time and continues where it stopped.
    """
    if node is None and text is not None:
        raise click.UsageError("--text needs the NODE that it belongs to")
    if stats:
        _show_stats(terminal)
    elif node is not None:
        _embed_one(terminal, node, text)
    elif background:
        _embed_in_background(terminal)
    else:
        _embed_all(terminal)


def _embed_one(terminal: Terminal, node: str, text: str | None) -> None:
    async def act(opened: CliContext) -> EmbedResult:
        return await opened.tree.meanings.embed(node, text=text)

    done = with_ledger(terminal, act)
    what = done.described
    short = digits(what.digest) if what.digest else what.name
    suffix = "" if done.is_new else "   (as before)"
    terminal.tell(
        f"embedded {clean(short)} by {done.embedder}, {done.dims} numbers{suffix}",
        {"id": what.id, "kind": what.kind, "name": what.name, "embedder": done.embedder,
         "dims": done.dims, "changed": done.is_new},
        undo=None,
        then=(f"next: turntree search --like {clean(short)}",),
    )  # fmt: skip


def _embed_all(terminal: Terminal) -> None:
    reports: list[IndexReport] = []

    async def act(opened: CliContext) -> int:
        with progress(terminal, "embedding") as report:
            reports.append(report)
            return (await opened.tree.meanings.fill(report=report)).turns

    try:
        count = with_ledger(terminal, act)
    except KeyboardInterrupt:
        _stop(terminal, reports, "embed")
    rate = reports[-1].rate if count else None
    terminal.tell(
        f"embedded {count:,} that had no vector yet"
        + ("" if rate is None else f", {rate:.1f} per second"),
        {"embedded": count, "per_s": rate and round(rate, 2)},
        undo=None,
        then=("next: turntree search --like --text WORDS",),
    )


def _embed_in_background(terminal: Terminal) -> None:
    # A process of its own: it outlives this one, and does not slow down running turns.
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "turntree", "index", "embed", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    terminal.tell(
        f"embedding in the background, as process {started.pid}",
        {"pid": started.pid},
        undo=None,
        then=("next: turntree index status",),
    )


@verb()
def status(terminal: Terminal) -> None:
    """Show the number of embeddings by embedder and kind."""
    _show_stats(terminal)


def _show_stats(terminal: Terminal) -> None:
    async def act(opened: CliContext) -> list[EmbeddingStats]:
        return await opened.tree.meanings.list_stats()

    found = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(stats_document(one) for one in found)
    elif found:
        terminal.page(draw_stats(found, terminal))
    else:
        terminal.note("nothing is embedded yet.")
        terminal.note("next: turntree index embed")


def find_similar(
    terminal: Terminal,
    nodes: tuple[str, ...],
    text: str | None,
    limit: int,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
) -> int:
    """Print what is similar to a node or a text, and return the exit code.

    A node that has no embedding yet gets one.
    """
    if len(nodes) > 1 or bool(nodes) == (text is not None):
        raise click.UsageError("--like takes one NODE, or --text TEXT")
    node = nodes[0] if nodes else None
    found = with_ledger(terminal, partial(_similar, node, text, limit, kinds, tags))
    if terminal.as_json:
        terminal.documents(alike_document(one) for one in found)
    elif found:
        terminal.page(draw_alike(found, terminal))
    else:
        terminal.note("nothing like it is embedded")
        terminal.note("next: turntree index embed     turntree index status")
    return 0 if found else 1


async def _similar(
    node: str | None,
    text: str | None,
    limit: int,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
    opened: CliContext,
) -> list[SimilarNode]:
    meanings = opened.tree.meanings
    if node is not None:
        return await meanings.similar_to(node, limit=limit, kinds=kinds, tags=tags)
    assert text is not None, "one of the two was given"
    return await meanings.similar_to_text(text, limit=limit, kinds=kinds, tags=tags)


for command in (build, embed, status):
    index.add_command(command)
