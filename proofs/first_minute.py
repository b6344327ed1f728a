"""The first minute: from a built wheel in a clean virtual environment to a verified fork.

Builds the wheel, installs it with pip into an environment that holds nothing else, and types what
a newcomer would type into a real terminal. Then asks how long ``turntree --version`` takes,
compared with Python that does nothing.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

import pexpect

from proofs.figures import Proof, run

ROOT = Path(__file__).parent.parent
STARTS = 15
COMMAND_TIMEOUT_S = 90
COLUMNS, ROWS = 100, 40
DIGEST = re.compile(r"\b([0-9a-f]{8})\b")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


async def prove(proof: Proof) -> None:
    """Do it; nothing here waits for anything but other programs."""
    first_minute(proof)


def first_minute(proof: Proof) -> None:
    """Install, type, check."""
    place = Path(tempfile.mkdtemp(prefix="turntree-first-minute-"))
    # The embedded server's account may be another than ours, and must pass through.
    place.chmod(0o755)
    try:
        began = time.monotonic()
        turntree = install(place)
        proof.note("from the sources to an installed wheel", time.monotonic() - began, "s")
        story(Terminal(turntree, place), proof)
        proof.at_most(
            "turntree --version against Python that does nothing",
            start_ratio(turntree),
            "x",
            6,
            of="time",
        )
    finally:
        shutil.rmtree(place, ignore_errors=True)


def install(place: Path) -> Path:
    """Build the wheel, install it into a clean environment, return the command."""
    subprocess.run(
        ["uv", "build", "--wheel", "--quiet", "--out-dir", place / "dist", ROOT], check=True
    )
    (wheel,) = (place / "dist").glob("turntree-*.whl")
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    return place / "venv" / "bin" / "turntree"


def story(terminal: "Terminal", proof: Proof) -> None:
    """Type the commands of the first minute, each checked for what it must show."""
    began = time.monotonic()
    terminal.run("demo", shows=["sample"])
    graph = terminal.run("log --graph", shows=["●", "HEAD", "├"])
    digests = DIGEST.findall(graph)
    newest, oldest = digests[0], digests[-1]
    terminal.run(f"show {newest}", shows=["turn", "parent", newest])
    terminal.run(f"fork {oldest} try-again", shows=["try-again"])
    terminal.run("rewind HEAD~1", shows=["nothing was deleted", "undo with"])
    terminal.run("undo", shows=["moved"])
    terminal.run("verify", shows=["verified"])
    proof.at_most("from demo to verify", time.monotonic() - began, "s", 60, of="time")
    terminal.run("down", shows=[])
    proof.at_least("turns drawn", len(digests), "turns", 5)
    proof.at_most("commands that did not show what they should", len(terminal.wrong), "", 0)


class Terminal:
    """A person at a terminal, in a clean folder with a clean home."""

    def __init__(self, turntree: Path, place: Path) -> None:
        """Begin in an empty folder."""
        self.turntree = turntree
        self.wrong: list[str] = []
        self.folder = place / "work"
        self.folder.mkdir()
        self.env = {
            "PATH": f"{turntree.parent}:{os.environ['PATH']}",
            "HOME": str(place / "person"),
            "TURNTREE_HOME": str(place / "home"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            # The sample data is longer than a screen, and a pager would wait for a key.
            "TURNTREE_PAGER": "cat",
        }
        (place / "person").mkdir()

    def run(self, words: str, *, shows: Sequence[str]) -> str:
        """Type a command, wait for its end, check its status and what it showed."""
        output, status = pexpect.run(
            f"{self.turntree} {words}",
            timeout=COMMAND_TIMEOUT_S,
            withexitstatus=True,
            cwd=str(self.folder),
            env=self.env,
            dimensions=(ROWS, COLUMNS),
        )
        screen = CONTROL.sub("", output.decode())
        print(f"$ turntree {words}\n{screen}", file=sys.stderr)
        if missing := [word for word in shows if word not in screen]:
            print(f"missing: {missing}", file=sys.stderr)
        if missing or status != 0:
            self.wrong.append(words)
        return screen


def start_ratio(turntree: Path) -> float:
    """How many times longer ``turntree --version`` takes than Python that does nothing."""
    python = turntree.parent / "python"
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(STARTS):
        bare.append(seconds([python, "-c", "pass"]))
        ours.append(seconds([turntree, "--version"]))
    return statistics.median(ours) / statistics.median(bare)


def seconds(command: Sequence[Path | str]) -> float:
    """How long a command takes, from start to end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    run(prove, __doc__ or "")
