"""The command line reference, generated from the commands.

``python -m turntree.cli.reference > docs/reference/cli.md``; a test compares the two.
"""

import inspect
from collections.abc import Iterator

import click

from turntree.cli import aliases
from turntree.cli.command import Command
from turntree.cli.root import COMMANDS, root

PREAMBLE = """\
# The command line

This page is generated: `python -m turntree.cli.reference > docs/reference/cli.md`.

Data goes to stdout and messages to stderr. With `--json` a command prints one document, or one per
line for a list. There are two exceptions: `config` alone takes no options, so ask `config list
--json`; and `export` writes what `--format` says, which is JSON unless it is `md` or `html`.
Colours appear on a terminal only, and never if `NO_COLOR` is set. `log` and `show` use a pager on a
terminal: `TURNTREE_PAGER`, `PAGER`, or `less -FRX`.

`turntree --help` lists the commands of the first six sections, and `turntree help --all` lists all.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a check failed, two things differ, or the ledger refused |
| 2 | wrong usage |
| 3 | not found, or ambiguous |
| 4 | denied |
| 5 | the database cannot be reached |
| 130 | stopped by the user |

A `REV` is a session (`main`), the beginning of a turn's digest (`e9177`), an ancestor (`main~3`),
an earlier head of a session (`main@{2}`, `main@{yesterday}`), words of a message (`:/redirect`), a
part (`main:tool/2`, `main:msg/0`), or `HEAD`, the current session: `TURNTREE_SESSION`, or what
`.turntree/HEAD` in the nearest folder above says, or the session that last worked in this folder,
or `main`, or the only active session.
"""
SHARED = """\
## Options of every command

"""


EARLIER_NAMES = """\
## Earlier names

These still work, and print a line that names the new one.

| earlier | now |
|---|---|
"""


def write_reference() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    context = click.Context(root, info_name="turntree")
    yield PREAMBLE
    section = ""
    for name, entry in COMMANDS.items():
        if entry.section != section:
            section = entry.section
            yield f"## {section}\n"
        command = root.get_command(context, name)
        assert command is not None, "it stands in the table"
        yield from _command(command, context, "###")
    yield SHARED + _option_table(_options(Command("any")))
    renamed = [*aliases.COMMANDS.items(), ("KIND move", "KIND set-state")]
    for word, options in aliases.OPTIONS.items():
        renamed += [(f"{word} {old}", f"{word} {new}") for old, new in options.items()]
    yield EARLIER_NAMES + "".join(f"| `{old}` | `{new}` |\n" for old, new in renamed)


def _command(command: click.Command, parent: click.Context, heading: str) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    yield f"{heading} {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    own = [option for option in _options(command) if option.expose_value]
    if own:
        yield _option_table(own)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, "it was just listed"
            if not below.hidden:
                yield from _command(below, context, heading + "#")


def _options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option)]


def _option_table(options: list[click.Option]) -> str:
    lines = ["| option | meaning |", "|---|---|"]
    for option in options:
        names = "`, `".join([*option.opts, *option.secondary_opts])
        value = "" if option.is_flag else f" {option.make_metavar(click.Context(root))}"
        shows = option.show_default and not option.is_flag
        default = f" Default: {option.default}." if shows else ""
        cells = (f"`{names}{value}`", f"{option.help}{default}")
        lines.append("| {} | {} |".format(*(cell.replace("|", "\\|") for cell in cells)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    click.echo(write_reference(), nl=False)
