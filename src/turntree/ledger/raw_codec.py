"""Packs raw records: a line with the position of each, then their bytes, compressed with zstd.

Most of a record's text is also in the body of the turn that was made from it. So a block may use
the texts of its turns as zstd's dictionary and only stores what they do not contain, a third.
Unpacking it then requires exactly the same texts.

Pure. A block is addressed by the sha256 of the unpacked text, so that better compression later
changes no address. Knows the format ``raw/1``, but no connection.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson
import zstandard

from turntree.core.canonical import canonical, digest_bytes, digest_from_raw
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, TurnId
from turntree.core.value import value
from turntree.ledger.turn_rows import TurnRows


class RawBlock(NamedTuple):
    """Records that are stored together, packed, and their address."""

    digest: Digest
    packed: bytes
    turns: Sequence[TurnId] = ()
    """The turns that were made from its records."""
    spans: Sequence[int] = ()
    """For each turn, the numbers of its first and its last record here."""
    objects: Sequence[Digest] = ()
    """Objects that were too large for their messages."""
    leaning: bool = False
    """It is packed against the texts of its turns and objects, and needs them to be unpacked."""
    now: Digest | None = None
    """The digest of what is left, if records were erased."""
    written: Sequence[int] = ()
    """The first and the last number of each stretch of records that we wrote ourselves."""
    planted: TurnId | None = None
    """The last turn of the thread that those records were written from."""


@value
class RawRecord:
    """One record of a source, as found there."""

    file: str
    """The file within the transcript, by the name that people know."""
    offset: int
    """Its byte offset in the file, or its row number in a table."""
    data: bytes


RECIPE: Final = "raw/1"
# Reading one record unpacks its whole block.
BLOCK_BYTES: Final = 1024 * 1024
LEAN_BYTES_MAX: Final = 8 * 1024 * 1024
"""If the texts of its turns are longer, a block is packed without them."""
RECORD_BYTES_MAX: Final = 256 * 1024 * 1024
"""No importer yields a longer record."""
TEXT_BYTES_MAX: Final = 2 * RECORD_BYTES_MAX
"""No block unpacks to more: it is full before its last record, and a line says where each is."""
_LEVEL: Final = 3
_LEANING: Final = zstandard.ZstdCompressionParameters(
    # The window has to cover a block and the texts before it.
    window_log=23,
    # By default zstd would choose these for a text as short as a block, forget half of the
    # dictionary and make the result a tenth larger. Matches in the dictionary are long: searching
    # only for seven bytes or more takes a fifth less time than level 3, and a twentieth more space
    # for a short session; for a long one, no more.
    chain_log=17,
    # A table of 2^19 entries finds a thousandth more, and to clear it for every block takes a
    # fifth of the time.
    hash_log=18,
    search_log=1,
    min_match=7,
    strategy=zstandard.STRATEGY_FAST,
    write_content_size=True,
)
_STUB: Final = b'{"erased":"sha256:'


class UnpackedBlock(NamedTuple):
    """A block's records, with the content of its first line."""

    address: bytes
    origin: str
    bundle: str
    first: int
    records: list[RawRecord]


def cut(records: Sequence[RawRecord]) -> Iterator[Sequence[RawRecord]]:
    """Yield stretches of records of one file and about a megabyte."""
    begin, size = 0, 0
    for index, record in enumerate(records):
        full = size >= BLOCK_BYTES or record.file != records[begin].file
        if full and index > begin:
            yield records[begin:index]
            begin, size = index, 0
        size += len(record.data)
    if begin < len(records):
        yield records[begin:]


def lean_on(bodies: Iterable[str], objects: Iterable[bytes]) -> bytes:
    """Return the dictionary of a block: messages last, so that they are nearest to the block."""
    return b"\n".join((*objects, *(body.encode() for body in bodies)))


