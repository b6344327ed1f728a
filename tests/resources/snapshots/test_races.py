"""A folder becomes a link while files are brought back below it: nothing comes to lie outside."""

import multiprocessing
import os
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from turntree.core.errors import TurntreeError
from turntree.core.ref import ExtRef
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.snapshots.dir_fd import DirFd, set_mode

RACES = int(os.environ.get("TURNTREE_TEST_RACES", "12"))
"""How many files are brought back to their end; ``proofs.attacks`` asks for many more."""
FILES = 60
SWAPPED_S = 0.0003
PATIENCE_S = 60.0 + 2 * RACES


def test_no_link_is_entered(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tmp_path / "place"
    place.mkdir()
    (place / "sub").symlink_to(outside)
    footing = DirFd(os.fsencode(place))
    with pytest.raises(TurntreeError, match="sub is in the way"):
        footing.enter(b"sub")
    footing.close({})


def test_no_mode_is_changed_through_a_link(tmp_path: Path) -> None:
    """Whatever took a file's place since it was looked at keeps its mode."""
    outside = tmp_path / "outside"
    outside.write_text("theirs", encoding="utf-8")
    outside.chmod(0o600)
    (tmp_path / "place").mkdir()
    (tmp_path / "place/link").symlink_to(outside)
    (tmp_path / "place/file").write_text("ours", encoding="utf-8")
    (tmp_path / "place/file").chmod(0)
    folder = os.open(tmp_path / "place", os.O_RDONLY)
    try:
        set_mode(folder, b"link", 0o777)
        set_mode(folder, b"file", 0o640)
    finally:
        os.close(folder)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "place/file").stat().st_mode) == 0o640


def test_nothing_is_staged_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    place.mkdir()
    outside.mkdir()
    (place / "file").write_text("first", encoding="utf-8")
    keeper = DirectoryDriver(tmp_path / "home")
    state = keeper.snapshot(str(place)).external
    (place / "file").write_text("second", encoding="utf-8")
    makedirs = os.makedirs

    def make_and_swap(name: bytes, *words: object, **options: object) -> None:
        # The worst moment: what was made is replaced before anything else happens.
        makedirs(name, *words, **options)  # type: ignore[arg-type]
        if os.fsencode(name).endswith(b".turntree"):
            (place / ".turntree").rmdir()
            (place / ".turntree").symlink_to(outside)

    monkeypatch.setattr(os, "makedirs", make_and_swap)
    monkeypatch.setattr(os.path, "islink", lambda _: False)
    with pytest.raises(TurntreeError, match="nothing is written through it"):
        keeper.restore(state, str(place))
    assert list(outside.iterdir()) == []


def test_bits_that_lend_rights_do_not_come_back(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    modes = {"user": 0o4755, "group": 0o2750, "sticky": 0o1644}
    for name, mode in modes.items():
        (place / name).write_text("runs", encoding="utf-8")
        (place / name).chmod(mode)
    (place / "folder").mkdir()
    (place / "folder").chmod(0o3777)
    keeper = DirectoryDriver(tmp_path / "home")
    state = keeper.snapshot(str(place)).external
    for name in modes:
        (place / name).unlink()
    (place / "folder").rmdir()
    keeper.restore(state, str(place))
    for name, mode in {**modes, "folder": 0o777}.items():
        assert stat.S_IMODE((place / name).stat().st_mode) == mode & 0o777
    # What stands there now is the user's own, and keeps what they gave it.
    (place / "folder").chmod(0o3700)
    keeper.restore(state, str(place))
    assert stat.S_IMODE((place / "folder").stat().st_mode) == 0o3777


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_S + 30)
def test_no_swapped_folder_leads_outside(tmp_path: Path) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / "sub/x").mkdir(parents=True)
    outside.mkdir()
    keeper = DirectoryDriver(tmp_path / "home")
    states = [keep(keeper, place, words) for words in ("first", "second")]
    deadline, done = time.monotonic() + PATIENCE_S, 0
    with swapping(place / "sub/x", outside, tmp_path / "aside"):
        while done < RACES and time.monotonic() < deadline:
            # What was swapped at the wrong moment is refused, or not there.
            with suppress(TurntreeError, OSError):
                keeper.restore(states[done % 2], str(place))
                done += 1
    assert list(outside.iterdir()) == []
    assert done == RACES


def keep(keeper: DirectoryDriver, place: Path, words: str) -> ExtRef:
    for number in range(FILES):
        (place / f"sub/x/f{number}").write_text(words, encoding="utf-8")
    return keeper.snapshot(str(place)).external


@contextmanager
def swapping(folder: Path, outside: Path, aside: Path) -> Generator[None]:
    """Have another process replace a folder by a link and back, without end."""
    process = multiprocessing.get_context("spawn").Process(
        target=swap, args=(folder, outside, aside), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def swap(folder: Path, outside: Path, aside: Path) -> None:
    while True:
        try:
            folder.rename(aside)
            folder.symlink_to(outside)
            spin()
            folder.unlink()
            aside.rename(folder)
        except OSError:
            with suppress(OSError):
                put_back(folder, aside)
        spin()


def put_back(folder: Path, aside: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    if aside.is_dir() and not folder.exists():
        aside.rename(folder)
    elif aside.is_dir():
        shutil.rmtree(aside)


def spin() -> None:
    """Wait for less time than a process can sleep."""
    end = time.perf_counter() + SWAPPED_S
    while time.perf_counter() < end:
        pass
