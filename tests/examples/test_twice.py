"""Every published example runs, and runs again in the same environment: a reader tries twice."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.hint_runner import begin_and_end
from tests.examples.test_agent_in_five_minutes import PAGE as FIVE_MINUTES
from tests.examples.test_conversation_in_five_minutes import PAGE as CONVERSATION
from tests.examples.test_deploy_for_a_team import PAGE as TEAM
from tests.examples.test_documents import list_commands
from tests.examples.test_give_an_agent_tools import PAGE as AGENT_TOOLS
from tests.examples.test_howtos import HISTORY, PAGES_ABOUT_A_SERVER, WITHOUT_OUTPUT
from tests.examples.test_howtos import PAGES as SAMPLED
from tests.examples.test_talk_to_an_agent import PAGE as TALK
from tests.examples.tutorial import NOT_HERE, PULL_REQUEST, README, REVERT, UNDO, read_session
from tests.examples.tutorial import reader as prepare_reader
from turntree.cli.root import root
from turntree.testing.scripted.server import Reply, ScriptedModel

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(page.read_text(encoding="utf-8"))
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SCRIPT_TIMEOUT_S = 60
FIRST_MINUTE = ROOT / "docs/tutorial/first-minute.md"
VIEWER = ROOT / "docs/howto/add-a-viewer.md"
TOUR = ROOT / "docs/tutorial/look-around.md"
PAGE_IN_A_BROWSER = ROOT / "docs/howto/ui.md"
TYPED = {
    README, UNDO, REVERT, PULL_REQUEST, FIVE_MINUTES, CONVERSATION, HISTORY, TALK, FIRST_MINUTE,
    VIEWER, TOUR, AGENT_TOOLS,
    *(ROOT / page for page in (*SAMPLED, *PAGES_ABOUT_A_SERVER)),
}  # fmt: skip
"""The pages whose commands the tests of this folder type, each twice in one environment."""
NOT_TYPED = {
    "docs/howto/approve-from-anywhere.md": "its requests wait in the tests of approvals",
    "docs/howto/connect-an-mcp-server.md": "a test of its own types its commands",
    "docs/howto/judge-your-agents.md": "it needs coding agents, which the proof judge runs",
    "docs/howto/write-a-policy.md": "the tests of policies type its commands",
    "docs/howto/connect-a-model.md": "asks vendors; the page about agents does so with a script",
    "docs/howto/hear-about-it.md": "its commands need a mail server, which the tests of mail have",
    "docs/explanation/how-triage-decides.md": "the tests of triage type its commands to agents",
    "docs/howto/let-messages-in.md": "its messages need a server, which the tests of triggers have",
    "docs/howto/add-a-program-kind.md": "its commands come with a package of the reader's own",
    "docs/howto/watch-a-server.md": "its commands need a receiver, which the tests of figures have",
    "docs/howto/write-a-provider.md": "its provider comes with a package of the reader's own",
}


def program_of(page: Path) -> str:
    """Return the blocks of a page as one program, each at the line where the page has it."""
    text = page.read_text(encoding="utf-8")
    program = ""
    for block in BLOCK.finditer(text):
        start = text.count("\n", 0, block.start(1))
        program += "\n" * (start - program.count("\n")) + block[1]
    return program


@pytest.fixture
def reader(conninfo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine of a reader, who has a database of their own and is in an empty folder."""
    for name in [name for name in os.environ if name.startswith("TURNTREE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNTREE_DATABASE_URL", conninfo)
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "kept"))
    monkeypatch.setenv("TURNTREE_USER", "ana")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_run_twice(page: Path, reader: None) -> None:
    program = compile(program_of(page), str(page), "exec")
    for _ in range(2):
        exec(program, {"__name__": "__main__"})  # noqa: S102


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_twice(example: Path, reader: None) -> None:
    for answer in ("Three degrees.", "Still three degrees."):
        with ScriptedModel([Reply(answer)]) as model:
            names = {"OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{model.url}/v1"}
            ended = subprocess.run(
                [sys.executable, str(example)],
                env={**os.environ, **names}, capture_output=True, text=True, check=False,
                timeout=SCRIPT_TIMEOUT_S,
            )  # fmt: skip
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{answer}\n", "")


def read_commands(page: Path) -> list[str]:
    """Return the commands of a page that can be typed where there is no reader."""
    session = read_session(page.read_text(encoding="utf-8"))
    return [command for command, _ in session if not command.startswith(NOT_HERE)]


def test_every_page_with_commands_is_typed() -> None:
    pages = {page for page in (README, *(ROOT / "docs").rglob("*.md")) if read_commands(page)}
    assert pages == TYPED


def test_every_page_that_shows_a_command_of_ours_is_typed_or_says_why_not() -> None:
    pages = {page for page in (README, *(ROOT / "docs").rglob("*.md")) if list_commands(page)}
    typed = {*TYPED, PAGE_IN_A_BROWSER, TEAM, *(ROOT / page for page in WITHOUT_OUTPUT)}
    assert pages - typed == {ROOT / page for page in NOT_TYPED}


def test_the_commands_of_the_first_minute_can_be_typed_twice(
    conninfo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepare_reader(tmp_path, conninfo, monkeypatch)
    start = Path.cwd()
    for is_first in (True, False):
        monkeypatch.chdir(start)
        for command in read_commands(FIRST_MINUTE):
            words = shlex.split(command)
            if words[0] == "cd":
                monkeypatch.chdir(words[1])
            elif words[0] == "mkdir":
                Path(words[-1]).mkdir(exist_ok=not is_first)
            else:
                ended = CliRunner().invoke(root, words[1:], prog_name="turntree")
                # Only the name of a fork is taken, and then the reader is shown what to do.
                is_taken = words[1] == "fork" and "next: " in ended.output and not is_first
                assert ended.exit_code == 0 or is_taken, (command, ended.output)


@pytest.mark.slow
def test_the_commands_of_the_page_about_viewers_can_be_typed_twice(
    reader: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "true")
    *builds, page = read_commands(VIEWER)
    # Building takes minutes, and CI does so anyway, with the same words.
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert builds
    assert [command for command in builds if f".venv/bin/{command}" not in ci] == []
    for _ in range(2):
        code, printed = begin_and_end(shlex.split(page)[1:])
        assert code in (0, -signal.SIGTERM), printed
        assert "http://127.0.0.1" in printed


@pytest.mark.slow
def test_the_commands_of_the_tour_can_be_typed_twice(
    conninfo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepare_reader(tmp_path, conninfo, monkeypatch)
    monkeypatch.setenv("BROWSER", "true")
    (tmp_path / "tour").mkdir()
    monkeypatch.chdir(tmp_path / "tour")
    commands = [*list_commands(PAGE_IN_A_BROWSER), *read_commands(TOUR)]
    assert "turntree demo" in commands
    for command in 2 * commands:
        words = shlex.split(command)[1:]
        if words[0] == "ui":
            code, printed = begin_and_end(words)
            assert code in (0, -signal.SIGTERM), printed
            assert "http://127.0.0.1" in printed
        else:
            ended = CliRunner().invoke(root, words, prog_name="turntree")
            assert ended.exit_code == 0, (command, ended.output)
