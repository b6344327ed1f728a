"""Limits the number of processes in a sandbox, by the kernel where possible.

There are two ways, because neither works everywhere. The per-user limit, set inside, counts the
processes of the sandbox's user namespace; root is exempt from it. A cgroup with the ``pids``
controller counts every process in it; only root and few others may create one. Where neither works,
``process_watch`` remains, which notices too many processes shortly after they start.

Must never know what is run in a group.
"""

import contextlib
import os
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import anyio

ROOT: Final = Path("/sys/fs/cgroup")
_ENTER: Final = 'echo $$ > "$1/cgroup.procs" || exit 125; shift; exec "$@"'
# Two seconds in all; then the empty group is left behind.
_GONE_TRIES: Final = 100
_GONE_WAIT_S: Final = 0.02


@contextlib.asynccontextmanager
async def a_group(processes_max: int, root: Path = ROOT) -> AsyncGenerator[list[str], None]:
    """Yield the command prefix that enters a new cgroup; empty if none can be created.

    The two processes of bubblewrap itself count in the group too.
    """
    group = _make(f"turntree-{os.getpid()}-{secrets.token_hex(6)}", processes_max + 2, root)
    if group is None:
        yield []
        return
    try:
        yield ["/bin/sh", "-c", _ENTER, "sh", str(group)]
    finally:
        with anyio.CancelScope(shield=True):
            await _remove(group)


def inside(prlimit: str, processes_max: int) -> list[str]:
    """Return the command prefix that sets the per-user limit inside the sandbox."""
    # Inside the sandbox, the system's programs have the same paths as outside.
    return [prlimit, f"--nproc={processes_max}", "--"] if prlimit.startswith("/usr/") else []


def _make(name: str, processes_max: int, root: Path) -> Path | None:
    """Return a new cgroup, or None where this process may not create one."""
    for parent in (root / "pids", root):
        group = parent / name
        try:
            group.mkdir()
        except OSError:
            # Not our right, or another layout of control groups: try the next one.
            continue
        try:
            (group / "pids.max").write_text(str(processes_max), encoding="ascii")
        except OSError:
            group.rmdir()
            continue
        return group
    return None


async def _remove(group: Path) -> None:
    # All its processes were killed, but the kernel frees a group slightly later.
    for _ in range(_GONE_TRIES):
        try:
            await anyio.Path(group).rmdir()
        except OSError:
            await anyio.sleep(_GONE_WAIT_S)
        else:
            return
