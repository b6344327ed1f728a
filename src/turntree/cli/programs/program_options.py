"""Options that commands about programs share, and reading them. Knows no program."""

import json
from typing import Any, Final

import click

from turntree.cli.param_types import PROGRAM
from turntree.core.canonical import Json


class _JsonText(click.ParamType[Json]):
    """A JSON document."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Json:
        """Read the document."""
        try:
            document: Json = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value!r} is no JSON", param, ctx)
        return document


JSON: Final = _JsonText()


def invoke_options() -> list[click.Option]:
    """Return the options by which an invocation is told what to do."""
    return [
        click.Option(["--message", "-m"], help="What to say to it."),
        click.Option(["--input"], type=JSON, help="The whole request, as JSON."),
        click.Option(["--model"], type=PROGRAM, help="Which model answers, this time."),
        click.Option(["--stream"], is_flag=True, help="Print the answer while it comes."),
    ]


def config_options() -> list[click.Option]:
    """Return the options that set any member of a config."""
    return [
        click.Option(["--config"], type=JSON, help="The whole config, as JSON."),
        click.Option(
            ["--set", "sets"],
            multiple=True,
            metavar="MEMBER=VALUE",
            help="Set a member by the way to it, as harness/max_steps=5; no value takes it out.",
        ),
    ]


def read_sets(sets: tuple[str, ...]) -> dict[str, Json]:
    """Return the members that ``--set`` names, each with its value: JSON, or else a text."""
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
