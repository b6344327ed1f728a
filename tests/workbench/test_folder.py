"""Files below a folder: read, written and listed without following a link."""

import os
from pathlib import Path

import pytest

from turntree.core.errors import InvalidOperation, NotFound
from turntree.workbench.folder import FILE_BYTES_MAX, INSIDE, WorkFolder
from turntree.workbench.profile import FOLDER, GUARDED, PLAIN, SandboxProfile, read_profiles


@pytest.fixture
def folder(tmp_path: Path) -> WorkFolder:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("hunter2")
    return WorkFolder(str(tmp_path.resolve() / "work"), GUARDED)


def at(folder: WorkFolder, path: str) -> Path:
    return Path(folder.place) / path


def test_a_file_is_written_read_and_replaced_whole(folder: WorkFolder) -> None:
    assert folder.write("a/b/c.txt", "one\n")
    at(folder, "a/b/c.txt").chmod(0o4750)
    known = folder.read(f"{INSIDE}/a/b/c.txt")
    assert known.text == "one\n"
    assert not folder.write("a/b/c.txt", "two\n", state=known.state)
    # The permissions stay, and the rights of the owner do not.
    assert at(folder, "a/b/c.txt").stat().st_mode & 0o7777 == 0o750
    with pytest.raises(InvalidOperation, match="changed by another process"):
        folder.write("a/b/c.txt", "three\n", state=known.state)
    assert [path.name for path in at(folder, "a/b").iterdir()] == ["c.txt"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../secret",
        "a/../../secret",
        f"{INSIDE}/../secret",
        "",
        ".",
        "a\0b",
        "\ud800",
    ],
)
def test_a_path_that_leads_out_or_nowhere_is_refused(folder: WorkFolder, path: str) -> None:
    with pytest.raises(InvalidOperation):
        folder.read(path)
    with pytest.raises(InvalidOperation):
        folder.write(path, "x")


def test_no_link_is_followed(folder: WorkFolder, tmp_path: Path) -> None:
    at(folder, "link").symlink_to(tmp_path / "secret")
    at(folder, "way").symlink_to(tmp_path)
    for path in ("link", "way/secret"):
        with pytest.raises(InvalidOperation, match="a link"):
            folder.read(path)
        with pytest.raises(InvalidOperation, match="a link"):
            folder.write(path, "x")
    with pytest.raises(InvalidOperation, match="links are not followed"):
        folder.list_below("way", 3, 10)
    listed, is_more = folder.list_below(".", 3, 10)
    assert ([(one.path, one.kind) for one in listed], is_more) == (
        [("link", "link"), ("way", "link")], False,
    )  # fmt: skip
    # Nor on the way to the folder itself.
    (tmp_path / "other").symlink_to(folder.place)
    with pytest.raises(InvalidOperation, match="links are not followed"):
        WorkFolder(str(tmp_path.resolve() / "other")).list_below(".", 1, 10)
    assert (tmp_path / "secret").read_text() == "hunter2"


def test_a_linked_file_is_left_as_it_was_elsewhere(folder: WorkFolder, tmp_path: Path) -> None:
    os.link(tmp_path / "secret", at(folder, "linked"))
    folder.write("linked", "new")
    assert (tmp_path / "secret").read_text() == "hunter2"


def test_what_is_no_text_file_is_not_read(folder: WorkFolder) -> None:
    os.mkfifo(at(folder, "pipe"))
    at(folder, "image").write_bytes(b"\xff\xd8\xff")
    at(folder, "zero").write_bytes(b"a\0b")
    with at(folder, "huge").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    for name in ("pipe", "image", "zero", "huge"):
        with pytest.raises(InvalidOperation):
            folder.read(name)
    with pytest.raises(InvalidOperation, match="not a file"):
        folder.write("pipe", "x")
    with pytest.raises(NotFound):
        folder.read("absent")
    with pytest.raises(NotFound):
        folder.list_below("absent", 1, 10)


@pytest.mark.parametrize("path", [".git/hooks/x", "sub/.git/config", ".GIT/config", ".claude/x"])
def test_what_other_programs_run_is_not_written(folder: WorkFolder, path: str) -> None:
    with pytest.raises(InvalidOperation, match="is not changed"):
        folder.write(path, "x")
    assert list(Path(folder.place).iterdir()) == []


def test_a_long_list_is_cut(folder: WorkFolder) -> None:
    for number in range(5):
        folder.write(f"d/{number}.txt", "")
    listed, is_more = folder.list_below("/work", 2, 3)
    assert ([one.path for one in listed], is_more) == (["d", "d/0.txt", "d/1.txt"], True)


def test_profiles_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text('[build]\nread = ["/opt/x"]\nnetwork = "open"\ngit = "write"\nseconds = 5\n')
    profiles = read_profiles(path)
    assert profiles[FOLDER] == PLAIN == read_profiles(None)[FOLDER]
    expected = SandboxProfile("build", ("/opt/x",), has_network=True, writes_git=True, seconds=5)
    assert profiles["build"] == expected
    assert ".git" not in expected.guarded
    assert ".git" in PLAIN.guarded


@pytest.mark.parametrize(
    "text",
    [
        "[folder]\n", "[code]\n", "[Build]\n", "build = 1\n", "[build]\nsecond = 1\n", "[build",
        '[build]\nread = "/opt"\n', "[build]\nread = [1]\n",
        '[build]\nread = ["opt"]\n', '[build]\nread = ["/"]\n',
        '[build]\nwrite = ["/etc"]\n', '[build]\nwrite = ["/tmp"]\n', '[build]\nnetwork = "yes"\n',
        "[build]\nseconds = 0\n", "[build]\nseconds = true\n", '[build]\nread = ["/a/../b"]\n',
    ],
)  # fmt: skip
def test_an_invalid_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(InvalidOperation, match="profiles"):
        read_profiles(path)
    with pytest.raises(InvalidOperation, match="cannot be read"):
        read_profiles(tmp_path / "absent.toml")
