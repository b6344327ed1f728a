"""Clean streamed text for a terminal.

A model's text may contain escape sequences, and a chunk may end in the middle of one. Knows no run
and no program.
"""

import re
from dataclasses import dataclass, field
from typing import Final

import click

from turntree.cli.command import Terminal
from turntree.cli.output.text import clean_block

HELD_CHARS_MAX: Final = 256
"""No useful escape sequence is longer."""
_UNFINISHED: Final = re.compile(r"\x1b(?:\][^\x07\x1b]*\x1b?|\[[0-?]*[ -/]*|[ -/]*)?\Z")


@dataclass(slots=True)
class TerminalSanitizer:
    """Removes from streamed text whatever a terminal would obey."""

    held: str = ""
    """The beginning of an incomplete escape sequence."""

    def feed(self, text: str) -> str:
        """Return the part of the text so far that may be shown."""
        text = self.held + text
        unfinished = _UNFINISHED.search(text)
        self.held = "" if unfinished is None else unfinished[0]
        if len(self.held) > HELD_CHARS_MAX:
            self.held = ""
        elif unfinished is not None:
            text = text[: unfinished.start()]
        return "\n".join(clean_block(text))

    def end(self) -> None:
        """Discard an incomplete sequence."""
        self.held = ""


@dataclass(slots=True)
class WordWriter:
    """Writes streamed text to stdout."""

    terminal: Terminal
    is_used: bool = False
    _cleaner: TerminalSanitizer = field(default_factory=TerminalSanitizer)

    def write(self, words: str) -> None:
        """Write some text."""
        self.is_used = True
        if self.terminal.as_json:
            self.terminal.documents([{"words": words}])
        else:
            click.echo(self._cleaner.feed(words), nl=False)
