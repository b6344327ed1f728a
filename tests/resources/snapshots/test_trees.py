"""Trees come from archives and backups too: a name in them never leads out of a folder."""

from hashlib import sha256
from pathlib import Path

import pytest

from turntree.core.errors import NotFound
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.snapshots.trees import (
    FILE,
    FOLDER,
    LINK,
    PLACE_NAME,
    TreeEntry,
    read_tree,
    write_tree,
)

DIGEST = bytes(32)


@pytest.mark.parametrize("name", [b"", b".", b"..", b"/etc", b"a/b", b"../x", b"a\0b", b"a/"])
def test_tree_with_a_name_that_is_a_path_is_refused(name: bytes) -> None:
    _, data = write_tree([TreeEntry(name, FILE, 0o644, 1, 1, DIGEST)])
    with pytest.raises(NotFound, match="corrupt object"):
        read_tree(data)


def test_tree_that_is_cut_off_or_of_another_kind_is_refused() -> None:
    _, data = write_tree([TreeEntry(b"name", FILE, 0o644, 1, 1, DIGEST)])
    assert [node.name for node in read_tree(data)] == [b"name"]
    for end in range(len(data)):
        if end != len(b"tree/1\n"):
            with pytest.raises(NotFound, match="corrupt object"):
                read_tree(data[:end])
    _, data = write_tree([TreeEntry(b"name", 9, 0o644, 1, 1, DIGEST)])
    with pytest.raises(NotFound, match="corrupt object"):
        read_tree(data)


def test_tree_with_a_name_twice_or_out_of_order_is_refused() -> None:
    entries = [TreeEntry(name, FILE, 0o644, 1, 1, DIGEST) for name in (b"a", b"b")]
    head, (first, second) = _parts(entries)
    assert [node.name for node in read_tree(head + first + second)] == [b"a", b"b"]
    for forged in (first + first, second + first, first + second + second):
        with pytest.raises(NotFound, match="corrupt object"):
            read_tree(head + forged)


def test_forged_tree_with_a_link_and_a_folder_of_one_name_is_refused(tmp_path: Path) -> None:
    driver = DirectoryDriver(tmp_path / "home")
    outside = tmp_path / "outside"
    outside.mkdir()
    said, target = b"planted", bytes(outside)
    file, link = sha256(said).digest(), sha256(target).digest()
    inner, inside = write_tree([TreeEntry(b"planted", FILE, 0o644, len(said), 1, file)])
    top, forged = write_tree(
        [
            TreeEntry(b"twice", LINK, 0, len(target), 1, link),
            TreeEntry(b"twice", FOLDER, 0o755, len(said), 1, inner),
        ]
    )
    writer = driver.store.begin()
    for digest, data in ((file, said), (link, target), (inner, inside), (top, forged)):
        writer.put(digest, data)
    writer.finish()
    with pytest.raises(NotFound, match="corrupt object"):
        driver.grow(TreeEntry(PLACE_NAME, FOLDER, 0o755, 8, 2, top), bytes(tmp_path / "inside"))
    assert list(outside.iterdir()) == []


def _parts(entries: list[TreeEntry]) -> tuple[bytes, list[bytes]]:
    """Return how a tree begins, and the bytes of each entry."""
    head = write_tree([])[1]
    return head, [write_tree([entry])[1].removeprefix(head) for entry in entries]


@pytest.mark.parametrize("name", [b"../outside", b"{outside}", b".."])
def test_forged_tree_writes_nothing_outside_its_folder(tmp_path: Path, name: bytes) -> None:
    driver = DirectoryDriver(tmp_path / "home")
    outside = tmp_path / "outside"
    outside.mkdir()
    said = b"planted"
    file = sha256(said).digest()
    inner, inside = write_tree([TreeEntry(b"planted", FILE, 0o644, len(said), 1, file)])
    name = name.replace(b"{outside}", bytes(outside))
    top, forged = write_tree([TreeEntry(name, FOLDER, 0o755, len(said), 1, inner)])
    writer = driver.store.begin()
    for digest, data in ((file, said), (inner, inside), (top, forged)):
        writer.put(digest, data)
    writer.finish()
    with pytest.raises(NotFound, match="corrupt object"):
        driver.grow(
            TreeEntry(PLACE_NAME, FOLDER, 0o755, len(said), 1, top), bytes(tmp_path / "inside")
        )
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "planted").exists()
