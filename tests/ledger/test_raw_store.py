"""Records that lean on what their turns say, and those that have nothing to lean on."""

import random
import resource

import psycopg
import pytest
import zstandard

from turntree.core.errors import NotFound
from turntree.core.ids import TurnId
from turntree.core.message import ToolResult, ToolUse, assistant, lift_parts, tool, user
from turntree.core.principal import Principal
from turntree.core.turn import Header, seal
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.ledger import raw_codec as raw
from turntree.ledger.raw_codec import RawRecord, stand_alone
from turntree.ledger.turn_rows import TurnRows, TurnSource
from turntree.testing.fakes import FakeClock
from turntree.transcripts.drafts import KnownTurn
from turntree.transcripts.handoff_link import OwnRecords
from turntree.transcripts.incoming import ImportedTurn
from turntree.transcripts.packing import Packer
from turntree.transcripts.store import ImportStore

pytestmark = pytest.mark.anyio
WORDS = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz ", k=3_000))
ANSWER = "".join(random.Random(8).choices("abcdefghijklmnopqrstuvwxyz\t", k=60_000))
PACKING = Packer()
RECORDS = [
    RawRecord("one.jsonl", 0, WORDS.encode()),
    RawRecord("one.jsonl", 4_000, ANSWER.encode()),
]


def made(world: FakeClock) -> TurnRows:
    """A turn that says what the records do; the answer is too large to stand in it."""
    now = world.now()
    objects: list[bytes] = []
    header = Header(TurnId(world.new_id()), None, Principal("agent", "toy"), now, now)
    reply = [
        assistant(ToolUse("c", "read", {})),
        tool(ToolResult("c", "ok", ANSWER)),
        assistant("Done."),
    ]
    sealed = seal(header, [user(WORDS)], [lift_parts(said, objects) for said in reply])
    source = TurnSource("toy", "one", "1", 0, 1, 1)
    return PACKING.prepare(ImportedTurn(sealed, None, objects=objects, source=source))


async def test_block_is_compressed_against_bodies_and_objects(
    database: Database, world: FakeClock
) -> None:
    imports = ImportStore(database)
    turn = made(world)
    (block,) = PACKING.pack("toy", "one", 0, RECORDS, [(turn, (0, 1))])
    (alone,) = PACKING.pack("toy", "one", 0, RECORDS)
    assert (block.digest, block.leaning, alone.leaning) == (alone.digest, True, False)
    assert (list(block.turns), list(block.spans), len(block.objects)) == ([turn.id], [0, 1], 1)
    assert len(block.packed) < len(alone.packed) / 5
    await imports.store_turns([turn])
    await imports.keep([block], [turn])
    assert await imports.read_records([block.digest]) == RECORDS
    assert await fsck(database) == []


async def test_block_without_stored_turns_is_compressed_alone(
    database: Database, conninfo: str, world: FakeClock
) -> None:
    imports = ImportStore(database)
    turn = made(world)
    blocks = PACKING.pack("toy", "one", 0, RECORDS, [(turn, (0, 1))])
    await imports.keep(blocks, [turn])
    assert await imports.read_records([blocks[0].digest]) == RECORDS
    with psycopg.connect(conninfo) as owner:
        rows = owner.execute(
            "SELECT needs_bodies, current_digest FROM turntree.raw_blocks"
        ).fetchall()
    assert rows == [(False, None)]


def test_block_ignores_bodies_that_are_too_long(
    world: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "LEAN_BYTES_MAX", 1_000)
    (block,) = PACKING.pack("toy", "one", 0, RECORDS, [(made(world), (0, 1))])
    assert not block.leaning
    assert raw.unpack(block.packed).records == RECORDS


def test_each_block_knows_the_turns_of_its_own_records(
    world: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "BLOCK_BYTES", 10)
    records = [RawRecord("one.jsonl", place * 10, b"0123456789") for place in range(4)]
    turns = [(made(world), (5, 6)), (made(world), (6, 7, 8))]
    blocks = PACKING.pack("toy", "one", 5, records, turns)
    first, second = turns[0][0].id, turns[1][0].id
    assert [list(block.turns) for block in blocks] == [[first], [first, second], [second], [second]]
    assert [list(block.spans) for block in blocks] == [[5, 5], [6, 6, 6, 6], [7, 7], [8, 8]]


def test_each_block_knows_which_of_its_records_we_wrote(
    world: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "BLOCK_BYTES", 20)
    records = [RawRecord("one.jsonl", place * 10, b"0123456789") for place in range(6)]
    turn = made(world)
    gap = OwnRecords(KnownTurn(turn.id, turn.digest, 1), [3, 5, 6, 7])
    blocks = PACKING.pack("toy", "one", 5, records, gap=gap)
    assert [list(block.written) for block in blocks] == [[5, 6], [7, 7], []]
    assert [block.planted for block in blocks] == [turn.id, turn.id, None]
    alone = stand_alone(blocks[1], [], (), without_ours=True)
    erased = [b"erased" in record.data for record in raw.unpack(alone.packed).records]
    assert (erased, alone.now is not None) == ([True, False], True)


def test_block_that_claims_gigabytes_is_refused_before_it_is_unpacked() -> None:
    packer = zstandard.ZstdCompressor()
    chunk = bytes(1 << 20)
    stream = packer.compressobj(size=raw.TEXT_BYTES_MAX + len(chunk))
    bomb = (
        b"".join(stream.compress(chunk) for _ in range(raw.TEXT_BYTES_MAX // len(chunk) + 1))
        + stream.flush()
    )
    assert len(bomb) < len(chunk)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotFound, match="more than"):
        raw.unpack(bomb)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    # Without a size in its header, a frame says nothing about the memory that it takes.
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(b"{}\n")
    with pytest.raises(NotFound):
        raw.unpack(silent)
