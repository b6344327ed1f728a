"""The first run: from an empty home with sample transcripts to a search hit and a checkout.

Types what a newcomer would type into a real terminal, kept by tmux: `turntree on`, the answer to
its question, a half-sentence to search for, a checkout. What stood on the screen is printed to
stderr, and the card's figures are held against sums over the very files that were imported. The
transcripts are sample data in the shape that Claude Code writes.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proofs.corpus import Corpus
from proofs.figures import Proof, run
from proofs.sample_home import REMEMBERED, write_sample_home
from proofs.terminal import Terminal

ROOT = Path(__file__).parent.parent
LIMIT_S = 120
LIMIT_QUICK_S = 60
COUNTED = (
    "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens",
)  # fmt: skip
SHORT = re.compile(r"next: turntree show ([0-9a-f]{8,})")


async def prove(proof: Proof) -> None:
    """Do it; nothing here waits for anything but other programs."""
    first_run(proof)


def first_run(proof: Proof) -> None:
    """Furnish a home, type, check."""
    if shutil.which("tmux") is None:
        print("tmux is missing: install it (apt-get install tmux) and run again", file=sys.stderr)
        proof.at_least("tmux is installed", 0, "", 1)
        return
    place = Path(tempfile.mkdtemp(prefix="turntree-first-run-"))
    # The embedded server's account may be another than ours, and must pass through.
    place.chmod(0o755)
    screen = Screen(place)
    try:
        sample = Corpus(proof.seed)
        files = write_sample_home(screen.person, sample, *((12, 10) if proof.quick else (60, 40)))
        proof.note("sample transcripts", len(files), "files")
        proof.note("sample transcripts", sum(f.stat().st_size for f in files) / 1e6, "MB")
        story(screen, proof, files)
    finally:
        screen.close()
        shutil.rmtree(place, ignore_errors=True)


def story(screen: "Screen", proof: Proof, files: list[Path]) -> None:
    """Type the commands of the first run, each checked for what it must show."""
    began = time.monotonic()
    screen.open()
    screen.terminal.type("turntree on")
    screen.terminal.wait(lambda text: "import them?" in text, "the question")
    screen.terminal.type("y")
    card = screen.wait_for_prompt("turntree on")
    screen.check("on", card, ["what came home", "each model call counted once", "next: turntree"])
    proof.note("from nothing to the card", time.monotonic() - began, "s")
    # Asked before the handoff below, which is a transcript of its own to the next import.
    _hold_against(proof, screen.ask("turntree on --yes --json")["tally"], files)
    found = screen.run(f"turntree search {REMEMBERED}", shows=["Northgate", "next: turntree show"])
    hit = SHORT.search(found)
    short = hit[1] if hit else "none"
    screen.run(f"turntree show {short}", shows=["ledger.py", "children"])
    screen.run(
        f"turntree handoff {short} --to codex",
        shows=["is a session of codex now", "1 tool call", "codex resume"],
    )
    spent = time.monotonic() - began
    limit = LIMIT_QUICK_S if proof.quick else LIMIT_S
    proof.at_most("from an empty home to a search hit and a checkout", spent, "s", limit, of="time")
    proof.at_least("sessions written for codex", len(screen.written(".codex")), "files", 1)
    screen.run("turntree stats", shows=["tokens a", "each call once"])
    proof.at_most("commands that did not show what they should", len(screen.wrong), "", 0)


def _hold_against(proof: Proof, tally: dict[str, Any], files: list[Path]) -> None:
    """Compare the card's figures with plain sums over the files."""
    naive, calls, lines = 0, dict[str, int](), 0
    for message, size in _usages(files):
        naive += size
        calls[message] = max(calls.get(message, 0), size)
        lines += 1
    once = sum(calls.values())
    proof.note("model calls, and lines that tell of one", len(calls), f"calls in {lines} lines")
    proof.at_most("tokens of the card less those of the files", abs(tally["tokens"] - once), "", 0)
    repeated = abs(tally["tokens_repeated"]["claude-code"] - (naive - once))
    proof.at_most("tokens counted again, card less files", repeated, "", 0)
    proof.at_most("sessions less files", abs(tally["sessions"] - len(files)), "", 0)
    proof.at_least("calls without a result, repaired", tally["calls_repaired"], "calls", 1)
    proof.at_least("sessions the tool deletes soon", tally["sessions_deleted_soon"], "sessions", 1)
    proof.note("stored to source", tally["bytes_after"]["total"] / tally["bytes_before"], "x")


