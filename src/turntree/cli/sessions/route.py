"""``route`` and ``identify``: where a message would go, and who writes through a channel.

Gathers the data; ``cli.output.route`` prints it.
"""

from functools import partial

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.route import draw_explained, draw_route, route_document
from turntree.cli.output.session import session_row_document
from turntree.cli.param_types import REVISION
from turntree.core.ids import Digest
from turntree.core.principal import Principal
from turntree.core.session import Session
from turntree.core.value import value
from turntree.routing.route import Route
from turntree.routing.router import CANDIDATES_DEFAULT, CANDIDATES_MAX


@value
class _RouteArgs:
    text: str
    target: str
    sender: str | None
    limit: int


@verb()
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@click.option("--to", "target", metavar="TARGET", default="", type=REVISION,
              help="Target of the message; without one, the text decides.")  # fmt: skip
@click.option("--explain", is_flag=True, help="Explanation, with the alternatives considered.")
@click.option("--as", "sender", metavar="NAME",
              help="Sender; what is hidden from them is not considered.")  # fmt: skip
@click.option("-n", "--limit", type=click.IntRange(1, CANDIDATES_MAX), default=CANDIDATES_DEFAULT,
              show_default=True, help="Maximum number of threads to consider.")  # fmt: skip
def route(
    terminal: Terminal,
    words: tuple[str, ...],
    target: str,
    explain: bool,
    sender: str | None,
    limit: int,
) -> None:
    """Show where a message would go, without sending it.

    TARGET is a session, a turn (any REV), a persona (@(NAME), which has the session NAME:main), or
    a sender (channel:KIND:ID, entity:NAME). Without a target, the thread that fits TEXT best.
    """
    text = " ".join(words)
    if not text.strip() and not target:
        raise click.UsageError('say what is sent, or to whom: turntree route "login drops it"')
    found, head = with_ledger(terminal, partial(_resolve, _RouteArgs(text, target, sender, limit)))
    if terminal.as_json:
        terminal.document(route_document(found))
        return
    terminal.page(
        [
            *draw_route(found, head, terminal),
            *(draw_explained(found, terminal) if explain else ()),
        ]
    )
    if found.candidates and not explain:
        terminal.note("next: the same with --explain     why, and what else was considered")


async def _resolve(asked: _RouteArgs, opened: CliContext) -> tuple[Route, Digest | None]:
    sender = None if asked.sender is None else _principal(asked.sender)
    found = await opened.tree.router.resolve(
        asked.target, asked.text, sender=sender, limit=asked.limit
    )
    if found.head is None:
        return found, None
    return found, (await opened.tree.turns.get(found.head)).turn.digest


def _principal(text: str) -> Principal:
    kind, colon, id = text.partition(":")
    match kind if colon else "human":
        case "human" | "agent" | "session" | "system" as known:
            return Principal(known, id if colon else text)
        case _:
            raise click.UsageError(
                f"{text!r} is not a principal: write ana, human:ana or agent:atlas"
            )


@verb()
@click.argument("kind", metavar="KIND")
@click.argument("id", metavar="ID")
@click.argument("entity", metavar="ENTITY")
def identify(terminal: Terminal, kind: str, id: str, entity: str) -> None:
    """Link a channel to the entity that writes through it.

    KIND and ID are the channel's, such as telegram 42. The channel's session becomes ENTITY's,
    under both names; if ENTITY has a session already, the two are merged.
    """

    async def act(opened: CliContext) -> Session:
        return await opened.tree.router.identify(kind, id, entity)

    found = with_ledger(terminal, act)
    names = ", ".join(found.aliases)
    terminal.tell(
        f"{found.label} is also reached as {names}",
        session_row_document(found),
        undo=None,
        then=("a name cannot be removed: it may be in use elsewhere",),
    )
