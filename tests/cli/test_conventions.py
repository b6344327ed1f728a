"""Exit codes, streams, JSON, colours and start-up: what scripts rely on."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from psycopg.conninfo import make_conninfo

import turntree as package
from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner, list_hints
from turntree.cli.reference import write_reference
from turntree.cli.root import COMMANDS, root
from turntree.core.ids import short_id

ROOT = Path(__file__).parent.parent.parent
START_RATIO_MAX = 6
HEAVY = ("anyio", "asyncio", "click", "dataclasses", "psycopg", "rich", "turntree.boot.open")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["log"], 0),
        (["rewind", "demo/opus"], 1),
        (["fork", "HEAD", "demo/opus"], 1),
        (["log", "--no-such-option"], 2),
        (["no-such-command"], 2),
        (["log", "a b"], 2),
        (["tag", ""], 2),
        (["tag", "HEAD", ""], 2),
        (["export", "HEAD", "--format", "md", "--json"], 2),
        (["show", "nothing"], 3),
        (["switch", "nothing"], 3),
        (["log", "HEAD~100"], 3),
    ],
)
def test_the_exit_code_says_what_kind_of_end_it_was(
    reader: Call, words: list[str], code: int
) -> None:
    answer = reader(*words)
    assert answer.code == code
    if code:
        assert answer.out == ""
        assert answer.err.startswith("error: ")


def test_session_that_cannot_be_rewound_is_reset_by_its_hint(
    planted: Call, hints: HintRunner
) -> None:
    refused = planted("rewind", "demo/opus")
    assert refused.code == 1
    (line,) = (one.text for one in list_hints(refused.out, refused.err))
    hints.follow_in_shell(refused, line)
    newest = planted("log", "demo/opus", "--json").documents[0]["id"]
    assert planted("log", "demo/fix-login", "--json").documents[0]["id"] == newest


def test_an_ambiguous_prefix_lists_its_candidates(reader: Call) -> None:
    # An id begins with its time, so turns of one afternoon begin alike.
    newest = reader("log", "--json").documents[0]
    answer = reader("show", f"turn:{short_id(newest['id'])[:4]}")
    assert answer.code == 3
    assert "several turns" in answer.err


def test_an_unreachable_database_ends_with_five_and_hides_the_password(bare: Call) -> None:
    answer = bare("log")
    assert answer.code == 5
    assert answer.err.endswith("next: turntree doctor\n")
    for words in (["doctor"], ["config"], ["on", "--no-hooks"]):
        assert ":secret" not in bare(*words).out + bare(*words).err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"password": "hunter2"}, "wrong password for the user 'turntree' at "),
        ({"password": "", "passfile": "/dev/null"}, "no password is given for the user 'turntree'"),
        ({"dbname": "elsewhere"}, "there is no database 'elsewhere' at "),
        ({"user": "nemo", "password": "hunter2"}, "wrong password for the user 'nemo' at "),
    ],
)
def test_a_connection_that_fails_says_which_part_of_the_address_is_wrong(
    turntree: Call, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], sentence: str
) -> None:
    address = os.environ["TURNTREE_DATABASE_URL"]
    monkeypatch.setenv("TURNTREE_DATABASE_URL", make_conninfo(address, **change))
    answer = turntree("log")
    assert answer.code == 5
    assert answer.err.startswith(f"error: {sentence}")
    assert answer.err.endswith("\nnext: turntree config list\n")
    assert len(answer.err.splitlines()) == 2
    shown = answer.err + turntree("doctor").out + turntree("config", "list").out
    assert sentence in turntree("doctor").out
    assert "hunter2" not in shown


def test_a_server_that_is_not_there_is_named_without_the_password(bare: Call) -> None:
    answer = bare("log")
    assert answer.err.startswith("error: no server answers at 127.0.0.1:1: Connection refused\n")
    assert "secret" not in answer.err


def test_a_wrong_password_of_the_console_names_its_user(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = make_conninfo(os.environ["TURNTREE_CONSOLE_URL"], password="hunter2")
    monkeypatch.setenv("TURNTREE_CONSOLE_URL", address)
    answer = turntree("sql", "SELECT 1")
    assert answer.code == 5
    assert answer.err.startswith("error: wrong password for the user 'turntree_console' at ")
    assert "hunter2" not in answer.err


def test_an_address_that_is_none_is_no_traceback(
    bare: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_DATABASE_URL", "garbage")
    assert bare("status").code == 5


def test_a_misspelt_command_is_answered_with_the_nearest(reader: Call) -> None:
    assert reader("lgo").err == "error: there is no command 'lgo'\nnext: turntree log\n"


def test_nearest_command_to_server_is_serve(turntree: Call) -> None:
    assert turntree("server", "status").err.endswith("next: turntree serve\n")


def test_lists_are_one_document_a_line_with_stable_keys(reader: Call) -> None:
    assert reader("log", "--json").documents[0].keys() == {
        "id", "digest", "parent", "depth", "kind", "outcome", "reason", "asker", "by", "model",
        "provider", "started_at", "sealed_at", "tokens", "title", "sessions", "tags",
    }  # fmt: skip
    assert reader("session", "list", "--json").documents[0].keys() == {
        "id", "label", "head", "head_digest", "depth", "status", "version", "created_at",
        "updated_at", "worked_at", "aliases", "origin", "spawned_by", "current", "visibility",
        "title", "folder", "files",
    }  # fmt: skip
    assert reader("reflog", "--json").documents[0].keys() == {
        "session", "version", "kind", "before", "before_digest", "after", "after_digest", "at",
        "by",
    }  # fmt: skip
    assert reader("tag", "--json").documents[0].keys() == {"tag", "turn", "digest"}


def test_a_single_thing_is_one_document(planted: Call) -> None:
    shown = planted("show", "HEAD", "--json").document
    assert {"header", "messages", "calls", "children", "held_by", "spawned"} < shown.keys()
    moved = planted("rewind", "HEAD~1", "--json").document
    assert moved["undo"] == "turntree undo demo/fix-login"
    assert planted("verify", "--json").document["verified"] == 6
    assert planted("version", "--json").document["turntree"] == package.__version__


def test_a_group_that_does_something_takes_json_too(bare: Call) -> None:
    told = bare("config", "--json").documents
    assert (
        told
        == bare("config", "list", "--json").documents
        == bare("config", "--json", "list").documents
    )
    assert {"key", "value"} <= told[0].keys()


def test_what_every_command_takes_may_stand_before_its_name(reader: Call) -> None:
    assert reader("--json", "log").documents == reader("log", "--json").documents
    assert reader("--ascii", "log", "--graph").out == reader("log", "--graph", "--ascii").out


def test_every_command_takes_json_and_says_what_it_does() -> None:
    for path, command in list_commands(root, "turntree"):
        options = [name for param in command.params for name in param.opts]
        if not isinstance(command, click.Group):
            assert "--json" in options, path
        assert command.help, path


def test_the_table_of_commands_uses_the_commands_own_words() -> None:
    context = click.Context(root)
    for name, entry in COMMANDS.items():
        command = root.get_command(context, name)
        assert command is not None
        assert (command.help or "").split("\n", maxsplit=1)[0] == entry.help


def test_help_imports_no_command() -> None:
    code = "import sys\nfrom turntree.cli.root import root\n"
    code += "try: root(['--help'])\nexcept SystemExit: pass\n"
    code += "assert 'turntree.boot.open' not in sys.modules and 'psycopg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_reading_loads_nothing_that_only_taking_turns_needs() -> None:
    code = "import sys\nfrom turntree.cli.root import root\n"
    code += "try: root(['log'])\nexcept SystemExit as ended: assert not ended.code\n"
    code += "import json; print(json.dumps(sorted(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules = set(json.loads(told.stdout.splitlines()[-1]))
    assert "psycopg" in modules
    assert modules & {"dbos", "sqlalchemy", "pydantic", "pydantic_ai", "httpx", "numpy"} == set()


def test_the_version_is_told_without_loading_the_rest() -> None:
    code = "import sys\nfrom turntree.cli.main import main\nsys.argv[1:] = ['--version']\nmain()\n"
    code += "import json; print(json.dumps(sorted(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    version, modules = told.stdout.splitlines()
    assert version == f"turntree {package.__version__}"
    assert set(HEAVY) & set(json.loads(modules)) == set()


def test_the_version_is_told_at_once() -> None:
    bare = [sys.executable, "-c", "pass"]
    asked = [sys.executable, "-m", "turntree.cli.main", "--version"]
    # Processor time, and the least of several: whatever else the machine does is not in it.
    pairs = [(seconds(bare), seconds(asked)) for _ in range(7)]
    assert min(b for _, b in pairs) <= START_RATIO_MAX * min(a for a, _ in pairs)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(bare: Call, shell: str) -> None:
    assert "_TURNTREE_COMPLETE" in bare("completion", shell).out


def test_labels_are_completed(reader: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TURNTREE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "turntree switch demo/o")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert reader().out == "plain,demo/opus\n"


def test_colours_are_for_those_who_want_them(reader: Call) -> None:
    assert "\x1b[" not in reader("log").out
    colored = reader("log", "--color", "always").out
    assert "\x1b[1m" in colored
    assert click.unstyle(colored) == reader("log").out


def test_the_reference_is_fresh() -> None:
    written = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert written == write_reference(), "python -m turntree.cli.reference > docs/reference/cli.md"


def list_commands(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    context = click.Context(group)
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append((f"{path} {name}", command))
        if isinstance(command, click.Group):
            found += list_commands(command, f"{path} {name}")
    return found


def seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
