"""Hints of errors as commands: each action has a command, and each command exists."""

import ast
import re

import click
import pytest

from tests.architecture.source import is_command, modules, texts
from turntree.cli.hints import COMMANDS, command_for, command_hint
from turntree.cli.root import root
from turntree.core.errors import Hint, NotFound

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
    for command in re.findall(r"turntree ((?:(?!, ).)+)", COMMANDS[action]):
        words = command.replace("{kind}", "agent").split(" if ")[0].split()
        at: click.Command = root
        context = click.Context(root)
        while isinstance(at, click.Group):
            below = at.get_command(context, words.pop(0))
            assert below is not None, command
            at = below
        known = {"--help", *(name for param in at.params for name in param.opts)}
        assert {word for word in words if word.startswith("--")} <= known


def test_arguments_are_quoted_for_a_shell() -> None:
    hint = Hint("session.fork", {"revision": ":/two words"})
    assert command_for(hint) == "turntree fork ':/two words' LABEL"


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
