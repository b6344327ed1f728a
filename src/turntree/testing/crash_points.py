"""Processes that die between two writes to the file system.

An audit hook fires before a file is opened for writing, renamed, removed, linked or changes its
mode; in a forked process the hook exits there, as if by ``kill -9``.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Final

CRASHES_MAX: Final = 400
_DIED: Final = 137
_FAILED: Final = 1
_WRITES: Final = frozenset(
    {
        "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
        "os.truncate", "os.utime",
    }
)  # fmt: skip
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def dies_before(step: int, work: Callable[[], object]) -> bool:
    """Run some work in a process that dies before its n-th write; False if it made fewer.

    Raises:
        AssertionError: The work itself failed; standard error shows why.
    """
    with warnings.catch_warnings():
        # The child does only the work and exits without ever returning.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        _live_until(step, work)
    _, status = os.waitpid(pid, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in {0, _DIED}, f"the work failed before write {step}"
    return ended == _DIED


def _live_until(step: int, work: Callable[[], object]) -> None:
    left = step

    def listen(event: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        if event in _WRITES or (event == "open" and args[2] & _WRITING):
            if not left:
                os._exit(_DIED)
            left -= 1

    ended = _FAILED
    try:
        sys.addaudithook(listen)
        work()
        ended = 0
    finally:
        if ended:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(ended)
