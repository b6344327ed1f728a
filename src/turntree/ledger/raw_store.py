"""Stores raw records on PostgreSQL, reads them, and erases them with a message.

A block is packed against the text of its turns (``ledger.raw_codec``), which is in their bodies:
reading a block reads those first. So no block is stored that depends on a turn that is missing or
incomplete, and an erasure packs the blocks of its turn again before their dictionary changes. Both
hold the same lock.

Knows connections, but not what records mean.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, TurnId
from turntree.db.arrays import bytea_array, int_array, uuid_array
from turntree.db.database import Connection, Row, as_uuid, fetch, run
from turntree.db.sql import load_statements
from turntree.ledger import raw_codec as raw
from turntree.ledger.raw_codec import RawBlock, stand_alone
from turntree.ledger.turn_rows import TurnRows

SQL = load_statements(__file__)


async def keep_blocks(
    connection: Connection, workspace: UUID, blocks: Sequence[RawBlock], turns: Sequence[TurnRows]
) -> None:
    """Store blocks, all or none; existing ones stay."""
    async with connection.transaction():
        await run(connection, SQL["lock_records"], {"workspace": workspace})
        needed = {turn for block in blocks if block.leaning for turn in block.turns}
        leaned = [item for item in turns if item.id in needed]
        rows = await fetch(
            connection,
            SQL["list_changed_turns"],
            workspace=workspace,
            turns=uuid_array(item.id for item in leaned),
            digests=bytea_array([digest_raw(item.digest) for item in leaned]),
        )
        unsteady = {id for id, _ in rows}
        # What was erased must not return with another copy of it.
        erased = {TurnId(id) for id, is_erased in rows if is_erased}
        copied = {block.planted for block in blocks if block.planted is not None}
        erased_threads = (
            await _erased_threads(connection, workspace, copied) if copied else set[str]()
        )
        for block in blocks:
            shaky = block.leaning and not unsteady.isdisjoint(block.turns)
            without_ours = block.planted in erased_threads
            steady = (
                stand_alone(block, turns, erased, without_ours=without_ours)
                if shaky or without_ours
                else block
            )
            await run(
                connection, SQL["insert_raw_block"], {"workspace": workspace, **_columns(steady)}
            )


async def _erased_threads(
    connection: Connection, workspace: UUID, heads: Collection[TurnId]
) -> set[str]:
    """Return the turns whose threads contain an erased message."""
    rows = await fetch(
        connection, SQL["list_erased_threads"], workspace=workspace, turns=uuid_array(heads)
    )
    return {id for (id,) in rows}


def _columns(block: RawBlock) -> dict[str, object]:
    return {
        "digest": digest_raw(block.digest),
        "now": None if block.now is None else digest_raw(block.now),
        "leaning": block.leaning,
        "packed": block.packed,
        "turns": uuid_array(block.turns),
        "spans": int_array(block.spans),
        "objects": bytea_array([digest_raw(name) for name in block.objects]),
        "written": int_array(block.written),
        "planted": as_uuid(block.planted),
    }


class StoredBlock(NamedTuple):
    """A block that was read, and the turns that were made from it."""

    digest: Digest
    unpacked: raw.UnpackedBlock
    turns: Sequence[str]
    spans: Sequence[int]
    written: Sequence[int]
    """Stretches of records that we wrote ourselves."""


async def read_block(connection: Connection, workspace: UUID, digest: Digest) -> StoredBlock:
    """Return a block whose content matches its digest.

    Raises:
        NotFound: It is missing or damaged.
    """
    rows = await fetch(
        connection, SQL["find_block"], workspace=workspace, digest=digest_raw(digest)
    )
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
    bodies: list[Row] = await fetch(
        connection, SQL["list_bodies"], workspace=workspace, turns=turns
    )
    rows = await fetch(connection, SQL["list_objects"], workspace=workspace, digests=objects)
    return raw.lean_on([body for (body,) in bodies], [bytes(data) for (data,) in rows])


async def find_blocks(connection: Connection, workspace: UUID, turn: TurnId) -> list[StoredBlock]:
    """Return the blocks with a turn's records, in all copies, including ours. Waits for imports.

    Raises:
        NotFound: One of them is damaged.
    """
    await run(connection, SQL["lock_records"], {"workspace": workspace})
    rows = await fetch(connection, SQL["list_blocks_of_turn"], workspace=workspace, turn=UUID(turn))
    return [
        await read_block(connection, workspace, digest_from_raw(bytes(digest)))
        for (digest,) in rows
    ]


async def erase_records(
    connection: Connection, workspace: UUID, turn: TurnId, blocks: Sequence[StoredBlock]
) -> None:
    """Replace a turn's records by stubs with their digests, and also our own copies of its text.

    All records that we wrote from its thread are erased, because it is not recorded which of them
    belongs to which turn. Their content is stored as turns anyway.
    """
    rows = await fetch(connection, SQL["list_copies_of_turn"], workspace=workspace, turn=UUID(turn))
    copies = {bytes(digest) for (digest,) in rows}
    sources = await fetch(
        connection, SQL["list_spans_of_turn"], workspace=workspace, turn=UUID(turn)
    )
    for block in blocks:
        left = raw.erase_turn(block.unpacked, block.turns, block.spans, turn)
        if digest_raw(block.digest) in copies:
            left = raw.erase_stretches(left, block.written)
        # A block that was packed before the turn was made does not list it.
        spans = () if turn in block.turns else sources
        for origin, bundle, first, after in spans:
            if (origin, bundle) == (left.origin, left.bundle):
                left = raw.erase(left, first, after - 1)
        # Pack it again in any case: its dictionary may contain the erased text.
        address, packed = raw.pack(left.origin, left.bundle, left.first, left.records)
        changed = {"digest": digest_raw(block.digest), "now": address, "packed": packed}
        await run(connection, SQL["erase_records"], {"workspace": workspace, **changed})
