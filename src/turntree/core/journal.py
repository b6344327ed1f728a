"""Events of a turn that was recorded elsewhere.

A run of ours records an event for each step. A turn that another agent loop took, or that was
imported, has only one: the usage of its model calls. That event has its own digest, because usage
is not part of the turn's.
"""

from collections.abc import Sequence

from turntree.core.canonical import Json
from turntree.core.event import Event, SealedEvent, record
from turntree.core.turn import Turn
from turntree.core.usage import ModelCall, to_json


def recorded(turn: Turn, calls: Sequence[ModelCall]) -> list[SealedEvent]:
    """Return the events to store with a turn recorded elsewhere: none if it used no model."""
    if not calls:
        return []
    data: dict[str, Json] = {"calls": [to_json(call) for call in calls], "turn": turn.digest}
    return [record(Event(turn.id, 0, "turn.recorded", turn.header.sealed_at, data))]
