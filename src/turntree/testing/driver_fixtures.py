"""Fixtures for drivers of folders and files: create, change and describe them.

``describe_folder`` reads a folder by itself: a driver is never asked to confirm its own result.
"""

import os
import stat
from pathlib import Path
from typing import TypeAlias

MODE = 0o777
"""The mode bits that a driver preserves."""

Described: TypeAlias = tuple[str, int, bytes]
"""The kind of an entry, its permission bits, and its bytes or the link's target."""

_LEFT_OUT = {b".git", b".turntree"}


class FolderScene:
    """Folders with files, links, empty folders, odd modes and names."""

    def __init__(self, root: Path) -> None:
        """Create resources below a folder."""
        self._root = root
        self._made = 0

    def free_place(self) -> str:
        """Return an unused location, another one each time."""
        self._made += 1
        return str(self._root / f"place {self._made}")

    def make(self) -> str:
        """Create a folder and return it."""
        place = Path(self.free_place())
        (place / "src" / "deep" / "er").mkdir(parents=True)
        (place / "empty").mkdir()
        (place / "src" / "a.py").write_text("print('a')\n" * 50, encoding="utf-8")
        (place / "src.txt").write_text("beside a folder of almost that name", encoding="utf-8")
        (place / "src" / "deep" / "er" / "tool").write_bytes(b"#!/bin/sh\n")
        (place / "src" / "deep" / "er" / "tool").chmod(0o755)
        (place / "link").symlink_to("src/a.py")
        (place / "dangling").symlink_to("/no/such/thing")
        self._write(os.fsencode(place) + b"/no\xff-utf8", b"\x00\xff")
        (place / "secret").write_text("mine", encoding="utf-8")
        (place / "secret").chmod(0o600)
        (place / ".git").mkdir()
        (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        return str(place)

    def change(self, place: str, step: int) -> None:
        """Edit, add, remove, replace and change modes."""
        top = Path(place)
        (top / "src").mkdir(exist_ok=True)
        (top / "src" / "a.py").write_text(f"print({step})\n" * 60, encoding="utf-8")
        (top / "src" / f"new {step}").mkdir(exist_ok=True)
        (top / "src" / f"new {step}" / "file").write_bytes(bytes([step % 256]) * 5000)
        (top / "secret").write_text(f"step {step}", encoding="utf-8")
        (top / "secret").chmod(0o640 if step % 2 else 0o600)
        link = top / "link"
        if link.is_symlink():
            link.unlink()
            link.mkdir()
            (link / "inside").write_text("a folder now", encoding="utf-8")
        elif link.is_dir():
            (link / "inside").unlink(missing_ok=True)
            link.rmdir()
            link.symlink_to(f"elsewhere {step}")
        (top / "empty").chmod(0o711 if step % 2 else 0o755)
        (top / "src.txt").unlink(missing_ok=True)

    def describe(self, place: str) -> dict[bytes, Described] | None:
        """Return everything in a folder except the repository, by path."""
        return describe_folder(place)

    def _write(self, path: bytes, data: bytes) -> None:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        except OSError:
            return  # This file system accepts only text as names.
        with open(fd, "wb") as file:  # noqa: PTH123 - it is open already
            file.write(data)


class FileScene:
    """Single files."""

    def __init__(self, root: Path) -> None:
        """Create resources below a folder."""
        self._root = root
        self._made = 0

    def free_place(self) -> str:
        """Return an unused location, another one each time."""
        self._made += 1
        return str(self._root / f"file {self._made}")

    def make(self) -> str:
        """Create a file and return it."""
        place = Path(self.free_place())
        place.write_text("beginning\n" * 30, encoding="utf-8")
        return str(place)

    def change(self, place: str, step: int) -> None:
        """Write other bytes and another mode, now and then a link."""
        path = Path(place)
        path.unlink(missing_ok=True)
        if step % 5 == 3:  # noqa: PLR2004 - some of the steps
            path.symlink_to(f"elsewhere {step}")
            return
        path.write_bytes(f"line {step}\n".encode() * 40)
        path.chmod(0o755 if step % 2 else 0o600)

    def describe(self, place: str) -> Described | None:
        """Return the kind and the contents of a file."""
        path = os.fsencode(place)
        return _describe(path) if os.path.lexists(path) else None


def describe_folder(place: str | Path) -> dict[bytes, Described] | None:
    """Return everything in a folder except repositories, by path; None if it is missing."""
    top = os.fsencode(place)
    if not os.path.lexists(top):
        return None
    found: dict[bytes, Described] = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118 - pathlib knows no bytes
            if name not in _LEFT_OUT:
                found[path[len(top) + 1 :]] = _describe(path)
    return found


def _describe(path: bytes) -> Described:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "symlink", 0, os.readlink(path)  # noqa: PTH115 - pathlib knows no bytes
    if stat.S_ISDIR(mode):
        return "directory", mode & MODE, b""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib knows no bytes
        return "file", mode & MODE, file.read()
