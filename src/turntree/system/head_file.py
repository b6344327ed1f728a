"""The ``.turntree`` folder, which names the current session of a project.

Knows one folder and one small file in it. Must never know whether such a session exists.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from turntree.core.errors import InvalidOperation

FOLDER: Final = ".turntree"
DEMO_WORKSPACE: Final = "turntree-demo"
"""Sample data has a workspace of its own, so that no list, search or sum of yours contains it."""
DEMO_FOLDERS: Final = "demo-folders"
HEAD_BYTES_MAX: Final = 1000
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def find_place(start: Path) -> Path | None:
    """Return the nearest ``.turntree`` folder, searching upwards."""
    return next(
        (at / FOLDER for at in (start, *start.parents) if (at / FOLDER).is_dir()),
        None,
    )


def read_head(start: Path) -> str | None:
    """Return the current session of this folder, or None if none was chosen.

    The file may come from an untrusted project, so only a regular file is read, never a link.

    Raises:
        InvalidOperation: The file cannot be read.
    """
    place = find_place(start)
    if place is None:
        return None
    head = _own(place) / "HEAD"
    try:
        # Never wait for a pipe without a writer.
        fd = os.open(head, os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        if head.is_symlink():
            raise InvalidOperation(
                f"{head} is a link, and none is followed there: remove it"
            ) from error
        raise InvalidOperation(f"{head} cannot be read: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise InvalidOperation(f"{head} is not a file: remove it")
        said = file.read(HEAD_BYTES_MAX)
    return said.decode("utf-8", "replace").strip() or None


def write_head(start: Path, label: str) -> Path:
    """Make a session the current one here, and return the folder that holds the choice.

    Raises:
        InvalidOperation: The folder cannot be written.
    """
    return _write(find_place(start) or start / FOLDER, label)


def remove_head(start: Path, *, is_own: bool = False) -> Path | None:
    """Delete the choice that applies here, and return the folder that held it, if there is any.

    The folder itself is deleted too where the next choice would make it again at the same place.
    With ``is_own``, only a choice of this very folder is deleted, and with it the folder.

    Raises:
        InvalidOperation: The folder cannot be written.
    """
    place = start / FOLDER if is_own else find_place(start)
    if place is None or not (_own(place) / "HEAD").exists():
        return None
    try:
        (place / "HEAD").unlink()
        alone = {path.name for path in place.iterdir()} <= {".gitignore"}
        if alone and (is_own or (place.parent == start and find_place(start.parent) is None)):
            (place / ".gitignore").unlink(missing_ok=True)
            place.rmdir()
    except OSError as error:
        raise InvalidOperation(f"{place} cannot be changed: {error.strerror}") from error
    return place


def list_demo_folders(home: Path) -> list[Path]:
    """Return the folders whose commands show the sample data.

    They are listed in our own home, so that no project that was cloned can claim to be one.
    """
    try:
        lines = (home / DEMO_FOLDERS).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [Path(line) for line in lines]


def write_demo_folders(home: Path, folders: Iterable[Path]) -> None:
    """Replace the list of folders that show the sample data; an empty list is no file."""
    lines = [f"{folder}\n" for folder in folders]
    if not lines:
        (home / DEMO_FOLDERS).unlink(missing_ok=True)
        return
    home.mkdir(parents=True, exist_ok=True)
    (home / DEMO_FOLDERS).write_text("".join(lines), encoding="utf-8")


def write_own_head(place: Path, label: str) -> None:
    """Make a session the current one in a folder, regardless of folders above it.

    A resource that is a single file has no current session.

    Raises:
        InvalidOperation: The folder cannot be written.
    """
    if place.is_dir():
        _write(place / FOLDER, label)


def _write(place: Path, label: str) -> Path:
    try:
        if not place.is_dir():
            place.mkdir()
            # The current session is personal, so it must not be committed with the project.
            (place / ".gitignore").write_text("*\n", encoding="utf-8")
        # Under a new name: an existing path may be a link to another file.
        fresh = _own(place) / f"HEAD.{os.urandom(6).hex()}"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(f"{label}\n".encode())
        fresh.replace(place / "HEAD")
    except OSError as error:
        raise InvalidOperation(f"{place} cannot be written: {error.strerror}") from error
    return place


def _own(place: Path) -> Path:
    """Return the folder if it is a real one: a link could lead to any other, such as ``.git``.

    Raises:
        InvalidOperation: It is a link.
    """
    if place.is_symlink():
        raise InvalidOperation(f"{place} is a link, and none is followed there: remove it")
    return place
