"""What was kept or brought back is on the disk: each file and each folder was waited for."""

import os
from pathlib import Path

import pytest

from turntree.resources.drivers.directory import DirectoryDriver

FDS = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not FDS.exists(), reason="nothing says here which file is meant")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, bytes]]:
    """What was waited for, in order: the paths of then, and what the files held."""
    waited: list[tuple[Path, bytes]] = []
    fsync = os.fsync

    def wait(fd: int) -> None:
        path = (FDS / str(fd)).readlink()
        waited.append((path, path.read_bytes() if path.is_file() else b""))
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
    tmp_path: Path, place: Path, synced: list[tuple[Path, bytes]]
) -> None:
    DirectoryDriver(tmp_path / "home").snapshot(str(place))
    (pack,) = (tmp_path / "home").rglob("*.pack")
    assert pack.stat().st_size > 0
    # The pack has its name only when its bytes are there, and the folder is told of the name.
    own = [path for path, _ in synced if pack.parent in (path.parent, path)]
    assert own[0].suffix == ".tmp"
    assert own[-1] == pack.parent


def test_what_was_brought_back_is_on_the_disk(
    tmp_path: Path, place: Path, synced: list[tuple[Path, bytes]]
) -> None:
    keeper = DirectoryDriver(tmp_path / "home")
    state = keeper.snapshot(str(place)).external
    (place / "sub/file").write_text("changed", encoding="utf-8")
    synced.clear()
    keeper.restore(state, str(place))
    assert (place / "sub/file").read_text(encoding="utf-8") == "inside"
    assert (place / "sub", b"") in synced
    assert b"inside" in [held for _, held in synced]
