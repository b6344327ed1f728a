"""``program``: commands for programs of any kind."""

from collections.abc import Mapping
from typing import Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, load_settings, with_ledger
from turntree.cli.output.program import (
    answer_lines,
    called,
    program_document,
    program_lines,
    program_rows,
    result_lines,
    use_document,
    version_document,
)
from turntree.cli.output.sanitize import WordWriter
from turntree.cli.output.session import visibility_of
from turntree.cli.output.text import age, clean, counted, digits, table
from turntree.cli.param_types import PROGRAM
from turntree.cli.programs.program_options import config_options, invoke_options, read_sets
from turntree.cli.programs.secret_hosts import settle_hosts
from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.ids import Digest, Timestamp
from turntree.core.principal import Principal
from turntree.core.program import Program, ProgramVersion, Visibility, a_kind
from turntree.programs.catalog import ProgramReference, VersionRow
from turntree.programs.kind import put_member
from turntree.programs.service import unheard
from turntree.system.shell_words import positional


@click.group()
def program() -> None:
    """Create, list, configure, share and invoke programs of any kind."""


def list_programs(
    terminal: Terminal,
    kind: str | None,
    state: str | None,
    tags: tuple[str, ...],
    where: Mapping[str, Json] | None = None,
) -> None:
    """Print programs, one per line; ``where`` gives members of their config."""

    async def act(opened: CliContext) -> tuple[list[Program], CliContext]:
        if kind is not None:
            opened.tree.programs.kind(kind)
        found = opened.tree.programs.list_all(kind=kind, state=state, tags=tags, where=where)
        return [one async for one in found], opened

    found, opened = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(map(program_document, found))
    elif found:
        terminal.page(program_rows(found, opened.now))
    elif where:
        terminal.note("no program has these members.")
        terminal.note(f"next: turntree {kind or 'program'} list")
    else:
        terminal.note(f"there is no {kind or 'program'} here.")
        terminal.note(f"next: turntree {kind or 'provider'} create --help")


def show_program(terminal: Terminal, name: str, number: int | None) -> None:
    """Print one program, or one version of its config."""

    async def act(
        opened: CliContext,
    ) -> tuple[
        Program,
        ProgramVersion | None,
        list[ProgramReference],
        list[ProgramReference],
        Timestamp | None,
        CliContext,
    ]:
        programs = opened.tree.programs
        found = await programs.get(name)
        version = None if number is None else await programs.get_version(found.id, number)
        used, uses = await programs.refs_from(found.id), await programs.refs_to(found.id)
        is_agent = found.kind == "agent"
        last = await programs.find_last_active(Principal("agent", found.name)) if is_agent else None
        return found, version, used, uses, last, opened

    found, version, used, uses, last, opened = with_ledger(terminal, act)
    document: dict[str, Any] = program_document(found)
    if version is not None:
        document |= {
            "version": version.number,
            "digest": version.digest,
            "config": version.shown,
        }
    if found.kind == "agent":
        document["agent_kind"] = "system_agent" if found.is_system else "user_agent"
        document["last_active_at"] = last
    document["uses"] = [use_document(use, "from") for use in used]
    document["used_by"] = [use_document(use, "to") for use in uses]
    if terminal.as_json:
        terminal.document(document)
    elif version is not None:
        terminal.page(result_lines(document["config"]))
    else:
        terminal.page(program_lines(found, used, uses, opened.now, last))


def move_program(terminal: Terminal, name: str, state: str) -> None:
    """Change a program's state, and print the result."""

    async def act(opened: CliContext) -> tuple[Program, Program, bool]:
        programs = opened.tree.programs
        before = await programs.get(name)
        after = await programs.move(name, state)
        lawful = programs.kind(after.kind).kind.lifecycle.moves[after.state]
        return before, after, before.state in lawful

    before, after, is_back = with_ledger(terminal, act)
    word = called(after, name)
    terminal.tell(
        f"@({word}) is {after.state}   (it was {before.state})",
        program_document(after),
        undo=f"turntree program set-state {word} {before.state}" if is_back else None,
    )


