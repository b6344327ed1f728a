"""Hints of errors as commands: each action has a command, and each command exists."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.architecture.source import is_command, modules, texts
from tests.cli.conftest import Answer, Call
from tests.cli.hint_runner import HintRunner, list_hints
from tests.cli.talker import furnish
from turntree.cli.harmless import harmless
from turntree.cli.hints import COMMANDS, command_for, command_hint
from turntree.cli.root import root
from turntree.core.errors import Hint, NotFound
from turntree.system.shell_words import positional

ROOT = Path(__file__).parents[2]
KINDS = {"kind": "agent"}


def used_actions() -> set[str]:
    """Return the actions that the Python and SQL sources name."""
    found = {
        str(call.args[0].value)
        for path, tree in modules().items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Hint"
        and isinstance(call.args[0], ast.Constant)
    }
    for path, text in texts().items():
        if path.suffix == ".sql":
            found.update(re.findall(r"'action', '([a-z_.]+)'", text))
    return found


def test_every_action_that_is_used_has_a_command() -> None:
    assert used_actions() - COMMANDS.keys() == set()


def test_every_action_in_the_list_is_used() -> None:
    source = "".join(text for path, text in texts().items() if not is_command(path))
    unused = {action for action in COMMANDS if f'"{action}"' not in source}
    assert unused - used_actions() == set()


@pytest.mark.parametrize("action", COMMANDS)
def test_every_command_of_a_hint_exists(action: str) -> None:
    for command in re.findall(r"turntree ((?:(?! {5}).)+)", COMMANDS[action]):
        words = command.replace("{kind}", "agent").split()
        at: click.Command = root
        context = click.Context(root)
        # A group such as ``inbox`` is also a command.
        while isinstance(at, click.Group) and (words or not at.invoke_without_command):
            below = at.get_command(context, words.pop(0))
            assert below is not None, command
            at = below
        known = {"--help", *(name for param in at.params for name in param.opts)}
        assert {word for word in words if word.startswith("--")} <= known


def test_arguments_are_quoted_for_a_shell() -> None:
    hint = Hint("session.fork", {"revision": ":/two words"})
    assert command_for(hint) == "turntree fork ':/two words' LABEL"


NASTY = (
    "two words", "it's", '"quoted"', "$(touch trace)", "`touch trace`", "a; touch trace", "-x",
    "--help", "--", "*", "~", "!!", "#no", "a\nb", "a\x1b]52;c;eA==\x07b", "a\u202eb\u200bc",
    "\\", "\\n", "é", "日本", "", "a\tb", "\x1b[2Jq'q\\",
)  # fmt: skip


@pytest.mark.parametrize("word", NASTY)
def test_a_word_is_what_a_shell_makes_of_its_quotes(word: str, tmp_path: Path) -> None:
    line = f"printf '%s\\0' {positional(word, 'last')}"
    shown = harmless(line)
    assert shown == line, "nothing in it is taken out before it is printed"
    printed = subprocess.run(
        ["bash", "-c", shown.replace("printf '%s\\0' --", "printf '%s\\0'")],
        capture_output=True, check=True, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    ).stdout  # fmt: skip
    assert printed.decode().split("\0")[:-1] == [word, "last"]
    assert not (tmp_path / "trace").exists()


def test_a_tag_of_any_characters_can_be_undone_by_its_hint(planted: Call) -> None:
    def undo(answer: Answer) -> Answer:
        (hint,) = list_hints("", answer.err)
        script = f'turntree() {{ printf "%s\\0" "$@"; }}; {hint.text}'
        words = subprocess.run(
            ["bash", "-c", script], capture_output=True, check=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        ).stdout.decode().split("\0")[:-1]  # fmt: skip
        return planted(*words)

    def tags() -> set[str]:
        return {one["tag"] for one in planted("tag", "list", "HEAD", "--json").documents}

    before = tags()
    for number, word in enumerate(word for word in NASTY if word.strip()):
        add = ("tag", "add", "HEAD") if number % 2 else ("tag", "HEAD")
        added = planted(*add, "--", word)
        assert added.code == 0, added.err
        removed = undo(added)
        assert tags() == before, word
        assert undo(removed).code == 0, word
        assert tags() == {*before, word}
        assert planted("tag", "remove", "HEAD", "--", word).code == 0


def test_an_undo_of_a_setting_is_quoted_and_never_shows_a_password(bare: Call) -> None:
    before = "http://[::1]:9/$(touch trace) it's"
    assert bare("config", "set", "embedder_url", before).code == 0
    changed = bare("config", "set", "embedder_url", "http://127.0.0.1:9")
    (hint,) = list_hints("", changed.err)
    assert shlex.split(hint.text) == ["turntree", "config", "set", "embedder_url", before]
    assert bare("config", "set", "console_url", "postgresql://a:hunter2@h/d").code == 0
    masked = bare("config", "set", "console_url", "postgresql://a:other@h/d")
    assert "undo with" not in masked.err
    assert "hunter2" not in masked.err


def test_an_undo_of_a_new_place_names_a_folder_with_a_space(
    turntree: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "my work $(touch trace)"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = turntree("init")
    (undo,) = [one for one in list_hints("", made.err) if one.sign == "undo with"]
    subprocess.run(["bash", "-c", undo.text], check=True)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("printed", "fault"),
    [
        ("next: turntree show HEAD", None),
        ("next: turntree shwo HEAD", "there is no command 'shwo'"),
        ("next: turntree show nothing", "exit code 3"),
        ("next: turntree show HEAD --no-such-option", "exit code 2"),
        ("next: turntree fork HEAD new --no-such-option", "No such option"),
        ("next: look at the other sessions", "the shell says"),
        ("undo with: turntree rewind main NOBODY", "there is no NOBODY"),
        ("undo with: turntree show 'HEAD", "the shell says"),
        ("undo with: turntree session unarchive demo/fix-login     next: turntree log", None),
        ("done     undo with: turntree fork HEAD demo/opus", "exit code 1"),
        ("next: turntree chat --bogus", "No such option"),
        ("next: turntree chat", None),
        ("next: turntree send demo/fix-login MESSAGE", None),
        ("next: turntree send @(nobody) MESSAGE", "the shell says"),
        ("next: turntree send '@(nobody)' MESSAGE", "exit code 3"),
        ("next: turntree rerun nothing", "exit code 3"),
        ("next: turntree tail -f nothing", "exit code 1"),
        ("next: turntree tail -f HEAD", None),
        ("next: turntree worker --tools nothing:here", "exit code"),
        ("next: turntree agent assign AGENT nothing", "exit code 3"),
        ("next: turntree search --like nothing", "exit code 3"),
        ("undo with: turntree worktree --remove /nowhere", "exit code"),
        ("next: turntree erase nothing", "exit code 3"),
    ],
)
def test_a_planted_hint_that_does_not_work_is_noticed(
    planted: Call, hints: HintRunner, printed: str, fault: str | None
) -> None:
    del planted
    hints.follow(["test", printed], 0, "", f"{printed}\n")
    hints.finish()
    noticed = [*hints.failures]
    hints.failures.clear()
    assert len(noticed) == (0 if fault is None else 1), noticed
    assert fault is None or fault in noticed[0]


PROCESS = """
from click import echo
echo("next: turntree status     turntree nonsense", err=True)
echo("undo with: turntree session archive main", err=True)
"""


def test_the_hints_of_a_process_are_followed(
    turntree: Call, hints: HintRunner, tmp_path: Path
) -> None:
    assert turntree("session", "create", "main").code == 0
    records = tmp_path / "records"
    subprocess.run(
        [sys.executable, "-c", PROCESS, "process"], check=True, stderr=subprocess.DEVNULL,
        env={**os.environ, "HINT_RECORDS": str(records)},
    )  # fmt: skip
    hints.remember(records)
    hints.finish()
    (failure,) = hints.failures
    assert "after `turntree process`: next: turntree nonsense" in failure
    hints.failures.clear()
    assert {"process|turntree status", "process|turntree session archive main"} <= hints.seen


@pytest.mark.slow
def test_hints_to_talk_are_followed(turntree: Call, hints: HintRunner) -> None:
    furnish(turntree, [{"when": "broken", "replies": [{"failures": [{"kind": "denied"}]}]}])
    assert turntree("chat", "main").code == 0
    assert turntree("log", "main", "--messages").code == 0
    assert turntree("send", "main", "Hello", "--no-wait").code == 0
    assert turntree("status").code == 0
    assert turntree("task", "create", "Say something", "--name", "greeting").code == 0
    command = command_for(Hint("agent.assign", {"task": "greeting"}))
    hints.follow(["task", "start"], 1, "", f"next: {command}\n")
    assert turntree("send", "main", "broken").code == 1
    assert turntree("log", "main").code == 0
    assert turntree("provider", "configure", "script", "--set", "rules=[]").code == 0
    hints.finish()
    followed = {key.split("|")[1] for key in hints.seen - {*hints.unproven}}
    assert {
        "turntree chat main", "turntree send main MESSAGE", "turntree tail -f #",
        "turntree worker", "turntree agent assign AGENT greeting", "turntree rerun #",
    } <= followed  # fmt: skip


NODES = """
import pytest
from tests.hint_report import HINTS

