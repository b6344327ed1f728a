"""What was kept or brought back is on the disk: each file and each folder was waited for."""

import os
from pathlib import Path

import pytest

from turntree.adapters.resources.directory import DirectoryKeeper

FDS = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not FDS.exists(), reason="nothing says here which file is meant")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that were waited for, in order, by the paths they had then."""
    waited: list[Path] = []
    fsync = os.fsync

    def wait(fd: int) -> None:
        waited.append((FDS / str(fd)).readlink())
        fsync(fd)

    monkeypatch.setattr(os, "fsync", wait)
    return waited


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/file").write_text("inside", encoding="utf-8")
    return folder


def test_a_state_that_was_kept_is_on_the_disk(
    tmp_path: Path, place: Path, synced: list[Path]
) -> None:
    DirectoryKeeper(tmp_path / "home").snapshot(str(place))
    (pack,) = (tmp_path / "home").rglob("*.pack")
    assert pack.stat().st_size > 0
    # The pack has its name only when its bytes are there, and the folder is told of the name.
    own = [path for path in synced if path.parent == pack.parent or path == pack.parent]
    assert own[0].suffix == ".tmp"
    assert own[-1] == pack.parent


def test_what_was_brought_back_is_on_the_disk(
    tmp_path: Path, place: Path, synced: list[Path]
) -> None:
    keeper = DirectoryKeeper(tmp_path / "home")
    state = keeper.snapshot(str(place)).external
    (place / "sub/file").write_text("changed", encoding="utf-8")
    synced.clear()
    keeper.restore(state, str(place))
    assert (place / "sub/file").read_text(encoding="utf-8") == "inside"
    assert place / "sub" in synced
    assert any(not path.is_dir() for path in synced)
