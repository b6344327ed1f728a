"""Raw records on PostgreSQL: kept, read back, and taken out with a message.

A block leans on what its turns say (``store.raw``), and the bodies are where that stands: whoever
reads a block reads them first. So no block is kept that leans on a turn which is not there or not
whole, and an erasure packs the blocks of its turn anew before anything in them is lost. Both hold
one lock meanwhile.

Knows connections, and nothing of what records mean.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, TurnId
from turntree.db.database import Connection, Row, as_uuid, as_uuids, fetch, run
from turntree.ledger import raw_codec as raw
from turntree.ledger.raw_codec import RawBlock, stand_alone
from turntree.ledger.turn_rows import TurnRows


async def keep_blocks(
    connection: Connection, workspace: UUID, blocks: Sequence[RawBlock], turns: Sequence[TurnRows]
) -> None:
    """Keep blocks, all of them or none; what is kept already stays."""
    async with connection.transaction():
        await run(connection, "lock_records", {"workspace": workspace})
        wanted = {turn for block in blocks if block.leaning for turn in block.turns}
        leaned = [item for item in turns if item.id in wanted]
        rows = await fetch(
            connection,
            "list_changed_turns",
            workspace=workspace,
            turns=as_uuids([item.id for item in leaned]),
            digests=[digest_raw(item.digest) for item in leaned],
        )
        unsteady = {id for id, _ in rows}
        # Whatever was taken out does not come back by the next copy of it.
        erased = {TurnId(id) for id, is_erased in rows if is_erased}
        copied = {block.planted for block in blocks if block.planted is not None}
        gone = await _erased_threads(connection, workspace, copied) if copied else set[str]()
        for block in blocks:
            shaky = block.leaning and not unsteady.isdisjoint(block.turns)
            without_ours = block.planted in gone
            steady = (
                stand_alone(block, turns, erased, without_ours=without_ours)
                if shaky or without_ours
                else block
            )
            await run(connection, "insert_raw_block", {"workspace": workspace, **_columns(steady)})


async def _erased_threads(
    connection: Connection, workspace: UUID, heads: Collection[TurnId]
) -> set[str]:
    """Return those turns in whose threads something was erased."""
    rows = await fetch(
        connection, "list_erased_threads", workspace=workspace, turns=as_uuids([*heads])
    )
    return {id for (id,) in rows}


def _columns(block: RawBlock) -> dict[str, object]:
    return {
        "digest": digest_raw(block.digest),
        "now": None if block.now is None else digest_raw(block.now),
        "leaning": block.leaning,
        "packed": block.packed,
        "turns": as_uuids(block.turns),
        "spans": list(block.spans),
        "objects": [digest_raw(name) for name in block.objects],
        "written": list(block.written),
        "planted": as_uuid(block.planted),
    }


class StoredBlock(NamedTuple):
    """A block that was read back, and the turns that were made of it."""

    digest: Digest
    unpacked: raw.UnpackedBlock
    turns: Sequence[str]
    spans: Sequence[int]
    written: Sequence[int]
    """Stretches of records that we wrote ourselves."""


async def read_block(connection: Connection, workspace: UUID, digest: Digest) -> StoredBlock:
    """Return a block that is what its digest says.

    Raises:
        NotFound: It is missing, or is not what it was.
    """
    rows = await fetch(connection, "find_block", workspace=workspace, digest=digest_raw(digest))
    if not rows:
        raise NotFound(f"the records {digest} are missing")
    now, leaning, packed, turns, spans, objects, written = rows[0]
    texts = await _texts(connection, workspace, turns, objects) if leaning else b""
    unpacked = raw.unpack(packed, texts)
    if unpacked.address != bytes(now):
        raise NotFound(f"the records {digest} are not what they were")
    return StoredBlock(digest, unpacked, [str(turn) for turn in turns], spans, written)


async def _texts(
    connection: Connection, workspace: UUID, turns: list[UUID], objects: list[bytes]
) -> bytes:
    bodies: list[Row] = await fetch(connection, "list_bodies", workspace=workspace, turns=turns)
    held = await fetch(connection, "list_objects", workspace=workspace, digests=objects)
    return raw.lean_on([body for (body,) in bodies], [bytes(data) for (data,) in held])


async def find_blocks(connection: Connection, workspace: UUID, turn: TurnId) -> list[StoredBlock]:
    """Return the blocks that hold a turn's records, in any copy, ours too. Waits for imports.

    Raises:
        NotFound: One of them is not what it was.
    """
    await run(connection, "lock_records", {"workspace": workspace})
    rows = await fetch(connection, "list_blocks_of_turn", workspace=workspace, turn=UUID(turn))
    return [
        await read_block(connection, workspace, digest_from_raw(bytes(digest)))
        for (digest,) in rows
    ]


async def erase_records(
    connection: Connection, workspace: UUID, turn: TurnId, blocks: Sequence[StoredBlock]
) -> None:
    """Replace a turn's records by stubs with their digests, and our own copies of its words.

    What we wrote of its thread goes as a whole, for nothing says which record tells of which turn.
    All that it told is stored as turns.
    """
    told_of = await fetch(connection, "list_copies_of_turn", workspace=workspace, turn=UUID(turn))
    copies = {bytes(digest) for (digest,) in told_of}
    sources = await fetch(connection, "list_spans_of_turn", workspace=workspace, turn=UUID(turn))
    for block in blocks:
        left = raw.erase_turn(block.unpacked, block.turns, block.spans, turn)
        if digest_raw(block.digest) in copies:
            left = raw.erase_stretches(left, block.written)
        # A block that was packed before the turn was made does not know it.
        told = () if turn in block.turns else sources
        for origin, bundle, first, after in told:
            if (origin, bundle) == (left.origin, left.bundle):
                left = raw.erase(left, first, after - 1)
        # Packed anew in any case: it may lean on what is no longer said.
        address, packed = raw.pack(left.origin, left.bundle, left.first, left.records)
        changed = {"digest": digest_raw(block.digest), "now": address, "packed": packed}
        await run(connection, "erase_records", {"workspace": workspace, **changed})
