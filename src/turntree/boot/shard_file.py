"""The file that says which database has which slots.

    [[shard]]
    slots = ["0-2047"]
    database_url = "postgresql://turntree@one.example.net/turntree"

    [[shard]]
    slots = ["2048-4095"]
    database_url = "postgresql://turntree@two.example.net/turntree"

Every server, worker and command of a ledger needs the same one.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

from turntree.core.errors import InvalidOperation
from turntree.db.shard import ShardMap, make_shard_map

_MEMBERS: Final[set[Any]] = {"slots", "database_url"}


def read_shard_file(path: Path) -> ShardMap:
    """Return the map that a file holds.

    Raises:
        InvalidOperation: The file cannot be read, or is not a map of all slots.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidOperation(f"cannot read the shard map {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # Not its text: a line may hold a password.
        raise InvalidOperation(f"the shard map {path} is not TOML") from error
    match document:
        case {"shard": [*entries]} if len(document) == 1:
            pass
        case _:
            raise InvalidOperation(f"the shard map {path} has no list of [[shard]], or more")
    try:
        return make_shard_map([_read_entry(entry) for entry in entries])
    except InvalidOperation as error:
        raise InvalidOperation(f"the shard map {path} is invalid: {error}") from error


def _read_entry(entry: Any) -> tuple[list[str], str]:
    match entry:
        case {"slots": [*slots], "database_url": str(url)} if (
            url and {*entry} == _MEMBERS and all(isinstance(one, str) for one in slots)
        ):
            return slots, url
        case _:
            raise InvalidOperation('a [[shard]] has slots = ["0-2047"] and database_url = "…"')
