"""Files of two states: which differences there are, and which have lines to show."""

from turntree.core.ids import Digest
from turntree.resources.file_diff import LARGE_BYTES_MAX, diff_file, has_to_be_read, pair_renames
from turntree.resources.resource import EntryKind, FileChange, FileEntry


def entry(path: str, size: int = 5, *, of: str = "a", kind: EntryKind = "file") -> FileEntry:
    return FileEntry(path, kind, 0o644, size, Digest(f"sha256:{of * 64}"))


def test_text_is_told_by_its_lines() -> None:
    change = FileChange("a.py", "changed", entry("a.py"), entry("a.py", of="b"))
    assert has_to_be_read(change)
    diff = diff_file(change, b"one\ntwo\n", b"one\n2\nthree\n")
    assert (diff.shape, diff.added, diff.removed) == ("text", 2, 1)


def test_bytes_and_large_files_are_told_by_their_sizes() -> None:
    change = FileChange("a.png", "changed", entry("a.png"), entry("a.png", of="b"))
    binary = diff_file(change, b"\0\1", b"\0\2")
    assert (binary.shape, binary.added, binary.hunks) == ("binary", None, ())
    grown = FileChange("log", "changed", entry("log"), entry("log", LARGE_BYTES_MAX + 1, of="b"))
    assert not has_to_be_read(grown)
    assert diff_file(grown, None, None).shape == "large"


def test_permissions_alone_have_no_lines() -> None:
    run = FileEntry("a.sh", "file", 0o755, 5, Digest("sha256:" + "a" * 64))
    change = FileChange("a.sh", "mode", entry("a.sh"), run)
    assert not has_to_be_read(change)
    assert diff_file(change, None, None).shape == "same"


def test_links_and_folders_are_no_text() -> None:
    link = FileChange("l", "added", None, entry("l", kind="symlink"))
    assert diff_file(link, None, b"there").shape == "link"
    folder = FileChange("d", "added", None, FileEntry("d", "directory", 0o755, 0, None))
    assert diff_file(folder, None, None).shape == "folder"


def test_equal_bytes_under_another_name_are_a_move() -> None:
    gone = FileChange("old.py", "removed", entry("old.py"), None)
    come = FileChange("new.py", "added", None, entry("new.py"))
    other = FileChange("z.py", "added", None, entry("z.py", of="c"))
    pairs = pair_renames([come, gone, other])
    assert pairs == [(gone, come), other]
    diff = diff_file(come, None, None, moved_from=gone)
    assert (diff.kind, diff.renamed_from, diff.added) == ("renamed", "old.py", None)


def test_a_folder_is_told_of_only_for_its_own_sake() -> None:
    folder = FileChange("d", "added", None, FileEntry("d", "directory", 0o755, 0, None))
    inside = FileChange("d/a", "added", None, entry("d/a"))
    assert pair_renames([folder, inside]) == [inside]
    assert pair_renames([folder]) == [folder]


def test_empty_files_are_never_said_to_have_moved() -> None:
    gone = FileChange("a/__init__.py", "removed", entry("a/__init__.py", 0), None)
    come = FileChange("b/__init__.py", "added", None, entry("b/__init__.py", 0))
    assert pair_renames([come, gone]) == [gone, come]
