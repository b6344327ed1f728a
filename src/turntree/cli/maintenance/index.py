"""``embed``, ``embed-stats`` and ``similar``: embeddings and what they find.

Gathers the data; ``cli.output.embeddings`` prints it.
"""

import subprocess
import sys
from functools import partial

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.embeddings import alike_document, draw_alike, draw_stats, stats_document
from turntree.cli.output.progress import progress
from turntree.cli.output.text import clean, digits
from turntree.cli.param_types import REVISION
from turntree.search.embedding import EmbeddingStats, EmbedResult, SimilarNode
from turntree.search.embeddings import ALIKE_DEFAULT, ALIKE_MAX


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
        raise click.UsageError("say what the text stands for: turntree embed NODE --text TEXT")
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
        then=(f"next: turntree similar {clean(short)}",),
    )  # fmt: skip


def _embed_all(terminal: Terminal) -> None:
    async def act(opened: CliContext) -> int:
        with progress(terminal, "embedding") as report:
            return (await opened.tree.meanings.fill(report=report)).turns

    count = with_ledger(terminal, act)
    terminal.tell(
        f"embedded {count:,} that had no vector yet",
        {"embedded": count},
        undo=None,
        then=("next: turntree similar --text WORDS",),
    )


def _embed_in_background(terminal: Terminal) -> None:
    # A process of its own: it outlives this one, and does not slow down running turns.
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "turntree", "embed", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    terminal.tell(
        f"embedding in the background, as process {started.pid}",
        {"pid": started.pid},
        undo=None,
        then=("next: turntree embed-stats",),
    )


@verb("embed-stats")
def embed_stats(terminal: Terminal) -> None:
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
        terminal.note("next: turntree embed")


@verb()
@click.argument("node", metavar="[NODE]", required=False, type=REVISION)
@click.option("--text", help="Text to compare with, instead of NODE.")
@click.option("-n", "--limit", type=click.IntRange(1, ALIKE_MAX), default=ALIKE_DEFAULT,
              show_default=True, help="Maximum number of results.")  # fmt: skip
@click.option("--kind", "kinds", multiple=True, metavar="KIND",
              help="Kind to include: turn, agent, model, …; repeatable.")  # fmt: skip
@click.option("--tag", "tags", multiple=True, metavar="WORD",
              help="Required tag; repeatable.")  # fmt: skip
@click.pass_context
def similar(
    context: click.Context,
    terminal: Terminal,
    node: str | None,
    text: str | None,
    limit: int,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
) -> None:
    """Find what is similar to a turn, a program or a text.

    NODE is a revision, @(NAME) or an id; it is embedded first if it was not. Exits with 1 if
    nothing is found.
    """
    if (node is None) == (text is None):
        raise click.UsageError("say what to compare with: turntree similar NODE, or --text TEXT")
    found = with_ledger(terminal, partial(_similar, node, text, limit, kinds, tags))
    if terminal.as_json:
        terminal.documents(alike_document(one) for one in found)
    elif found:
        terminal.page(draw_alike(found, terminal))
    else:
        terminal.note("nothing like it is embedded")
        terminal.note("next: turntree embed     turntree embed-stats")
    context.exit(0 if found else 1)


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
