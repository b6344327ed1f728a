"""``help``, ``completion`` and ``version``."""

import platform

import click
from click.shell_completion import get_completion_class

import turntree
from turntree.cli.command import Terminal, verb
from turntree.cli.root import SHOWS_ALL

VARIABLE = "_TURNTREE_COMPLETE"


@verb()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, terminal: Terminal, shell: str) -> None:
    """Print the completion script for a shell.

    For bash: eval "$(turntree completion bash)". It completes commands, options and labels.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these three"
    source = found(context.find_root().command, {}, "turntree", VARIABLE)
    # Not source.source(): for bash it starts bash, only to warn about versions before 4.4.
    script = source.source_template % source.source_vars()
    if terminal.as_json:
        terminal.document({"shell": shell, "script": script})
    else:
        terminal.say(script)


@verb("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.option("--all", "-a", "everything", is_flag=True, help="All commands.")
@click.pass_context
def help_(
    context: click.Context, terminal: Terminal, words: tuple[str, ...], everything: bool
) -> None:
    """Show the help of a command, or the list of commands."""
    at = context.find_root()
    for word in words:
        below = at.command.get_command(at, word) if isinstance(at.command, click.Group) else None
        if below is None:
            raise click.UsageError(f"there is no command {' '.join(words)!r}")
        at = click.Context(below, info_name=word, parent=at)
    at.meta[SHOWS_ALL] = everything
    terminal.page(at.get_help().splitlines())


@verb()
def version(terminal: Terminal) -> None:
    """Print the version."""
    if terminal.as_json:
        terminal.document({"turntree": turntree.__version__, "python": platform.python_version()})
    else:
        terminal.say(f"turntree {turntree.__version__}")
