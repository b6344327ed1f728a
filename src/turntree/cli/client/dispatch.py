"""Which commands work over a server, and with which of their options.

A command is the same on both ways: its name, its options and what it prints. Here is only what is
different, which is where it reads and what it cannot do. This module is imported by every command
that is called with a server, and must stay small.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

import click
from click.core import ParameterSource

from turntree.cli.command import Terminal
from turntree.cli.hints import OF_OTHERS, command_hint
from turntree.core.errors import Hint, NotFound, TurntreeError, Unsupported
from turntree.core.value import value


@value
class ServedCommand:
    """A command that works over a server."""

    module: str
    function: str
    params: frozenset[str] = frozenset()
    """The arguments and options that it takes there."""


def _served(module: str, function: str, *params: str) -> ServedCommand:
    return ServedCommand(module, function, frozenset(params))


COMMANDS: Final[Mapping[str, ServedCommand]] = {
    "log": _served("history", "log", "revisions", "limit", "since", "level"),
    "show": _served("history", "show", "revision", "level"),
    "search": _served("history", "search", "words", "limit"),
    "fork": _served("sessions", "fork", "names"),
    "rewind": _served("sessions", "rewind", "words", "before"),
    "undo": _served("sessions", "undo", "session"),
    "session list": _served("sessions", "list_sessions", "everything", "tool", "since"),
    "session show": _served("sessions", "show_session", "name"),
    "session create": _served("sessions", "create_session", "label"),
    "session rename": _served("sessions", "rename_session", "name", "label"),
    "session archive": _served("sessions", "archive_sessions", "names"),
    "session unarchive": _served("sessions", "unarchive_sessions", "names"),
    "send": _served(
        "talk", "send", "session", "words", "target", "model", "situation", "agent", "prompt",
        "fold", "key", "wait", "stream", "no_worker", "instead",
    ),
    "tail": _served("talk", "tail", "what", "follows", "count", "seconds"),
    "cancel": _served("talk", "cancel", "what", "discard", "wait"),
    "conversation post": _served("conversations", "post", "name", "text", "to", "key", "wait"),
    "why": _served("conversations", "why", "revision"),
    "inbox": _served("inbox", "list_notices", "everything", "limit"),
    "inbox read": _served("inbox", "read_notices", "ids", "everything"),
    "member list": _served("accounts", "list_members"),
    "member add": _served("accounts", "add_member", "name", "role"),
    "member role": _served("accounts", "set_role", "name", "role"),
    "member remove": _served("accounts", "remove_member", "name"),
    "invitation list": _served("accounts", "list_invitations", "everything"),
    "invitation create": _served("accounts", "create_invitation", "invitee", "role", "days"),
    "invitation revoke": _served("accounts", "revoke_invitation", "id"),
    "key list": _served("accounts", "list_keys", "everything"),
    "key create": _served("accounts", "create_key", "name", "allow", "agent", "days"),
    "key revoke": _served("accounts", "revoke_key", "id", "reason"),
}  # fmt: skip
HERE: Final = frozenset({
    "completion", "help", "version",
    "config", "config list", "config get", "config set", "config add", "config unset",
    "key store", "key forget",
})  # fmt: skip
"""Commands that concern this machine alone, and so mean the same with a server."""
EITHER: Final = frozenset({
    "approve", "reject", "edit", "answer",
    "conversation list", "conversation show", "conversation create", "conversation log",
    "conversation add", "conversation remove", "conversation leave", "conversation fork",
    "conversation erase", "conversation set-state", "conversation set-triage",
    "webhook create", "webhook list", "webhook show", "webhook rotate", "webhook pause",
    "webhook resume", "webhook delete", "webhook deliveries", "webhook resend",
    "trigger create", "trigger list", "trigger show", "trigger rotate", "trigger pause",
    "trigger resume", "trigger delete", "trigger firings",
})  # fmt: skip
"""Commands that ask the server themselves, and take all their options there."""
_NO_COMMAND: Final = "none"
"""An action without a command, which keeps an error from suggesting one of this machine."""
_GAP: Final = " " * 5
"""What stands between the commands of a hint."""


def find_served(context: click.Context, terminal: Terminal) -> Callable[[], object] | None:
    """Return what runs a command over its server; None if it runs here.

    Raises:
        Unsupported: The command, or one of its options, does not work over a server.
    """
    name = context.command_path.partition(" ")[2]
    if name in HERE or name in EITHER:
        return None
    command = COMMANDS.get(name)
    if command is None:
        raise refusal(name)
    for param in context.command.params:
        is_chosen = context.get_parameter_source(str(param.name)) in (
            ParameterSource.COMMANDLINE,
            ParameterSource.ENVIRONMENT,
        )
        if is_chosen and param.expose_value and param.name not in command.params:
            raise refusal(f"{name} {param.opts[0]}" if param.opts[0][0] == "-" else name)
    given = {name: text for name, text in context.params.items() if name in command.params}
    return partial(_run, command, terminal, given)


def run_home(terminal: Terminal) -> None:
    """Run what the program does without a command: list the sessions."""
    _run(COMMANDS["session list"], terminal, {})


def _run(command: ServedCommand, terminal: Terminal, given: Mapping[str, Any]) -> object:
    module = import_module(f"turntree.cli.client.{command.module}")
    act: Callable[..., object] = getattr(module, command.function)
    try:
        return act(terminal, **given)
    except TurntreeError as error:
        error.hint = choose_hint(error, terminal)
        raise


def choose_hint(error: TurntreeError, terminal: Terminal) -> Hint:
    """Return the hint of an error with those of its commands that work over a server."""
    from turntree.cli.root import next_command

    commands = [one for one in (next_command(error) or "").split(_GAP) if _works(one)]
    if not commands and isinstance(error, NotFound):
        commands = ["turntree session list"]
    # Without a command, an action that stands for none.
    return command_hint(terminal.address(_GAP.join(commands))) if commands else Hint(_NO_COMMAND)


def _works(command: str) -> bool:
    name, *words = command.removeprefix(OF_OTHERS).split() or [""]
    if name != "turntree":
        return bool(name)  # Such as chmod.
    return any(
        " ".join(words[:count]) in {*COMMANDS, *HERE, *EITHER} for count in (1, 2)
    ) and not any(word in ("--all", "--graph") and words[0] == "log" for word in words)


def refusal(what: str) -> Unsupported:
    """Return the error that something does not work over a server."""
    return Unsupported(
        f"{what} does not work over a server\n"
        "use it where the database is, without --server and TURNTREE_SERVER"
    )
