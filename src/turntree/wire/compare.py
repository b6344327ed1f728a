"""Two threads side by side, from where they part."""

from turntree.core.value import value
from turntree.wire.files import PathChange
from turntree.wire.threads import TurnDocument


@value
class ToolCount:
    """How often a tool was called."""

    tool: str
    calls: int


@value
class CompareSide:
    """What only one of two threads contains."""

    revision: str
    label: str | None
    turns: tuple[TurnDocument, ...]
    """The first turns after the one where the two part."""
    turns_total: int
    tokens: int
    cost: float | None
    """What the calls with a known price cost together; null if there is none."""
    unknown_cost: bool
    """Whether a call has no known price."""
    minutes: int
    """From the start of its first turn to the end of its last one."""
    tools: tuple[ToolCount, ...]
    files_changed: int


@value
class ComparePath:
    """A file that differs from the turn where two threads part, on one side or both."""

    path: str
    left: PathChange | None
    right: PathChange | None


@value
class CompareDocument:
    """Two threads: what they share, and what each has alone."""

    base: TurnDocument | None
    left: CompareSide
    right: CompareSide
    files: tuple[ComparePath, ...]
