"""``search``: find turns by their words, or what is similar to a turn or a text.

Gathers the data; ``cli.output.search`` prints it.
"""

from functools import partial

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.annotations import list_askers
from turntree.cli.output.progress import progress
from turntree.cli.output.search import draw_result, hit_document
from turntree.core.ids import Digest, Timestamp, TurnId
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
    askers: dict[TurnId, str]


@verb()
@click.argument("words", metavar="QUERY...", nargs=-1)
@click.option("-n", "--limit", type=click.IntRange(1, HITS_MAX), default=HITS_DEFAULT,
              show_default=True, help="Maximum number of turns.")  # fmt: skip
@click.option(
    "--semantic/--no-semantic",
    default=None,
    help="Search by embeddings too; by default if any are indexed.",
)
@click.option(
    "--like",
    is_flag=True,
    help="What is similar to the node that QUERY names: a revision, @(NAME) or an id.",
)
@click.option("--text", help="Text to compare with, for --like.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Kind to include with --like: turn, agent, model, …; repeatable.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG",
              help="Required tag with --like; repeatable.")  # fmt: skip
@click.pass_context
def search(
    context: click.Context,
    terminal: Terminal,
    words: tuple[str, ...],
    limit: int,
    semantic: bool | None,
    like: bool,
    text: str | None,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
) -> None:
    """Find turns by their words.

    Words match in any order, and the last one may be incomplete. "Quoted words" match as a phrase;
    -word excludes (quote the whole query then). Operators narrow the search: in:SESSION by:NAME
    model:NAME tool:NAME file:PATH origin:TOOL before:TIME after:TIME failed:yes. Archived turns
    are found with archived:yes only. Exits with 1 if nothing is found.
    """
    if like:
        from turntree.cli.maintenance.index import find_similar

        context.exit(find_similar(terminal, words, text, limit, kinds, tags))
    if not words or text is not None or kinds or tags:
        raise click.UsageError("say what to find; --text, --kind and --tag go with --like")
    query = typed(words)
    found = with_ledger(terminal, partial(_search, terminal, query, limit, semantic))
    hits = found.result.hits
    if terminal.as_json:
        terminal.documents(hit_document(hit, found.unique) for hit in hits)
    elif hits:
        lines = draw_result(
            found.result, found.unique, found.current, found.now, terminal, found.askers
        )
        terminal.page(lines)
        _suggest(terminal, found)
    else:
        terminal.note(f"nothing was found for {query}")
        if len(query.split()) > 1:
            terminal.note("fewer words find more")
        terminal.note("next: turntree log --all")
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
    askers = await list_askers(opened, [hit.placed for hit in result.hits])
    return SearchOutput(result, unique, opened.current, opened.now, askers)
