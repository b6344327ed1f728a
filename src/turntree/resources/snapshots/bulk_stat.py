"""Ask for the stat of many files with little work for each.

``os.lstat`` makes an object of some thirty values, of which a scan compares five. Linux's ``statx``
writes all of them into memory, in a layout that no architecture changes, and one comparison of
bytes then says whether any file of a folder differs. Knows the system call, not what a scan is.
"""

import struct
import sys
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, Final, Literal

_RECORD_BYTES: Final = 256
_FILES: Final = 256
"""How many files are asked for before their columns are taken."""
_NO_FOLLOW: Final = 0x100
_BASIC: Final = 0x7DF
"""Everything that ``lstat`` tells, except the time of the last reading."""
_COLUMNS: Final[tuple[tuple[Literal["H", "I", "q"], int], ...]] = (
    ("q", 12),
    ("I", 26),
    ("q", 14),
    ("I", 30),
    ("q", 5),
    ("q", 4),
    ("H", 14),
)
"""Where a record has the seconds and nanoseconds of both changes, the size, inode and mode."""
_NS: Final = 1_000_000_000


class BulkStat:
    """The system call, and memory for its answers."""

    def __init__(self) -> None:
        """Load the system's library.

        Raises:
            AttributeError: It has no such call.
        """
        # Late, because importing it takes as long as ``lstat`` of a thousand files.
        import ctypes  # noqa: PLC0415

        self._statx: Callable[..., Any] = ctypes.CDLL(None).statx
        memory = ctypes.create_string_buffer(_RECORD_BYTES * _FILES)
        self._places = [ctypes.byref(memory, _RECORD_BYTES * at) for at in range(_FILES)]
        self._memory = memoryview(memory).cast("B")
        self._views: dict[int, list[memoryview[int]]] = {}
        """The columns of so many records. Most folders have as many files as another one."""

    def columns(self, fd: int, names: list[bytes]) -> bytes | None:
        """Return the columns of files in an open folder: those of ``columns_of``, if none changed.

        None if the system has no answer for one of them: then each has to be looked at by itself.
        """
        parts: list[bytes] = []
        for start in range(0, len(names), _FILES):
            asked = names[start : start + _FILES]
            told = map(
                self._statx, repeat(fd), asked, repeat(_NO_FOLLOW), repeat(_BASIC), self._places
            )
            if any(told):
                return None
            parts += [view.tobytes() for view in self._views_of(len(asked))]
        return b"".join(parts)

    def _views_of(self, count: int) -> "list[memoryview[int]]":
        views = self._views.get(count)
        if views is None:
            used = self._memory[: _RECORD_BYTES * count]
            views = self._views[count] = [
                used.cast(kind)[at :: _RECORD_BYTES // struct.calcsize(kind)]
                for kind, at in _COLUMNS
            ]
        return views


def find_bulk_stat() -> BulkStat | None:
    """Return the system call, if this system has it."""
    if sys.platform != "linux":
        return None
    try:
        return BulkStat()
    except (AttributeError, ImportError, OSError):
        return None  # An old library. Every file is asked for by itself, as on other systems.


def columns_of(signs: Iterable[tuple[int, ...]]) -> bytes:
    """Return the columns that the system call has for files with these signs."""
    rows = [
        (*divmod(changed, _NS), *divmod(modified, _NS), size, inode, mode)
        for changed, modified, size, inode, mode in signs
    ]
    parts: list[bytes] = []
    for start in range(0, len(rows), _FILES):
        columns = zip(*rows[start : start + _FILES], strict=True)
        for (kind, _), column in zip(_COLUMNS, columns, strict=True):
            parts.append(struct.pack(f"={len(column)}{kind}", *column))
    return b"".join(parts)
