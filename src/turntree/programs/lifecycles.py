"""The lifecycles of the built-in kinds of programs.

Each is a state machine: its states, and the states that may follow each. A kind from another
package brings its own, in its own module; nothing here has to know about it.
"""

from collections.abc import Mapping
from typing import Final

from turntree.core.program import Lifecycle

_RELEASED: Final = Lifecycle(
    "draft", {"draft": ("published",), "published": ("deprecated",), "deprecated": ()}
)

DELETED: Final = "deleted"
"""The state of a program that lists leave out. Only its owner sets it and takes it back."""

LIFECYCLES: Final[Mapping[str, Lifecycle]] = {
    "provider": _RELEASED,
    "model": _RELEASED,
    "code": _RELEASED,
    "connector": _RELEASED,
    "session": Lifecycle(
        "created",
        {
            "created": ("active", "completed"),
            "active": ("paused", "completed"),
            "paused": ("active", "completed"),
            "completed": (),
        },
    ),
    "agent": Lifecycle(
        "idle",
        {
            "idle": ("thinking", "paused", "error", DELETED),
            "thinking": ("executing", "waiting", "paused", "error", "idle"),
            "executing": ("thinking", "waiting", "paused", "error", "idle"),
            "waiting": ("thinking", "executing", "paused", "error", "idle"),
            "paused": ("thinking", "executing", "waiting", "error", "idle", DELETED),
            # A person resets it after looking at the error.
            "error": ("idle", DELETED),
            DELETED: ("idle",),
        },
    ),
    "task": Lifecycle(
        "pending",
        {
            "pending": ("active", "blocked", "failed"),
            "active": ("completed", "failed", "blocked"),
            "blocked": ("active", "failed"),
            "completed": (),
            "failed": (),
        },
    ),
    "information": Lifecycle(
        "draft",
        {
            "draft": ("validated",),
            # A changed fact has to be validated again.
            "validated": ("active", "draft"),
            "active": ("archived", "draft"),
            "archived": ("active",),
        },
    ),
    "conversation": Lifecycle(
        "active",
        {
            "active": ("archived", DELETED),
            "archived": ("active", DELETED),
            DELETED: ("active",),
        },
    ),
    "human": Lifecycle(
        "available",
        {
            "available": ("busy", "away", "offline"),
            "busy": ("available", "away", "offline"),
            "away": ("available", "busy", "offline"),
            "offline": ("available", "busy", "away"),
        },
    ),
}
