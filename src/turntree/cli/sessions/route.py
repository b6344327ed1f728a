"""``send --dry-run`` and ``session identify``: where a message would go, and who writes it.

Gathers the data; ``cli.output.route`` prints it.
"""

from functools import partial

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.route import draw_explained, draw_route, route_document
from turntree.cli.output.session import session_row_document
from turntree.core.ids import Digest
from turntree.core.principal import Principal
from turntree.core.session import Session
from turntree.core.value import value
from turntree.routing.route import Route


@value
class RouteQuestion:
    """A message, its target and its sender."""

    text: str
    target: str
    sender: str | None
    limit: int


def show_route(terminal: Terminal, asked: RouteQuestion, *, explain: bool) -> None:
    """Print where a message would go; with ``explain``, also why."""
    if not asked.text.strip() and not asked.target:
        raise click.UsageError("name a target or write a message, or both")
    found, head = with_ledger(terminal, partial(_resolve, asked))
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
        terminal.note("--explain says why, and what else was considered")


async def _resolve(asked: RouteQuestion, opened: CliContext) -> tuple[Route, Digest | None]:
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
