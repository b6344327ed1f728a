"""Where the real agents come from: installed when they are missing, used again when they are not.

    python -m proofs.agents.programs

That installs what is missing before any proof asks for it. Knows npm and the package that brings
Claude Code. Must never know how an agent is spoken to. npm's packages go to ``.agents`` beside the
sources, which git ignores.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

INSTALL_TIMEOUT_S = 600
FOLDER = Path(__file__).parents[2] / ".agents"


class NotInstalled(Exception):
    """A program is not there and could not be brought; says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A real agent: what it is called, how it is found or brought, and whether it must be."""

    name: str
    ensure: Callable[[], Path]
    required: bool


def ensure_claude() -> Path:
    """Return Claude Code's program, which the Claude Agent SDK brings along.

    Raises:
        NotInstalled: The package is not in this environment.
    """
    spec = find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        raise NotInstalled("claude-agent-sdk is not installed: `just setup` brings it")
    program = Path(spec.origin).parent / "_bundled" / "claude"
    if not program.exists():
        raise NotInstalled("this build of claude-agent-sdk has no Claude Code in it")
    return program


def npm(package: str, command: str) -> Callable[[], Path]:
    """Return what ensures a program that npm has."""

    def ensure() -> Path:
        program = FOLDER / "node_modules" / ".bin" / command
        FOLDER.mkdir(exist_ok=True)
        # Two proofs may miss it at once, and npm does not share a folder.
        with FileLock(FOLDER / "install.lock", timeout=INSTALL_TIMEOUT_S):
            if not program.exists():
                _install(package)
        if not program.exists():
            raise NotInstalled(f"{package} brought no program called {command}")
        # Whoever runs it stands in another folder, and a link says nothing there.
        return program.resolve()

    return ensure


def _install(package: str) -> None:
    say(f"installing {package} ...")
    started = time.monotonic()
    words = ["npm", "install", "--prefix", str(FOLDER), "--no-fund", "--no-audit", package]
    try:
        done = subprocess.run(
            [*words, "--loglevel=error"],
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise NotInstalled(f"{package} needs npm, which is not there") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"npm did not bring {package} in {INSTALL_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise NotInstalled(f"npm could not bring {package}: {done.stderr[-400:]}")
    say(f"installed {package} in {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    """Tell whoever watches; figures alone go to standard output."""
    print(text, file=sys.stderr, flush=True)


PROGRAMS = (
    Program("claude", ensure_claude, required=True),
    Program("codex", npm("@openai/codex@0.166.0", "codex"), required=True),
    Program("opencode", npm("opencode-ai@1.18.33", "opencode"), required=False),
    Program("gemini", npm("@google/gemini-cli@0.61.0", "gemini"), required=False),
)


def main() -> None:
    """Bring every agent; a proof that needs a missing one says so itself."""
    for program in PROGRAMS:
        try:
            program.ensure()
        except NotInstalled as error:
            say(f"{program.name} is not installed: {error}")


if __name__ == "__main__":
    main()
