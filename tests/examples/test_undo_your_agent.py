"""The pages about undoing an agent, typed with the real Claude Code and a scripted model."""

import os
import shlex
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from proofs.agents import claude
from proofs.agents.programs import ensure_claude
from proofs.agents.shop import SETTINGS, rules
from proofs.agents.stage import Stage
from tests.cli.conftest import Answer
from tests.cli.hint_runner import HintRunner
from tests.examples.tutorial import (
    PULL_REQUEST,
    README,
    REVERT,
    UNDO,
    WITH_AN_AGENT,
    Shell,
    answers_in,
    read_sections,
    read_session,
    reader,
    type_again,
    type_session,
    type_twice,
)
from turntree.hooks.spool import FOLDER, Spool
from turntree.testing.scripted.server import ScriptedModel

pytestmark = pytest.mark.slow
AGENT_TIMEOUT_S = 120


@pytest.fixture
def shell(
    tmp_path: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> Generator[Shell]:
    """A reader's machine on which Claude Code is installed."""
    with ScriptedModel(rules=rules()) as model:
        reader(tmp_path, conninfo, monkeypatch)
        stage = Stage(ensure_claude(), tmp_path, model, claude.SCENE.settings(model.url))
        # The reader's home is the agent's, and so is the Turntree that both talk to.
        own = {name: value for name, value in os.environ.items() if name.startswith("TURNTREE_")}

        spool = Spool(tmp_path / "kept" / FOLDER)

        def ask(words: list[str]) -> str:
            environment = {**stage.environment(), "HOME": os.environ["HOME"], **own}
            ended = subprocess.run(
                [stage.program, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=AGENT_TIMEOUT_S,
            )
            assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
            wait_until_read(spool)
            return ended.stdout

        # Where a hint starts the tool, the real one is told one thing more, and ends.
        bin_ = tmp_path / "bin"
        bin_.mkdir()
        variables = {**stage.environment(), "HOME": os.environ["HOME"], **own}
        words = ["exec", "env", *(f"{name}={text}" for name, text in variables.items())]
        words += [str(stage.program), "-p", "Thanks"]
        (bin_ / "claude").write_text(f'#!/bin/sh\n{shlex.join(words)} "$@"\n')
        (bin_ / "claude").chmod(0o755)
        yield Shell(tmp_path, monkeypatch, ask, hints=hints)
        stage.end_all()


def wait_until_read(spool: Spool) -> None:
    """A command waits for hooks by itself, though not as long as a busy machine may take."""
    until = time.monotonic() + AGENT_TIMEOUT_S
    while spool.list_said() or spool.list_paths():
        assert time.monotonic() < until, spool.last_error()
        time.sleep(0.05)


def test_the_tutorial_shows_what_happens(shell: Shell) -> None:
    start = Path.cwd()
    digests = type_session(shell, UNDO.read_text(encoding="utf-8"))
    # After a rewind and its undo, the session that was rewound follows its agent again.
    shell.type("cd ../shop")
    shell.type('claude -c -p "Make it faster" --permission-mode acceptEdits')
    newest, *older = shell.type("turntree log")
    assert "(HEAD -> claude-code/" in newest
    assert "Make it faster" in newest
    assert len(older) == len(("round", "test", "faster"))
    go_on_in_the_agent(shell)
    shell.patch.chdir(start)
    type_again(shell, UNDO.read_text(encoding="utf-8"), digests)


def go_on_in_the_agent(shell: Shell) -> None:
    """Type what a rewind and its undo hint at: the real Claude Code goes on from there."""
    assert shell.hints is not None
    lines = {one.hint.text for one in shell.hints.pending}
    (line,) = (one for one in lines if one.endswith("--open"))
    with shell.patch.context() as patch:
        patch.setenv("PATH", f"{shell.root / 'bin'}:{os.environ['PATH']}")
        shell.hints.follow_in_shell(Answer(0, "", f"next: {line}"), line)


def test_the_page_about_pull_requests_shows_what_happens(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ana")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ana@example.org")
    text = PULL_REQUEST.read_text(encoding="utf-8")
    type_twice(shell, text, with_counts=False)


def test_the_page_about_one_turn_shows_what_happens(shell: Shell) -> None:
    type_twice(shell, REVERT.read_text(encoding="utf-8"))


def test_readme_with_an_agent_prints_what_it_shows(shell: Shell) -> None:
    # Claude Code has been used before, so that `turntree on` finds it, and may edit files.
    settings = Path(os.environ["HOME"], ".claude/settings.json")
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    sections = read_sections(README)
    # The proof `recording` compares the first session: `turntree on` starts a server of its own.
    for command, shown in read_session(sections[""]):
        shell.type(command, answers_in(shown))
    digests = type_session(shell, sections[WITH_AN_AGENT[1]])
    type_again(shell, "".join(sections[name] for name in WITH_AN_AGENT), digests)
