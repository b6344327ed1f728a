"""Project composers as sessions and bubbles as turns.

A conversation of Cursor is linear: a person's bubble begins a turn, and everything up to the next
one answers it. Values that change while a conversation continues (the chosen model, its status, its
last change) never enter a finished turn, so that reading it again gives the same turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turntree.core.ids import Timestamp
from turntree.core.message import Message, Text
from turntree.core.turn import Outcome
from turntree.core.usage import ModelCall
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftCompaction, DraftSession, DraftTurn, Key, Projection
from turntree.transcripts.importers.cursor.bubbles import (
    CONTEXT_COMPRESSED,
    PROVIDER,
    answered,
    asked,
    call_of,
    is_loading,
    is_user,
    model_of,
    summary_of,
    time_of,
    tool_of,
)
from turntree.transcripts.importers.cursor.records import (
    Bubble,
    Composer,
    ComposerRows,
    bubbles_of,
    gather,
)
from turntree.transcripts.importers.cursor.sessions import (
    ToolCallRef,
    session_of,
    spawn_of,
    tree_of,
)
from turntree.transcripts.importers.shared.lenient_json import moment

_NEVER: Final = Timestamp("1970-01-01T00:00:00.000Z")


def project(root: str, records: Sequence[RawRecord]) -> Projection:
    """Return the projection of a composer's rows and its subagents'."""
    gathered = gather(records)
    lines = {id: _line(composer) for id, composer in gathered.composers.items()}
    return Projection(
        [turn for line in lines.values() for turn in line.turns],
        _sessions(root, gathered, lines),
        gathered.unknown,
        sorted(place for line in lines.values() for place in line.orphans),
        gathered.broken + sum(line.broken for line in lines.values()),
    )


@dataclass(slots=True)
class _TurnBuilder:
    """A turn while its bubbles are read."""

    key: Key
    parent: Key | None
    query: Message
    reply: list[Message] = field(default_factory=list[Message])
    times: list[Timestamp] = field(default_factory=list[Timestamp])
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    places: list[int] = field(default_factory=list[int])
    taken: set[str] = field(default_factory=set[str])
    model: str | None = None
    last: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def note(self, bubble: Bubble, at: Timestamp | None) -> None:
        self.places += bubble.places
        self.model = model_of(bubble.document) or self.model
        self.last = bubble.document
        if at is not None:
            self.times.append(at)

    def end(self, before: Timestamp, *, running: bool) -> DraftTurn:
        """Return the turn; ``before`` replaces missing timestamps."""
        outcome: Outcome = "completed"
        if running or not self.reply or is_loading(self.last):
            outcome = "interrupted"
        elif tool_of(self.last).get("status") in ("cancelled", "canceled"):
            outcome = "canceled"
        start = self.times[0] if self.times else before
        return DraftTurn(
            self.key,
            self.parent,
            (self.query,),
            tuple(self.reply),
            start,
            max((start, *self.times)),
            outcome,
            model=self.model,
            provider=None if self.model is None else PROVIDER,
            calls=tuple(self.calls),
            open=running,
            records=tuple(dict.fromkeys(self.places)),
        )


@dataclass(slots=True)
class _Line:
    """One composer's conversation while it is read, and its turns."""

    composer: Composer
    before: Timestamp
    turns: list[DraftTurn] = field(default_factory=list[DraftTurn])
    calls: list[ToolCallRef] = field(default_factory=list[ToolCallRef])
    orphans: list[int] = field(default_factory=list[int])
    broken: int = 0
    growing: _TurnBuilder | None = None

    def ask(self, bubble: Bubble) -> None:
        self.end()
        at = time_of(bubble.document, bubble.header)
        self.begin(bubble, asked(bubble.document, at, bubble.checkpoint)).note(bubble, at)

    def answer(self, bubble: Bubble) -> None:
        # An assistant's bubble before any question answers an empty system message.
        growing = self.growing or self.begin(bubble, Message("system", ()))
        at = time_of(bubble.document, bubble.header)
        said = answered(bubble.document, at, growing.taken, bubble.checkpoint)
        growing.reply += said
        growing.note(bubble, at)
        if (call := call_of(bubble.document, bubble.id)) is not None:
            growing.calls.append(call)
        for use in (use for message in said for use in message.tool_uses):
            self.calls.append(ToolCallRef(growing.key, str(use.call_id), tool_of(bubble.document)))

    def compact(self, bubble: Bubble, summary: str, *, last: bool) -> bool:
        """Make a turn of a summary between two turns; False if it is inside one."""
        growing = self.growing
        if growing is not None and growing.reply:
            if not last:
                return False
            self.end()
            growing = None
        parent = self.turns[-1].key if self.turns else None
        if parent is None:
            return False
        at = time_of(bubble.document, bubble.header) or self.before
        key = Key(f"{self.composer.id}/{bubble.id}")
        self.turns.append(
            DraftTurn(
                key,
                parent,
                (),
                (Message("assistant", (Text(summary),), at=at),),
                at,
                at,
                kind="compaction",
                compaction=DraftCompaction(trigger="context_limit"),
                records=bubble.places,
            )
        )
        if growing is not None:
            growing.parent = key
        return True

    def begin(self, bubble: Bubble, query: Message) -> _TurnBuilder:
        parent = self.turns[-1].key if self.turns else None
        self.growing = _TurnBuilder(Key(f"{self.composer.id}/{bubble.id}"), parent, query)
        return self.growing

    def end(self, *, running: bool = False) -> None:
        if self.growing is not None:
            self.turns.append(self.growing.end(self.before, running=running))
            self.before = self.turns[-1].sealed_at
            self.growing = None


def _line(composer: Composer) -> _Line:
    bubbles, orphans, broken = bubbles_of(composer)
    line = _Line(composer, moment(composer.member("createdAt")) or _NEVER)
    line.orphans, line.broken = orphans, broken
    for place, bubble in enumerate(bubbles):
        if is_user(bubble.document, bubble.header):
            line.ask(bubble)
            continue
        summary = ""
        if bubble.document.get("capabilityType") == CONTEXT_COMPRESSED:
            summary = summary_of(bubble.document)
        after = bubbles[place + 1] if place + 1 < len(bubbles) else None
        last = after is None or is_user(after.document, after.header)
        if not (summary and line.compact(bubble, summary, last=last)):
            line.answer(bubble)
    if (growing := line.growing) is not None:
        generating = composer.member("status") == "generating"
        line.end(running=generating or not growing.reply or is_loading(growing.last))
    return line


def _sessions(root: str, gathered: ComposerRows, lines: Mapping[str, _Line]) -> list[DraftSession]:
    parents = tree_of(root, gathered.composers)
    sessions: list[DraftSession] = []
    for id, line in lines.items():
        if not line.turns:
            continue
        above = parents.get(id)
        spawn = None
        if above is not None and lines[above.parent].turns:
            spawn = spawn_of(line.composer, above, lines[above.parent].calls)
        head = line.turns[-1].key
        sessions.append(session_of(line.composer, gathered.folder, head, spawn, above))
    sessions.sort(key=lambda session: session.id != root)
    return sessions
