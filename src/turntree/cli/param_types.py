"""Parameter types of commands, with shell completion.

Knows the labels and tags that exist. Must never start a server: pressing the tab key does not ask
for one.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from turntree.cli.context import CliContext

COMPLETIONS_MAX: Final = 200


class _Name(click.ParamType[str]):
    """A name that a shell can complete."""

    def __init__(
        self, name: str, list_names: "Callable[[CliContext], Awaitable[list[str]]]", *always: str
    ) -> None:
        """Set the metavar, the source of the names, and the names that are always there."""
        self.name, self._list_names, self._always = name, list_names, always

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin with the typed text."""
        del ctx, param
        found = [*_ask(self._list_names), *self._always]
        return [CompletionItem(one) for one in found if one.startswith(incomplete)]


async def _labels(opened: "CliContext") -> list[str]:
    page = await opened.tree.sessions.ledger.list_page(limit=COMPLETIONS_MAX)
    return [session.label for session in page]


async def _programs(opened: "CliContext") -> list[str]:
    from turntree.programs.catalog import ProgramFilter

    programs = opened.tree.programs
    page = await programs.store.list_page(
        ProgramFilter(), by=str(programs.by), limit=COMPLETIONS_MAX
    )
    return [program.name for program in page]


SESSION: Final = _Name("session", _labels, "HEAD")
"""A session's label or alias, or HEAD."""
PROGRAM: Final = _Name("program", _programs)
"""A program's name or address."""
REVISION: Final = _Name("rev", _labels, "HEAD")
"""A revision: anything that names a turn."""


def _ask(question: "Callable[[CliContext], Awaitable[list[str]]]") -> list[str]:
    """Return an answer if the database is reachable without starting it; else an empty list."""
    from turntree.cli.command import Terminal
    from turntree.cli.context import load_settings, with_ledger
    from turntree.core.errors import TurntreeError
    from turntree.db.embedded.server import EmbeddedServer

    settings = load_settings()
    if not settings.database_url and EmbeddedServer(settings.home).find_conninfo() is None:
        return []
    try:
        return with_ledger(Terminal(as_json=True), question, waits=False)
    except TurntreeError:
        return []
