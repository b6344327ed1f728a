"""A real terminal, kept by tmux: a shell in which a program types, and the screen it shows.

Knows tmux and how long to wait. Must never know what is typed.
"""

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

COLUMNS, ROWS = 100, 48
WAIT_S = 90
POLL_S = 0.05
SETTLE_S = 1.0
"""How long a program has to show what was pasted before it is pasted again."""
SOCKET = "tmux.sock"


@dataclass(slots=True)
class Terminal:
    """One terminal. Its socket lies in ``place``."""

    place: Path
    columns: int = COLUMNS
    rows: int = ROWS

    def open(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Begin a shell that has this environment and no other."""
        self._tmux(
            "new-session", "-d", "-x", str(self.columns), "-y", str(self.rows), "-c", folder,
            "env", "-i", *(f"{name}={value}" for name, value in environment.items()),
            "bash", "--norc", "--noprofile", "-i",
        )  # fmt: skip

    def type(self, words: str) -> None:
        """Type a line."""
        self._tmux("send-keys", "-l", words)
        self.press("Enter")

    def press(self, key: str) -> None:
        """Press a key by tmux's name for it: `Enter`, `C-c`, `Up`."""
        self._tmux("send-keys", key)

    def paste(self, text: str) -> None:
        """Paste text, in brackets where the program has asked for them, as terminals do."""
        self._tmux("set-buffer", "--", text)
        self._tmux("paste-buffer", "-p", "-d")

    def paste_until_shown(self, text: str, limit_s: float = WAIT_S) -> None:
        """Paste text until the screen shows it once more: a program may still be drawing its own.

        Raises:
            TimeoutError: It was never shown.
        """
        ends, before = time.monotonic() + limit_s, self.screen().count(text)
        while self.screen().count(text) <= before:
            if time.monotonic() > ends:
                raise TimeoutError(f"{text!r} was never shown:\n{self.screen()}")
            self.paste(text)
            time.sleep(SETTLE_S)

    def screen(self) -> str:
        """Return what the screen shows, and all lines that have left it."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    def wait(self, holds: Callable[[str], bool], what: str, limit_s: float = WAIT_S) -> str:
        """Wait until the screen is as it should be, and return it.

        Raises:
            TimeoutError: It never was; says what the screen shows.
        """
        ends = time.monotonic() + limit_s
        while True:
            text = self.screen()
            if holds(text):
                return text
            if time.monotonic() > ends:
                raise TimeoutError(f"no sign of {what} within {limit_s} s:\n{text}")
            time.sleep(POLL_S)

    def kill(self) -> None:
        """End the terminal and everything in it, as a closed window does."""
        self._tmux("kill-server")
        # It answers before it is gone, and until then no other terminal can begin here.
        while self._run("list-sessions").returncode == 0:
            time.sleep(POLL_S)
        (self.place / SOCKET).unlink(missing_ok=True)

    def _tmux(self, *words: str | Path) -> str:
        done = self._run(*words)
        done.check_returncode()
        return done.stdout

    def _run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        command = ["tmux", "-S", self.place / SOCKET, "-f", "/dev/null", *words]
        return subprocess.run(command, check=False, capture_output=True, text=True)
