"""A stage whose agent tells Turntree what it does, by the hooks that `turntree hook install` wrote.

Knows the command line and the spool. Must never know a single agent.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proofs.agents.stage import AgentFailed, Stage
from turntree.boot.open import Settings
from turntree.cli.hook_process.entry import SPOOL
from turntree.hooks.spool import Spool

DRAIN_TIMEOUT_S = 60
COMMAND = "from turntree.cli.main import main; main()"
TOOLS = {"claude": "claude-code", "codex": "codex", "opencode": "opencode", "gemini": "gemini"}
"""What each agent is called where its hooks are installed."""


@dataclass(frozen=True, slots=True)
class Hooked:
    """A stage, and the Turntree that its agent talks to."""

    stage: Stage
    database: str
    """How the ledger is reached; whether anybody answers is another question."""
    workspace: str

    @property
    def home(self) -> Path:
        """Where this Turntree keeps its spool and its shadow store."""
        return self.stage.folder / "turntree"

    @property
    def spool(self) -> Spool:
        """What hooks have told and nobody has read yet."""
        return Spool(self.home / SPOOL)

    @property
    def settings(self) -> Settings:
        """How the ledger is opened from here."""
        return Settings(self.home, self.database, self.workspace, "ana")

    def variables(self) -> dict[str, str]:
        """Return what the agent and the command line find in their environment."""
        return {
            "TURNTREE_HOME": str(self.home),
            "TURNTREE_DATABASE_URL": self.database,
            "TURNTREE_WORKSPACE": self.workspace,
            "TURNTREE_CONFIG": str(self.stage.folder / "config.toml"),
            "TURNTREE_USER": "ana",
        }

    def call(self, *words: str, cwd: Path | None = None, codes: tuple[int, ...] = (0,)) -> str:
        """Run the command line where the agent works and return what it printed.

        Raises:
            AgentFailed: It ended with a code that was not expected.
        """
        environment = {**self.stage.environment(), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            cwd=cwd or self.stage.work,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes:
            raise AgentFailed(f"turntree {words} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def ask(self, *words: str) -> dict[str, Any]:
        """Run the command line and return the document it printed."""
        found: dict[str, Any] = json.loads(self.call(*words, "--json"))
        return found

    def unfinished(self) -> int:
        """Return how many processes that hooks left behind will end: all but the daemon."""
        # The word is in the program that the daemon runs. A reader of the spool is several programs
        # after one another, so that none of their words would name all of them.
        return sum(b"attend" not in _command(pid) for pid in self.stage.running())

    def wait_until_read(self, timeout_s: float = DRAIN_TIMEOUT_S) -> float:
        """Return how long it took until everything that was told has been read.

        Raises:
            AgentFailed: Something is still in the spool.
        """
        started = time.monotonic()
        while time.monotonic() - started < timeout_s:
            if not self.spool.list_paths():
                with self.spool.reading() as is_mine:
                    if is_mine:
                        return time.monotonic() - started
            time.sleep(0.05)
        left = [(one.sighting.kind, one.error) for one in self.spool.read()]
        raise AgentFailed(f"the spool still holds {left}; {self.spool.last_error()}")


def hooked(stage: Stage, database: str, workspace: str, more: Mapping[str, str]) -> Hooked:
    """Return a stage whose agent can be told about this Turntree."""
    bare = Hooked(stage, database, workspace)
    return replace(
        bare, stage=replace(stage, settings={**stage.settings, **bare.variables(), **more})
    )


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
