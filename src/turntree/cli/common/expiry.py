"""``--expires-in DAYS``: how long an invitation or a key works."""

from collections.abc import Callable

import click

from turntree.cli.command import Function


def expires_in(*, default: int, maximum: int) -> Callable[[Function], Function]:
    """Return a decorator that adds the option; the command gets it as ``days``."""
    return click.option(
        "--expires-in",
        "days",
        metavar="DAYS",
        type=click.IntRange(1, maximum),
        default=default,
        show_default=True,
        help="Days until it expires.",
    )
