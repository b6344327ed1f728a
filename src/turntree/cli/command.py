"""What all commands share: the output options, and the terminal they write to.

Data goes to stdout and messages to stderr, so that a pipe carries only data. This module handles
streams, colours and the pager. It must never know what is printed.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal

import click
from click.core import ParameterSource

from turntree.cli.harmless import harmless, spelled
from turntree.cli.settings import find_setting
from turntree.core.errors import InvalidOperation

ColorChoice = Literal["auto", "always", "never"]
Paint = Literal["plain", "strong", "dim", "head", "label", "good", "warn", "bad", "note", "mark"]
# What a terminal has unless it says otherwise, and what a reader of a pipe expects.
WIDTH_DEFAULT: Final = 80
WIDTH_MIN: Final = 40
HEIGHT_DEFAULT: Final = 24
_PAINTS: Final[Mapping[Paint, dict[str, Any]]] = {
    "plain": {},
    "strong": {"bold": True},
    "dim": {"dim": True},
    "head": {"fg": "cyan", "bold": True},
    "label": {"fg": "green"},
    "good": {"fg": "green"},
    "warn": {"fg": "yellow"},
    "bad": {"fg": "red", "bold": True},
    "note": {"fg": "magenta"},
    "mark": {"fg": "yellow", "bold": True, "underline": True},
}
# What follows a colon or a gap is a command, and the same word in a sentence is not.
_COMMAND: Final = re.compile(r"(?:(?<=\A)|(?<=: )|(?<= {5}))turntree (?=[a-z])")
Function = Callable[..., Any]


@dataclass(slots=True)
class Terminal:
    """Where a command writes, and how."""

    as_json: bool = False
    color: ColorChoice | None = None
    wants_ascii: bool = False
    pages: bool = True
    token: str | None = None
    """The token to act with, if it was given as an option."""
    server: str | None = None
    """The server to work with, if it was given as an option."""

    def find_server(self) -> str | None:
        """Return the server to work with: by option, or by setting."""
        if self.server is not None:
            return self.server
        try:
            return find_setting("server").value
        except InvalidOperation:
            return None  # The next reader of the settings reports what is wrong with them.

    @staticmethod
    def current() -> "Terminal":
        """Return the terminal of the running command, or a plain one."""
        context = click.get_current_context(silent=True)
        found = context.find_object(Terminal) if context is not None else None
        return found or Terminal()

    @property
    def is_ascii(self) -> bool:
        """Whether to print only ASCII: by option, or because stdout cannot encode more."""
        return self.wants_ascii or not _can_encode(getattr(sys.stdout, "encoding", None))

    @property
    def width(self) -> int:
        """Number of columns in a line."""
        return max(WIDTH_MIN, shutil.get_terminal_size((WIDTH_DEFAULT, HEIGHT_DEFAULT)).columns)

    @property
    def height(self) -> int:
        """Number of lines on the screen."""
        return shutil.get_terminal_size((WIDTH_DEFAULT, HEIGHT_DEFAULT)).lines

    @property
    def is_live(self) -> bool:
        """Whether a person watches stderr."""
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not self.as_json

    def is_colored(self, *, err: bool = False) -> bool:
        """Whether to use colours: by option, by setting, or because stdout is a terminal."""
        if self.color is None:
            self.color = _color_setting()
        if self.color != "auto":
            return self.color == "always"
        stream = sys.stderr if err else sys.stdout
        is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        return stream.isatty() and not is_plain

    def paint(self, text: str, paint: Paint) -> str:
        """Return text for stdout, coloured if colours are on."""
        return click.style(text, **_PAINTS[paint]) if self.is_colored() else text

    def paint_err(self, text: str, paint: Paint) -> str:
        """Return text for stderr, coloured if colours are on."""
        return click.style(text, **_PAINTS[paint]) if self.is_colored(err=True) else text

    def spell(self, text: str) -> str:
        """Return our own text with its typography, or as ASCII if nothing else may be printed."""
        if not self.is_ascii:
            return text
        for sign, plain in (("…", "..."), (" · ", ", "), ("→", "->"), ("←", "<-"), ("–", "-")):
            text = text.replace(sign, plain)
        return text

    def address(self, hint: str) -> str:
        """Return commands that are to be typed next, for the same server as this one."""
        if self.server is None:
            return hint
        return _COMMAND.sub(f"turntree --server {shlex.quote(self.server)} ", hint)

    def say(self, text: str = "") -> None:
        """Print data."""
        colored = self.is_colored()
        click.echo(harmless(text, colored=colored), color=colored)

    def note(self, text: str) -> None:
        """Print a message to stderr; never data that a program would read."""
        colored = self.is_colored(err=True)
        shown = harmless(self.address(text), colored=colored)
        click.echo(shown, err=True, color=colored)

    def document(self, document: Mapping[str, Any]) -> None:
        """Print one JSON document."""
        indent = 2 if sys.stdout.isatty() else None
        click.echo(spelled(json.dumps(document, ensure_ascii=False, indent=indent)))

    def documents(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Print JSON documents, one per line."""
        for document in documents:
            click.echo(spelled(json.dumps(document, ensure_ascii=False, separators=(",", ":"))))

    def tell(
        self,
        sentence: str,
        document: Mapping[str, Any],
        *,
        undo: str | None,
        then: Iterable[str] = (),
    ) -> None:
        """Print the result of a change, and how to undo it unless nothing changed."""
        if self.as_json:
            self.document({**document, "undo": None if undo is None else self.address(undo)})
            return
        self.say(sentence)
        hints = [*([] if undo is None else [f"undo with: {undo}"]), *then]
        if not hints:
            return
        beside = "     ".join(hints)
        self.note(beside if len(beside) <= self.width else "\n".join(hints))

    def page(self, lines: Iterable[str]) -> None:
        """Print data through the pager if stdout is a terminal, as git does."""
        text = "\n".join(lines)
        command = _pager() if self.pages and sys.stdout.isatty() else None
        if command is None:
            self.say(text)
            return
        environment = {"LESS": "FRX", **os.environ}
        try:
            with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as pager:
                shown = harmless(text, colored=self.is_colored())
                pager.communicate(f"{shown}\n".encode(errors="replace"))
        except OSError:
            self.say(text)


