"""The commands of the how-to pages, typed on sample data, and the queries of the page about SQL."""

import json
import os
import pwd
import re
import shlex
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from proofs.corpus import Corpus
from proofs.sample_home import write_sample_home
from tests.cli.hint_runner import HintRunner
from tests.examples.test_documents import list_commands
from tests.examples.tutorial import ROOT, SLUG_UNFIT, Shell, check_again, reader, type_twice
from turntree.db.embedded.logins import CONSOLE, as_login

HOWTO = ROOT / "docs/howto"
QUERIES = re.compile(r"^```text\n(SELECT .*?)^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile("…[^…]+…")
TURNS = 5
PAGES = (
    "docs/howto/export.md",
    "docs/howto/share.md",
    "docs/howto/query-with-sql.md",
    "docs/howto/continue-in-another-tool.md",
    "docs/howto/give-your-agents-a-memory.md",
    "docs/reference/exit-codes.md",
)
PAGES_ABOUT_A_SERVER = (
    "docs/howto/back-up-and-restore.md",
    "docs/howto/upgrade.md",
    "docs/howto/uninstall.md",
)
HISTORY = ROOT / "docs/tutorial/your-history.md"
WITHOUT_OUTPUT = (
    "docs/howto/find-a-turn.md",
    "docs/howto/erase-a-message.md",
    "docs/howto/record-while-you-work.md",
    "docs/explanation/who-acts.md",
    "docs/reference/programs.md",
)
"""Pages that show commands and seldom what they print."""
ON_A_TERMINAL = ("turntree switch", "turntree member password")
"""Commands that ask a person."""
PLACEHOLDERS = re.compile(r"\b(?:e9177|CODE|TOKEN|ID|NONCE)\b")
REVOKE = re.compile(r"undo with: turntree \w+ revoke (\S+)")


@pytest.fixture
def shell(
    tmp_path: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> Shell:
    """A reader's machine with the sample data, a model that echoes, and a session with it."""
    reader(tmp_path, conninfo, monkeypatch)
    monkeypatch.setenv("TURNTREE_CONSOLE_URL", as_login(conninfo, CONSOLE))
    typed = Shell(tmp_path, monkeypatch, lambda _: "", hints=hints)
    Path("../samples").mkdir()
    typed.type("cd ../samples")
    slug = SLUG_UNFIT.sub("-", str(Path.cwd()))
    (tmp_path / "home/ana/.claude/projects" / slug).mkdir(parents=True)
    typed.type("turntree demo")
    typed.type("turntree provider create script --type scripted")
    typed.type("turntree model create echo --backend scripted-1 --provider script")
    for number in range(TURNS):
        typed.type(f"turntree send main 'Say {number}'")
    return typed


def test_the_commands_of_the_pages_print_what_they_show(shell: Shell) -> None:
    for page in PAGES:
        type_twice(shell, (ROOT / page).read_text(encoding="utf-8"), with_counts=False)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_commands_that_pages_show_without_output_can_be_typed_twice(shell: Shell) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        shell.patch.setenv(f"GIT_{who}_NAME", "Ana")
        shell.patch.setenv(f"GIT_{who}_EMAIL", "ana@example.org")
    Path("src/store").mkdir(parents=True)
    Path("src/store/sql.py").write_text("pass\n" * 20)
    for command in (
        "git init --quiet", "git add src", *["git commit --quiet --allow-empty -m work"] * 4,
        "git tag v1.4", "turntree agent create release-notes",
        "turntree model create fast --backend scripted-1 --provider script",
    ):  # fmt: skip
        shell.type(command, good=(0,))
    turn = json.loads(shell.type("turntree log --json")[0])["digest"].removeprefix("sha256:")[:8]
    for page in 2 * WITHOUT_OUTPUT:
        secret = id = ""
        for command in list_commands(ROOT / page):
            if command in ON_A_TERMINAL:
                continue
            words = {"e9177": turn, "CODE": secret, "TOKEN": secret, "ID": id, "NONCE": id}
            typed = PLACEHOLDERS.sub(lambda found: words[found[0]], command)  # noqa: B023
            lines = shell.type(typed, good=(0, 1, 3, 4, 5))
            if shell.code:
                check_again(command, lines)
            if command == "turntree switch --none":
                # What follows is about the same sessions.
                shell.type(lines[-1].removeprefix("undo with: "), good=(0,))
            if match := REVOKE.search("\n".join(lines)):
                secret, id = lines[0], match[1]


@pytest.fixture
def machine() -> Generator[Path]:
    """A folder that the embedded server can enter, too: its account may be another than ours."""
    place = Path(tempfile.mkdtemp(prefix="turntree-howtos-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def newcomer(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A reader's machine with Claude Code and without a server."""
    reader(machine, "", monkeypatch)
    for name in ("TURNTREE_DATABASE_URL", "TURNTREE_USER"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNTREE_HOME", str(machine / "home/ana/.local/share/turntree"))
    (machine / "home/ana/.claude").mkdir()
    return Shell(machine, monkeypatch, lambda _: "")


@pytest.mark.slow
def test_the_pages_about_a_server_of_ones_own_print_what_they_show(newcomer: Shell) -> None:
    (newcomer.root / "home/ana/.codex").mkdir()
    newcomer.type("turntree demo")
    newcomer.type("turntree hook install")
    for page in PAGES_ABOUT_A_SERVER:
        type_twice(newcomer, (ROOT / page).read_text(encoding="utf-8"), with_counts=False)


@pytest.mark.slow
def test_the_page_about_your_history_prints_what_it_shows(
    newcomer: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As wide as the terminal on the page.
    monkeypatch.setenv("COLUMNS", "80")
    write_sample_home(newcomer.root / "home/ana", Corpus(7), sessions=3, turns=4)
    page = HISTORY.read_text(encoding="utf-8")
    # A server of one's own knows its user by the name of the account.
    account = pwd.getpwuid(os.getuid()).pw_name
    text = re.sub(r"(?<!/)\bana\b", account, page)
    try:
        type_twice(newcomer, text, with_counts=False)
    finally:
        newcomer.type("turntree down")


def test_every_query_of_the_page_about_sql_runs(shell: Shell) -> None:
    page = (HOWTO / "query-with-sql.md").read_text(encoding="utf-8")
    _, queries = page.split("## Sessions, newest first")
    (head,) = shell.type(
        "turntree sql \"SELECT thread_id FROM sessions WHERE label = 'main'\" --json"
    )
    turn = json.loads(head)["thread_id"]
    for block in QUERIES.findall(queries):
        for query in block.split(";\n")[:-1]:
            told = shell.type(f"turntree sql {shlex.quote(PLACEHOLDER.sub(turn, query))}")
            assert not told or not told[0].startswith("error"), (query, told)
