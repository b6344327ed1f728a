"""``completion`` and ``version``, for shells and scripts."""

import platform

import click
from click.shell_completion import get_completion_class

import turntree
from turntree.cli.command import Terminal, verb

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


@verb()
def version(terminal: Terminal) -> None:
    """Print the version."""
    if terminal.as_json:
        terminal.document({"turntree": turntree.__version__, "python": platform.python_version()})
    else:
        terminal.say(f"turntree {turntree.__version__}")
