"""What the commands of webhooks and triggers share: how a secret is shown and how long it lasts."""

from collections.abc import Callable
from typing import Any

import click

from turntree.cli.command import Function, Terminal
from turntree.cli.output.text import clean

HOURS_DEFAULT = 24
HOURS_MAX = 30 * 24


def keep_hours() -> Callable[[Function], Function]:
    """Return a decorator that adds ``--keep``; the command gets it as ``hours``."""
    return click.option(
        "--keep",
        "hours",
        metavar="HOURS",
        type=click.IntRange(0, HOURS_MAX),
        default=HOURS_DEFAULT,
        show_default=True,
        help="Hours in which the secret before is valid too.",
    )


def tell_secret(
    terminal: Terminal, sentence: str, secret: str, document: dict[str, Any], undo: str | None
) -> None:
    """Print a secret, alone on stdout, and what it is for beside it."""
    if not terminal.as_json:
        terminal.note(clean(sentence))
    terminal.tell(secret, {**document, "secret": secret}, undo=undo)
