"""Encode objects for packs: raw, compressed, or as a difference from another object.

Knows compression only; the pack decides where the bytes go.
"""

import threading
from functools import cache
from typing import Final

RAW: Final = 0
PACKED: Final = 1
AGAINST: Final = 2
"""Compressed with another object's bytes as the dictionary: its digest, a depth, the frame."""
PIECES: Final = 3
"""The digests of the objects that it consists of, one after the other."""

DIGEST_BYTES: Final = 32
DEPTH_MAX: Final = 12
"""How many objects may have to be read in order to read one."""
_LEVEL: Final = 1
_AGAINST_LEVEL: Final = 3
# Below this, the header of a frame costs what compression saves.
_PACKED_MIN_BYTES: Final = 48
_AGAINST_MIN_BYTES: Final = 128
_WORTH: Final = 0.95
"""An object that compresses worse than this is stored raw, which is faster to read."""
_WINDOW_LOG_MIN: Final = 10


def pack(data: bytes) -> tuple[int, bytes]:
    """Return the form and the bytes in which to store an object."""
    if len(data) >= _PACKED_MIN_BYTES:
        packed = _own().compressor.compress(data)
        if len(packed) < len(data) * _WORTH:
            return PACKED, packed
    return RAW, data


def pack_against(data: bytes, base: bytes, digest: bytes, depth: int) -> tuple[int, bytes]:
    """Return the smaller encoding: the object by itself, or as a difference from another."""
    form, alone = pack(data)
    if len(alone) < _AGAINST_MIN_BYTES or len(base) < _AGAINST_MIN_BYTES or depth > DEPTH_MAX:
        return form, alone
    import zstandard as zstd  # noqa: PLC0415 - see below

    window = max(_WINDOW_LOG_MIN, (len(data) + len(base)).bit_length())
    parameters = zstd.ZstdCompressionParameters.from_level(  # pyright: ignore[reportUnknownMemberType]
        _AGAINST_LEVEL, source_size=len(data), dict_size=len(base), window_log=window
    )
    dictionary = zstd.ZstdCompressionDict(base, dict_type=zstd.DICT_TYPE_RAWCONTENT)
    frame = zstd.ZstdCompressor(compression_params=parameters, dict_data=dictionary).compress(data)
    if len(frame) + DIGEST_BYTES + 1 >= len(alone):
        return form, alone
    return AGAINST, digest + bytes([depth]) + frame


def base_of(payload: bytes) -> tuple[bytes, int]:
    """Return the base object that one is stored against, and the length of its chain."""
    return payload[:DIGEST_BYTES], payload[DIGEST_BYTES]


def unpack(payload: bytes) -> bytes:
    """Return the bytes of an object that was compressed by itself.

    Raises:
        ValueError: It is damaged.
    """
    import zstandard as zstd  # noqa: PLC0415 - see below

    try:
        return _own().decompressor.decompress(payload)
    except (zstd.ZstdError, MemoryError) as error:
        raise ValueError("corrupt object: not a zstd frame") from error


def unpack_against(payload: bytes, base: bytes) -> bytes:
    """Return the bytes of an object that was stored as a difference from another.

    Raises:
        ValueError: It is damaged.
    """
    import zstandard as zstd  # noqa: PLC0415 - see below

    dictionary = zstd.ZstdCompressionDict(base, dict_type=zstd.DICT_TYPE_RAWCONTENT)
    try:
        return zstd.ZstdDecompressor(dict_data=dictionary).decompress(payload[DIGEST_BYTES + 1 :])
    except (zstd.ZstdError, MemoryError) as error:
        raise ValueError("corrupt object: not a zstd frame") from error


class _Own(threading.local):
    """A compressor and decompressor per thread: neither may be shared between threads."""

    def __init__(self) -> None:
        # Importing it takes longer than scanning an unchanged tree, which needs no compression.
        import zstandard  # noqa: PLC0415

        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_own = cache(_Own)
