"""The words that commands take, and what a shell may complete them to.

Knows labels and tags of what exists. Must never start a server: a person who presses the tab key
did not ask for one.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from turntree.cli.opening import Opened

T = TypeVar("T")
COMPLETIONS_MAX: Final = 200


class _SessionName(click.ParamType[str]):
    """A session's label or alias, or HEAD."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the labels that begin like this."""
        del ctx, param
        return [CompletionItem(name) for name in _labels() if name.startswith(incomplete)]


class _Revision(_SessionName):
    """Anything that names a turn."""

    name = "rev"


class _ProgramName(click.ParamType[str]):
    """A program's name or address."""

    name = "program"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin like this."""
        del ctx, param
        return [CompletionItem(name) for name in _programs() if name.startswith(incomplete)]


SESSION: Final = _SessionName()
PROGRAM: Final = _ProgramName()
REVISION: Final = _Revision()


def _labels() -> Sequence[str]:
    page = _ask(lambda opened: opened.tree.sessions.ledger.list_page(limit=COMPLETIONS_MAX))
    return [*(session.label for session in page or ()), "HEAD"]


def _programs() -> Sequence[str]:
    from turntree.ports.programs import Wanted

    page = _ask(
        lambda opened: opened.tree.programs.store.list_page(
            Wanted(), by=str(opened.tree.programs.by), limit=COMPLETIONS_MAX
        )
    )
    return [program.name for program in page or ()]


def _ask(question: "Callable[[Opened], Awaitable[T]]") -> "T | None":
    """Return an answer if a database can be asked without starting one."""
    from turntree.cli.opening import load_settings, with_ledger
    from turntree.cli.verb import Terminal
    from turntree.domain.errors import TurntreeError
    from turntree.store.embedded import EmbeddedServer

    settings = load_settings()
    if not settings.database_url and EmbeddedServer(settings.home).find_conninfo() is None:
        return None
    try:
        return with_ledger(Terminal(as_json=True), question)
    except TurntreeError:
        return None