@pytest.mark.parametrize("number", range(4))
def test_hint(number, request):
    seen, unproven = request.config.stash.setdefault(HINTS, (set(), {}))
    unproven["never"] = "test_hint"
    # One process leaves it, and the other one follows it.
    if request.config.workerinput["workerid"] == "gw0":
        unproven["elsewhere"] = "test_hint"
    else:
        seen.add("elsewhere")
"""


def judge_hints(outcomes: Path, *options: str) -> tuple[int, str]:
    """Return what CI finds in the file to which runs of pytest have added what they know."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.hint_report", str(outcomes), *options],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout


def test_a_hint_that_no_process_followed_is_listed_and_fails_the_whole_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.hint_report import *\n")
    (tmp_path / "test_nodes.py").write_text(NODES)
    outcomes = tmp_path / "hints"
    nothing, told = judge_hints(outcomes, "--at-most", "9")
    assert (nothing, "no run of pytest followed a hint" in told) == (1, True)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "load", "-c", "/dev/null",
         "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TURNTREE_HINT_OUTCOMES": str(outcomes)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    listed = [line for line in ended.stdout.splitlines() if "never followed" in line]
    assert listed == ["hint never followed: never   (test_hint)"]
    code, told = judge_hints(outcomes)
    assert (code, told.splitlines()) == (1, [*listed, "kinds of hints that were never followed: 1"])
    assert judge_hints(outcomes, "--at-most", "1")[0] == 0
    # Tests that are unsteady run once more alone, and may follow what was left.
    with outcomes.open("a") as file:
        file.write(json.dumps([["never"], {}]) + "\n")
    assert judge_hints(outcomes) == (0, "kinds of hints that were never followed: 0\n")


