"""Loads tools: those that packages install, and those named as ``module:name``.

A name may refer to a function, a toolset, or a list of either. Must never know what a tool does.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final, cast

from turntree.core.errors import InvalidOperation, NotFound
from turntree.tools.functions import FunctionTools
from turntree.tools.isolation import IsolatedLoop
from turntree.tools.toolset import Toolset

GROUP: Final = "turntree.tools"
"""The entry point group for tools."""


def load_installed() -> list[object]:
    """Return the tools that packages have installed, ordered by name."""
    return [point.load() for point in sorted(entry_points(group=GROUP), key=lambda one: one.name)]


def load_named(names: Iterable[str]) -> list[object]:
    """Return the object at each ``module:name``.

    Raises:
        NotFound: The module does not exist, or has no such attribute.
    """
    return [_load(name) for name in names]


def toolsets_of(
    things: Iterable[object], *, apart: IsolatedLoop | None = None
) -> tuple[Toolset, ...]:
    """Return functions, toolsets and lists of them as toolsets; functions come first.

    ``apart`` is the loop for async functions, if it is not the caller's.

    Raises:
        InvalidOperation: An object is neither, or two tools have the same name.
    """
    functions: list[Any] = []
    toolsets: list[Toolset] = []
    for thing in _flat(things):
        if hasattr(thing, "specs") and hasattr(thing, "call"):
            toolsets.append(cast("Toolset", thing))
        elif callable(thing):
            functions.append(thing)
        else:
            raise InvalidOperation(f"{thing!r} is not a tool: neither a function nor a toolset")
    found = (*([FunctionTools(functions, apart)] if functions else []), *toolsets)
    _check_names(found)
    return found


def apart_of(things: Iterable[object]) -> tuple[Toolset, ...]:
    """Return the same, with a separate event loop for async functions.

    Raises:
        InvalidOperation: An object is neither, or two tools have the same name.
    """
    return toolsets_of(things, apart=IsolatedLoop())


def _load(name: str) -> object:
    module, colon, attribute = name.partition(":")
    if not colon or not attribute:
        raise InvalidOperation(f"{name!r} names no tool: write module:name")
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        raise NotFound(f"there is no module {error.name!r} to find tools in") from error
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise NotFound(f"{module} has nothing called {attribute}")
        found = getattr(found, step)
    return found


def _flat(things: Iterable[object]) -> Iterable[object]:
    for thing in things:
        if isinstance(thing, list | tuple):
            yield from _flat(cast("Sequence[object]", thing))
        else:
            yield thing


def _check_names(toolsets: Sequence[Toolset]) -> None:
    seen: set[str] = set()
    for spec in (spec for toolset in toolsets for spec in toolset.specs):
        if spec.name in seen:
            raise InvalidOperation(f"two tools are called {spec.name}")
        seen.add(spec.name)
