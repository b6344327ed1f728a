"""The options of a revert or pick, apart from what carries it out, so that help loads little."""

import click

from turntree.cli.command import Function


def merge_options(function: Function) -> Function:
    """Add the options of a revert or pick."""
    for add in (
        click.option("--yes", "-y", is_flag=True, help="No confirmation before files change."),
        click.option("--dry-run", is_flag=True,
                     help="Preview of the changes to files; nothing is done."),
        click.option("--mark", "default", flag_value="mark",
                     help="Conflicts marked in the file, with both versions."),
        click.option("--exact", "default", flag_value="exact",
                     help="Conflicts decided for the turn's version, over what was changed since."),
        click.option("--keep", "default", flag_value="keep",
                     help="Conflicts decided for what is there now."),
    ):  # fmt: skip
        function = add(function)
    return function
