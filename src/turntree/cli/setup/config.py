"""``config``: show and change the settings file."""

from typing import Any

import click

from turntree.cli.command import CommandGroup, Terminal, verb
from turntree.cli.context import load_settings
from turntree.cli.hints import command_hint
from turntree.cli.output.text import table
from turntree.cli.settings import (
    KEYS,
    Setting,
    config_path,
    find_setting,
    hide_password,
    read_file,
    write_file,
)
from turntree.core.errors import InvalidOperation, NotFound
from turntree.system.shell_words import positional

KEY = click.Choice(list(KEYS))
ADDRESSES = ("database_url", "console_url", "live_url")
"""Settings that may hold a password."""
SEVERAL = [name for name, key in KEYS.items() if key.several]


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.pass_context
def config(context: click.Context) -> None:
    """Show and change the settings, with the source of each.

    The environment overrides the file, and the file overrides the defaults.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_)


@verb("list")
def list_(terminal: Terminal) -> None:
    """List every setting, its value and its source."""
    found = [_effective(find_setting(key)) for key in KEYS]
    if terminal.as_json:
        terminal.documents(_document(one) for one in found)
        return
    rows = [(one.key, _shown(one) or "-", _told(one)) for one in found]
    terminal.say("\n".join(table(rows)))
    terminal.note(f"file: {config_path()}")


@verb()
@click.argument("key", metavar="KEY", type=KEY)
def get(terminal: Terminal, key: str) -> None:
    """Print the value of a setting, without the password of a URL."""
    found = _effective(find_setting(key))
    if terminal.as_json:
        terminal.document(_document(found))
    elif found.value is None:
        raise NotFound(f"{key} is not set", hint=command_hint("turntree config list"))
    else:
        terminal.say(_shown(found))


@verb("set")
@click.argument("key", metavar="KEY", type=KEY)
@click.argument("value", metavar="VALUE")
def set_(terminal: Terminal, key: str, value: str) -> None:
    """Write a setting into the file."""
    _write(terminal, key, value)


@verb()
@click.argument("key", metavar="KEY", type=click.Choice(SEVERAL))
@click.argument("value", metavar="VALUE")
def add(terminal: Terminal, key: str, value: str) -> None:
    """Add a value to a setting that holds several."""
    before = (read_file().get(key) or "").split(",")
    _write(terminal, key, ",".join(dict.fromkeys(one for one in (*before, value) if one)))


def _write(terminal: Terminal, key: str, value: str) -> None:
    choices, check = KEYS[key].choices, KEYS[key].check
    if not value or (choices and value not in choices):
        meant = f"one of {', '.join(choices)}" if choices else "not empty"
        raise InvalidOperation(f"invalid value {value!r} for {key}: it must be {meant}")
    if check is not None:
        check(value)
    values = read_file()
    before = values.get(key)
    path = write_file({**values, key: value})
    undo = (
        f"turntree config unset {key}"
        if before is None
        else f"turntree config set {key} {positional(before)}"
        # A password is masked, so the old value cannot be offered as an undo.
        if _mask(key, before) == before
        else None
    )
    _tell(terminal, f"{key} = {_mask(key, value)} in {path}", key, undo)


@verb()
@click.argument("key", metavar="KEY", type=KEY)
def unset(terminal: Terminal, key: str) -> None:
    """Remove a setting from the file."""
    values = read_file()
    before = values.pop(key, None)
    if before is None:
        hint = command_hint("turntree config list")
        raise NotFound(f"{key} is not in {config_path()}", hint=hint)
    path = write_file(values)
    _tell(
        terminal,
        f"{key} is no longer in {path}",
        key,
        # A password is masked, so the old value cannot be offered as an undo.
        f"turntree config set {key} {positional(before)}" if _mask(key, before) == before else None,
    )


def _tell(terminal: Terminal, sentence: str, key: str, undo: str | None) -> None:
    found = find_setting(key)
    terminal.tell(sentence, _document(found), undo=undo)
    if found.source == "environment":
        terminal.note(f"but {found.place} is set in this shell, and wins")


def _effective(setting: Setting) -> Setting:
    """Return a setting with the value in effect, which may be the default."""
    if setting.value is not None or setting.key not in ("home", "user"):
        return setting
    chosen = load_settings()
    value = str(chosen.home) if setting.key == "home" else chosen.user
    return Setting(setting.key, value, setting.source, setting.place)


def _shown(setting: Setting) -> str:
    return _mask(setting.key, setting.value or "")


def _mask(key: str, text: str) -> str:
    return hide_password(text) if key in ADDRESSES else text


def _told(setting: Setting) -> str:
    match setting.source:
        case "environment":
            return f"from {setting.place}"
        case "file":
            return "from the file"
        case "default":
            return f"default; {KEYS[setting.key].help}"


def _document(setting: Setting) -> dict[str, Any]:
    return {
        "key": setting.key,
        "value": _shown(setting) if setting.value is not None else None,
        "source": setting.source,
        "place": setting.place or None,
    }


for command in (list_, get, set_, add, unset):
    config.add_command(command)
