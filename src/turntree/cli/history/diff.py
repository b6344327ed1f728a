"""``diff``: what two threads or turns share, and where they diverge."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import click

from turntree.cli.command import Paint, Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.history.diff_files import NOW, diff_files
from turntree.cli.output.annotations import Annotations, read_legend
from turntree.cli.output.parts import list_tool_calls
from turntree.cli.output.text import (
    Span,
    clean,
    clean_block,
    cut,
    digest_spans,
    lay,
    pad,
    title,
    tokens,
)
from turntree.cli.param_types import REVISION
from turntree.core.message import ErasedMessage
from turntree.core.thread import Comparison, ThreadTurn
from turntree.core.turn import Turn
from turntree.core.usage import Usage
from turntree.core.value import value

WIDTH_MAX: Final = 160
GUTTER: Final = " | "
CONTEXT_LINES: Final = 3
_PAINTS: Final[dict[str, Paint]] = {"+": "good", "-": "bad", "@": "head"}


@value
class ThreadComparison:
    """Two threads with the annotations of their turns."""

    names: tuple[str, str]
    parted: Comparison
    legend: Annotations


@verb()
@click.argument("left", metavar="A", type=REVISION)
@click.argument("right", metavar="[B]", required=False, type=REVISION)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--thread", "-t", is_flag=True, help="All turns since the two threads diverged.")
@click.option(
    "--files", "-f", "with_files", is_flag=True,
    help="Files instead of messages; without B, compared with the files as they are now.",
)  # fmt: skip
@click.option(
    "--stat",
    is_flag=True,
    help="Summary: the turns that only one thread holds, or with --files the paths.",
)
@click.pass_context
def diff(
    context: click.Context,
    terminal: Terminal,
    left: str,
    right: str | None,
    paths: tuple[str, ...],
    thread: bool,
    with_files: bool,
    stat: bool,
) -> None:
    """Compare the messages of two turns or two threads, or the files they left.

    With --files, B may be "." for the files as they are now; that is also the default if a file is
    named in B's position. Each PATH is a file, a folder or a pattern with *. Exits with 1 if the
    messages or files differ. --stat without --files shows where two threads diverge.
    """
    if with_files:
        differ = diff_files(terminal, left, right or NOW, paths, stat=stat)
        context.exit(1 if differ else 0)
    if right is None or paths:
        raise click.UsageError("two revisions are compared; paths go with --files")
    if stat:
        compared = with_ledger(terminal, partial(_read, left=left, right=right))
        if terminal.as_json:
            terminal.document(_document(compared))
        else:
            terminal.page(_draw(compared, terminal))
        return
    lines = _diff_words(terminal, left, right, thread=thread)
    context.exit(1 if lines else 0)


def _diff_words(terminal: Terminal, left: str, right: str, *, thread: bool) -> list[str]:
    compared = with_ledger(terminal, partial(_read, left=left, right=right))
    sides = _sides(compared, thread=thread)
    before, after = ([line for turn in side for line in say(turn)] for side in sides)
    names = [clean(name) for name in compared.names]
    lines = list(
        difflib.unified_diff(before, after, names[0], names[1], lineterm="", n=CONTEXT_LINES)
    )
    if terminal.as_json:
        terminal.document({**_document(compared), "differ": bool(lines), "lines": lines})
    elif lines:
        terminal.page(terminal.paint(line, _PAINTS.get(line[:1], "plain")) for line in lines)
    return lines


def say(turn: Turn) -> Iterator[str]:
    """Yield the messages of a turn, line by line, without anything that identifies the turn."""
    for said in turn.messages:
        if isinstance(said, ErasedMessage):
            yield "(erased)"
        elif said.text:
            yield f"{said.role}:"
            yield from (f"  {line}".rstrip() for line in clean_block(said.text))
    for call in list_tool_calls(turn):
        status = "open" if call.result is None else call.result.status
        yield f"tool: {call.use.tool} {status}"


def _sides(compared: ThreadComparison, *, thread: bool) -> tuple[list[Turn], list[Turn]]:
    parted, base = compared.parted, compared.parted.base
    left, right = (
        [placed.turn for placed in side] or ([] if base is None else [base.turn])
        for side in (parted.left, parted.right)
    )
    # If one thread ends where they diverge, compare that turn only when single turns are meant.
    if thread:
        return [p.turn for p in parted.left], [p.turn for p in parted.right]
    return left[-1:], right[-1:]


async def _read(opened: CliContext, *, left: str, right: str) -> ThreadComparison:
    parted = await opened.tree.threads.compare(left, right)
    restore = opened.tree.turns.restore
    parted = replace(parted, left=await restore(parted.left), right=await restore(parted.right))
    base = [] if parted.base is None else [parted.base]
    legend = await read_legend(opened, [*base, *parted.left, *parted.right])
    return ThreadComparison((left, right), parted, legend)


def _draw(compared: ThreadComparison, terminal: Terminal) -> Iterator[str]:
    parted, legend = compared.parted, compared.legend
    base = parted.base
    if base is None:
        yield "base   none: the two share no turn"
    else:
        unique = legend.unique[base.turn.digest]
        spans = [Span("base   "), *digest_spans(base.turn.digest, unique), Span(" ")]
        yield lay(
            [*spans, Span(title(base.turn))], min(terminal.width, WIDTH_MAX), terminal
        ).rstrip()
    width = (min(terminal.width, WIDTH_MAX) - len(GUTTER)) // 2
    heads = [
        pad(cut(_summary(name, side, legend), width, ellipsis=terminal.spell("…")), width)
        for name, side in zip(compared.names, (parted.left, parted.right), strict=True)
    ]
    yield terminal.paint(GUTTER.join(heads).rstrip(), "strong")
    for left, right in zip_longest(reversed(parted.left), reversed(parted.right)):
        cells = [_cell(placed, legend, width, terminal) for placed in (left, right)]
        yield GUTTER.join(cells).rstrip()
    yield ""
    yield terminal.paint(f"next: turntree diff {' '.join(compared.names)}", "dim")


def _summary(name: str, side: Sequence[ThreadTurn], legend: Annotations) -> str:
    used = sum((legend.used.get(p.turn.id, Usage()) for p in side), Usage()).total
    turns = f"{len(side)} turn{'' if len(side) == 1 else 's'}"
    return f"{clean(name)}   {turns}{f', {tokens(used)} tokens' if used else ''}"


def _cell(placed: ThreadTurn | None, legend: Annotations, width: int, terminal: Terminal) -> str:
    if placed is None:
        return " " * width
    unique = legend.unique[placed.turn.digest]
    spans = [*digest_spans(placed.turn.digest, unique), Span(" "), Span(title(placed.turn))]
    return lay(spans, width, terminal)


def _document(compared: ThreadComparison) -> dict[str, Any]:
    parted, legend = compared.parted, compared.legend
    return {
        "base": None if parted.base is None else legend.document(parted.base),
        "left": [legend.document(placed) for placed in parted.left],
        "right": [legend.document(placed) for placed in parted.right],
    }
