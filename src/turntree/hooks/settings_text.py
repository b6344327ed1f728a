"""Add our hooks, or our MCP server, to a tool's JSON settings, and remove them.

Nothing of the user's is lost, moved or formatted anew: our groups come after theirs, as text that
is inserted and cut out again. Pure: texts go in and come out.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

OURS: Final = "turntree-hook"
"""Part of every command of ours, and of no other."""
_INDENT: Final = re.compile(r"^\s*\{[^\n]*\n([ \t]+)\"")
_SPACE: Final = re.compile(r"\s*")
_COLON: Final = re.compile(r"\s*:\s*")
_COMMA: Final = re.compile(r"\s*,?\s*")
_DECODER: Final = json.JSONDecoder()

Document = dict[str, Any]
Shape = Literal["groups", "cursor", "copilot"]
"""How a tool lists the commands of an event: in groups, or each as an object of its own."""


def with_hooks(
    text: str | None,
    commands: Mapping[str, str],
    timeout: int,
    shape: Shape = "groups",
    matchers: Mapping[str, str] = MappingProxyType({}),
    timeouts: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """Return settings in which every event has its command, in the shape that the tool reads.

    Some events have a matcher: the tools whose calls are reported. Some have another timeout.

    Raises:
        InvalidOperation: They are not JSON, or their hooks do not have the shape the tool reads.
    """
    document = _parse(text)
    before = json.dumps(document)
    is_new = text is None or not text.strip()
    edited = "" if text is None or is_new else text
    if shape != "groups" and "version" not in document:
        document = {"version": 1, **document}
    if not is_new and "hooks" not in document:
        edited = _insert(edited, [], "hooks", {})
    hooks = _object(document.setdefault("hooks", {}), "hooks")
    for event, command in commands.items():
        is_listed = event in hooks
        groups = _list(hooks.setdefault(event, []), event)
        ours = _entry(shape, command, timeouts.get(event, timeout))
        if event in matchers:
            ours = {"matcher": matchers[event], **ours}
        if any(group == ours for group in groups):
            continue
        groups[:] = [*_without_ours(groups), ours]
        if not is_new:
            keys, name = (["hooks", event], None) if is_listed else (["hooks"], event)
            edited = _insert(edited, keys, name, ours if is_listed else [ours])
    if text is not None and json.dumps(document) == before:
        return text
    return edited if _says(edited, document) else _print(document, text)


def without_hooks(text: str) -> str:
    """Return settings without our commands, and without groups that this leaves empty.

    Raises:
        InvalidOperation: They are not JSON, or their hooks do not have the shape the tool reads.
    """
    if not list_commands(text):
        return text
    document, edited = _parse(text), text
    hooks = _object(document.get("hooks", {}), "hooks")
    for event in list(hooks):
        groups = _list(hooks[event], event)
        left = list(_without_ours(groups))
        if left == groups:
            continue
        for place in reversed(range(len(groups))):
            if groups[place] not in left:
                edited = _cut(edited, ["hooks", event], place)
        groups[:] = left
        if not left:
            edited = _cut(edited, ["hooks"], list(hooks).index(event))
            del hooks[event]
    if not hooks:
        edited = _cut(edited, [], list(document).index("hooks"))
        document.pop("hooks", None)
    return edited if _says(edited, document) else _print(document, text)


def list_commands(text: str) -> list[tuple[str, int, str]]:
    """Return our commands: the event, the index of its group, and the command.

    Raises:
        InvalidOperation: They are not JSON, or their hooks do not have the shape the tool reads.
    """
    hooks = _object(_parse(text).get("hooks", {}), "hooks")
    return [
        (event, place, _command(handler))
        for event, groups in hooks.items()
        for place, group in enumerate(_list(groups, event))
        for handler in _handlers(group)
        if _is_ours(handler)
    ]


def _entry(shape: Shape, command: str, timeout: int) -> Document:
    match shape:
        case "groups":
            return {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}
        case "cursor":
            return {"command": command}
        case "copilot":
            return {"type": "command", "bash": command, "timeoutSec": timeout}


def with_member(text: str | None, key: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return settings in which an object has a member; our older one is replaced.

    Raises:
        InvalidOperation: They are not JSON, ``key`` is not an object, or the member is not ours.
    """
    found = find_member(text, key, name)
    if text is not None and found == entry:
        return text
    if found is not None and set(found) != set(entry):
        raise InvalidOperation(f"it has another server called {name!r}: rename that one")
    edited = without_member(text, key, name) if text and text.strip() else ""
    document = _parse(edited)
    if edited:
        if key not in document:
            edited = _insert(edited, [], key, {})
        edited = _insert(edited, [key], name, entry)
    _object(document.setdefault(key, {}), key)[name] = dict(entry)
    return edited if _says(edited, document) else _print(document, text)


