"""Options shared by the commands for programs, and their parsers. Knows no program."""

import json
from typing import Any, Final

import click

from turntree.cli.param_types import PROGRAM
from turntree.core.canonical import Json


class _JsonText(click.ParamType[Json]):
    """A JSON document."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Json:
        """Parse the document."""
        try:
            document: Json = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value!r} is not JSON", param, ctx)
        return document


JSON: Final = _JsonText()


def invoke_options() -> list[click.Option]:
    """Return the options of an invocation."""
    return [
        click.Option(["--message", "-m"], help="Message to send."),
        click.Option(["--input"], type=JSON, help="Complete request, as JSON."),
        click.Option(["--model"], type=PROGRAM, help="Model to use, this time."),
        click.Option(["--stream"], is_flag=True, help="Output as it arrives."),
    ]


def config_options() -> list[click.Option]:
    """Return the options that set any member of a config."""
    return [
        click.Option(["--config"], type=JSON, help="Complete config, as JSON."),
        click.Option(
            ["--set", "sets"],
            multiple=True,
            metavar="MEMBER=VALUE",
            help="Member to set by its path, as harness/max_steps=5; an empty value removes it.",
        ),
    ]


def read_sets(sets: tuple[str, ...]) -> dict[str, Json]:
    """Return the members that ``--set`` names, each parsed as JSON, or else as text."""
    members: dict[str, Json] = {}
    for one in sets:
        way, equals, text = one.partition("=")
        if not equals or not way:
            raise click.UsageError(f"{one!r} sets nothing: write MEMBER=VALUE")
        try:
            members[way] = json.loads(text) if text else None
        except ValueError:
            members[way] = text
    return members
