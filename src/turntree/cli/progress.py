"""A line on stderr that counts while something takes long, whatever it is."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from turntree.cli.verb import Terminal
from turntree.domain.search import Indexed


@contextmanager
def progress(terminal: Terminal, what: str) -> Generator["Report", None, None]:
    """Lend something that shows how far an index has come, and leaves no trace of it."""
    report = Report(terminal, what)
    yield report
    if report.is_drawn:
        click.echo("\r\x1b[K", nl=False, err=True)


@dataclass(slots=True)
class Report:
    """A line on stderr that counts, where a person watches and it takes more than one batch."""

    terminal: Terminal
    what: str
    is_drawn: bool = False

    def __call__(self, done: Indexed) -> None:
        """Show how far it has come."""
        if self.terminal.is_live and done.is_behind:
            self.is_drawn = True
            line = self.terminal.spell(f"{self.what}… {done.turns:,} turns")
            click.echo(f"\r{line}\x1b[K", nl=False, err=True)
