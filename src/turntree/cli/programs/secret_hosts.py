"""Ask where secrets may be sent: once per secret and destination, stored in the settings file.

Only about configs that the user wrote. For configs of other users it never asks: they are refused
when a secret is needed, with the command that allows it. Must never see a secret's value.
"""

import sys
from collections.abc import Iterable

import click

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext, load_settings, with_ledger
from turntree.cli.output.text import clean
from turntree.cli.settings import find_setting, merged_environment, read_file, write_file
from turntree.core.canonical import Json
from turntree.core.program import Program, list_secrets
from turntree.core.secret_refs import Destination, list_unallowed

KEY = "secret_hosts"


def settle_hosts(terminal: Terminal, program: Program, *, is_new: bool) -> None:
    """Have the user allow what their provider needs, unless it is allowed already.

    On a terminal it asks. Elsewhere, a command that creates a provider is consent in itself, since
    it names both the secrets and the address. One that changes a provider is not, because another
    user may have written the rest of the config; then a note says what is missing.
    """
    settings = load_settings()
    kinds = ("provider", "connector")
    if program.kind not in kinds or program.version.by != f"human:{settings.user}":
        return
    names = [*list_secrets(_sent(program)), *_vendor_names(program)]
    pairs = list_unallowed(names, program.config, settings.secret_hosts)
    if not pairs:
        return
    written = ",".join(f"{name}@{to}" for name, to in pairs)
    if _is_allowed(terminal, program, pairs, is_new=is_new):
        remember_hosts(terminal, written.split(","))
    else:
        terminal.note(f"{clean(program.address)} is not given {clean(_shown(pairs))}")
        terminal.note(f"allow it with: turntree config add {KEY} {clean(written)}")


def settle_own_hosts(terminal: Terminal) -> None:
    """Ask about all providers that the user wrote, if there is a terminal."""
    if not _is_person(terminal):
        return

    async def act(opened: CliContext) -> list[Program]:
        found = opened.tree.programs.list_all(kind="provider")
        return [one async for one in found if one.state != "deprecated"]

    for program in with_ledger(terminal, act, waits=False):
        settle_hosts(terminal, program, is_new=False)


def remember_hosts(terminal: Terminal, written: Iterable[str]) -> None:
    """Add pairs of secret and host to the settings file."""
    values, added = read_file(), list(written)
    before = (values.get(KEY) or "").split(",")
    kept = ",".join(dict.fromkeys(one for one in (*before, *added) if one))
    path = write_file({**values, KEY: kept})
    shown = " and ".join(clean(one.replace("@", " to ", 1)) for one in added)
    terminal.note(f"allowed from now on: {shown}     kept in {path}")
    if (setting := find_setting(KEY)).source == "environment":
        terminal.note(f"but {setting.place} is set in this shell, and wins")


def _is_allowed(
    terminal: Terminal, program: Program, pairs: list[tuple[str, Destination]], *, is_new: bool
) -> bool:
    if not _is_person(terminal):
        return is_new
    question = f"may {clean(program.address)} be given {clean(_shown(pairs))}?"
    return click.confirm(question, default=is_new, err=True)


def _shown(pairs: list[tuple[str, Destination]]) -> str:
    return f"the secret {' and '.join(name for name, _ in pairs)} at {pairs[0][1]}"


def _sent(program: Program) -> dict[str, Json]:
    """Return the members of a config in which a secret can be named."""
    if program.kind == "provider":
        return dict(program.config)
    # What a server says of its tools is in the config too, and names no secret of this user.
    return {name: program.config.get(name) for name in ("headers", "env")}


def _vendor_names(program: Program) -> list[str]:
    """Return the vendor's own variables that are set here and would be sent."""
    from turntree.models.providers.factory import vendor_key_names

    if program.kind != "provider" or "api_key" in program.config:
        return []
    here = merged_environment()
    return [name for name in vendor_key_names(program.config) if name in here]


def _is_person(terminal: Terminal) -> bool:
    return terminal.is_live and sys.stdin.isatty()
