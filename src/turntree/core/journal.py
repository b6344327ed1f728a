"""What the journal says of a turn that was taken elsewhere.

A run of ours leaves a fact for every step. A turn that somebody else's loop took, or that was
imported, leaves one: what its model calls used. It has a digest of its own, because usage is no
part of the turn's.
"""

from collections.abc import Sequence

from turntree.core.canonical import Json
from turntree.core.event import Event, SealedEvent, record
from turntree.core.turn import Turn
from turntree.core.usage import ModelCall, to_json


def recorded(turn: Turn, calls: Sequence[ModelCall]) -> list[SealedEvent]:
    """Return the facts to store with a turn taken elsewhere: none if it used nothing."""
    if not calls:
        return []
    data: dict[str, Json] = {"calls": [to_json(call) for call in calls], "turn": turn.digest}
    return [record(Event(turn.id, 0, "turn.recorded", turn.header.sealed_at, data))]
