"""``search`` and ``index``: find turns by their words.

Gathers the data; ``cli.output.search`` prints it.
"""

from functools import partial

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.progress import progress
from turntree.cli.output.search import draw_result, hit_document
from turntree.core.ids import Digest, Timestamp
from turntree.core.value import value
from turntree.search.query import OPERATORS
from turntree.search.results import SearchResult
from turntree.search.service import HITS_DEFAULT, HITS_MAX


@value
class SearchOutput:
    """The results of a search, and what is needed to print them."""

    result: SearchResult
    unique: dict[Digest, int]
    current: str | None
    now: Timestamp


@verb()
@click.argument("words", metavar="QUERY...", nargs=-1, required=True)
@click.option("-n", "--limit", type=click.IntRange(1, HITS_MAX), default=HITS_DEFAULT,
              show_default=True, help="Maximum number of turns.")  # fmt: skip
@click.option("--semantic/--no-semantic", default=None,
              help="Search by embeddings too; by default if any are indexed.")  # fmt: skip
@click.pass_context
def search(
    context: click.Context,
    terminal: Terminal,
    words: tuple[str, ...],
    limit: int,
    semantic: bool | None,
) -> None:
    """Find turns by their words.

    Words match in any order, and the last one may be incomplete. "Quoted words" match as a phrase;
    -word excludes (quote the whole query then). Operators narrow the search: in:SESSION by:NAME
    model:NAME tool:NAME file:PATH origin:TOOL before:TIME after:TIME failed:yes. Exits with 1 if
    nothing is found.
    """
    text = typed(words)
    found = with_ledger(terminal, partial(_search, terminal, text, limit, semantic))
    hits = found.result.hits
    if terminal.as_json:
        terminal.documents(hit_document(hit, found.unique) for hit in hits)
    elif hits:
        lines = draw_result(found.result, found.unique, found.current, found.now, terminal)
        terminal.page(lines)
        _suggest(terminal, found)
    else:
        terminal.note(f"nothing was found for {text}")
        terminal.note("next: turntree search with fewer words     or: turntree log --all")
    context.exit(0 if hits else 1)


def typed(words: tuple[str, ...]) -> str:
    """Return the query that the arguments mean: the shell has removed their quotes.

    A single argument is the query itself. Among several, one with spaces was quoted: it is a
    phrase, or the value of an operator.
    """
    if len(words) == 1:
        name, colon, value = words[0].partition(":")
        is_value = bool(colon) and name in OPERATORS and '"' not in value
        return f'{name}:"{value}"' if is_value else words[0]
    return " ".join(_requoted(word) for word in words)


def _requoted(word: str) -> str:
    if '"' in word or not any(sign.isspace() for sign in word):
        return word
    name, colon, value = word.partition(":")
    return f'{name}:"{value}"' if colon and name.lstrip("-") in OPERATORS else f'"{word}"'


def _suggest(terminal: Terminal, found: SearchOutput) -> None:
    best = found.result.hits[0].placed.turn.digest
    short = best.removeprefix("sha256:")[: max(8, found.unique[best])]
    terminal.note(f"next: turntree show {short}     turntree fork {short} LABEL")


async def _search(
    terminal: Terminal, text: str, limit: int, semantic: bool | None, opened: CliContext
) -> SearchOutput:
    tree = opened.tree
    with progress(terminal, "indexing words") as report:
        await tree.search.fill(report=report)
    result = await tree.search(text, limit=limit, semantic=semantic)
    unique = await tree.turns.list_unique_lengths([hit.placed.turn.digest for hit in result.hits])
    return SearchOutput(result, unique, opened.current, opened.now)


@verb()
@click.option("--rebuild", is_flag=True, help="Rebuild from empty indexes.")
@click.option("--semantic/--no-semantic", default=None,
              help="Embeddings too; by default if an embedder is installed.")  # fmt: skip
def index(terminal: Terminal, rebuild: bool, semantic: bool | None) -> None:
    """Update the search indexes.

    A search updates the word index by itself; embeddings take longer and wait for this command. It
    can be stopped at any time and continues where it stopped.
    """
    words, meanings = with_ledger(terminal, partial(_index, terminal, rebuild, semantic))
    embedded = "meanings were left alone" if meanings is None else f"meanings of {meanings:,} turns"
    terminal.tell(
        "the search indexes are up to date"
        if words is None
        else f"indexed words of {words:,} turns; {embedded}",
        {"words": words, "meanings": meanings},
        undo=None,
        then=("next: turntree search WORDS",),
    )


async def _index(
    terminal: Terminal, rebuild: bool, semantic: bool | None, opened: CliContext
) -> tuple[int | None, int | None]:
    search_ = opened.tree.search
    # The index covers hidden turns too, so a viewer who cannot see them gets no count.
    tells = await search_.reader.sees_everything()
    if rebuild:
        await search_.forget()
    with progress(terminal, "indexing words", counts=tells) as report:
        words = await search_.fill(everything=True, report=report)
    wanted = search_.embedder is not None if semantic is None else semantic
    if not wanted or (semantic is None and not await search_.writer.prepare_meanings()):
        return (words.turns if tells else None), None
    with progress(terminal, "indexing meanings", counts=tells) as report:
        meanings = await search_.fill_meanings(everything=True, report=report)
    return (words.turns, meanings.turns) if tells else (None, None)
