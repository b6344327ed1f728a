"""Raw records, packed: a line that says where each one stood, then their bytes, then zstd.

Pure. A block is addressed by the sha256 of the unpacked text, so that packing it better one day
changes no address. Knows the layout ``raw/1``. Must never know a connection.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import orjson
import zstandard

from turntree.domain.canonical import canonical
from turntree.domain.transcript import Record

RECIPE: Final = "raw/1"
BLOCK_BYTES: Final = 1024 * 1024
_LEVEL: Final = 3


def cut(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yield records in runs of one file and about a megabyte."""
    begin, size = 0, 0
    for place, record in enumerate(records):
        full = size >= BLOCK_BYTES or record.file != records[begin].file
        if full and place > begin:
            yield records[begin:place]
            begin, size = place, 0
        size += len(record.data)
    if begin < len(records):
        yield records[begin:]


def pack(origin: str, bundle: str, first: int, records: Sequence[Record]) -> tuple[bytes, bytes]:
    """Return a block's address and its packed bytes."""
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
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(text)
    return sha256(text).digest(), packed


def unpack(packed: bytes) -> tuple[bytes, list[Record]]:
    """Return the address that packed bytes prove, and the records they hold."""
    text = zstandard.ZstdDecompressor().decompress(packed)
    end = text.index(b"\n")
    head: dict[str, Any] = orjson.loads(text[:end])
    records: list[Record] = []
    at = end + 1
    for offset, size in zip(head["offsets"], head["sizes"], strict=True):
        records.append(Record(head["file"], offset, text[at : at + size]))
        at += size
    return sha256(text).digest(), records