STEPS = """\
next: turntree on        import what your agents have kept
      turntree log HEAD     what was said
      (no step)
next: cd demo
      turntree show HEAD
"""


def test_steps_below_a_hint_are_hints_too() -> None:
    assert [hint.text for hint in list_hints("", STEPS)] == [
        "turntree on", "turntree log HEAD", "cd demo", "cd demo; turntree show HEAD",
    ]  # fmt: skip


def test_a_list_becomes_a_repeated_option() -> None:
    hint = Hint("human.permit", {"human": "bob", "permission": ["approve", "assign"]})
    wanted = "turntree human configure bob --permission approve --permission assign"
    assert command_for(hint) == wanted


def test_a_command_is_shown_as_it_is() -> None:
    assert command_for(command_hint("turntree log 'a b'")) == "turntree log 'a b'"


@pytest.mark.parametrize("hint", [Hint("moon.visit"), Hint("session.fork")])
def test_a_hint_of_another_version_shows_no_command(hint: Hint) -> None:
    assert command_for(hint) is None


def test_a_hint_survives_its_document() -> None:
    hint = Hint("human.permit", {"human": "bob", "permission": ["approve"]})
    assert Hint.from_json(hint.to_json()) == hint
    assert Hint.from_json({"human": "bob"}) is None
    assert Hint.from_json(None) is None


def test_an_error_carries_its_hint_beside_its_message() -> None:
    error = NotFound("there is no session 'x'", hint=Hint("session.list"))
    assert (str(error), error.hint) == ("there is no session 'x'", Hint("session.list"))
    assert NotFound("nothing").hint is None
