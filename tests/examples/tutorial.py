"""Types the commands of a page one after the other and compares what they print with the page."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pexpect
import pytest
from click.testing import CliRunner

from proofs.agents.shop import CART
from proofs.screen import left_on_screen
from tests.cli.hint_runner import HintRunner
from turntree.cli.root import root

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
UNDO = ROOT / "docs/tutorial/undo-your-agent.md"
REVERT = ROOT / "docs/howto/undo-one-turn.md"
PULL_REQUEST = ROOT / "docs/howto/describe-a-pull-request.md"
WITH_AN_AGENT = ("", "Three things no other tool does")
"""The sections of the README whose commands need an agent that has worked in the folder."""
SECTION = re.compile(r"^## ", re.MULTILINE)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from one run to the next: digests, ids, models, prices, durations and ages.
DIGITS = re.compile(r"\b[0-9a-f]{7,8}\b")
VARYING = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{12}…[0-9a-f]{4}\b"), "DIGEST"),
    (DIGITS, "DIGITS"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\b"), "MOMENT"),
    (re.compile(r"\b\d\d-\d\d-\d\d\b|\b\d{4}[-/]\d\d[-/]\d\d\b"), "DAY"),
    (re.compile(r"\bT\d\d-\d\d-\d\d"), ""),
    (re.compile(r"\b\d{8}T\d{6}\b"), "MOMENT"),
    (re.compile(r"\bclaude-[a-z]+-[\d-]+\b|\bscripted-1\b"), "MODEL"),
    (re.compile(r"price unknown|\$\d+\.\d+"), "PRICE"),
    (re.compile(r"\b(\d+ min )?\d+(\.\d+)? m?s\b"), "TIME"),
    (re.compile(r"(?<=\S)\s{2,}"), "  "),
    (re.compile(r"\b(now|\d+[mhdw])\b"), "AGO"),
)
COUNT = (re.compile(r"\b\d[\d,.]*(?: [kMG]?B|[kM])?\b"), "NUMBER")
"""What differs from one release to the next, where a page is not about the figures."""
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ANSWER = re.compile(r"^(.*(?:\]|delete it|0 for none\)): )(\S+)$")
ANSWER_S = 60
FAILURE = re.compile(r"^\(?(?:error|failed)", re.MULTILINE)
SHELL_WORDS = frozenset({"|", ">", "<", "&&"})
SLUG_UNFIT = re.compile(r"[^A-Za-z0-9]")
NOT_FOUND = 3
"""How a command ends if what it is asked for does not exist."""
NOT_HERE = ("pip install", "pip uninstall")
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
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (f"{found[-1][0][:-1].rstrip()} {line.strip()}", [])
            else:
                found[-1][1].append(line)
    return found


def answers_in(shown: list[str]) -> dict[str, str]:
    """Return the questions among the lines that a command prints, with their answers."""
    return {found[1]: found[2] for line in shown if (found := ANSWER.search(line))}


def normal(lines: list[str], *, with_counts: bool = True) -> list[str]:
    told: list[str] = []
    for line in lines:
        plain = line
        for pattern, word in VARYING if with_counts else (*VARYING, COUNT):
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
    code: int = 0
    """How the last command ended."""
    hints: HintRunner | None = None
    """Follows what commands hint at."""

    def type(
        self,
        command: str,
        answers: Mapping[str, str] | None = None,
        *,
        good: Container[int] = (0, 1),
    ) -> list[str]:
        """Return what a command prints; the machine's own paths are a reader's.

        A command that is given answers asks its questions on a terminal.
        """
        words = shlex.split(command, comments=True)
        printed: str
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        if answers:
            events = {re.escape(question): f"{word}\n" for question, word in answers.items()}
            printed, self.code = pexpect.run(
                command, events=events, withexitstatus=True, encoding="utf-8", timeout=ANSWER_S,
                env={**os.environ, "PATH": path},
            )  # fmt: skip
            assert self.code in good, (command, printed)
            printed = "\n".join(STYLE.sub("", line) for line in left_on_screen(printed))
        elif words[0] == "turntree" and not SHELL_WORDS & {*words}:
            ended = CliRunner().invoke(root, words[1:], prog_name="turntree")
            assert ended.exit_code in good, (command, ended.output)
            printed, self.code = ended.output, ended.exit_code
            if self.hints is not None:
                self.hints.follow(words[1:], self.code, ended.stdout, ended.stderr)
        elif words[0] == "claude":
            printed = self.ask(words[1:])
        elif words[0] == "cd":
            self.patch.chdir(words[1])
            printed = ""
        elif command == "echo $?":
            printed = str(self.code)
        else:
            run = subprocess.run(
                ["bash", "-c", command],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                env={**os.environ, "PATH": path},
            )  # fmt: skip
            assert run.returncode in good, (command, run.stdout)
            printed, self.code = run.stdout, run.returncode
        # Claude Code makes a name of the folder, and this machine's is longer than a reader's.
        for here in (str(self.root), SLUG_UNFIT.sub("-", str(self.root))):
            printed = printed.replace(here, "")
        return printed.splitlines()


def reader(root: Path, conninfo: str, patch: pytest.MonkeyPatch) -> None:
    """Make a reader's machine of this one: a home, a project, and a database."""
    home = root / "home/ana"
    (home / "shop").mkdir(parents=True)
    (home / "shop/cart.py").write_text(CART)
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


