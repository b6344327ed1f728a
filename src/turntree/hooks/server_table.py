"""Add our MCP server to Codex's TOML settings, and remove it.

The table comes last, under a comment that is ours; what the user wrote is not formatted anew. Pure.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, cast

from turntree.core.errors import InvalidOperation

_HEAD: Final = "# The MCP server of Turntree."
_BLOCK: Final = re.compile(rf"\n?{re.escape(_HEAD)}\n(?:[^\n]+\n)*")


def with_server(text: str | None, key: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return settings with a table for a server; our older one is replaced.

    Raises:
        InvalidOperation: They are not TOML, or another table has that name.
    """
    if find_server(text, key, name) == entry:
        assert text is not None, "it has the server"
        return text
    kept = without_server(text or "")
    if find_server(kept, key, name) is not None:
        raise InvalidOperation(f"it has another server called {name!r}: rename that one")
    start = kept if not kept or kept.endswith("\n") else f"{kept}\n"
    lines = [f"{member} = {_spell(value)}\n" for member, value in entry.items()]
    grown = f"{start}{chr(10) if start else ''}{_HEAD}\n[{key}.{name}]\n{''.join(lines)}"
    _parse(grown)  # Parse the result before it is written.
    return grown


def without_server(text: str) -> str:
    """Return settings without our table."""
    return _BLOCK.sub("", text)


def find_server(text: str | None, key: str, name: str) -> Any:
    """Return the table of a server, or None.

    Raises:
        InvalidOperation: The settings are not TOML.
    """
    servers = _parse(text or "").get(key)
    return cast("dict[str, Any]", servers).get(name) if isinstance(servers, dict) else None


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOperation(f"it is not TOML: {error}") from error


def _spell(value: Any) -> str:
    """Return a value in TOML: JSON spells texts and lists of texts the same way."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value).items()
        return (
            "{ " + ", ".join(f"{json.dumps(name)} = {_spell(one)}" for name, one in members) + " }"
        )
    return json.dumps(value)