def configure_program(
    terminal: Terminal, name: str, members: Mapping[str, Json], *, is_label: bool = False
) -> None:
    """Set members of a program's config; a session may be named by its label."""

    async def act(opened: CliContext) -> tuple[str, Program | None, Program]:
        programs = opened.tree.programs
        typed = (await opened.tree.sessions.get(name)).label if is_label else name
        before = await programs.find(typed)
        return typed, before, await programs.configure(typed, members)

    typed, before, after = with_ledger(terminal, act)
    word = called(after, typed)
    same = before is not None and before.version == after.version
    terminal.tell(
        f"@({word}) {'stays as it was' if same else 'is configured'}: {a_kind(after.kind)}, "
        f"{after.state}, version {after.version.number}",
        {**program_document(after), **({"label": typed} if is_label else {})},
        undo=None,
        then=(f"see it with: turntree program show {word}",),
    )
    note_absent(terminal, after)
    settle_hosts(terminal, after, is_new=False)


def note_absent(terminal: Terminal, program: Program) -> None:
    """Print a note if this machine lacks a provider type or a sandbox profile that a config names.

    That is not an error: a worker on another machine may have it. Of a connector it also says what
    its command may reach here.
    """
    if program.kind == "provider":
        _note_type(terminal, program)
    elif program.kind == "agent" and (profile := program.config.get("sandbox")) is not None:
        _note_profile(terminal, program, str(profile))
    elif program.kind == "connector":
        _note_server(terminal, program)


def _note_type(terminal: Terminal, program: Program) -> None:
    from turntree.models.providers.factory import provider_types

    type, known = str(program.config.get("provider_type")), provider_types()
    if type not in known:
        terminal.note(
            f"unknown provider type {clean(type)} here: there are {', '.join(known)}; "
            "a worker needs the package that provides it"
        )
        terminal.note(f"next: turntree provider configure {program.name} --type TYPE")


def _note_profile(terminal: Terminal, program: Program, profile: str) -> None:
    from turntree.workbench.profile import CODE, FOLDER, read_profiles

    known = sorted({CODE, *read_profiles(load_settings().sandbox_profiles)})
    if profile not in known:
        terminal.note(
            f"no sandbox profile {profile!r} on this machine: there are {', '.join(known)}; "
            "a worker without it gives the agent no tools for folders"
        )
        terminal.note(f"next: turntree agent configure {program.name} --sandbox {FOLDER}")


def _note_server(terminal: Terminal, program: Program) -> None:
    from turntree.workbench.profile import read_profiles

    settings, profile = load_settings(), program.config.get("sandbox")
    known = read_profiles(settings.sandbox_profiles)
    if profile is not None and profile not in known:
        terminal.note(
            f"no sandbox profile {str(profile)!r} on this machine: there are "
            f"{', '.join(sorted(known))}; a worker without it does not start the command"
        )
        terminal.note("next: turntree config set sandbox_profiles FILE")
        return
    if profile is not None:
        terminal.note(f"its command runs in the sandbox profile {profile!r}")
    elif "command" in program.config and program.name in settings.unsandboxed_connectors:
        terminal.note("its command runs outside of every sandbox, with your rights")
    elif "command" in program.config:
        terminal.note(
            "its command runs in a sandbox, without your files and the network; "
            "--sandbox PROFILE opens some"
        )
    terminal.note(f"next: turntree connector tools {program.name}")


def invoke_program(
    terminal: Terminal,
    name: str,
    message: str | None,
    input: Json,
    model: str | None,
    stream: bool,
    **more: Json,
) -> dict[str, Json]:
    """Invoke a program, print its result and return it; with ``stream``, text as it arrives."""
    if input is not None and not isinstance(input, dict):
        raise click.UsageError("--input is one JSON document: {…}")
    request: dict[str, Json] = {**(input or {}), **more}
    request |= {} if message is None else {"message": message}
    request |= {} if model is None else {"model": model}

    writer = WordWriter(terminal) if stream else None

    async def act(opened: CliContext) -> dict[str, Json]:
        hear = unheard if writer is None else writer.write
        return await opened.tree.programs.invoke(name, request, hear=hear)

    result = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.document(result)
        return result
    if writer is not None and writer.is_used:
        terminal.say()
    else:
        terminal.page(answer_lines(result))
    match result:
        case {"reply": {"digest": str(digest), "session": str(label), "tokens": int(tokens)}}:
            spent = counted(tokens, "token")
            terminal.note(f"turn {digits(Digest(digest))} in {clean(label)}, {spent}")
        case _:
            pass
    return result


