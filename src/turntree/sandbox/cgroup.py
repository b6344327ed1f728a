"""A limit on how many processes a sandbox holds, kept by the kernel where it can be.

Two ways, since neither works everywhere. The limit of a user, set inside: it counts the sandbox's
own namespace, and root is exempt from it. A group of the controller ``pids``: it counts whoever is
in it, and only few may make one, root among them. Where neither holds, ``namespace_watch`` is left,
which sees a crowd soon after it has gathered.

Knows the kernel's groups. Must never know what is run in one.
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
_GONE_TRIES: Final = 100
_GONE_WAIT_S: Final = 0.02


@contextlib.asynccontextmanager
async def a_group(processes_max: int, root: Path = ROOT) -> AsyncGenerator[list[str], None]:
    """Lend the words before a command that put it into a group of its own, or none.

    The two processes that put up the walls stand in the group too.
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
    """Return the words before a command inside that set the limit of its user."""
    # Seen from inside, the system's programs are where the system has them.
    return [prlimit, f"--nproc={processes_max}", "--"] if prlimit.startswith("/usr/") else []


def _make(name: str, processes_max: int, root: Path) -> Path | None:
    """Return a new group, or None where the kernel or the system lets us make none."""
    for parent in (root / "pids", root):
        group = parent / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "pids.max").write_text(str(processes_max), encoding="ascii")
        except OSError:
            group.rmdir()
            continue
        return group
    return None


async def _remove(group: Path) -> None:
    # Whoever was inside has been killed; the kernel lets go of a group some moments later.
    for _ in range(_GONE_TRIES):
        try:
            await anyio.Path(group).rmdir()
        except OSError:
            await anyio.sleep(_GONE_WAIT_S)
        else:
            return
