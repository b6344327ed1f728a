"""A state made from another one is the state that a folder with these files would have."""

import hashlib
from pathlib import Path

import pytest

from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.resources.driver import NewContent
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.resource import EntryKind, FileEntry


@pytest.fixture
def driver(tmp_path: Path) -> DirectoryDriver:
    return DirectoryDriver(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "work"
    (top / "lib/deep").mkdir(parents=True)
    (top / "lib/deep/a.py").write_bytes(b"a\n")
    (top / "b.py").write_bytes(b"b\n")
    for path in (top, top / "lib", top / "lib/deep"):
        path.chmod(0o755)
    for path in (top / "lib/deep/a.py", top / "b.py"):
        path.chmod(0o644)
    return top


def new(path: str, data: bytes, kind: EntryKind = "file", mode: int = 0o644) -> NewContent:
    digest = Digest(f"sha256:{hashlib.sha256(data).hexdigest()}")
    return NewContent(FileEntry(path, kind, mode, len(data), digest), data)


def test_edits_lead_to_the_state_of_a_folder_with_these_files(
    driver: DirectoryDriver, folder: Path
) -> None:
    old = driver.snapshot(str(folder)).external
    large = bytes(range(256)) * 8_000
    edited = driver.edit(
        old,
        {
            "lib/deep/a.py": None,
            "lib/deep": None,
            "b.py": new("b.py", b"other\n", mode=0o755),
            "new/er/c.bin": new("new/er/c.bin", large),
            "link": new("link", b"b.py", "symlink", 0),
            "empty": NewContent(FileEntry("empty", "directory", 0o700, 0, None)),
        },
    )
    (folder / "lib/deep/a.py").unlink()
    (folder / "lib/deep").rmdir()
    (folder / "b.py").write_bytes(b"other\n")
    (folder / "b.py").chmod(0o755)
    (folder / "new/er").mkdir(parents=True)
    (folder / "new/er/c.bin").write_bytes(large)
    (folder / "link").symlink_to("b.py")
    (folder / "empty").mkdir()
    for path, mode in (
        ("new", 0o755),
        ("new/er", 0o755),
        ("new/er/c.bin", 0o644),
        ("empty", 0o700),
    ):
        (folder / path).chmod(mode)
    taken = driver.snapshot(str(folder))
    assert driver.compare(edited.external, taken.external) == []
    assert edited.external == taken.external
    assert (edited.size, edited.files) == (taken.size, taken.files)
    assert driver.read(edited.external, "new/er/c.bin") == large


def test_a_folder_that_still_holds_something_stays(driver: DirectoryDriver, folder: Path) -> None:
    old = driver.snapshot(str(folder)).external
    assert driver.edit(old, {"lib": None}).external == old
    (folder / "lib/deep/a.py").unlink()
    bare = driver.snapshot(str(folder)).external
    assert driver.edit(bare, {"lib": None}).external == bare


@pytest.mark.parametrize("path", ["b.py/below", "lib"])
def test_a_path_in_the_way_is_refused(driver: DirectoryDriver, folder: Path, path: str) -> None:
    old = driver.snapshot(str(folder)).external
    with pytest.raises(InvalidOperation):
        driver.edit(old, {path: new(path, b"x")})
