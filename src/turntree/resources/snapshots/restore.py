"""Restore a snapshot: write what differs to a staging folder, then rename it into place.

All new bytes are on disk before the first path changes, in ``.turntree``, which no snapshot holds.
Then each path changes atomically. A crash leaves some paths old and some new, and the restore can
be repeated. Paths that snapshots leave out are never touched.
"""

import errno
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from turntree.core.errors import InvalidOperation
from turntree.resources.snapshots.dir_fd import OPEN_FOLDER, DirFd, set_mode
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import (
    FOLDER,
    LINK,
    PLACE_NAME,
    TreeDiff,
)
from turntree.resources.snapshots.write import CREATE, NodeWriter

_ASIDE: Final = b".turntree"
_STAGE: Final = b"restoring-"
_SHOWN_MAX: Final = 5


def bring_back(store: ObjectStore, place: bytes, differences: Sequence[TreeDiff]) -> None:
    """Restore paths of a folder; ``new`` of each difference is the target.

    Raises:
        InvalidOperation: Something that no snapshot holds is in the way. Nothing has changed.
        NotFound: The bytes of a file are not stored here. Nothing has changed.
    """
    if not differences:
        return
    _refuse_obstacles(place, differences)
    stage = _Stage(place)
    try:
        # All new bytes are on disk before the first file of the folder changes. A full disk, a
        # missing object or a crash up to here leaves the folder untouched.
        written = [one for one in differences if _needs_bytes(one)]
        with NodeWriter(store) as writer:
            for number, one in enumerate(written):
                assert one.new is not None, "what needs bytes is wanted"
                writer.write(stage.fd, b"%d" % number, one.new)
            writer.finish()
        modes: dict[bytes, int] = {}
        footing = DirFd(place)
        try:
            # Removals first, because a file may take the place of a folder, or a folder that of a
            # file.
            _remove(footing, differences)
            _make_folders(footing, differences)
            for number, one in enumerate(written):
                above, _, name = one.path.rpartition(b"/")
                stage.put(b"%d" % number, footing.change(above), name)
            _set_file_modes(footing, differences)
            modes = _folder_modes(differences)
        finally:
            # Folder modes last: a read-only folder would refuse the files that are put into it.
            footing.close(modes)
    finally:
        stage.remove()


class _Stage:
    """The staging folder for new files until all of them are on disk."""

    def __init__(self, place: bytes) -> None:
        self._aside = os.path.join(place, _ASIDE)
        os.makedirs(self._aside, exist_ok=True)
        try:
            # Keep it open, or a link could replace it after a check.
            self._above = os.open(self._aside, OPEN_FOLDER)
        except OSError as error:
            raise InvalidOperation(
                f"{os.fsdecode(self._aside)} is a link or a file; nothing is written through it"
            ) from error
        self._remove_abandoned()
        self._own = b"%s%d-%s" % (_STAGE, os.getpid(), os.urandom(4).hex().encode())
        os.mkdir(self._own, 0o700, dir_fd=self._above)
        self.fd = os.open(self._own, OPEN_FOLDER, dir_fd=self._above)

    def put(self, staged: bytes, folder: int, name: bytes) -> None:
        """Rename a staged file into place, atomically."""
        try:
            os.rename(staged, name, src_dir_fd=self.fd, dst_dir_fd=folder)
        except OSError as error:
            # A folder below may be a mount point, and a rename cannot cross file systems.
            if error.errno != errno.EXDEV:
                raise
            self._put_across(staged, folder, name)

    def remove(self) -> None:
        """Remove everything that is still staged."""
        os.close(self.fd)
        shutil.rmtree(self._own, ignore_errors=True, dir_fd=self._above)
        os.close(self._above)
        # An empty one is ours, or belongs to a process that died at the start.
        with suppress(OSError):
            os.rmdir(self._aside)

    def _put_across(self, staged: bytes, folder: int, name: bytes) -> None:
        """Copy a file into a folder on another file system, then rename it there."""
        beside = b".turntree-" + os.urandom(6).hex().encode()
        found = os.stat(staged, dir_fd=self.fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(staged, dir_fd=self.fd), beside, dir_fd=folder)
        else:
            source = os.open(staged, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd)
            target = os.open(beside, CREATE, 0o600, dir_fd=folder)
            with open(source, "rb") as reading, open(target, "wb") as writing:
                shutil.copyfileobj(reading, writing)
                writing.flush()
                os.fchmod(target, stat.S_IMODE(found.st_mode))
                os.fsync(target)
        # Still atomic for readers: the copy is complete before it gets its name.
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _remove_abandoned(self) -> None:
        """Remove the staging folders of processes that died."""
        for name in map(os.fsencode, os.listdir(self._above)):
            if name.startswith(_STAGE) and not _is_alive(name):
                shutil.rmtree(name, ignore_errors=True, dir_fd=self._above)


