"""Earlier names of commands and options: they still work, and a note names the new ones.

The arguments are rewritten before they are parsed, so that a command has one name in its own
module, in the help and in the completion.
"""

from collections.abc import Mapping
from typing import Final

COMMANDS: Final[Mapping[str, str]] = {
    "checkout": "handoff",
    "compare": "diff --stat",
    "context": "show --context",
    "embed": "index embed",
    "embed-stats": "index status",
    "identify": "session identify",
    "nodes": "tag find",
    "pin": "snapshot",
    "plans": "plan list",
    "resume": "handoff --open",
    "route": "send --dry-run",
    "similar": "search --like",
    "up": "on",
    "version": "--version",
    "watch": "import --follow",
    "hook drain": "hook sync",
    "program get": "program show",
    "session history": "log --messages",
    "session replay": "session reset",
    "session restore": "session unarchive",
    "session send": "send",
    "session usage": "stats --session",
}
"""Each earlier name, of one word or two. ``KIND move`` became ``KIND set-state``."""
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "export": {"--as": "--format"},
    "handoff": {"--as": "--to", "--in": "--to"},
    "human": {"--may": "--permission"},
    "import": {"--reproject": "--reparse"},
    "send": {"--fold": "--join", "--key": "--idempotency-key"},
    "token": {"--minutes": "--expires-in"},
    "worker": {"--at-once": "--concurrency"},
}
"""The earlier options of each command, by its first word."""
_HELP: Final = ("-h", "--help")


def rewrite(args: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return arguments under their new names, and each pair of an earlier and a new name."""
    renamed: list[tuple[str, str]] = []
    args = _rewrite_command(args, renamed)
    options = OPTIONS.get(args[0], {})
    for at, word in enumerate(args):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in options:
            renamed.append((name, options[name]))
            args[at] = f"{options[name]}{equals}{value}"
    return args, renamed


def _rewrite_command(args: list[str], renamed: list[tuple[str, str]]) -> list[str]:
    first, *rest = args
    pair = " ".join(args[:2])
    if first == "plans" and "--reconcile" in rest:
        renamed.append(("plans --reconcile", "plan resume"))
        return ["plan", "resume", *(word for word in rest if word != "--reconcile")]
    if first == "index" and (not rest or (rest[0].startswith("-") and rest[0] not in _HELP)):
        renamed.append(("index", "index build"))
        return ["index", "build", *rest]
    if len(args) > 1 and rest[0] == "move":
        renamed.append((pair, f"{first} set-state"))
        return [first, "set-state", *rest[1:]]
    name = pair if pair in COMMANDS else first
    if name not in COMMANDS:
        return list(args)
    renamed.append((name, COMMANDS[name]))
    rest = args[len(name.split()) :]
    if name == "route" and "--to" not in rest:
        rest = ["--to", "", *rest]  # All words are the message, and it decides where it goes.
    if name == "session usage":
        named = [word for word in rest if not word.startswith("-")] or ["HEAD"]
        chosen = [word for session in named for word in ("--session", session)]
        return ["stats", *chosen, *(word for word in rest if word.startswith("-"))]
    return [*COMMANDS[name].split(), *rest]
