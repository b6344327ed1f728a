"""Read untrusted files: lines, JSON values and timestamps that may be malformed.

A line may be truncated, hold half a surrogate pair, a NUL, a number out of range or a structure
nested too deeply. Records keep their bytes; what is projected from them goes through here and can
always be written canonically.
"""

import errno
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, cast

import orjson
import zstandard

from turntree.core.canonical import tidy
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, instant, is_instant
from turntree.ledger.raw_codec import RECORD_BYTES_MAX, RawRecord

UNPACKED_FREE_BYTES: Final = 64 * 1024 * 1024
"""Any compressed file may unpack to this much; beyond it, the ratio counts."""
UNPACKED_RATIO_MAX: Final = 200
"""Transcripts compress to a tenth or a twentieth; zeros, to a thousandth."""


_EPOCH: Final = "1970"
_SECONDS_MAX: Final = 10_000_000_000
"""A number below this counts seconds; above, milliseconds."""


def read_lines(file: Path, name: str, start: int = 0) -> Iterator[RawRecord]:
    """Yield the lines of a file as records, including a last one without a line break.

    A file that ends in ``.zst`` is unpacked; offsets are those of the plain text. ``start`` is the
    offset of the first line to read, in a file that is not packed.

    Raises:
        OSError: It is not a file, cannot be read, or unpacks to far more than a transcript does.
    """
    with open_file(file) as raw:
        if file.suffix == ".zst":
            packed = os.fstat(raw.fileno()).st_size
            with zstandard.ZstdDecompressor().stream_reader(raw) as plain:
                for record in _lines(io.BufferedReader(cast("Any", plain)), name):
                    try:
                        check_unpacked(file.name, record.offset + len(record.data), packed)
                    except InvalidOperation as refused:
                        # As an OSError, so that one bad file does not stop the import of others.
                        raise OSError(str(refused)) from refused
                    yield record
        else:
            raw.seek(start)
            yield from _lines(raw, name, start)


def open_file(file: Path) -> IO[bytes]:
    """Return a file open for reading, if it is a regular file.

    Raises:
        OSError: It is a pipe or a device, which would never end, or cannot be read.
    """
    fd = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a file", str(file))
    return os.fdopen(fd, "rb")


def check_unpacked(name: str, size: int, packed: int) -> None:
    """Raise if a file unpacks to far more than a transcript does.

    Raises:
        InvalidOperation: It does; unpacking it would exhaust the memory.
    """
    if size > UNPACKED_FREE_BYTES and size > UNPACKED_RATIO_MAX * packed:
        raise InvalidOperation(
            f"{name} unpacks to more than {UNPACKED_RATIO_MAX} times its {packed:,} bytes, as no "
            "transcript does: unpack it yourself and import the file, if you trust it"
        )


def _lines(stream: IO[bytes], name: str, offset: int = 0) -> Iterator[RawRecord]:
    # A longer line is split into several records: each is stored, none is parsed.
    while line := stream.readline(RECORD_BYTES_MAX):
        data = line.rstrip(b"\r\n")
        if data:
            yield RawRecord(name, offset, data)
        offset += len(line)


def parse(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a record, or None if it is not one.

    Its strings are valid Unicode; a value that goes into a message must still pass ``tidy``.
    """
    try:
        value = orjson.loads(data)
    except ValueError:
        # Python's own parser accepts half a surrogate pair, but is slower.
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        value = tidy(value)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def text(value: object) -> str:
    """Return a string, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def word(value: object) -> str | None:
    """Return a string that fits a column (no NUL, bounded length), or None."""
    if not isinstance(value, str) or not value:
        return None
    return value.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:1000]


def number(value: object) -> int:
    """Return a count that fits its column, or 0 for anything else."""
    if type(value) is not int or value < 0:
        return 0
    return min(value, 2**31 - 1)


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object, or an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """Return a list, or an empty one for anything else."""
    return [*cast("Sequence[Any]", value)] if isinstance(value, list) else []


def moment(value: object) -> Timestamp | None:
    """Return the timestamp of an ISO 8601 text, or of a number of seconds or milliseconds."""
    try:
        match value:
            case str():
                found = datetime.fromisoformat(value)
                if is_instant(value) and value >= _EPOCH:
                    return Timestamp(value)
                found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
                ms = found.timestamp() * 1000
                return instant(int(ms)) if ms >= 0 else None
            case bool():
                return None
            case int() | float():
                ms = value * 1000 if abs(value) < _SECONDS_MAX else value
                return instant(int(ms)) if ms >= 0 else None
            case _:
                return None
    except (ValueError, OverflowError):
        # Tools write any number here; a year beyond 9999 is no time.
        return None
