"""Earlier names of commands and options, and the two lists of commands."""

import shlex

import click
import pytest
from click.shell_completion import ShellComplete

from tests.cli.conftest import Call
from turntree.cli.aliases import COMMANDS, OPTIONS, rewrite
from turntree.cli.root import COMMANDS as SHOWN
from turntree.cli.root import MAIN_SECTIONS, root

MAIN = [
    *("ui", "log", "show", "search", "diff", "blame", "why", "verify"),
    *("ps", "fork", "switch", "rewind", "undo"),
    *("files", "revert", "pick", "redo", "worktree", "snapshot"),
    *("chat", "send", "tail", "cancel", "inbox", "approve", "reject", "edit", "answer"),
    *("compact", "conversation"),
    *("import", "handoff", "export", "share", "pr", "push", "pull", "remote"),
    *("hook", "mcp"),
    *("on", "off", "status", "doctor", "config"),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("checkout HEAD --as codex", "handoff HEAD --to codex"),
        ("checkout HEAD --as=codex", "handoff HEAD --to=codex"),
        ("resume main~3 --in codex", "handoff --open main~3 --to codex"),
        ("plans --all", "plan list --all"),
        ("plans --reconcile --json", "plan resume --json"),
        ("index", "index build"),
        ("index --rebuild", "index build --rebuild"),
        ("embed HEAD --text x", "index embed HEAD --text x"),
        ("route login drops it", "send --dry-run --to '' login drops it"),
        ("route --to main hello", "send --dry-run --to main hello"),
        ("session usage", "stats --session HEAD"),
        ("session usage a b --json", "stats --session a --session b --json"),
        ("session send main hi --fold", "send main hi --join"),
        ("agent move atlas idle", "agent set-state atlas idle"),
        ("human create ana --may approve", "human create ana --permission approve"),
        ("send main -- --key", "send main -- --key"),
        ("index status", "index status"),
        ("index --help", "index --help"),
        ("log --all", "log --all"),
    ],
)
def test_arguments_are_rewritten(old: str, new: str) -> None:
    assert rewrite(shlex.split(old))[0] == shlex.split(new)


@pytest.mark.parametrize("new", COMMANDS.values())
def test_every_new_name_exists(new: str) -> None:
    words = new.split()
    at: click.Command = root
    while isinstance(at, click.Group) and not words[0].startswith("--"):
        below = at.get_command(click.Context(at), words.pop(0))
        assert below is not None
        at = below
        if not words:
            return
    context = click.Context(at)
    assert words[0] in {name for param in at.get_params(context) for name in param.opts}


@pytest.mark.parametrize("command", OPTIONS)
def test_every_new_option_exists(command: str) -> None:
    at = root.get_command(click.Context(root), command)
    assert at is not None
    context = click.Context(at)
    commands = [at]
    if isinstance(at, click.Group):
        below = [at.get_command(context, name) for name in at.list_commands(context)]
        commands = [one for one in below if one is not None]
    known = {name for one in commands for param in one.params for name in param.opts}
    assert set(OPTIONS[command].values()) <= known


def test_an_earlier_name_works_and_a_note_names_the_new_one(reader: Call) -> None:
    answer = reader("compare", "demo/opus", "demo/fix-login")
    assert answer.code == 0
    assert answer.err.splitlines()[0] == "compare is called diff --stat now"
    assert answer.out == reader("diff", "--stat", "demo/opus", "demo/fix-login").out


def test_an_earlier_option_works_and_a_note_names_the_new_one(reader: Call) -> None:
    answer = reader("export", "HEAD", "--as", "md")
    assert answer.err.splitlines()[0] == "--as is called --format now"
    assert answer.out == reader("export", "HEAD", "--format", "md").out


@pytest.mark.parametrize("words", [("--json", "nodes"), ("nodes", "--json")])
def test_json_output_comes_without_a_note(reader: Call, words: tuple[str, ...]) -> None:
    answer = reader(*words)
    assert (answer.code, answer.err) == (0, "")


def test_help_lists_the_main_commands_and_help_all_the_others(bare: Call) -> None:
    listed = [name for name, entry in SHOWN.items() if entry.section in MAIN_SECTIONS]
    assert listed == MAIN
    short, everything = bare("--help").out, bare("help", "--all").out
    assert short.endswith("More commands: turntree help --all\n")
    for name in SHOWN:
        assert f"\n  {name} " in everything
        assert (f"\n  {name} " in short) == (name in MAIN)
    for old in COMMANDS:
        assert f"\n  {old} " not in everything


def test_help_of_a_command_is_its_help_page(bare: Call) -> None:
    assert bare("help", "index", "build").out == bare("index", "build", "--help").out
    assert bare("help", "index", "nothing").code == 2


@pytest.mark.parametrize(("args", "offered"), [(["index"], "build"), (["plan"], "resume")])
def test_completion_offers_the_commands_of_a_group(
    args: list[str], offered: str, capsys: pytest.CaptureFixture[str]
) -> None:
    complete = ShellComplete(root, {}, "turntree", "_TURNTREE_COMPLETE")
    assert offered in {one.value for one in complete.get_completions(args, "")}
    assert capsys.readouterr().err == ""


def test_no_main_command_is_also_an_earlier_name() -> None:
    assert not set(COMMANDS) & set(SHOWN)
