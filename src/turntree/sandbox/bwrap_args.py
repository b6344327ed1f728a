"""Command lines of bubblewrap and prlimit: what is visible inside, and the limits.

Knows their options and where a system keeps its libraries. Must never start a process.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Final

from turntree.sandbox.code import CommandView

NOBODY: Final = "65534"
OPEN_FILES_MAX: Final = 64
WORK: Final = "/work"
"""Where a command sees its folder."""
_PLAIN: Final = CommandView()
_CHECK: Final = """
token=$1 working=$2; shift 2
while [ "$1" != -- ]; do
    [ "$(stat -c %d:%i -- "$1")" = "$2" ] || { printf %s "$token" >&2; exit 125; }
    shift 2
done
shift
cd -- "$working" && exec "$@"
"""
_COMMON: Final = (
    "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv",
    "--setenv", "LANG", "C.UTF-8", "--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY,
    "--hostname", "sandbox",
)  # fmt: skip


def limited(
    prlimit: str,
    *,
    cpu_s: int,
    memory_bytes: int,
    space_bytes: int,
    file_bytes: int,
    files: int = OPEN_FILES_MAX,
) -> list[str]:
    """Return the prefix that sets resource limits, which no child can raise."""
    return [
        prlimit,
        f"--cpu={cpu_s}",
        f"--data={memory_bytes}",
        f"--as={max(space_bytes, memory_bytes)}",
        f"--nofile={files}",
        f"--fsize={file_bytes}",
        "--core=0",
        "--",
    ]


def around_code(bwrap: str) -> list[str]:
    """Return the prefix for a program without other processes and without a disk."""
    return [
        bwrap, *_COMMON, "--as-pid-1", "--setenv", "PATH", "/usr/bin",
        "--setenv", "LD_LIBRARY_PATH", "/python/lib", *_system(), "--dev", "/dev", "--chdir", "/",
    ]  # fmt: skip


def around_command(
    bwrap: str,
    folder: Path,
    *,
    writes: bool,
    scratch_bytes: int,
    view: CommandView = _PLAIN,
    guarded: Iterable[str] = (),
) -> list[str]:
    """Return the prefix for a command that works in a folder.

    ``guarded`` are paths in the other folders that it may change, which it only reads.
    """
    # Many systems need these to find their programs and libraries. They hold no user data.
    known = ("/etc/alternatives", "/etc/ld.so.cache")
    return [
        bwrap, *_COMMON, "--disable-userns", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin",
        "--setenv", "HOME", "/tmp", *_system(),  # noqa: S108  (its own, inside)
        *(word for path in known for word in ("--ro-bind-try", path, path)),
        "--dev", "/dev", "--proc", "/proc", "--size", str(scratch_bytes), "--tmpfs", "/tmp",  # noqa: S108
        *(word for path in view.reads for word in ("--ro-bind", path, path)),
        *(word for path in view.writes for word in ("--bind", path, path)),
        *(_network() if view.network else ()),
        "--bind" if writes else "--ro-bind", str(folder), WORK,
        *(word for name in view.guarded
          for word in ("--ro-bind", str(folder / name), f"{WORK}/{name}")),
        *(word for path in guarded for word in ("--ro-bind", path, path)),
        "--chdir", WORK,
    ]  # fmt: skip


def _network() -> list[str]:
    """Return the options for the machine's network, and the files that look up its names."""
    words = ["--share-net"]
    for name in ("resolv.conf", "hosts", "nsswitch.conf", "gai.conf", "ssl", "ca-certificates",
                 "pki", "services", "protocols"):  # fmt: skip
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def checked(places: Mapping[str, str], token: str, view: CommandView) -> list[str]:
    """Return the prefix that starts a command only if each place is the file that was meant.

    Between a look at a path and the mount of it, another process can put a link there, which leads
    out of the folder. So the mounts are compared inside, where nothing can change them any more.
    The variables come last: the comparison must not use a PATH that the command was given.
    """
    pairs = [word for place, identity in places.items() for word in (place, identity)]
    given = [f"{name}={value}" for name, value in view.environment.items()]
    working = f"{WORK}/{view.working}"
    return ["/bin/sh", "-c", _CHECK, "sh", token, working, *pairs, "--", "/usr/bin/env", *given]


def holding(data: bytes) -> IO[bytes]:
    """Return an anonymous file with data, positioned at its start."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    file.write(data)
    file.seek(0)
    return file


def _system() -> list[str]:
    """Return the bind mounts of the system's libraries."""
    words = ["--ro-bind", "/usr", "/usr"]
    for folder in ("bin", "lib", "lib64", "sbin"):
        path = Path("/") / folder
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), f"/{folder}"]
        elif path.is_dir():
            words += ["--ro-bind", f"/{folder}", f"/{folder}"]
    return words
