"""A command group for each kind of program, built from the kind's declaration.

A kind from another package gets its group like ours: nothing here knows a kind by name, except the
commands that ``kind_commands`` adds.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from turntree.cli.command import Command, Terminal, verb
from turntree.cli.param_types import PROGRAM
from turntree.cli.programs.program_options import JSON, config_options, invoke_options, read_sets
from turntree.core.canonical import Json
from turntree.core.program import Program, a_kind

if TYPE_CHECKING:
    from turntree.cli.context import CliContext
    from turntree.programs.kind import Kind, Option

SHARED: Final = ("create", "list", "show", "configure", "set-state", "invoke")


class KindGroup(click.Group):
    """The commands of one kind; the kind is imported when one of them is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands that all kinds have, and those of this kind."""
        from turntree.cli.programs.kind_commands import VERBS

        del ctx
        return [*SHARED, *(command.name or "" for command in VERBS.get(self._kind_name(), ()))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Build a command from the kind's declaration."""
        from turntree.cli.programs.kind_commands import VERBS
        from turntree.programs.installed_kinds import InstalledKinds

        del ctx
        for command in VERBS.get(self._kind_name(), ()):
            if command.name == cmd_name:
                return command
        if cmd_name not in SHARED:
            return None
        return _BUILD[cmd_name](InstalledKinds()[self._kind_name()].kind)

    def _kind_name(self) -> str:
        assert self.name is not None, "a group is made with its name"
        return self.name


def kind_group(name: str, about: str) -> KindGroup:
    """Return the group of a kind."""
    return KindGroup(name, help=about)


provider = kind_group("provider", "Manage providers, the services that run models.")
model = kind_group("model", "Manage models, the named ways to ask a provider.")
agent = kind_group("agent", "Manage agents, the programs that act in sessions.")
task = kind_group("task", "Manage tasks and their success criteria.")
information = kind_group("information", "Manage facts, validated against a JSON Schema.")
human = kind_group("human", "Manage people to notify or to ask for approval.")
connector = kind_group("connector", "Manage MCP servers whose tools your agents may call.")
code = kind_group("code", "Manage scripts that take and return one JSON document.")


def _create(kind: "Kind") -> click.Command:
    def create(terminal: Terminal, said: str, private: bool, **given: Any) -> None:
        from turntree.cli.context import with_ledger
        from turntree.core.program import name_from

        name, config = said, _config({}, kind, given)
        if kind.titled_by is not None:
            name = given.get("name") or name_from(said, prefix=kind.name)
            config = {**config, kind.titled_by: said}

        async def act(opened: "CliContext") -> Program:
            return await opened.tree.programs.create(
                kind.name, name, config, visibility="private" if private else "public"
            )

        _tell_begun(terminal, with_ledger(terminal, act, waits=False))

    said = kind.titled_by or "name"
    return _command(
        f"Create {a_kind(kind.name)}.",
        create,
        click.Argument(["said"], metavar=said.upper()),
        *_options(kind),
        *([click.Option(["--name"], help="Name; by default derived from the argument.")]
          if kind.titled_by else []),
        click.Option(["--private"], is_flag=True, help="Owner and grantees only."),
    )  # fmt: skip


def _list(kind: "Kind") -> click.Command:
    def list_(
        terminal: Terminal, state: str | None, tags: tuple[str, ...], where: tuple[str, ...]
    ) -> None:
        from turntree.cli.programs.program import list_programs

        by_option = {option.flag.strip("-"): option.member for option in kind.options}
        members = {by_option.get(way, way): value for way, value in read_sets(where).items()}
        list_programs(terminal, kind.name, state, tags, members)

    states = ", ".join(kind.lifecycle.states)
    return _command(
        f"List programs of the kind {kind.name}.",
        list_,
        click.Option(["--status", "--state", "state"], help=f"State to include: {states}."),
        click.Option(["--tag", "tags"], multiple=True, help="Required tag; repeatable."),
        click.Option(["--where"], multiple=True, metavar="MEMBER=VALUE",
                     help="Member with this value, as content/city=Bern; repeatable."),
        name="list",
    )  # fmt: skip


def _show(kind: "Kind") -> click.Command:
    def show(terminal: Terminal, name: str) -> None:
        from turntree.cli.programs.program import show_program

        show_program(terminal, name, None)

    about = f"Show {a_kind(kind.name)}: its config, its state, and what uses it."
    return _command(about, show, click.Argument(["name"], type=PROGRAM))


