"""A place for one real agent to work in: a home of its own, a folder, and a scripted model.

Knows processes and how they are ended. Must never know a single agent: what is typed into one,
and where it keeps its history, is its scene's business.

Nothing leaves this machine. The agents are told to use the scripted model, and every proxy they
might use is the model too, which refuses to lead anywhere and notes who asked.
"""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turntree.testing.scripted.server import ScriptedModel

RUN_TIMEOUT_S = 120
MARK = "TURNTREE_STAGE"
"""The variable by which a process is known to belong to a stage."""
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TERM")
"""What an agent inherits; everything else of our environment would be somebody's settings."""


class AgentFailed(Exception):
    """A program did not do what it was asked to; says how it ended."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One agent's program, folders and model."""

    program: Path
    folder: Path
    model: ScriptedModel
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that this agent needs besides those that all have."""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    works_in: Path | None = None
    """Another folder for the agent to work in than the stage's own."""

    @property
    def home(self) -> Path:
        """Where the agent believes to be at home."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """Where the agent works."""
        return self.works_in or self.folder / "work"

    def set_up(self) -> None:
        """Make the folders."""
        for folder in (self.home, self.work):
            folder.mkdir(parents=True, exist_ok=True)

    def run(self, *words: str, timeout_s: float = RUN_TIMEOUT_S) -> str:
        """Run the program to its end and return what it printed.

        Raises:
            AgentFailed: It ended with an error, or not in time.
        """
        process = self.start(words)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise AgentFailed(f"{words} did not end in {timeout_s} s") from error
        finally:
            end_group(process)
            close_pipes(process)
        if process.returncode != 0:
            raise AgentFailed(f"{words} ended with {process.returncode}: {out[-800:]} {err[-800:]}")
        return out

    def start(
        self,
        words: Sequence[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start the program in a group of its own; whoever starts it ends the group."""
        return subprocess.Popen(
            [self.program, *words],
            cwd=self.work,
            env=self.environment(),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        """Return what the program finds in its environment."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        proxies = {
            name: self.model.url
            for lower in ("http_proxy", "https_proxy", "all_proxy")
            for name in (lower, lower.upper())
        }
        return {
            **kept,
            **proxies,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "DO_NOT_TRACK": "1",
            "CI": "1",
            MARK: self.mark,
            **self.settings,
        }

    def end_all(self, patience_s: float = 2.0) -> int:
        """End whatever this stage's programs have left running and return how many those were."""
        until = time.monotonic() + patience_s
        while (left := self.running()) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in left:
            _signal(os.kill, pid)
        return len(left)

    def running(self) -> list[int]:
        """Return the processes that carry this stage's mark, by what Linux says of each."""
        return list_with(MARK, self.mark)


def list_with(name: str, value: str) -> list[int]:
    """Return the processes that have a variable in their environment."""
    mark = f"{name}={value}".encode()
    return [pid for pid in _pids() if mark in _environ(pid).split(b"\0")]


def end_group(process: subprocess.Popen[str]) -> None:
    """End a process that was started in a group of its own, and what it started in it."""
    _signal(os.killpg, process.pid)
    process.wait()


def close_pipes(process: subprocess.Popen[str]) -> None:
    """Let go of what was said and heard; nobody may be listening any more."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _signal(send: Callable[[int, int], None], pid: int) -> None:
    try:
        send(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return b""