def pack(
    origin: str, bundle: str, first: int, records: Sequence[RawRecord], texts: bytes = b""
) -> tuple[bytes, bytes]:
    """Return a block's address and its packed bytes, packed against texts if there are any."""
    head = canonical(
        {
            "turntree": RECIPE,
            "origin": origin,
            "bundle": bundle,
            "first": first,
            "file": records[0].file,
            "offsets": [record.offset for record in records],
            "sizes": [len(record.data) for record in records],
        }
    )
    text = b"".join((head, b"\n", *(record.data for record in records)))
    if texts:
        packer = zstandard.ZstdCompressor(compression_params=_LEANING, dict_data=_dictionary(texts))
    else:
        packer = zstandard.ZstdCompressor(level=_LEVEL)
    return sha256(text).digest(), packer.compress(text)


def unpack(packed: bytes, texts: bytes = b"") -> UnpackedBlock:
    """Return the address of packed bytes, and their records.

    Raises:
        NotFound: The bytes are corrupt, were packed against other texts, or unpack to more than a
            block holds.
    """
    dictionary = _dictionary(texts) if texts else None
    try:
        # A frame of a few kilobytes can claim gigabytes, and the memory is taken before the first
        # byte is unpacked. A frame that does not tell its size is not one of ours.
        size = zstandard.get_frame_parameters(packed).content_size
        if size > TEXT_BYTES_MAX:
            raise NotFound(f"the records claim to unpack to more than {TEXT_BYTES_MAX:,} bytes")
        text = zstandard.ZstdDecompressor(dict_data=dictionary).decompress(packed)
        end = text.index(b"\n")
        head: dict[str, Any] = orjson.loads(text[:end])
    except (zstandard.ZstdError, ValueError) as error:
        raise NotFound("the records cannot be unpacked") from error
    records: list[RawRecord] = []
    at = end + 1
    for offset, size in zip(head["offsets"], head["sizes"], strict=True):
        records.append(RawRecord(head["file"], offset, text[at : at + size]))
        at += size
    return UnpackedBlock(
        sha256(text).digest(), head["origin"], head["bundle"], head["first"], records
    )


def erase(block: UnpackedBlock, first: int, last: int) -> UnpackedBlock:
    """Return a block with some records replaced by stubs with their digests."""
    records = [
        _stub(record) if first <= number <= last else record
        for number, record in enumerate(block.records, block.first)
    ]
    return block._replace(records=records)


def erase_turn(
    block: UnpackedBlock, turns: Sequence[str], spans: Sequence[int], turn: str
) -> UnpackedBlock:
    """Return a block without a turn's records, up to the next turn's: those in between may quote
    it.

    ``spans`` holds the numbers of the first and the last record of each of ``turns``.
    """
    for id, first, last in zip(turns, spans[::2], spans[1::2], strict=True):
        if id == turn:
            end = block.first + len(block.records)
            after = min((begin for begin in spans[::2] if begin > last), default=end)
            block = erase(block, first, after - 1)
    return block


def erase_stretches(block: UnpackedBlock, stretches: Sequence[int]) -> UnpackedBlock:
    """Return a block without stretches of records, given by first and last number."""
    for first, last in zip(stretches[::2], stretches[1::2], strict=True):
        block = erase(block, first, last)
    return block


def _stub(record: RawRecord) -> RawRecord:
    if record.data.startswith(_STUB):
        return record
    return replace(record, data=b'{"erased":"' + digest_bytes(record.data).encode() + b'"}')


def _dictionary(texts: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(texts, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def stand_alone(
    block: RawBlock, turns: Sequence[TurnRows], erased: Collection[TurnId], *, without_ours: bool
) -> RawBlock:
    """Return a block packed again without a dictionary.

    Leaves out the records of turns with erased messages and, if ``without_ours`` is set, those that
    we wrote ourselves.
    """
    texts = {item.id: item.said for item in turns}
    stored = {digest_bytes(data): data for item in turns for data in item.objects}
    bodies, objects = (
        [texts[turn] for turn in block.turns],
        [stored[name] for name in block.objects],
    )
    content = unpack(block.packed, lean_on(bodies, objects) if block.leaning else b"")
    left = erase_stretches(content, block.written) if without_ours else content
    for turn in erased:
        left = erase_turn(left, block.turns, block.spans, turn)
    address, packed = pack(left.origin, left.bundle, left.first, left.records)
    now = None if address == content.address else digest_from_raw(address)
    return block._replace(packed=packed, objects=(), leaning=False, now=now)