def _is_alive(stage: bytes) -> bool:
    pid = stage.removeprefix(_STAGE).partition(b"-")[0]
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        # Its process died before it removed the folder.
        return False
    except (PermissionError, ValueError):
        # Another account's process, or a name that is not ours: never remove it.
        return True
    # A stage of this very process is left over too: the id was used by a process before us.
    return int(pid) != os.getpid()


def _needs_bytes(one: TreeDiff) -> bool:
    new, old = one.new, one.old
    if new is None or new.kind == FOLDER:
        return False
    return old is None or (old.kind, old.digest) != (new.kind, new.digest)


def _goes(one: TreeDiff) -> bool:
    """Return whether what is at a path must be removed before the new entry can exist."""
    if one.old is None:
        return False
    return one.new is None or (one.old.kind == FOLDER) != (one.new.kind == FOLDER)


def _refuse_obstacles(place: bytes, differences: Sequence[TreeDiff]) -> None:
    """Raise if a folder that becomes a file holds something that must not be removed."""
    going = {one.path for one in differences if _goes(one)}
    for one in differences:
        if one.old is None or one.old.kind != FOLDER or not _goes(one) or one.new is None:
            continue
        inside = [
            os.path.relpath(os.path.join(folder, name), place)
            for folder, folders, files in os.walk(os.path.join(place, one.path))
            for name in (*folders, *files)
        ]
        staying = sorted(set(inside) - going)
        if staying:
            shown = ", ".join(os.fsdecode(path) for path in staying[:_SHOWN_MAX])
            more = len(staying) - _SHOWN_MAX
            raise InvalidOperation(
                f"{os.fsdecode(one.path)} was not a folder then, and now holds {shown}"
                + (f" and {more} more" if more > 0 else "")
                + ": move them away first"
            )


def _remove(footing: DirFd, differences: Sequence[TreeDiff]) -> None:
    """Remove what must go, the deepest first."""
    for one in sorted(differences, key=lambda found: found.path, reverse=True):
        if not _goes(one):
            continue
        above, _, name = one.path.rpartition(b"/")
        assert one.old is not None, "what goes was there"
        footing.leave(one.path)
        try:
            folder = footing.change(above)
            if one.old.kind == FOLDER:
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            # Already gone, which is what was wanted.
            continue
        except OSError as error:
            # A folder that holds files in no snapshot stays, with these files.
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} or one.new is not None:
                raise


def _make_folders(footing: DirFd, differences: Sequence[TreeDiff]) -> None:
    for one in differences:
        if one.new is not None and one.new.kind == FOLDER and (one.old is None or _goes(one)):
            footing.make(one.path)


def _set_file_modes(footing: DirFd, differences: Sequence[TreeDiff]) -> None:
    for one in differences:
        if one.new is None or one.new.kind in {FOLDER, LINK} or _needs_bytes(one):
            continue
        above, _, name = one.path.rpartition(b"/")
        set_mode(footing.enter(above), name, one.new.mode)


def _folder_modes(differences: Sequence[TreeDiff]) -> dict[bytes, int]:
    return {
        b"" if one.path == PLACE_NAME else one.path: one.new.mode
        for one in differences
        if one.new is not None and one.new.kind == FOLDER
    }
