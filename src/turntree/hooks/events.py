"""Sightings: moments in another tool's session, as its hooks tell them while it works.

A hook says that a session was opened, that a turn begins or ends, that a turn is cut in two by a
compaction, or that a session is closed. Two sightings make a *span*, and a span belongs to the turn
that was taken in it. They come from processes that nobody waits for, so that any of them may be
missing, doubled or late.

This module knows how sightings become spans and which turn a span tells of. It must never know a
tool, a file or a clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

from turntree.core.ids import Timestamp, TurnId, unix_ms
from turntree.core.turn import Header
from turntree.core.value import value

SightingKind = Literal["session", "begin", "end", "cut", "close"]
SIGHTING_KINDS: Final[tuple[SightingKind, ...]] = get_args(SightingKind)


class AgentStream(NamedTuple):
    """One agent's turns, which follow each other."""

    tool: str
    session: str
    """What the tool calls its session."""
    agent: str | None
    """What the tool calls the subagent; None for the session's own turns."""


@value
class HookEvent:
    """One moment that a hook told of."""

    id: str
    """Sorts sightings of the same moment in the order they were written."""
    stream: AgentStream
    kind: SightingKind
    at: Timestamp
    place: str | None = None
    """The folder the agent works in; None where no state of it may be kept."""
    transcript: str | None = None
    """Where the tool writes the session down, if its hooks say."""


@value
class TurnSpan:
    """From where a turn was seen to begin to where it was seen to end."""

    begin: HookEvent | None
    """None when nobody looked as it began."""
    end: HookEvent
    """What ended it: its own end, or what came after it when it was interrupted."""
    between: tuple[HookEvent, ...] = ()
    """Sightings of the same turn that lie within."""

    @property
    def sightings(self) -> tuple[HookEvent, ...]:
        """All sightings it is made of."""
        return (*(() if self.begin is None else (self.begin,)), *self.between, self.end)


@value
class HookTimeline:
    """What a heap of sightings tells of."""

    spans: Sequence[TurnSpan]
    """In the order in which they ended."""
    announced: Sequence[HookEvent]
    """Sessions that were opened."""
    waiting: Sequence[HookEvent]
    """Beginnings that nothing has ended yet."""
    idle: Sequence[HookEvent]
    """Sightings that say nothing, such as a session that was closed between two turns."""


@dataclass(slots=True)
class _Folding:
    spans: list[TurnSpan] = field(default_factory=list[TurnSpan])
    announced: list[HookEvent] = field(default_factory=list[HookEvent])
    open: dict[AgentStream, HookEvent] = field(default_factory=dict[AgentStream, HookEvent])
    idle: list[HookEvent] = field(default_factory=list[HookEvent])

    def take(self, sighting: HookEvent) -> None:
        begun = self.open.pop(sighting.stream, None)
        match sighting.kind:
            case "session" if begun is None:
                self.announced.append(sighting)
            case "session" if begun is not None:
                # Some tools open a session again in the middle of a turn, after a compaction.
                self.idle.append(sighting)
                self.open[sighting.stream] = begun
            case "begin":
                # Whoever is interrupted says nothing; the next beginning is the first to know.
                if begun is not None:
                    self.spans.append(TurnSpan(begun, sighting))
                self.open[sighting.stream] = sighting
            case "cut" if begun is not None:
                self.spans.append(TurnSpan(begun, sighting))
                self.open[sighting.stream] = sighting
            case "end" if begun is not None or sighting.stream.agent is None:
                self.spans.append(TurnSpan(begun, sighting))
            case "close" if begun is not None:
                self.spans.append(TurnSpan(begun, sighting))
            case "session" | "cut" | "end" | "close":
                self.idle.append(sighting)


def fold_sightings(sightings: Iterable[HookEvent]) -> HookTimeline:
    """Return the spans that sightings make, whatever order they come in."""
    folding = _Folding()
    for sighting in sorted(sightings, key=lambda sighting: (unix_ms(sighting.at), sighting.id)):
        folding.take(sighting)
    return HookTimeline(folding.spans, folding.announced, list(folding.open.values()), folding.idle)


def find_turn(span: TurnSpan, thread: Iterable[Header]) -> TurnId | None:
    """Return the turn that was taken in a span: the last one that had begun when it ended.

    A turn that was over before the span began is none of its: what the span tells of has not
    been written down yet. Summaries are taken by the tool and not by anybody's asking.
    """
    ended = unix_ms(span.end.at)
    begun = [one for one in thread if one.kind == "normal" and unix_ms(one.started_at) <= ended]
    if not begun:
        return None
    last = max(begun, key=lambda one: (unix_ms(one.started_at), unix_ms(one.sealed_at)))
    if span.begin is not None and unix_ms(last.sealed_at) < unix_ms(span.begin.at):
        return None
    return last.id


def join_spans(found: Iterable[tuple[TurnId, TurnSpan]]) -> Mapping[TurnId, TurnSpan]:
    """Return one span for each turn: from where it was first seen to where it was last seen."""
    joined: dict[TurnId, TurnSpan] = {}
    for turn, span in found:
        before = joined.get(turn)
        if before is None:
            joined[turn] = span
            continue
        middle = [
            sighting
            for sighting in (*before.sightings, *span.sightings)
            if sighting not in _ends(before, span)
        ]
        joined[turn] = TurnSpan(before.begin, span.end, tuple(dict.fromkeys(middle)))
    return joined


def _ends(first: TurnSpan, last: TurnSpan) -> tuple[HookEvent | None, HookEvent]:
    return first.begin, last.end
