"""Git for agent work: every turn an AI agent takes becomes a permanent, verifiable address.

This module is the public API and holds no code of its own but the lazy look-up below, which
keeps ``turntree --version`` from loading a database driver. Whatever is not named in
``__all__`` may change in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turntree.adapters.toolsets.functions import function_tool
    from turntree.boot import Settings
    from turntree.boot import open_tree as open  # noqa: A004
    from turntree.domain.compaction import Compaction
    from turntree.domain.errors import (
        Ambiguous,
        BadQuery,
        BadRevision,
        Conflict,
        Denied,
        NoProvider,
        NotCanonical,
        NotFound,
        ProviderFailed,
        Refused,
        TurntreeError,
        Unreachable,
    )
    from turntree.domain.ids import Digest, Instant, Label, RunId, SessionId, TurnId
    from turntree.domain.message import (
        Message,
        Opaque,
        Reasoning,
        Text,
        ToolResult,
        ToolUse,
        assistant,
        tool,
        user,
    )
    from turntree.domain.permission import Rights
    from turntree.domain.persona import Persona
    from turntree.domain.principal import Principal
    from turntree.domain.program import Program
    from turntree.domain.search import Hit, SearchResult
    from turntree.domain.session import Origin, Session, SessionMove, Spawn
    from turntree.domain.thread import Comparison, Placed
    from turntree.domain.turn import Turn
    from turntree.domain.usage import ModelCall, Usage
    from turntree.runtime.execution import ExecutionContext
    from turntree.runtime.recorder import Recorder
    from turntree.runtime.tree import Tree

__version__ = "0.1.0"

_HOMES = {
    "adapters.toolsets.functions": ("function_tool",),
    "boot": ("Settings",),
    "domain.compaction": ("Compaction",),
    "domain.errors": (
        "Ambiguous", "BadQuery", "BadRevision", "Conflict", "Denied", "NoProvider", "NotCanonical",
        "NotFound", "ProviderFailed", "Refused", "TurntreeError", "Unreachable",
    ),
    "domain.ids": ("Digest", "Instant", "Label", "RunId", "SessionId", "TurnId"),
    "domain.message": (
        "Message", "Opaque", "Reasoning", "Text", "ToolResult", "ToolUse",
        "assistant", "tool", "user",
    ),
    "domain.permission": ("Rights",),
    "domain.persona": ("Persona",),
    "domain.principal": ("Principal",),
    "domain.program": ("Program",),
    "domain.search": ("Hit", "SearchResult"),
    "domain.session": ("Origin", "Session", "SessionMove", "Spawn"),
    "domain.thread": ("Comparison", "Placed"),
    "domain.turn": ("Turn",),
    "domain.usage": ("ModelCall", "Usage"),
    "runtime.execution": ("ExecutionContext",),
    "runtime.recorder": ("Recorder",),
    "runtime.tree": ("Tree",),
}  # fmt: skip

__all__ = [
    "Ambiguous",
    "BadQuery",
    "BadRevision",
    "Compaction",
    "Comparison",
    "Conflict",
    "Denied",
    "Digest",
    "ExecutionContext",
    "Hit",
    "Instant",
    "Label",
    "Message",
    "ModelCall",
    "NoProvider",
    "NotCanonical",
    "NotFound",
    "Opaque",
    "Origin",
    "Persona",
    "Placed",
    "Principal",
    "Program",
    "ProviderFailed",
    "Reasoning",
    "Recorder",
    "Refused",
    "Rights",
    "RunId",
    "SearchResult",
    "Session",
    "SessionId",
    "SessionMove",
    "Settings",
    "Spawn",
    "Text",
    "ToolResult",
    "ToolUse",
    "Tree",
    "Turn",
    "TurnId",
    "TurntreeError",
    "Unreachable",
    "Usage",
    "assistant",
    "function_tool",
    "open",
    "tool",
    "user",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "open":
        return import_module("turntree.boot").open_tree
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"turntree.{home}"), name)
    raise AttributeError(f"turntree has no {name!r}")
