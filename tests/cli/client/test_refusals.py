"""What does not work over a server says so, and a key is kept to its owner."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Call
from turntree.cli.client.dispatch import COMMANDS, HERE
from turntree.cli.root import root

URL = "https://turntree.example.net/w/team"
NOWHERE = "http://127.0.0.1:9/w/team"


@pytest.fixture
def away(bare: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line with a server that does not answer."""
    monkeypatch.setenv("TURNTREE_SERVER", NOWHERE)
    monkeypatch.setenv("TURNTREE_KEY", "ttk_none")
    return bare


def find_command(name: str) -> click.Command:
    command: click.Command = root
    context = click.Context(root)
    for word in name.split():
        assert isinstance(command, click.Group), name
        found = command.get_command(context, word)
        assert found is not None, name
        command = found
    return command


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_table_names_commands_and_parameters_that_exist(name: str) -> None:
    params = {param.name for param in find_command(name).params if param.expose_value}
    assert COMMANDS[name].params <= params


@pytest.mark.parametrize("name", sorted(HERE - {"version"}))
def test_commands_of_this_machine_exist(name: str) -> None:
    find_command(name)


@pytest.mark.parametrize(
    "words",
    ["diff main other", "files", "chat", "stats", "sql", "worker", "tag list", "remote",
     "log --graph", "log --all", "why main", "rewind main~1 --files", "fork main x --agent atlas",
     "send main hello --attach pyproject", "search x --semantic", "show --context",
     "session list --here", "session create x --private", "member password"],
)  # fmt: skip
def test_command_that_does_not_work_over_a_server_says_so(away: Call, words: str) -> None:
    Path("pyproject").touch()
    answer = away(*words.split())
    assert answer.code == 1
    first, second = answer.err.splitlines()
    assert first.startswith(f"error: {words.split(maxsplit=1)[0]}")
    assert first.endswith("does not work over a server")
    assert "without --server" in second


@pytest.mark.parametrize("words", ["config list", "help", "--version", "--help", "log --help"])
def test_command_of_this_machine_ignores_the_server(away: Call, words: str) -> None:
    assert away(*words.split()).code == 0


def test_server_that_does_not_answer_is_code_five_without_a_local_hint(away: Call) -> None:
    answer = away("log")
    assert answer.code == 5
    assert "cannot be reached" in answer.err
    assert "next:" not in answer.err


def test_http_to_another_machine_is_refused_unless_the_setting_allows_it(
    away: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_SERVER", "http://192.0.2.1/w/team")
    answer = away("log")
    assert (answer.code, "unencrypted" in answer.err) == (1, True)
    assert "ttk_none" not in answer.err


def test_setting_of_the_file_is_a_server(bare: Call) -> None:
    assert bare("config", "set", "server", NOWHERE).code == 0
    refused = bare("log")
    assert (refused.code, f"key store {NOWHERE}" in refused.err) == (4, True)
    assert bare("config", "unset", "server").code == 0


def test_stored_key_is_read_by_its_owner_alone(bare: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [sys.executable, "-m", "turntree", "key", "store", f"{URL}/api/v1"]
    subprocess.run(words, input="ttk_mine\n", capture_output=True, text=True, check=True)
    path = Path(os.environ["TURNTREE_CONFIG"]).with_name("server-keys.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "ttk_mine" in path.read_text()
    monkeypatch.setenv("TURNTREE_SERVER", URL)
    path.chmod(0o644)
    refused = bare("log")
    assert (refused.code, "other users can read" in refused.err) == (1, True)
    path.chmod(0o600)
    forgotten = bare("key", "forget", URL)
    assert forgotten.code == 0
    assert "ttk_mine" not in path.read_text()
    assert bare("log").code == 4


def test_command_without_a_server_loads_no_client() -> None:
    code = (
        "import sys; from turntree.cli.root import root\n"
        "try: root.main(['log', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('turntree.client', 'turntree.cli.client',"
        " 'httpx2'))])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
