"""Which database a workspace is in: 4,096 slots, and a map from their ranges to databases.

The slot of a workspace is the last three hexadecimal digits of its id, so that every key of the
workspace tells it without a query. A new workspace takes these digits from the hash of its name:
its name leads to the same database, and two processes that create it at the same time meet there.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from turntree.core.errors import Hint, InvalidOperation
from turntree.core.ids import WorkspaceId
from turntree.core.value import value

SLOTS: Final = 4096
_DIGITS: Final = 3
"""The hexadecimal digits of a slot."""
_RANGE: Final = re.compile(r"(?P<first>\d{1,4})(?:-(?P<last>\d{1,4}))?", re.ASCII)


def slot_of(workspace: str) -> int:
    """Return the slot of a workspace, from its id."""
    return int(workspace[-_DIGITS:], 16)


def slot_of_name(name: str) -> int:
    """Return the slot that a workspace of this name is created in."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:_DIGITS], 16)


def place_id(new_id: str, name: str) -> WorkspaceId:
    """Return the id of a new workspace: a new id whose last digits are the slot of its name."""
    return WorkspaceId(f"{new_id[:-_DIGITS]}{slot_of_name(name):0{_DIGITS}x}")


@value
class Shard:
    """One database, and the slots whose workspaces it holds."""

    number: int
    """Its place in the map, from 1 on."""
    slots: tuple[tuple[int, int], ...]
    """Ranges, each with its first and its last slot."""
    database_url: str = field(repr=False)
    """It may hold a password."""

    def has(self, slot: int) -> bool:
        """Return whether workspaces of a slot are here."""
        return any(first <= slot <= last for first, last in self.slots)

    def holds(self, workspace: str, name: str) -> bool:
        """Return whether the id and the name of a workspace both lead here.

        Workspaces that were created by earlier versions have ids that say nothing about their name.
        """
        return self.has(slot_of(workspace)) and self.has(slot_of_name(name))

    @property
    def record(self) -> str:
        """The slots as its database records them: each set of slots has one way to be written."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(self.slots):
            if merged and merged[-1][1] + 1 == first:
                merged[-1] = merged[-1][0], last
            else:
                merged.append((first, last))
        return ", ".join(f"{first}-{last}" for first, last in merged)

    def __str__(self) -> str:
        """Return its number and its slots, for people."""
        ranges = (str(first) if first == last else f"{first}-{last}" for first, last in self.slots)
        return f"shard {self.number} (slots {', '.join(ranges)})"


@value
class ShardMap:
    """All databases of a ledger that is spread over several."""

    shards: tuple[Shard, ...]

    def find(self, workspace: str) -> Shard:
        """Return where a workspace is, from its id."""
        return self._find(slot_of(workspace))

    def find_named(self, name: str) -> Shard:
        """Return where a workspace is, or is created, from its name."""
        return self._find(slot_of_name(name))

    def get(self, number: int) -> Shard:
        """Return a shard by its number.

        Raises:
            InvalidOperation: There is no such shard.
        """
        if not 1 <= number <= len(self.shards):
            raise InvalidOperation(f"there is no shard {number}; there are 1 to {len(self.shards)}")
        return self.shards[number - 1]

    def _find(self, slot: int) -> Shard:
        return next(one for one in self.shards if one.has(slot))


def make_shard_map(entries: Sequence[tuple[Sequence[str], str]]) -> ShardMap:
    """Return the map of some entries: ranges like ``0-2047``, and the URL of a database.

    Raises:
        InvalidOperation: A range is malformed, or a slot has two databases or none.
    """
    shards = tuple(
        Shard(number, tuple(_read_range(text) for text in slots), url)
        for number, (slots, url) in enumerate(entries, start=1)
    )
    ranges = sorted((first, last, shard.number) for shard in shards for first, last in shard.slots)
    due, before = 0, 0
    for first, last, number in ranges:
        if first < due:
            raise InvalidOperation(f"slot {first} is in shard {before} and in shard {number}")
        if first > due:
            raise InvalidOperation(f"slot {due} is in no shard")
        due, before = last + 1, number
    if due < SLOTS:
        raise InvalidOperation(f"slot {due} is in no shard")
    return ShardMap(shards)


def read_record(record: str) -> Shard:
    """Return the slots that a database records, as a shard of no map."""
    return Shard(0, tuple(_read_range(text) for text in record.split(", ")), "")


def require_slots(shard: Shard, record: str | None, workspaces: Sequence[tuple[str, str]]) -> None:
    """Refuse a database that holds other slots than the map says.

    One that was never opened with a map records no slots. Its workspaces, by id and name, say
    then where it belongs.

    Raises:
        InvalidOperation: It is another shard's.
    """
    if record is None:
        if not workspaces or any(shard.holds(*one) for one in workspaces):
            return
        held = f"workspaces of other slots only, like {workspaces[0][1]!r}"
    elif record == shard.record:
        return
    else:
        held = f"the slots {record}"
    raise InvalidOperation(
        f"the database that the shard map names for {shard} holds {held}:"
        " correct the addresses in the map",
        hint=Hint("config.list"),
    )


def list_left_behind(
    shard: Shard, record: str | None, workspaces: Sequence[tuple[str, str]]
) -> list[str]:
    """Return the workspaces of a database that a new map would lead elsewhere, by name.

    Those that the old map led elsewhere already are not counted, nor any of a database that had no
    map: its workspaces may be from before.
    """
    if record is None:
        return []
    before = read_record(record)
    return [name for id, name in workspaces if before.holds(id, name) and not shard.holds(id, name)]


def _read_range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise InvalidOperation(f"{text[:80]!r} is not a range of slots; expected one like 0-2047")
    first = int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    if not first <= last < SLOTS:
        raise InvalidOperation(f"{text!r} is not a range of slots: they are 0 to {SLOTS - 1}")
    return first, last
