"""The lifecycles of the kinds of program that come with the product.

Each is a declared machine: its states, and from each the ones that may follow. A kind that somebody
else adds brings its own, in its own module; nothing here has to know of it.
"""

from collections.abc import Mapping
from typing import Final

from turntree.core.program import Lifecycle

_RELEASED: Final = Lifecycle(
    "draft", {"draft": ("published",), "published": ("deprecated",), "deprecated": ()}
)

LIFECYCLES: Final[Mapping[str, Lifecycle]] = {
    "provider": _RELEASED,
    "model": _RELEASED,
    "code": _RELEASED,
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
            "idle": ("thinking", "paused", "error"),
            "thinking": ("executing", "waiting", "paused", "error", "idle"),
            "executing": ("thinking", "waiting", "paused", "error", "idle"),
            "waiting": ("thinking", "executing", "paused", "error", "idle"),
            "paused": ("thinking", "executing", "waiting", "error", "idle"),
            # Whoever has looked at what went wrong resets it.
            "error": ("idle",),
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
            # What was changed has to be validated again.
            "validated": ("active", "draft"),
            "active": ("archived", "draft"),
            "archived": ("active",),
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
