"""Hook events: what an agent's hooks report about a session while it works.

A hook reports that a session was opened, that a turn begins or ends, that a compaction splits a
turn, that a tool is about to be called or has returned, or that a session was closed. Two hook
events make a *span*, and a span belongs to the turn that was taken in it. Hooks run in processes
that no program waits for, so any event may be missing, duplicated or late.

This module turns hook events into spans and finds the turn of a span. It knows no tool, file or
clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

from turntree.core.ids import Timestamp, TurnId, unix_ms
from turntree.core.turn import Header
from turntree.core.value import value

SightingKind = Literal["session", "begin", "end", "cut", "close", "call", "return"]
SIGHTING_KINDS: Final[tuple[SightingKind, ...]] = get_args(SightingKind)
HookKind = Literal[SightingKind, "wait"]
"""What a hook can report. That an agent waits for its user is shown on the board, and belongs to no
turn.
"""
HOOK_KINDS: Final[tuple[HookKind, ...]] = (*SIGHTING_KINDS, "wait")
JudgeKind = Literal["judge", "permit"]
"""What a hook asks: whether a call may be made, or whether the tool has to ask its user."""
JUDGE_KINDS: Final[tuple[JudgeKind, ...]] = get_args(JudgeKind)


class AgentStream(NamedTuple):
    """One agent's turns, which follow each other."""

    tool: str
    session: str
    """The tool's id of the session."""
    agent: str | None
    """The tool's id of the subagent; None for the session's own turns."""


@value
class HookEvent:
    """One event that a hook reported."""

    id: str
    """Sorts events with equal timestamps in the order they were written."""
    stream: AgentStream
    kind: SightingKind
    at: Timestamp
    place: str | None = None
    """The working directory of the agent; None if no snapshot of it may be taken."""
    transcript: str | None = None
    """The transcript of the session, if the tool's hooks name it."""
    call: str | None = None
    """The tool's id of the call that begins or ends."""
    is_late: bool = False
    """Whether the agent went on before the snapshot was taken."""
    late_ms: int | None = None
    """How long after the event the snapshot was complete, if files changed in between."""


@value
class TurnSpan:
    """The interval of a turn, from its first to its last hook event."""

    begin: HookEvent | None
    """None if the beginning was not reported."""
    end: HookEvent
    """What ended it: its own end, or the next event if it was interrupted."""
    between: tuple[HookEvent, ...] = ()
    """Events of the same turn in between."""

    @property
    def sightings(self) -> tuple[HookEvent, ...]:
        """All events of the span."""
        return (*(() if self.begin is None else (self.begin,)), *self.between, self.end)


@value
class HookTimeline:
    """The result of folding hook events."""

    spans: Sequence[TurnSpan]
    """In the order in which they ended."""
    announced: Sequence[HookEvent]
    """Sessions that were opened."""
    waiting: Sequence[HookEvent]
    """Beginnings that nothing has ended yet."""
    idle: Sequence[HookEvent]
    """Events without effect, such as a session that was closed between two turns."""
    calling: Sequence[HookEvent]
    """Tool calls of turns that nothing has ended yet."""


@dataclass(slots=True)
class _SpanFold:
    spans: list[TurnSpan] = field(default_factory=list[TurnSpan])
    announced: list[HookEvent] = field(default_factory=list[HookEvent])
    open: dict[AgentStream, HookEvent] = field(default_factory=dict[AgentStream, HookEvent])
    idle: list[HookEvent] = field(default_factory=list[HookEvent])
    calls: dict[AgentStream, list[HookEvent]] = field(
        default_factory=dict[AgentStream, list[HookEvent]]
    )

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
                # An interrupted turn reports no end; the next beginning ends it.
                if begun is not None:
                    self._close(begun, sighting)
                self.open[sighting.stream] = sighting
            case "cut" if begun is not None:
                self._close(begun, sighting)
                self.open[sighting.stream] = sighting
            case "end" if begun is not None or sighting.stream.agent is None:
                self._close(begun, sighting)
            case "close" if begun is not None:
                self._close(begun, sighting)
            case "call" | "return" if begun is not None:
                self.open[sighting.stream] = begun
                self.calls.setdefault(sighting.stream, []).append(sighting)
            case "session" | "cut" | "end" | "close" | "call" | "return":
                self.idle.append(sighting)

    def _close(self, begun: HookEvent | None, end: HookEvent) -> None:
        self.spans.append(TurnSpan(begun, end, tuple(self.calls.pop(end.stream, ()))))


def fold_sightings(sightings: Iterable[HookEvent]) -> HookTimeline:
    """Return the spans of hook events, whatever order they come in."""
    folding = _SpanFold()
    for sighting in sorted(sightings, key=lambda sighting: (unix_ms(sighting.at), sighting.id)):
        folding.take(sighting)
    calling = [call for calls in folding.calls.values() for call in calls]
    return HookTimeline(
        folding.spans, folding.announced, list(folding.open.values()), folding.idle, calling
    )


def find_turn(span: TurnSpan, thread: Iterable[Header]) -> TurnId | None:
    """Return the turn that was taken in a span: the last one that had begun when the span ended.

    A turn that ended before the span began does not belong to it: the span's own turn is not
    recorded yet. Summaries are taken by the tool itself, so no span belongs to them.
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
    """Return one span for each turn: from its first event to its last."""
    joined: dict[TurnId, TurnSpan] = {}
    for turn, span in found:
        before = joined.get(turn)
        if before is None:
            joined[turn] = span
            continue
        middle = [
            sighting
            for sighting in (*before.sightings, *span.sightings)
            if sighting not in (before.begin, span.end)
        ]
        joined[turn] = TurnSpan(before.begin, span.end, tuple(dict.fromkeys(middle)))
    return joined


def pair_calls(span: TurnSpan) -> list[tuple[HookEvent, HookEvent]]:
    """Return the tool calls of a turn, each with its beginning and its end, in order of the ends.

    A call that was denied or killed has no end, and is left out. A return without an id is that of
    every call that has begun.
    """
    begun: dict[str | None, HookEvent] = {}
    pairs: list[tuple[HookEvent, HookEvent]] = []
    for sighting in span.between:
        if sighting.kind == "call":
            begun[sighting.call] = sighting
        elif sighting.kind == "return" and sighting.call is None:
            pairs += [(call, sighting) for call in begun.values()]
            begun.clear()
        elif sighting.kind == "return" and sighting.call in begun:
            pairs.append((begun.pop(sighting.call), sighting))
    return pairs
