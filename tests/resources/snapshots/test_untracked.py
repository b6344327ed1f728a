"""What no state holds is told by what was kept, whatever the reason."""

import os
from pathlib import Path

import pytest

from turntree.resources.drivers.directory import DirectoryDriver


def left_out(keeper: DirectoryDriver, place: Path) -> list[str]:
    return keeper.list_left_out(str(place), keeper.snapshot(str(place)).external)


def test_what_is_ignored_or_no_file_is_left_out(tmp_path: Path) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    (place / "src").mkdir(parents=True)
    (place / "src" / "a.py").write_text("a")
    (place / ".turntree").mkdir()
    assert left_out(keeper, place) == []
    (place / ".git").mkdir()
    (place / ".gitignore").write_text("*.log\n")
    (place / "src" / "run.log").write_text("ignored")
    os.mkfifo(place / "src" / "pipe")
    assert left_out(keeper, place) == [".git/", "src/pipe", "src/run.log"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    (place / "shut").mkdir(parents=True)
    for name in ("a", "b", "shut/c"):
        (place / name).write_text(name)
    assert left_out(keeper, place) == []
    (place / "b").chmod(0)
    (place / "shut").chmod(0)
    assert left_out(keeper, place) == ["b", "shut/"]
    (place / "shut").chmod(0o755)


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    place.mkdir()
    # A path that is longer than the system takes in one piece.
    here = os.open(place, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=here)
        inner = os.open("x" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    with os.fdopen(os.open("deep", os.O_WRONLY | os.O_CREAT, dir_fd=here), "wb") as file:
        file.write(b"not kept")
    os.close(here)
    (found,) = left_out(keeper, place)
    assert found.startswith("x" * 250)
    assert found.endswith("/")
