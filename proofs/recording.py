"""The recording at the top of the README: eight commands, typed with a real Claude Code.

    python -m proofs.recording [--quick] [--write]

A home and a project are made, Turntree's own server starts in it, and each command of the README's
first session is typed on a terminal. The files have to be as the story says, and the committed
recordings have to show what was printed now. ``--write`` draws them anew.
"""

import html
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pexpect

from proofs.agents import claude
from proofs.agents.programs import ensure_claude
from proofs.agents.shop import CART, ROUNDED, SETTINGS, TESTED, rules
from proofs.agents.stage import Stage
from proofs.figures import Proof, run
from proofs.recording_svg import THEMES, Shown, draw
from proofs.screen import left_on_screen
from turntree.hooks.spool import FOLDER, Spool
from turntree.testing.scripted.server import ScriptedModel

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PICTURES = ROOT / "docs/images"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLUMNS, ROWS = 92, 40
DATA = ".local/share/turntree"
COMMANDS = 8
TIMEOUT_S = 120
POLL_S = 0.05
ANSWER = re.compile(r"^(.*\?.*[)\]]: )(\w+)$", re.MULTILINE)
"""A question of a command, with the answer that the README shows behind it."""
LEFT: Mapping[str, str] = {"cart.py": ROUNDED, "test_cart.py": TESTED}
"""The files at the end: the turn in the middle is taken back, the one after it is not."""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
TAG = re.compile(r"<[^>]+>")
VARYING = re.compile(
    r"\b(?:[0-9a-f]{8}){1,2}\b|\bprocess \d+|\b(?:now|\d+[smh])\b|[\d.,]+ ?[kM]?B\b|\s{2,}"
)
"""What differs from one run to the next: digests, process ids, ages and sizes."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A person with a home, a project and a real Claude Code."""

    root: Path
    environment: Mapping[str, str]

    @property
    def shop(self) -> Path:
        """The project."""
        return self.root / "home/ana/shop"

    def type(self, command: str, answers: Mapping[str, str]) -> tuple[list[str], int]:
        """Return the coloured lines that a command leaves on the screen, and its status."""
        printed, status = pexpect.run(
            f"bash -c {_quote(command)}", withexitstatus=True, encoding="utf-8",
            timeout=TIMEOUT_S, cwd=str(self.shop), env=dict(self.environment),
            dimensions=(ROWS, COLUMNS),
            events={re.escape(question): f"{word}\n" for question, word in answers.items()},
        )  # fmt: skip
        self._wait_until_read()
        lines = left_on_screen(printed.replace(str(self.root), ""))
        return [line.rstrip() for line in lines if STYLE.sub("", line).strip()], int(status)

    def _wait_until_read(self) -> None:
        """Wait until what the hooks reported is recorded, as a person does who reads an answer."""
        spool, until = Spool(self.root / "home/ana" / DATA / FOLDER), time.monotonic() + TIMEOUT_S
        while (spool.list_said() or spool.list_paths()) and time.monotonic() < until:
            time.sleep(POLL_S)


async def prove(proof: Proof) -> None:
    """Type the session, and judge it; everything here waits for other programs."""
    with reader() as person:
        record(proof, person)


@contextmanager
def reader() -> Generator[Reader]:
    """Make a home in which nothing but Claude Code is installed, and clean up after it."""
    root = Path(tempfile.mkdtemp(prefix="turntree-recording-"))
    # The embedded server's account may be another than ours, and must pass through.
    root.chmod(0o755)
    home = root / "home/ana"
    (home / "shop").mkdir(parents=True)
    (home / "shop/cart.py").write_text(CART, encoding="utf-8")
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(SETTINGS, encoding="utf-8")
    program = ensure_claude()
    (root / "bin").mkdir()
    (root / "bin/claude").symlink_to(program)
    with ScriptedModel(rules=rules()) as model:
        stage = Stage(program, root, model, claude.SCENE.settings(model.url))
        environment = {
            **stage.environment(),
            "HOME": str(home),
            "PATH": f"{root / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TURNTREE_HOME": str(home / DATA),
            "TURNTREE_CONFIG": str(root / "config.toml"),
            "TURNTREE_PAGER": "cat",
            "TERM": "xterm-256color",
        }
        person = Reader(root, environment)
        try:
            yield person
        finally:
            person.type("turntree off; turntree down", {})
            stage.end_all()
            shutil.rmtree(root, ignore_errors=True)


def record(proof: Proof, person: Reader) -> None:
    """Type what the README shows, and compare."""
    session = read_session()
    failed: list[str] = []
    shown: list[Shown] = []
    differing = 0
    for command, told in session:
        lines, status = person.type(command, dict(ANSWER.findall("\n".join(told))))
        shown.append(Shown(command, lines))
        plain = [STYLE.sub("", line) for line in lines]
        wrong = _plain(plain) != _plain(told)
        differing += wrong
        if status != 0:
            failed.append(command)
        if status != 0 or wrong:
            print(f"$ {command}   [{status}]", *plain, sep="\n", file=sys.stderr)
    left = {
        path.name: path.read_text(encoding="utf-8")
        for path in person.shop.iterdir()
        if path.suffix == ".py"
    }
    proof.at_most("commands typed", len(session), "commands", COMMANDS)
    proof.at_most("commands that failed", len(failed), "commands", 0)
    proof.at_most("commands that print something else than the README", differing, "commands", 0)
    proof.at_most("files that are not as the story says", _count_wrong(left), "files", 0)
    if "write" in proof.flags:
        for theme in THEMES:
            _picture(theme).write_text(draw(shown, theme), encoding="utf-8")
    missing = sum(_count_missing(_picture(theme), shown) for theme in THEMES)
    proof.at_most("lines that a recording does not show", missing, "lines", 0)


def read_session() -> list[tuple[str, list[str]]]:
    """Return the commands of the README's first session, each with what it prints."""
    found: list[tuple[str, list[str]]] = []
    block = BLOCK.search(README.read_text(encoding="utf-8"))
    for line in block[1].splitlines() if block else ():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def _picture(theme: str) -> Path:
    return PICTURES / f"eight-commands-{theme}.svg"


def _count_wrong(left: Mapping[str, str]) -> int:
    return sum(left.get(name) != LEFT.get(name) for name in {*left, *LEFT})


def _count_missing(picture: Path, shown: Sequence[Shown]) -> int:
    if not picture.exists():
        return len(shown)
    rows = TAG.sub("", picture.read_text(encoding="utf-8").replace("</text>", "\n"))
    there = {*_plain(html.unescape(rows).replace("\xa0", " ").splitlines())}
    wanted = [line for one in shown for line in (f"$ {one.command}", *one.lines)]
    return sum(line not in there for line in _plain([STYLE.sub("", line) for line in wanted]))


def _plain(lines: Sequence[str]) -> list[str]:
    return [VARYING.sub(" ", line).strip() for line in lines if line.strip()]


def _quote(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    run(prove, "the README's recording", {"write": "draw the recordings anew"})