@verb("list")
@click.option("--type", "--kind", "kind", help="Kind to include.")
@click.option("--status", "--state", "state", help="State to include.")
@click.option("--tag", "tags", multiple=True, help="Required tag; repeatable.")
def list_(terminal: Terminal, kind: str | None, state: str | None, tags: tuple[str, ...]) -> None:
    """List programs of all kinds, or of one."""
    list_programs(terminal, kind, state, tags)


@verb()
@click.argument("name", type=PROGRAM)
@click.option("--version", "number", type=int, help="Version of the config to show.")
def show(terminal: Terminal, name: str, number: int | None) -> None:
    """Show a program: its config, its state, what it uses and what uses it."""
    show_program(terminal, name, number)


@verb(params=invoke_options())
@click.argument("name", type=PROGRAM)
@click.argument("words", metavar="[MESSAGE]", required=False)
def invoke(terminal: Terminal, name: str, words: str | None, **given: Any) -> None:
    """Invoke a program; its kind decides what that means."""
    given["message"] = given["message"] or words
    invoke_program(terminal, name, **given)


@verb(params=config_options())
@click.argument("kind", metavar="KIND")
@click.argument("name", metavar="NAME")
@click.option("--private", is_flag=True, help="Owner and grantees only.")
def create(
    terminal: Terminal, kind: str, name: str, private: bool, config: Json, sets: tuple[str, ...]
) -> None:
    """Create a program of any kind."""
    if config is not None and not isinstance(config, dict):
        raise click.UsageError("--config is one JSON document: {…}")
    wanted: dict[str, Json] = dict(config or {})
    for way, value in read_sets(sets).items():
        wanted = put_member(wanted, way, value)

    async def act(opened: CliContext) -> Program:
        return await opened.tree.programs.create(
            kind, name, wanted, visibility="private" if private else "public"
        )

    made = with_ledger(terminal, act)
    terminal.tell(
        f"{made.address} begins: {a_kind(made.kind)}, {made.state}",
        program_document(made),
        undo=None,
    )
    note_absent(terminal, made)
    settle_hosts(terminal, made, is_new=True)


@verb(params=config_options())
@click.argument("name", type=PROGRAM)
def configure(terminal: Terminal, name: str, config: Json, sets: tuple[str, ...]) -> None:
    """Set members of a program's config, as a new version."""
    if config is not None and not isinstance(config, dict):
        raise click.UsageError("--config is one JSON document: {…}")
    members = {**(config or {}), **read_sets(sets)}
    if not members:
        raise click.UsageError("say what to set: --set MEMBER=VALUE")
    configure_program(terminal, name, members)


@verb("set-state")
@click.argument("name", type=PROGRAM)
@click.argument("state", metavar="STATE")
def set_state(terminal: Terminal, name: str, state: str) -> None:
    """Set the state of a program, as its lifecycle allows."""
    move_program(terminal, name, state)


@verb()
@click.argument("name", type=PROGRAM)
def refs(terminal: Terminal, name: str) -> None:
    """List the programs that a program refers to, and those that refer to it."""

    async def act(opened: CliContext) -> tuple[list[ProgramReference], list[ProgramReference]]:
        programs = opened.tree.programs
        return await programs.refs_from(name), await programs.refs_to(name)

    used, uses = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(
            [
                *(use_document(use, "from") for use in used),
                *(use_document(use, "to") for use in uses),
            ]
        )
        return
    rows = [("names", clean(use.program.address), clean(use.member)) for use in used]
    rows += [("is named by", clean(use.program.address), clean(use.member)) for use in uses]
    if rows:
        terminal.page(table(rows))
    else:
        terminal.note("it refers to no program, and none refers to it.")


