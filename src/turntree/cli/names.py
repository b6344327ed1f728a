"""The words that commands take, and what a shell may complete them to.

Knows labels and tags of what exists. Must never start a server: a person who presses the tab key
did not ask for one.
"""

from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem

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


SESSION: Final = _SessionName()
REVISION: Final = _Revision()


def _labels() -> Sequence[str]:
    from turntree.cli.opening import load_settings, with_ledger
    from turntree.cli.verb import Terminal
    from turntree.domain.errors import TurntreeError
    from turntree.store.embedded import EmbeddedServer

    settings = load_settings()
    if not settings.database_url and EmbeddedServer(settings.home).find_conninfo() is None:
        return []
    try:
        page = with_ledger(
            Terminal(as_json=True),
            lambda opened: opened.tree.sessions.ledger.list_page(limit=COMPLETIONS_MAX),
        )
    except TurntreeError:
        return []
    return [*(session.label for session in page), "HEAD"]
