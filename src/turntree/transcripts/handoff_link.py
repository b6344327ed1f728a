"""Link a session that we wrote for another tool back to the turn it continues.

The records we wrote describe turns that are stored already. Projected alone, they show which turns
these are; the first turn the tool added then follows the handed-off one, and none of ours is stored
twice.

Nothing here knows a tool or a file. Records that cannot be recognized stay as they were read.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, cast

from turntree.core.ids import SessionId
from turntree.core.message import Message, Part
from turntree.core.value import value
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftTurn, Key, KnownTurn, Projection


@value
class HandoffLink:
    """A session that we wrote for another tool, and the turn that it continues."""

    session: str
    """The tool's id of the session, which we chose."""
    file: str
    """The name of the file that was written."""
    bytes: int
    """The size of the file when we wrote it."""
    mark: str | None
    """The suffix of our record ids, which copies keep; None if records have no ids."""
    turn: KnownTurn
    last: str | None = None
    """The id of our last message, if messages have ids."""
    continues: SessionId | None = None
    """Our session at that turn, which continues with the tool."""


@value
class OwnRecords:
    """Records that we wrote ourselves from stored turns: they become no new turns."""

    turn: KnownTurn
    """The last turn of that thread; what follows the gap follows it."""
    places: Sequence[int]


def find_graft(
    projection: Projection, records: Sequence[RawRecord], grafts: Sequence[HandoffLink]
) -> HandoffLink | None:
    """Return the handoff link that records begin with, or None."""
    if not grafts:
        return None
    # A tool that copies a session copies its beginning, under any name.
    begins = [turn for turn in projection.turns if turn.parent is None]
    first = [records[place] for turn in begins for place in turn.records]
    ids = [_id_of(record) for record in first]
    for graft in grafts:
        if any(_is_ours(record, id, graft) for record, id in zip(first, ids, strict=True)):
            return graft
    return None


def list_written(graft: HandoffLink, records: Sequence[RawRecord]) -> list[int]:
    """Return the indexes of the records that we wrote; none if a copy is incomplete."""
    ids = ["" if graft.mark is None else _id_of(record) for record in records]
    if graft.last is not None and graft.last not in ids:
        return []
    return [
        place
        for place, (record, id) in enumerate(zip(records, ids, strict=True))
        if _is_ours(record, id, graft)
    ]


def find_copy(projection: Projection, written: Projection) -> frozenset[int]:
    """Return the indexes of the records that repeat, word for word, what we wrote, all or none.

    For a tool that copies our records and gives them ids of its own.
    """
    chain: list[DraftTurn] = []
    for turn in projection.turns:
        follows = turn.parent == (chain[-1].key if chain else None)
        if len(chain) < len(written.turns) and follows:
            same = _words(turn) == _words(written.turns[len(chain)])
            chain += [turn] if same else []
    whole = len(chain) == len(written.turns)
    return frozenset(place for turn in chain for place in turn.records) if whole else frozenset()


def _is_ours(record: RawRecord, id: str, graft: HandoffLink) -> bool:
    if graft.mark is not None:
        return id.endswith(graft.mark)
    # A tool that compresses a file adds a suffix to its name.
    return record.offset < graft.bytes and record.file.startswith(graft.file)


def plant(
    projection: Projection, graft: HandoffLink, places: AbstractSet[int], written: Projection
) -> Projection:
    """Return a projection without the turns that we wrote; later turns follow the known one.

    ``written`` is the projection of the records at ``places`` alone. If one of its turns differs
    now, the projection stays as it is: the tool has continued in the middle of a turn, and what
    it added must not be lost. A turn of ours that has other descendants than those of the last
    one stays, with all turns before it.
    """
    ours = [turn for turn in projection.turns if not places.isdisjoint(turn.records)]
    if not ours or [_words(turn) for turn in ours] != [_words(turn) for turn in written.turns]:
        return projection
    befores = [None, *(turn.key for turn in ours[:-1])]
    keys = {turn.key: place for place, turn in enumerate(ours)}
    others = [turn for turn in projection.turns if turn.key not in keys]
    # A compaction that kept one of ours: which turn it means is unknown.
    if [turn.parent for turn in ours] != befores or any(
        turn.compaction is not None and turn.compaction.first_kept in keys for turn in others
    ):
        return projection
    last = ours[-1].key
    needed = (keys[key] for key in _needed(projection, others) if key in keys and key != last)
    stays = max(needed, default=-1)
    gone = {turn.key for turn in ours[stays + 1 :]}
    return replace(
        projection,
        turns=[turn for turn in projection.turns if turn.key not in gone],
        planted={**projection.planted, last: graft.turn},
    )


def find_gap(
    projection: Projection,
    planted: Projection,
    graft: HandoffLink,
    places: Collection[int],
    count: int,
) -> OwnRecords | None:
    """Return the records that repeat what we wrote and that no remaining turn was made from.

    They are those at ``places``, those of the turns that ``plant`` removed, and all that follow
    one of these up to the next turn's first record, of ``count`` in all: any may quote it.
    """
    told = {place for turn in planted.turns for place in turn.records}
    stays = {turn.key for turn in planted.turns}
    gone = (turn.records for turn in projection.turns if turn.key not in stays)
    ours = {*places, *(place for some in gone for place in some)} - told
    found: list[int] = []
    for place in range(count):
        follows = bool(found) and found[-1] == place - 1
        if place in ours or (follows and place not in told):
            found.append(place)
    return OwnRecords(graft.turn, found) if found else None


def bridge(projection: Projection, gap: OwnRecords) -> Projection:
    """Return a projection whose turns after a gap follow the turn that the gap ends in.

    For records of which we only know that we wrote them. A subagent's session starts on its own.
    """
    key = Key(f"planted:{gap.turn.id}")
    parents = {turn.key: turn.parent for turn in projection.turns}
    apart = {_root(one.head, parents) for one in projection.sessions if one.spawn is not None}
    first = min(gap.places)
    turns = [
        replace(turn, parent=key)
        if turn.parent is None and turn.key not in apart and min(turn.records, default=-1) > first
        else turn
        for turn in projection.turns
    ]
    sessions = [
        replace(one, head=key) if one.head is None and one.spawn is None else one
        for one in projection.sessions
    ]
    planted = {**projection.planted, key: gap.turn}
    return replace(projection, turns=turns, sessions=sessions, planted=planted)


def _root(head: Key | None, parents: Mapping[Key, Key | None]) -> Key | None:
    while head is not None and (above := parents.get(head)) is not None:
        head = above
    return head


def _needed(projection: Projection, others: Iterable[DraftTurn]) -> Iterable[Key]:
    """Yield the turns that others refer to."""
    for turn in others:
        if turn.parent is not None:
            yield turn.parent
    for session in projection.sessions:
        if session.head is not None:
            yield session.head
        if session.spawn is not None:
            yield session.spawn.parent_turn


def _words(turn: DraftTurn) -> list[tuple[str, tuple[Part, ...]]]:
    """Return the messages without their metadata, which changes when a tool continues."""
    said: tuple[Message, ...] = (*turn.query, *turn.reply)
    return [(message.role, message.parts) for message in said]


def _id_of(record: RawRecord) -> str:
    try:
        told: Any = json.loads(record.data)
    except (ValueError, RecursionError):
        # A line that is not JSON has no id, and cannot be one that we wrote.
        return ""
    if not isinstance(told, dict):
        return ""
    named = cast("dict[str, object]", told)
    id = named.get("uuid") or named.get("id")
    return id if isinstance(id, str) else ""
