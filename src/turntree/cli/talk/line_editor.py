"""Reads messages from a person at a terminal, or lines from a pipe.

On a terminal, text that is pasted is one message however many lines it has: the terminal marks its
beginning and end ("bracketed paste"). Earlier messages come back with the arrow keys, from a file
that only the user can read and that holds no secret keys.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turntree.core.redaction import redact

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

HISTORY_FILE: Final = "chat.history"
HISTORY_LINES_MAX: Final = 1000


@dataclass(slots=True)
class LineEditor:
    """Messages from a person, with a history of earlier ones, or lines from a pipe."""

    home: Path
    is_person: bool = field(default_factory=lambda: sys.stdin.isatty() and sys.stdout.isatty())
    _session: "PromptSession[str] | None" = field(default=None, init=False)

    def read(self, prompt: str) -> str:
        """Return one message of a person, or one line of a pipe.

        Raises:
            EOFError: There are no more.
            KeyboardInterrupt: The user pressed Ctrl-C.
        """
        if not self.is_person:
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            return line.rstrip("\n")
        from prompt_toolkit.formatted_text import ANSI

        if self._session is None:
            self._session = _open_session(read_history(self.home / HISTORY_FILE))
        # The line break at the end of a paste belongs to how it was copied, not to the message.
        return self._session.prompt(ANSI(prompt)).rstrip("\n")

    def keep(self) -> None:
        """Save the history for the next chat, without what looks like a secret key."""
        if self._session is not None:
            with suppress(OSError):
                write_history(self.home / HISTORY_FILE, self._session.history.get_strings())


def read_history(path: Path) -> list[str]:
    """Return the messages of a history file, oldest first; a line that ends in \\ continues."""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError:
        return []
    messages = [""]
    for line in lines:
        if line.endswith("\\"):
            messages[-1] += line[:-1] + "\n"
        else:
            messages[-1] += line
            messages.append("")
    return [message for message in messages if message]


def write_history(path: Path, messages: Sequence[str]) -> None:
    """Replace a history file by the newest messages, without what looks like a secret key."""
    # A backslash at the very end would join a message with the next one.
    whole = [f"{message} " if message.endswith("\\") else message for message in messages]
    lines = [line for message in whole for line in message.replace("\n", "\\\n").split("\n")]
    kept = without_keys(lines)[-HISTORY_LINES_MAX:]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write("".join(f"{line}\n" for line in kept).encode("utf-8", "surrogateescape"))


def without_keys(lines: Sequence[str]) -> list[str]:
    """Return lines with a placeholder for each secret key, even one that spans lines."""
    # A continued line ends in a backslash, which no key contains; a long key may contain spaces.
    text = "\n".join(lines).replace("\\\n", "\v")
    clear, count = redact(text.encode("utf-8", "surrogateescape"))
    if not count:
        return list(lines)
    return clear.decode("utf-8", "surrogateescape").replace("\v", "\\\n").split("\n")


def _open_session(messages: Sequence[str]) -> "PromptSession[str]":
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import create_output
    from prompt_toolkit.output.vt100 import Vt100_Output

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    output = create_output()
    if isinstance(output, Vt100_Output):
        # Asked where its cursor is, a terminal that does not know the question stays silent, and
        # the user would read a warning about it two seconds later. Only menus need the answer.
        output.enable_cpr = False
    return PromptSession(
        history=InMemoryHistory(messages),
        key_bindings=keys,
        output=output,
        prompt_continuation=lambda width, _line, _wraps: " " * width,
    )