@verb()
@click.argument("name", type=PROGRAM)
def versions(terminal: Terminal, name: str) -> None:
    """List every version of a program's config, newest first."""

    async def act(opened: CliContext) -> tuple[list[VersionRow], CliContext]:
        return await opened.tree.programs.list_versions(name), opened

    rows, opened = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(map(version_document, rows))
        return
    terminal.page(
        table(
            [
                (f"v{row.number}", digits(row.digest), clean(row.by), age(row.at, opened.now))
                for row in rows
            ]
        )
    )


@verb()
@click.argument("kind", metavar="[KIND]", required=False)
def kinds(terminal: Terminal, kind: str | None) -> None:
    """List the kinds of programs, or print the JSON Schema of one kind's config."""
    from turntree.programs.installed_kinds import InstalledKinds

    found = InstalledKinds()
    if kind is not None:
        if kind not in found:
            raise InvalidOperation(
                f"there is no kind {kind!r} of program", hint=Hint("program.kinds")
            )
        terminal.document(found[kind].schema())
        return
    known = [found[name].kind for name in found]
    if terminal.as_json:
        terminal.documents(
            {
                "kind": one.name,
                "about": one.about,
                "initial": one.lifecycle.initial,
                "moves": one.lifecycle.moves,
            }
            for one in known
        )
        return
    terminal.page(table([(one.name, one.about, ", ".join(one.lifecycle.states)) for one in known]))


@verb()
@click.argument("name", type=PROGRAM)
@click.argument("grantee", metavar="WHO")
@click.argument("right", type=click.Choice(["read", "invoke", "configure"]))
@click.option("--revoke", is_flag=True, help="Access to revoke, instead of one to grant.")
def grant(terminal: Terminal, name: str, grantee: str, right: Any, revoke: bool) -> None:
    """Grant a principal read, invoke or configure access to a program."""
    found = with_ledger(
        terminal,
        lambda opened: opened.tree.programs.grant(name, grantee, right, on=not revoke),
    )
    back, word = "" if revoke else " --revoke", called(found, name)
    terminal.tell(
        f"{clean(grantee)} may {'no longer ' if revoke else ''}{right} @({word})",
        {**program_document(found), "grantee": grantee, "right": right, "on": not revoke},
        undo=f"turntree program grant{back} {word} {positional(grantee, right)}",
    )


@verb()
@click.argument("name", type=PROGRAM)
@click.argument("grantee", metavar="WHO")
def invite(terminal: Terminal, name: str, grantee: str) -> None:
    """Grant a principal access to see and invoke a private program."""
    found = with_ledger(terminal, lambda opened: opened.tree.programs.invite(name, grantee))
    word = called(found, name)
    terminal.tell(
        f"{clean(grantee)} is let in to @({word})",
        program_document(found),
        undo=f"turntree program grant --revoke {word} {positional(grantee, 'invoke')}",
    )


@verb()
@click.argument("name", type=PROGRAM)
@click.argument("to", metavar="public|private", type=click.Choice(["public", "private"]))
def visibility(terminal: Terminal, name: str, to: Any) -> None:
    """Make a program public to the workspace, or private to its owner and grantees."""

    async def act(opened: CliContext) -> tuple[Visibility, Program]:
        before = visibility_of(await opened.tree.programs.find(name))
        return before, await opened.tree.programs.set_visibility(name, to)

    before, after = with_ledger(terminal, act)
    word = called(after, name)
    back = f"turntree program visibility {word} {before}"
    terminal.tell(
        f"@({word}) is {after.visibility}",
        program_document(after),
        undo=back if before != after.visibility else None,
    )


for command in (
    list_, show, invoke, create, configure, set_state, refs, versions, kinds, grant, invite,
    visibility,
):  # fmt: skip
    program.add_command(command)
