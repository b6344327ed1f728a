"""How far something is that takes its time, for a person who watches; others are told nothing.

Knows a terminal. Must never know what is being counted.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from turntree.cli.verb import Terminal

Report = Callable[[int, int], None]


@contextmanager
def counting(terminal: Terminal, doing: str) -> Generator[Report]:
    """Show a bar that is told how much is done, of how much; it vanishes at the end."""
    if not terminal.is_live:
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
