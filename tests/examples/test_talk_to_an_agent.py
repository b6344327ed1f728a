"""The page about talking to an agent, typed with a scripted model in the vendor's place."""

import os
import re
import shlex
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.hint_runner import HintRunner, begin_and_end
from tests.conftest import WORKSPACE
from tests.examples.tutorial import (
    FAILURE,
    NOT_HERE,
    ROOT,
    Shell,
    check_again,
    normal,
    read_session,
    reader,
)
from turntree.cli.root import root
from turntree.testing.scripted.server import Call, Reply, Rule, ScriptedModel

PAGE = ROOT / "docs/howto/talk-to-an-agent.md"
NOTES = " ".join(["word"] * 100)
RULES = (
    Rule((Reply("The one in the resolver: it is where the path is made."),), prompt="two fixes"),
    Rule(
        (Reply("", (Call("write", {"name": "NOTES.md", "text": NOTES}),)), Reply("Written.")),
        prompt="Write NOTES.md",
    ),
    Rule((Reply("Understood."),)),
)
KITCHEN = """
def convert(cups: float) -> float:
    \"\"\"Convert cups to millilitres.\"\"\"
    return cups * 236.6


TOOLS = [convert]
"""
FILES = """
from pathlib import Path


def write(name: str, text: str) -> str:
    \"\"\"Write a file.\"\"\"
    Path(name).write_text(text)
    return "written"


TOOLS = [write]
"""
PROMPT = re.compile(r"^main>\s*(.*)$")
# What a worker has in its name: its machine, its process and a random part.
WORKER = re.compile(r"^\S+(?= answers in)")


@pytest.fixture
def shell(
    tmp_path: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> Generator[Shell, None, None]:
    """A reader's machine with a vendor's key, two modules of tools, and a change not committed."""
    reader(tmp_path, conninfo, monkeypatch)
    typed = Shell(
        tmp_path, monkeypatch, lambda words: pytest.fail(f"no agent here: {words}"), hints=hints
    )
    Path("kitchen.py").write_text(KITCHEN, encoding="utf-8")
    Path("files.py").write_text(FILES, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "--intent-to-add", "cart.py"], check=True)
    with ScriptedModel(rules=RULES) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        monkeypatch.setenv("VENDOR_URL", model.url)
        host = model.url.removeprefix("http://")
        typed.type(f"turntree config add secret_hosts ANTHROPIC_API_KEY@{host}")
        yield typed


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_page_can_be_typed_twice_and_prints_what_it_shows(shell: Shell) -> None:
    for is_first in (True, False):
        for command, shown in read_session(PAGE.read_text(encoding="utf-8")):
            if command.startswith(NOT_HERE):
                continue
            lines = type_here(shell, command, shown)
            told = "\n".join([command, *lines])
            if not is_first:
                check_again(command, lines)
            elif shown:
                assert plain(lines) == plain(shown), told
            else:
                assert not FAILURE.search(told), told
    assert Path("NOTES.md").read_text(encoding="utf-8") == NOTES


def plain(lines: list[str]) -> list[str]:
    """Return lines without what differs between two readers, or between a page and a pipe."""
    kept = [line for line in lines if not line.startswith(("main>", "go on with:"))]
    # The databases of tests have a workspace of their own beside the reader's.
    kept = [line.replace(f": {WORKSPACE}, default", ": default") for line in kept]
    return normal([WORKER.sub("WORKER", line) for line in kept], with_counts=False)


def type_here(shell: Shell, command: str, shown: list[str]) -> list[str]:
    """Return what a command prints; what never ends is ended, and a chat gets what is typed."""
    words = shlex.split(command)
    if words[1:2] == ["chat"]:
        typed = [found[1] for line in shown if (found := PROMPT.match(line))]
        ended = CliRunner().invoke(root, words[1:], input="\n".join(typed), prog_name="turntree")
        return ended.output.splitlines()
    if words[1:2] == ["worker"] or words[1:3] == ["tail", "-f"]:
        _, printed = begin_and_end(words[1:])
        lines = printed.splitlines()
        # The page ends where the reader ends it.
        return lines[: len(shown)] if shown else lines
    if words[1:3] == ["provider", "create"]:
        command = f"{command} --base-url {os.environ['VENDOR_URL']}"
    return shell.type(command)
