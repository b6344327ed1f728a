"""The file that names a user's remotes, beside the settings.

A URL may hold a password, so only the user may read it, and nothing of it is in the ledger. What
was removed last is remembered, so that it can be added again without typing the password.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from turntree.boot.remotes import is_url
from turntree.cli.hints import command_hint
from turntree.cli.settings import config_path, hide_password, write_private
from turntree.core.errors import Conflict, InvalidOperation, NotFound
from turntree.core.revision import check_label
from turntree.db.database import check_address

_REMOTES: Final = "remotes"
_REMOVED: Final = "removed"


def remotes_path() -> Path:
    """Return the path of the file, whether or not it exists."""
    return config_path().with_name("remotes.json")


def list_remotes() -> dict[str, str]:
    """Return where each remote is, by its name."""
    return dict(sorted(_read()[_REMOTES].items()))


def get_remote(name: str | None) -> tuple[str, str]:
    """Return a remote's name and place; without a name, the only one.

    Raises:
        NotFound: There is none, or none of that name.
        InvalidOperation: There are several to choose from.
    """
    remotes = list_remotes()
    if name is None and len(remotes) == 1:
        return next(iter(remotes.items()))
    if name is None and remotes:
        raise InvalidOperation(f"there are several remotes: {', '.join(remotes)}; name one of them")
    if name is None or name not in remotes:
        what = "there is no remote" if name is None else f"there is no remote {name!r}"
        raise NotFound(what, hint=command_hint("turntree remote add NAME DIR"))
    return name, remotes[name]


def add_remote(name: str, place: str | None) -> str:
    """Add a remote, or the one of that name that was removed last; return where it is.

    Raises:
        Conflict: Another remote has the name.
        InvalidOperation: The name cannot be the first part of a label, or the place is no URL.
    """
    if "/" in check_label(name):
        raise InvalidOperation(f"the name {name!r} has a slash, which separates it from sessions")
    held = _read()
    chosen = held[_REMOVED].get(name) if place is None else _settled(place)
    if chosen is None:
        raise NotFound(f"no remote {name!r} was removed: say where it is",
                       hint=command_hint("turntree remote add NAME DIR"))  # fmt: skip
    there = held[_REMOTES].get(name)
    if there is not None and there != chosen:
        raise Conflict(
            f"the remote {name!r} is {hide_password(there)}",
            hint=command_hint(f"turntree remote remove {name}"),
        )
    held[_REMOVED].pop(name, None)
    _write({**held, _REMOTES: {**held[_REMOTES], name: chosen}})
    return chosen


def remove_remote(name: str) -> str:
    """Remove a remote from the file and return where it is; the remote itself stays as it is.

    Raises:
        NotFound: There is none of that name.
    """
    held = _read()
    place = held[_REMOTES].pop(name, None)
    if place is None:
        raise NotFound(f"there is no remote {name!r}", hint=command_hint("turntree remote list"))
    _write({**held, _REMOVED: {**held[_REMOVED], name: place}})
    return place


def _settled(place: str) -> str:
    if is_url(place):
        check_address(place)
        return place
    if "://" in place:
        raise InvalidOperation(f"{place.partition('://')[0]!r} is no kind of remote: "
                               "a remote is a folder or a postgresql:// URL")  # fmt: skip
    return str(Path(place).expanduser().absolute())


def _read() -> dict[str, dict[str, str]]:
    path = remotes_path()
    try:
        held: Any = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        held = {}
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidOperation(f"{path} is not JSON: {error}\nmend it, or remove it") from error
    if not isinstance(held, dict):
        raise InvalidOperation(f"{path} does not hold remotes\nmend it, or remove it")
    known = cast("Mapping[str, Any]", held)
    return {part: dict(known.get(part) or {}) for part in (_REMOTES, _REMOVED)}


def _write(held: Mapping[str, Mapping[str, str]]) -> None:
    write_private(remotes_path(), json.dumps(held, indent=2, sort_keys=True) + "\n")
