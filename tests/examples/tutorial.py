"""Types the commands of a page one after the other and compares what they print with the page."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from turntree.cli.root import root

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
UNDO = ROOT / "docs/tutorial/undo-your-agent.md"
WITH_AN_AGENT = ("", "Three things no other tool does")
"""The sections of the README whose commands need an agent that has worked in the folder."""
SECTION = re.compile(r"^## ", re.MULTILINE)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from one run to the next: digests, ids, models, prices, durations and ages.
VARYING = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{7,8}\b"), "DIGITS"),
    (re.compile(r"\b\d\d-\d\d-\d\d\b|\b\d{4}[-/]\d\d[-/]\d\d\b"), "DAY"),
    (re.compile(r"\bT\d\d-\d\d-\d\d"), ""),
    (re.compile(r"\bclaude-[a-z]+-[\d-]+\b|\bscripted-1\b"), "MODEL"),
    (re.compile(r"price unknown|\$\d+\.\d+"), "PRICE"),
    (re.compile(r"\b\d+(\.\d+)? m?s\b"), "TIME"),
    (re.compile(r"(?<=\S)\s{2,}"), "  "),
    (re.compile(r"\b(now|\d+[mh])\b"), "AGO"),
)
SLUG_UNFIT = re.compile(r"[^A-Za-z0-9]")
NOT_HERE = ("pip install",)
"""Commands that belong to a reader's machine."""


Session = list[tuple[str, list[str]]]


def read_sections(page: Path) -> dict[str, str]:
    """Return the text of each section by its heading; the text before the first one by ""."""
    first, *others = SECTION.split(page.read_text(encoding="utf-8"))
    return {"": first, **{other.splitlines()[0]: other for other in others}}


def read_session(text: str) -> Session:
    """Return every command of a text with what it is said to print."""
    found: Session = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def normal(lines: list[str]) -> list[str]:
    told: list[str] = []
    for line in lines:
        plain = line
        for pattern, word in VARYING:
            plain = pattern.sub(word, plain)
        told.append(plain.rstrip())
    return told


@dataclass(slots=True)
class Shell:
    """Types commands, one after the other, in a folder that ``cd`` changes."""

    root: Path
    patch: pytest.MonkeyPatch
    ask: Callable[[list[str]], str]
    """Has the agent do what it is told, and returns what it prints."""

    def type(self, command: str) -> list[str]:
        """Return what a command prints; the machine's own paths are a reader's."""
        words = shlex.split(command)
        if words[0] == "turntree":
            ended = CliRunner().invoke(root, words[1:], prog_name="turntree")
            assert ended.exit_code in (0, 1), (command, ended.output)
            printed = ended.output
        elif words[0] == "claude":
            printed = self.ask(words[1:])
        elif words[0] == "cd":
            self.patch.chdir(words[1])
            printed = ""
        else:
            printed = subprocess.run(
                ["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=True
            ).stdout
        # Claude Code makes a name of the folder, and this machine's is longer than a reader's.
        for here in (str(self.root), SLUG_UNFIT.sub("-", str(self.root))):
            printed = printed.replace(here, "")
        return printed.splitlines()


def reader(root: Path, conninfo: str, patch: pytest.MonkeyPatch) -> None:
    """Make a reader's machine of this one: a home, a project, and a database."""
    home = root / "home/ana"
    (home / "shop").mkdir(parents=True)
    (home / "shop/cart.py").write_text("def total(lines):\n    return sum(lines)\n")
    for name in [name for name in os.environ if name.startswith("TURNTREE_")]:
        patch.delenv(name)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        patch.delenv(name, raising=False)
    for name, value in {
        "HOME": str(home),
        "TURNTREE_DATABASE_URL": conninfo,
        "TURNTREE_HOME": str(root / "kept"),
        "TURNTREE_CONFIG": str(root / "config.toml"),
        "TURNTREE_USER": "ana",
        "COLUMNS": "100",
    }.items():
        patch.setenv(name, value)
    patch.chdir(home / "shop")


def type_session(shell: Shell, text: str) -> None:
    """Type every command of a text and compare what it prints with what the text shows."""
    session = read_session(text)
    assert session
    for command, shown in session:
        if command.startswith(NOT_HERE):
            continue
        printed = normal(shell.type(command))
        told = "\n".join([command, *printed])
        if "…" in shown:
            cut = shown.index("…")
            tail = normal(shown[cut + 1 :])
            assert printed[:cut] == normal(shown[:cut]), told
            assert not tail or printed[-len(tail) :] == tail, told
        else:
            assert printed == normal(shown), told
