"""A disk whose power can be cut: what was on it at one instant, and nothing that was on its way.

The server's files lie on an ext4 in a file, and that file lies on a btrfs, which can clone a file
at one instant. A clone holds what had reached the disk. What the ext4 still kept in memory is not
in it, just as a power cut would lose it. The drive itself is an honest one: what it has taken it
keeps.

Needs root, loop devices and ``mkfs.btrfs``. The mounts are in a namespace of this process's own:
they are gone when its processes are. Knows disks and mounts. Must never know what is stored.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FICLONE = 0x40049409
PROGRAMS = ("mkfs.btrfs", "mkfs.ext4", "mount", "sync", "umount", "unshare")
OUTER_BYTES = 8 << 30
INNER_BYTES = 3 << 30
"""Both are sparse: only what is written takes place."""
ALONE = "TURNTREE_PROOF_HAS_ITS_OWN_MOUNTS"


def find_obstacle() -> str | None:
    """Return why power cannot be cut on this machine, or None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "it needs Linux and root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"these programs are missing: {', '.join(missing)} (install btrfs-progs)"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    try:
        with lend_disk():
            return None
    except subprocess.CalledProcessError as error:
        return f"{error.cmd}: {error.stderr}"


def hide_mounts() -> None:
    """Begin this program again where what it mounts is seen by its own processes alone."""
    if ALONE in os.environ or not _has_namespaces():
        return
    os.environ[ALONE] = "1"
    words = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.orig_argv[1:]]
    os.execvp("unshare", words)  # noqa: S606


def _has_namespaces() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("unshare") is not None


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk in use, and the clones of it."""

    folder: Path

    @property
    def place(self) -> Path:
        """Where the disk is mounted, the first one and each clone alike."""
        return self.folder / "disk"

    def cut(self, name: str) -> None:
        """Keep what is on the disk at this instant, under a name."""
        clone = self._image(name).open("xb")
        with self._image("first").open("rb") as source, clone:
            fcntl.ioctl(clone.fileno(), FICLONE, source.fileno())

    @contextmanager
    def mounted(self, name: str) -> Generator[None]:
        """Have a clone, or the first disk, in its place."""
        _run("mount", "-o", "loop", self._image(name), self.place)
        try:
            yield
        finally:
            _run("umount", self.place)

    def flush(self) -> None:
        """Have everything on the disk that was written so far."""
        _run("sync", "--file-system", self.place)

    def make(self) -> None:
        """Make the first disk."""
        image = self._image("first")
        _grow(image, INNER_BYTES)
        _run("mkfs.ext4", "-q", "-F", image)

    def _image(self, name: str) -> Path:
        return self.folder / "outer" / f"{name}.img"


@contextmanager
def lend_disk() -> Generator[Disk]:
    """Lend a disk that is empty; it and its clones are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="turntree-power-"))
    # The server's account may be another than ours, and must pass through.
    folder.chmod(0o755)
    disk, outer = Disk(folder), folder / "outer"
    try:
        disk.place.mkdir()
        outer.mkdir()
        _grow(folder / "outer.img", OUTER_BYTES)
        _run("mkfs.btrfs", "-q", "-f", folder / "outer.img")
        _run("mount", "-o", "loop", folder / "outer.img", outer)
        try:
            disk.make()
            yield disk
        finally:
            _run("umount", outer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _grow(file: Path, size: int) -> None:
    with file.open("xb") as made:
        made.truncate(size)


def _run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
