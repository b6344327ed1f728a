"""Compaction: a turn whose reply summarizes earlier turns.

Nothing is removed. A compaction is a turn like any other. To assemble a context, walk back to the
nearest one and read its summary, then the turns it kept, then the turns after it. A fork from
before the compaction still sees everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeVar

from turntree.core.ids import TurnId
from turntree.core.value import value

CompactionKind = Literal["summary", "sliding_window", "selective"]
CompactionTrigger = Literal["context_limit", "manual", "periodic"]

T = TypeVar("T")


@value
class Compaction:
    """What was summarized, how, and what it saved."""

    summarized_through: TurnId
    """The last turn the summary covers."""
    first_kept: TurnId | None
    """The first turn that is still included in full, or None if none is."""
    turns_summarized: int
    kind: CompactionKind = "summary"
    trigger: CompactionTrigger = "manual"
    tokens_before: int | None = None
    tokens_after: int | None = None
    summary_tokens: int | None = None
    duration_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the document that the turn's header carries."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Compaction":
        """Return the details that a document describes; members of later releases are skipped."""
        known = {name: document[name] for name in cls.__annotations__ if name in document}
        members: dict[str, Any] = {"first_kept": None, **known}
        return cls(**members)


def visible(thread: Sequence[tuple[TurnId, Compaction | None, T]]) -> list[T]:
    """Return the items of a thread that a context includes. The thread is given root first.

    With a compaction: the compaction itself (its reply is the summary), then the turns from
    ``first_kept`` up to the compaction, then everything after it. Without one: everything.
    """
    newest = max(
        (i for i, (_, details, _) in enumerate(thread) if details is not None), default=None
    )
    if newest is None:
        return [item for _, _, item in thread]
    compaction = thread[newest][1]
    assert compaction is not None, "chosen because it has details"
    order = {turn: place for place, (turn, _, _) in enumerate(thread)}
    kept_from = newest if compaction.first_kept is None else order[compaction.first_kept]
    return [
        thread[newest][2],
        *(item for _, _, item in thread[kept_from:newest]),
        *(item for _, _, item in thread[newest + 1 :]),
    ]
