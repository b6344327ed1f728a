"""A folder becomes a link while files are brought back below it: nothing comes to lie outside."""

import multiprocessing
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from turntree.adapters.resources.directory import DirectoryKeeper
from turntree.adapters.resources.shadow.footing import Footing
from turntree.domain.errors import TurntreeError

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
    footing = Footing(os.fsencode(place))
    with pytest.raises(TurntreeError, match="sub is in the way"):
        footing.enter(b"sub")
    footing.close({})


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_S + 30)
def test_no_swapped_folder_leads_outside(tmp_path: Path) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / "sub/x").mkdir(parents=True)
    outside.mkdir()
    keeper = DirectoryKeeper(tmp_path / "home")
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


def keep(keeper: DirectoryKeeper, place: Path, words: str) -> str:
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