def type_session(shell: Shell, text: str, *, with_counts: bool = True) -> dict[str, str]:
    """Type every command of a text and compare what it prints with what the text shows.

    Where a command names a digest that the text has shown before, the one that was printed there
    is typed. Returns these digests.
    """
    plain = partial(normal, with_counts=with_counts)
    session = read_session(text)
    assert session
    digests: dict[str, str] = {}
    for command, shown in session:
        if command.startswith(NOT_HERE):
            continue
        answers = answers_in(shown)
        typed = DIGITS.sub(lambda found: digests.get(found[0], found[0]), command)
        lines = shell.type(typed, answers, good=(0, 1, NOT_FOUND))
        told = "\n".join([command, *plain(lines)])
        wanted = [line for line in shown if line != "…"]
        if "…" in shown:
            # What was printed in its place is left out.
            cut = shown.index("…")
            lines = [*lines[:cut], *lines[len(lines) - len(wanted) + cut :]]
        assert plain(lines) == plain(wanted), told
        for here, there in zip(wanted, lines, strict=True):
            digests.update(zip(DIGITS.findall(here), DIGITS.findall(there), strict=False))
    return digests


def type_twice(shell: Shell, text: str, *, with_counts: bool = True) -> None:
    """Type a text as ``type_session`` does, and once more where the reader began."""
    start = Path.cwd()
    digests = type_session(shell, text, with_counts=with_counts)
    shell.patch.chdir(start)
    type_again(shell, text, digests)


def type_again(shell: Shell, text: str, digests: Mapping[str, str] | None = None) -> None:
    """Type every command of a text that was typed before: the reader meets no dead end.

    Other programs than ours may refuse: a folder exists, or there is nothing to commit.
    """
    for command, shown in read_session(text):
        if command.startswith(NOT_HERE):
            continue
        typed = DIGITS.sub(lambda found: (digests or {}).get(found[0], found[0]), command)
        answers = answers_in(shown)
        # A question may ask about less this time.
        agreed = {**answers, "[Y/n]: ": "y"} if answers else None
        is_ours = command.startswith(("turntree ", "claude "))
        good = (0, 1, NOT_FOUND) if is_ours else range(256)
        lines = shell.type(typed, agreed, good=good)
        if is_ours:
            check_again(command, lines)


def check_again(command: str, lines: list[str]) -> None:
    """Fail if a command was refused the second time and the reader is not shown what to do."""
    told = "\n".join([command, *lines])
    assert "next: " in told or not FAILURE.search(told), told
