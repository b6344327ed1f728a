"""``why``: from a turn back to what led to it.

Gathers the data; ``cli.output.why`` prints it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.annotations import list_askers
from turntree.cli.output.parts import find_part
from turntree.cli.output.why import WhyOutput, draw_why, end_of, why_document
from turntree.cli.param_types import REVISION
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.ledger.graph.causes import DEPTH_DEFAULT, LIMIT_DEFAULT, Cause

if TYPE_CHECKING:
    from turntree.conversations.post import PostExplanation
    from turntree.core.ids import Timestamp

DEPTH_MAX = 100
POST = re.compile(r"(.+)#([1-9]\d{0,8})")
"""A post of a conversation. No revision has a #."""
LIMIT_MAX = 1000


@value
class _WhyArgs:
    revision: str
    depth: int
    limit: int


@verb()
@click.argument("revision", metavar="[REV]", default="HEAD", type=REVISION)
@click.option(
    "--depth",
    type=click.IntRange(1, DEPTH_MAX),
    default=DEPTH_DEFAULT,
    show_default=True,
    help="Number of steps to go back.",
)
@click.option(
    "--limit", "-n", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True,
    help="Maximum number of steps in all.",
)  # fmt: skip
def why(terminal: Terminal, revision: str, depth: int, limit: int) -> None:
    """Show what led to a turn, step by step.

    REV:tool/2 starts at a tool call of a turn, REV:msg/0 at a message. A turn follows another, was
    forked from it, was spawned by one of its tool calls, or retries it. CONVERSATION#12 is a post:
    it shows which agents were asked to answer it, and why.
    """
    if (post := POST.fullmatch(revision)) is not None:
        _why_post(terminal, post[1], int(post[2]))
        return
    told = with_ledger(terminal, partial(_read, asked=_WhyArgs(revision, depth, limit)))
    if terminal.as_json:
        terminal.document(why_document(told))
    else:
        terminal.page(draw_why(told, terminal))
        if (end := end_of(told)) is not None:
            terminal.note(end)


def _why_post(terminal: Terminal, conversation: str, number: int) -> None:
    """Show what a post of a conversation set in motion."""

    async def read(opened: CliContext) -> "tuple[PostExplanation, Timestamp]":
        return await opened.tree.conversations.explain(conversation, number), opened.now

    # Loads the parser of mentions, which no other explanation needs.
    from turntree.cli.history.post_why import tell_post_why

    tell_post_why(terminal, *with_ledger(terminal, read))


async def _read(opened: CliContext, *, asked: _WhyArgs) -> WhyOutput:
    tree = opened.tree
    found = await tree.resolve(asked.revision)
    explained = await tree.causes.explain(found.turn, depth_max=asked.depth, limit=asked.limit)
    session = found.session
    stands = session is not None and session.head == found.turn
    moves = (
        await tree.sessions.reflog.list_moves(session.id, limit=1)
        if session is not None and stands
        else ()
    )
    part = None if found.part is None else find_part(explained.placed.turn, found.part)
    return WhyOutput(
        asked.revision,
        explained,
        opened.now,
        asked.depth,
        asked.limit,
        part,
        found.part,
        session if stands else None,
        moves[0] if moves else None,
        await list_askers(opened, [*_list_turns(explained.causes), explained.placed]),
        await tree.conversations.find_question(explained.placed.turn.id),
    )


def _list_turns(causes: Iterable[Cause]) -> Iterator[ThreadTurn]:
    for cause in causes:
        if cause.placed is not None:
            yield cause.placed
        yield from _list_turns(cause.causes)
