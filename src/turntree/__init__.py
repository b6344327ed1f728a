"""Record every turn of a coding agent together with the files it found and the files it left.

This module is the public API. It holds no code of its own except the lazy look-up below, which
keeps ``turntree --version`` from loading a database driver. Whatever is not named in ``__all__``
may change in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turntree.api import Tree
    from turntree.auth.execution_context import ExecutionContext
    from turntree.auth.permissions import Permissions
    from turntree.auth.persona import Persona
    from turntree.boot.open import Settings
    from turntree.boot.open import open_tree as open  # noqa: A004
    from turntree.boot.sync_tree import SyncTree, open_sync
    from turntree.core.compaction import Compaction
    from turntree.core.errors import (
        Ambiguous,
        Conflict,
        DatabaseUnavailable,
        InvalidOperation,
        InvalidQuery,
        InvalidRevision,
        NotCanonical,
        NotFound,
        NoWorker,
        PermissionDenied,
        ProviderError,
        ProviderNotConfigured,
        ServerUnavailable,
        TurnFailed,
        TurntreeError,
    )
    from turntree.core.ids import Digest, Label, RunId, SessionId, Timestamp, TurnId
    from turntree.core.message import (
        Message,
        OpaquePart,
        Reasoning,
        Text,
        ToolResult,
        ToolUse,
        assistant,
        tool,
        user,
    )
    from turntree.core.principal import Principal
    from turntree.core.program import Program
    from turntree.core.session import Origin, Session, SessionMove, Spawn
    from turntree.core.thread import Comparison, ThreadTurn
    from turntree.core.turn import Turn
    from turntree.core.usage import ModelCall, Usage
    from turntree.ledger.recorder import Recorder
    from turntree.runs.answer import Answer
    from turntree.search.results import SearchHit, SearchResult
    from turntree.tools.functions import function_tool

__version__ = "0.1.0"

_HOMES = {
    "tools.functions": ("function_tool",),
    "boot.open": ("Settings",),
    "boot.sync_tree": ("SyncTree", "open_sync"),
    "core.compaction": ("Compaction",),
    "core.errors": (
        "Ambiguous", "InvalidQuery", "InvalidRevision", "Conflict", "PermissionDenied",
        "ProviderNotConfigured", "NotCanonical", "NotFound", "ProviderError",
        "InvalidOperation", "TurntreeError", "DatabaseUnavailable", "NoWorker", "ServerUnavailable",
        "TurnFailed",
    ),
    "core.ids": ("Digest", "Timestamp", "Label", "RunId", "SessionId", "TurnId"),
    "core.message": (
        "Message", "OpaquePart", "Reasoning", "Text", "ToolResult", "ToolUse",
        "assistant", "tool", "user",
    ),
    "auth.permissions": ("Permissions",),
    "auth.persona": ("Persona",),
    "core.principal": ("Principal",),
    "core.program": ("Program",),
    "search.results": ("SearchHit", "SearchResult"),
    "core.session": ("Origin", "Session", "SessionMove", "Spawn"),
    "core.thread": ("Comparison", "ThreadTurn"),
    "core.turn": ("Turn",),
    "core.usage": ("ModelCall", "Usage"),
    "auth.execution_context": ("ExecutionContext",),
    "ledger.recorder": ("Recorder",),
    "runs.answer": ("Answer",),
    "api": ("Tree",),
}  # fmt: skip

__all__ = [
    "Ambiguous",
    "Answer",
    "Compaction",
    "Comparison",
    "Conflict",
    "DatabaseUnavailable",
    "Digest",
    "ExecutionContext",
    "InvalidOperation",
    "InvalidQuery",
    "InvalidRevision",
    "Label",
    "Message",
    "ModelCall",
    "NoWorker",
    "NotCanonical",
    "NotFound",
    "OpaquePart",
    "Origin",
    "PermissionDenied",
    "Permissions",
    "Persona",
    "Principal",
    "Program",
    "ProviderError",
    "ProviderNotConfigured",
    "Reasoning",
    "Recorder",
    "RunId",
    "SearchHit",
    "SearchResult",
    "ServerUnavailable",
    "Session",
    "SessionId",
    "SessionMove",
    "Settings",
    "Spawn",
    "SyncTree",
    "Text",
    "ThreadTurn",
    "Timestamp",
    "ToolResult",
    "ToolUse",
    "Tree",
    "Turn",
    "TurnFailed",
    "TurnId",
    "TurntreeError",
    "Usage",
    "assistant",
    "function_tool",
    "open",
    "open_sync",
    "tool",
    "user",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "open":
        return import_module("turntree.boot.open").open_tree
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"turntree.{home}"), name)
    raise AttributeError(f"turntree has no {name!r}")
