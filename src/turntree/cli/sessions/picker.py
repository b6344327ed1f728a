"""Lets a person at a terminal choose a session from a list, with the arrow keys."""

import sys
from collections.abc import Sequence
from typing import Final

from turntree.cli.command import Terminal
from turntree.cli.sessions.overview import SessionRow, draw_rows
from turntree.core.ids import Timestamp
from turntree.core.session import Session

ROWS_MAX: Final = 20
_FRAME: Final = 8
"""Columns that the picker itself needs."""


def can_pick(terminal: Terminal) -> bool:
    """Whether a person could choose: never in a pipe, and never for a program that reads JSON."""
    return terminal.is_live and sys.stdin.isatty() and sys.stdout.isatty()


def pick_session(
    rows: Sequence[SessionRow], current: Session | None, now: Timestamp, terminal: Terminal
) -> str | None:
    """Return the label of the session that the user chose, or None."""
    from prompt_toolkit.shortcuts import choice

    from turntree.cli.output.text import cut

    shown = rows[:ROWS_MAX]
    lines = draw_rows(shown, current, now, terminal, with_folders=True)
    width = terminal.width - _FRAME
    options = [
        (row.session.label, cut(line, width)) for row, line in zip(shown, lines, strict=True)
    ]
    try:
        return choice("Which session?  (arrows and Enter; Ctrl-C leaves)", options=options)
    except (KeyboardInterrupt, EOFError):
        return None