def is_asked(terminal: Terminal) -> bool:
    """Whether there is a person to ask."""
    return terminal.is_live and sys.stdin.isatty()


def verb(name: str | None = None, **settings: Any) -> Callable[[Function], click.Command]:
    """Return a decorator that makes a function a command; its first argument is the terminal."""

    def decorate(function: Function) -> click.Command:
        given = click.make_pass_decorator(Terminal, ensure=True)(function)
        return click.command(name, cls=Command, **settings)(given)

    return decorate


class Command(click.Command):
    """A command with the options that every command has."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Add the shared options after the command's own."""
        super().__init__(*args, **settings)
        for param in self.params:
            if isinstance(param.type, click.IntRange | click.FloatRange):
                param.metavar = param.metavar or "N"  # Instead of "INTEGER RANGE".
        self.params.extend(shared_options())

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command: here, or over the server that was chosen."""
        over_server = find_served(ctx)
        return super().invoke(ctx) if over_server is None else over_server()


class CommandGroup(click.Group):
    """A group that is also a command, with the options that every command has."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Add the shared options, and what runs over a server where the group is the command."""
        super().__init__(*args, **settings)
        self.params.extend(shared_options())
        act = self.callback

        def callback(*given: Any, **named: Any) -> Any:
            context = click.get_current_context()
            if context.invoked_subcommand is None:
                over_server = find_served(context)
                if over_server is not None:
                    return over_server()
            return None if act is None else act(*given, **named)

        self.callback = callback


def find_served(ctx: click.Context) -> Callable[[], object] | None:
    """Return what runs a command over a server; None if it runs here.

    Raises:
        Unsupported: It does not work over a server.
    """
    terminal = ctx.ensure_object(Terminal)
    if not terminal.find_server():
        return None
    # By name: those commands import this module.
    dispatch = import_module("turntree.cli.client.dispatch")
    found: Callable[[], object] | None = dispatch.find_served(ctx, terminal)
    return found


def shared_options() -> list[click.Parameter]:
    """Return the options that every command has."""
    flag = partial(click.Option, is_flag=True, expose_value=False, callback=_remember)
    return [
        flag(["--json", "as_json"], help="JSON output: one document, or one per line for a list."),
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            expose_value=False,
            callback=_remember,
            help="Colour mode; NO_COLOR is respected.",
        ),
        flag(["--ascii", "wants_ascii"], help="ASCII only in Turntree's own text."),
        flag(["--no-pager", "no_pager"], help="Direct output, without a pager."),
        click.Option(
            ["--token"],
            metavar="TOKEN",
            expose_value=False,
            callback=_remember,
            help="Token to act with; TURNTREE_TOKEN keeps it out of the list of processes.",
        ),
        click.Option(
            ["--server"],
            metavar="URL",
            expose_value=False,
            callback=_remember,
            help="Server to work with, instead of a database; TURNTREE_KEY has its key.",
        ),
    ]


def _remember(context: click.Context, option: click.Parameter, value: Any) -> None:
    terminal = context.ensure_object(Terminal)
    assert option.name is not None, "an option has a name"
    if context.get_parameter_source(option.name) is ParameterSource.DEFAULT:
        return  # Options given before the command's name still apply.
    match option.name:
        case "as_json":
            terminal.as_json = value
        case "wants_ascii":
            terminal.wants_ascii = value
        case "color":
            terminal.color = value
        case "token":
            terminal.token = value
        case "server":
            terminal.server = value
        case _:
            terminal.pages = not value


def _color_setting() -> ColorChoice:
    try:
        choice = find_setting("color").value
    except InvalidOperation:
        return "auto"  # The next reader of the settings reports what is wrong with them.
    return "always" if choice == "always" else "never" if choice == "never" else "auto"


def _pager() -> list[str] | None:
    chosen = next(
        (os.environ[name] for name in ("TURNTREE_PAGER", "PAGER") if name in os.environ), "less"
    )
    words = shlex.split(chosen)
    return words if words and words != ["cat"] and shutil.which(words[0]) else None


def _can_encode(encoding: str | None) -> bool:
    try:
        "◉├╌╯…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