def without_member(text: str, key: str, name: str) -> str:
    """Return settings without a member of an object, and without an object that this leaves empty.

    Raises:
        InvalidOperation: They are not JSON, or ``key`` is not an object.
    """
    if find_member(text, key, name) is None:
        return text
    document = _parse(text)
    members = document[key]
    edited = _cut(text, [key], list(members).index(name))
    del members[name]
    if not members:
        edited = _cut(edited, [], list(document).index(key))
        del document[key]
    return edited if _says(edited, document) else _print(document, text)


def find_member(text: str | None, key: str, name: str) -> Any:
    """Return a member of an object in settings, or None.

    Raises:
        InvalidOperation: They are not JSON, or ``key`` is not an object.
    """
    return _object(_parse(text).get(key, {}), key).get(name)


def _without_ours(groups: list[Any]) -> Iterator[Any]:
    """Yield groups without our commands; a group with nothing else is dropped."""
    for group in groups:
        if _is_ours(group):
            continue
        handlers = _handlers(group)
        kept = [handler for handler in handlers if not _is_ours(handler)]
        if kept == handlers:
            yield group
        elif kept:
            yield {**group, "hooks": kept}


def _handlers(group: Any) -> list[Any]:
    """Return the commands of a group; some tools have no groups, only commands."""
    found = cast("Document", group).get("hooks") if isinstance(group, dict) else None
    return list(cast("Sequence[Any]", found)) if isinstance(found, list) else [group]


def _is_ours(handler: Any) -> bool:
    return isinstance(handler, dict) and OURS in _command(handler)


def _command(handler: Any) -> str:
    told = cast("Document", handler)
    return str(told.get("command") or told.get("bash"))


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


@value
class _Child:
    """Where a member of an object, or an item of a list, is in the text."""

    name: str | None
    begin: int
    start: int
    """The beginning of its value."""
    end: int


def _list_children(text: str, keys: Sequence[str]) -> tuple[int, list[_Child], int]:
    """Return where an object or list opens, its children, and where it closes."""
    at = _after(_SPACE, text, 0)
    while True:
        children: list[_Child] = []
        close = _after(_SPACE, text, at + 1)
        while text[close] not in "]}":
            begin, name = close, None
            if text[at] == "{":
                name, close = _DECODER.raw_decode(text, begin)
                close = _after(_COLON, text, close)
            start = close
            _, end = _DECODER.raw_decode(text, start)
            children.append(_Child(name, begin, start, end))
            close = _after(_COMMA, text, end)
        if not keys:
            return at, children, close
        # Of a name that comes twice, the last one counts.
        at = next(child.start for child in reversed(children) if child.name == keys[0])
        keys = keys[1:]


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _insert(text: str, keys: Sequence[str], name: str | None, value: Any) -> str:
    """Return the text with a last child in an object or list, indented as the text is."""
    at, children, close = _list_children(text, keys)
    is_flat = "\n" not in (text[at:close] if children else text.strip())
    found = _INDENT.match(text)
    unit = found[1] if found else "  "
    piece = "" if name is None else f"{json.dumps(name)}: "
    piece += json.dumps(value, ensure_ascii=False, indent=None if is_flat else unit)
    line = "\r\n" if "\r\n" in text else "\n"
    inner = "" if is_flat else line + unit * (len(keys) + 1)
    piece = inner + piece.replace("\n", inner) if inner else piece
    if children:
        end = children[-1].end
        return f"{text[:end]},{' ' if is_flat else ''}{piece}{text[end:]}"
    outer = "" if is_flat else line + unit * len(keys)
    return f"{text[: at + 1]}{piece}{outer}{text[close:]}"


def _cut(text: str, keys: Sequence[str], place: int) -> str:
    """Return the text without a child of an object or list, and without its comma."""
    at, children, close = _list_children(text, keys)
    if len(children) == 1:
        return text[: at + 1] + text[close:]
    if place == len(children) - 1:
        return text[: children[place - 1].end] + text[children[place].end :]
    return text[: children[place].begin] + text[children[place + 1].begin :]


def _says(text: str, document: Document) -> bool:
    """Whether an edited text means what it should, in the same order."""
    try:
        return json.dumps(json.loads(text)) == json.dumps(document)
    except ValueError:
        # A name that comes twice moved the places. The document is printed anew.
        return False


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
