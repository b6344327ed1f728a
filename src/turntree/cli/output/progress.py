"""Show progress on a terminal; without one, show nothing.

Knows a terminal. Must never know what is being counted.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import click

from turntree.cli.command import Terminal
from turntree.cli.output.text import counted
from turntree.search.results import IndexProgress

Report = Callable[[int, int], None]


@contextmanager
def counting(terminal: Terminal, doing: str) -> Generator[Report]:
    """Show a progress bar, updated with the done and total counts; it vanishes at the end."""
    if not terminal.is_live:
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


@contextmanager
def progress(
    terminal: Terminal, what: str, *, counts: bool = True
) -> Generator["IndexReport", None, None]:
    """Yield a callback that shows the progress of an index; it vanishes at the end."""
    report = IndexReport(terminal, what, counts)
    report(IndexProgress(is_behind=True))  # The first batch may take a while.
    try:
        yield report
    finally:
        if report.is_drawn:
            click.echo("\r\x1b[K", nl=False, err=True)


@dataclass(slots=True)
class IndexReport:
    """A counter on stderr, for a terminal and more than one batch."""

    terminal: Terminal
    what: str
    counts: bool = True
    """Whether the viewer may know how many turns there are."""
    is_drawn: bool = False
    started: float = field(default_factory=time.monotonic)
    turns: int = 0
    """The turns so far; they stay if the work is stopped."""

    @property
    def rate(self) -> float:
        """Turns per second since the start."""
        return self.turns / max(time.monotonic() - self.started, 0.001)

    def __call__(self, done: IndexProgress) -> None:
        """Show the progress."""
        self.turns = done.turns
        if self.terminal.is_live and done.is_behind:
            self.is_drawn = True
            turns = f" {counted(done.turns, 'turn')}, {self.rate:.1f}/s" if self.counts else ""
            line = self.terminal.spell(f"{self.what}…{turns}")
            click.echo(f"\r{line}\x1b[K", nl=False, err=True)


@contextmanager
def spinner(terminal: Terminal, doing: str) -> Generator[Callable[[str], None]]:
    """Show that work is going on: a spinner on a terminal, otherwise one line per step."""
    if not terminal.is_live:
        yield terminal.note
        return
    from rich.console import Console

    with Console(stderr=True).status(doing) as spinner:
        yield spinner.update


def no_progress(_done: int, _total: int) -> None:
    """Show nothing, where a bar would be in the way."""