def _configure(kind: "Kind") -> click.Command:
    def configure(terminal: Terminal, name: str, **given: Any) -> None:
        from turntree.cli.programs.program import configure_program

        overlay = given.pop("situation", None)
        way = "" if overlay is None else f"{kind.overlays}/{overlay}/"
        members = {f"{way}{member}": value for member, value in _members(kind, given).items()}
        if not members:
            raise click.UsageError("say what to set: an option, or --set MEMBER=VALUE")
        configure_program(terminal, name, members)

    options = _options(kind)
    if kind.overlays is not None:
        options.append(
            click.Option(["--situation"], help="Situation to set it for, as an overlay.")
        )
    return _command(
        f"Set members of {a_kind(kind.name)}'s config, as a new version.",
        configure,
        click.Argument(["name"], type=PROGRAM),
        *options,
    )


def _set_state(kind: "Kind") -> click.Command:
    def set_state(terminal: Terminal, name: str, state: str) -> None:
        from turntree.cli.programs.program import move_program

        move_program(terminal, name, state)

    return _command(
        f"Set the state of {a_kind(kind.name)}: {', '.join(kind.lifecycle.states)}.",
        set_state,
        click.Argument(["name"], type=PROGRAM),
        click.Argument(["state"], type=click.Choice(kind.lifecycle.states)),
        name="set-state",
    )


def _invoke(kind: "Kind") -> click.Command:
    def invoke(terminal: Terminal, name: str, words: str | None, **given: Any) -> None:
        from turntree.cli.programs.program import invoke_program

        given["message"] = given["message"] or words
        invoke_program(terminal, name, **given)

    return _command(
        f"Invoke {a_kind(kind.name)}.",
        invoke,
        click.Argument(["name"], type=PROGRAM),
        click.Argument(["words"], metavar="[MESSAGE]", required=False),
        *invoke_options(),
    )


_BUILD: Final[dict[str, "Callable[[Kind], click.Command]"]] = {
    "create": _create,
    "list": _list,
    "show": _show,
    "configure": _configure,
    "set-state": _set_state,
    "invoke": _invoke,
}


def _command(
    about: str, act: Callable[..., None], *params: click.Parameter, name: str | None = None
) -> click.Command:
    command = verb(name or act.__name__, help=about)(act)
    assert isinstance(command, Command)
    # A command's own parameters come before the shared ones.
    command.params[:0] = params
    return command


def _options(kind: "Kind") -> list[click.Option]:
    return [*(_option(option) for option in kind.options), *config_options()]


def _option(option: "Option") -> click.Option:
    types: dict[str, Any] = {"integer": int, "number": float, "address": PROGRAM, "json": JSON}
    flag, parameter = option.flag, _parameter(option)
    if option.type == "flag":
        off = f"--no-{flag.removeprefix('--')}"
        return click.Option([f"{flag}/{off}", parameter], default=None, help=option.help)
    return click.Option(
        [flag, parameter],
        multiple=option.many,
        type=types.get(option.type, str),
        help=option.help,
    )


def _parameter(option: "Option") -> str:
    return "member_" + option.flag.strip("-").replace("-", "_")


def _members(kind: "Kind", given: dict[str, Any]) -> dict[str, Json]:
    """Return the members that the options set, by path."""
    from turntree.programs.kind import as_member

    members: dict[str, Json] = dict(given.get("config") or {})
    for option in kind.options:
        value = given.get(_parameter(option))
        if value is None or value == ():
            continue
        members[option.member] = as_member(option, list(value) if option.many else value)
    return {**members, **read_sets(given.get("sets") or ())}


def _config(base: dict[str, Json], kind: "Kind", given: dict[str, Any]) -> dict[str, Json]:
    from turntree.programs.kind import put_member

    for way, value in _members(kind, given).items():
        base = put_member(base, way, value)
    return base


def _tell_begun(terminal: Terminal, program: Program) -> None:
    from turntree.cli.output.program import program_document
    from turntree.cli.programs.program import note_absent
    from turntree.cli.programs.secret_hosts import settle_hosts

    terminal.tell(
        f"{program.address} begins: {a_kind(program.kind)}, {program.state}, "
        f"version {program.version.number}",
        program_document(program),
        undo=None,
        then=(f"see it with: turntree program show {program.name}",),
    )
    note_absent(terminal, program)
    settle_hosts(terminal, program, is_new=True)
