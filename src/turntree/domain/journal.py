"""What the journal says of a turn that was taken elsewhere.

A run of ours leaves a fact for every step. A turn that somebody else's loop took, or that was
imported, leaves one: what its model calls used. It has a digest of its own, because usage is no
part of the turn's.
"""

from collections.abc import Sequence

from turntree.domain.canonical import Json
from turntree.domain.event import Event, Recorded, record
from turntree.domain.turn import Turn
from turntree.domain.usage import ModelCall, to_json


def recorded(turn: Turn, calls: Sequence[ModelCall]) -> list[Recorded]:
    """Return the facts to store with a turn taken elsewhere: none if it used nothing."""
    if not calls:
        return []
    data: dict[str, Json] = {"calls": [to_json(call) for call in calls], "turn": turn.digest}
    return [record(Event(turn.id, 0, "turn.recorded", turn.header.sealed_at, data))]
