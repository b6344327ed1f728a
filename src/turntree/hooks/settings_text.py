"""Add our hooks to a tool's JSON settings, and remove them.

Nothing of the user's is lost or moved: our groups come after theirs, and the text keeps its
indentation. Pure: texts go in and come out.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from turntree.core.errors import InvalidOperation

OURS: Final = "turntree-hook"
"""Part of every command of ours, and of no other."""
_INDENT: Final = re.compile(r"^\{\s*?\n([ \t]+)\"")

Document = dict[str, Any]


def with_hooks(text: str | None, commands: Mapping[str, str], timeout: int) -> str:
    """Return settings in which every event has its command.

    Raises:
        InvalidOperation: They are not JSON, or their hooks do not have the shape the tool reads.
    """
    document = _parse(text)
    before = json.dumps(document)
    hooks = _object(document.setdefault("hooks", {}), "hooks")
    for event, command in commands.items():
        groups = _list(hooks.setdefault(event, []), event)
        ours = {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}
        if not any(group == ours for group in groups):
            groups[:] = [*_without_ours(groups), ours]
    return text if text is not None and json.dumps(document) == before else _print(document, text)


def without_hooks(text: str) -> str:
    """Return settings without our commands, and without groups that this leaves empty.

    Raises:
        InvalidOperation: They are not JSON, or their hooks do not have the shape the tool reads.
    """
    if not list_commands(text):
        return text
    document = _parse(text)
    hooks = _object(document.get("hooks", {}), "hooks")
    for event in list(hooks):
        groups = _list(hooks[event], event)
        left = list(_without_ours(groups))
        if left != groups:
            groups[:] = left
            if not left:
                del hooks[event]
    if not hooks:
        document.pop("hooks", None)
    return _print(document, text)


def list_commands(text: str) -> list[tuple[str, int, str]]:
    """Return our commands: the event, the index of its group, and the command.

    Raises:
        InvalidOperation: They are not JSON, or their hooks do not have the shape the tool reads.
    """
    hooks = _object(_parse(text).get("hooks", {}), "hooks")
    return [
        (event, place, str(handler["command"]))
        for event, groups in hooks.items()
        for place, group in enumerate(_list(groups, event))
        for handler in _handlers(group)
        if _is_ours(handler)
    ]


def _without_ours(groups: list[Any]) -> Iterator[Any]:
    """Yield groups without our commands; a group with nothing else is dropped."""
    for group in groups:
        handlers = _handlers(group)
        kept = [handler for handler in handlers if not _is_ours(handler)]
        if kept == handlers:
            yield group
        elif kept:
            yield {**group, "hooks": kept}


def _handlers(group: Any) -> list[Any]:
    found = cast("Document", group).get("hooks") if isinstance(group, dict) else None
    return list(cast("Sequence[Any]", found)) if isinstance(found, list) else []


def _is_ours(handler: Any) -> bool:
    return isinstance(handler, dict) and OURS in str(cast("Document", handler).get("command"))


def _parse(text: str | None) -> Document:
    if text is None or not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidOperation(f"it is not plain JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidOperation("it is not a JSON object")
    return cast("Document", found)


def _object(value: Any, name: str) -> Document:
    if not isinstance(value, dict):
        raise InvalidOperation(f"{name!r} is not a JSON object")
    return cast("Document", value)


def _list(value: Any, name: str) -> list[Any]:
    if type(value) not in (list,):  # noqa: FURB171  (checkers know two types for the other form)
        raise InvalidOperation(f"the hooks of {name!r} are not a list")
    return cast("list[Any]", value)


def _print(document: Document, like: str | None) -> str:
    found = _INDENT.match(like or "")
    indent = found[1] if found else "  "
    is_flat = like is not None and bool(like.strip()) and "\n" not in like.strip()
    separators = (", ", ": ") if is_flat else (",", ": ")
    text = json.dumps(
        document, ensure_ascii=False, indent=None if is_flat else indent, separators=separators
    )
    whole = text if like is not None and not like.endswith("\n") else f"{text}\n"
    return whole.replace("\n", "\r\n") if "\r\n" in (like or "") else whole