def _usages(files: list[Path]) -> Iterator[tuple[str, int]]:
    for file in files:
        for line in file.read_bytes().splitlines():
            message = json.loads(line).get("message", {})
            if "usage" in message:
                yield message["id"], sum(message["usage"].get(name, 0) for name in COUNTED)


@dataclass(slots=True)
class Screen:
    """A person before a terminal, with an empty home."""

    place: Path
    typed: int = 0
    wrong: tuple[str, ...] = ()
    terminal: Terminal = field(init=False)

    def __post_init__(self) -> None:
        """Keep the terminal's socket beside everything else."""
        self.terminal = Terminal(self.place)

    @property
    def person(self) -> Path:
        """Where the person is at home."""
        return self.place / "person"

    def open(self) -> None:
        """Begin a shell in an empty folder, under tmux."""
        for folder in ("person", "work", "bin"):
            (self.place / folder).mkdir(exist_ok=True)
        command = self.place / "bin" / "turntree"
        python = shlex.quote(sys.executable)
        command.write_text(f'#!/bin/sh\nexec {python} -m turntree.cli.main "$@"\n')
        command.chmod(0o755)
        self.terminal.open(self.place / "work", self.environment)
        self.terminal.wait(lambda text: text.rstrip().endswith("[1] $"), "a shell")
        self.typed = 1

    def close(self) -> None:
        """End the server and the terminal."""
        if self.typed:
            subprocess.run(
                [self.place / "bin" / "turntree", "down"], env=self.environment, check=False,
                capture_output=True,
            )  # fmt: skip
            self.terminal.kill()

    def run(self, command: str, *, shows: list[str]) -> str:
        """Type a command, wait for its end and return what it showed."""
        self.terminal.type(command)
        shown = self.wait_for_prompt(command)
        self.check(command, shown, shows)
        return shown

    def wait_for_prompt(self, command: str) -> str:
        """Wait until a command has ended, and return what stands below it."""
        asked, again = f"[{self.typed}] $ {command}", f"[{self.typed + 1}] $"
        text = self.terminal.wait(lambda text: text.rstrip().endswith(again), command)
        self.typed += 1
        shown = text[text.rindex(asked) : text.rindex(again)]
        print(shown, file=sys.stderr)
        return shown

    def check(self, command: str, shown: str, shows: list[str]) -> None:
        """Note a command that did not show what it should."""
        if missing := [words for words in shows if words not in shown]:
            print(f"missing: {missing}", file=sys.stderr)
            self.wrong = (*self.wrong, command)

    def ask(self, command: str) -> dict[str, Any]:
        """Return the document that a command prints to a program."""
        told = subprocess.run(
            shlex.split(command), env=self.environment, cwd=self.place / "work", check=True,
            capture_output=True, executable=self.place / "bin" / "turntree",
        )  # fmt: skip
        document: dict[str, Any] = json.loads(told.stdout)
        return document

    def written(self, folder: str) -> list[Path]:
        """Return the sessions that lie in a tool's folder."""
        return [*(self.person / folder).rglob("*.jsonl")]

    @property
    def environment(self) -> dict[str, str]:
        """What the person's programs see."""
        return {
            "HOME": str(self.person),
            "TURNTREE_HOME": str(self.place / "home"),
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "PS1": r"[\#] $ ",
            "PAGER": "cat",
            "TERM": "screen-256color",
            "LANG": "C.UTF-8",
        }


if __name__ == "__main__":
    run(prove, __doc__ or "")
