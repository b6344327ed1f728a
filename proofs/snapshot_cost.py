"""The claim: keeping a workspace costs about as much as git looking at it, and only what differs.

A workspace is kept for the first time, beside ``git add -A`` into an empty repository; then one
file changes, and it is kept again, beside ``git status``; then a thousand small changes are kept
one after the other and the store's growth is counted. Both sides see the same files and take turns.
The store waits for the disk, which git does not.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from proofs.figures import Proof, median_ratio, run
from turntree.resources.drivers.directory import DirectoryDriver

MB: Final = 1e6
FILES_A_FOLDER: Final = 25
BAR: Final = 1.5
FORK_BYTES_BAR: Final = 4096
"""A changed line makes new objects of its file, its folder and the folders above."""
PEAK_MB_BAR: Final = 250
LINE: Final = b"a line that somebody added, number %06d\n"
ALONE: Final = """
import resource, sys, time
from turntree.resources.snapshots.capture import keep_folder
from turntree.resources.snapshots.store import ObjectStore
began = time.perf_counter()
keep_folder(ObjectStore(sys.argv[1]), sys.argv[2].encode())
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


async def prove(proof: Proof) -> None:
    """Take every figure."""
    files, size, rounds, forks = (12_000, 60, 9, 100) if proof.quick else (50_000, 1_000, 21, 1_000)
    folder = Path(tempfile.mkdtemp(prefix="turntree-snapshots-"))
    try:
        place = folder / "work"
        paths = write_workspace(place, files, int(size * MB), proof.seed)
        proof.note("workspace", files, "files")
        proof.note("workspace", sum(path.stat().st_size for path in paths) / MB, "MB")
        if proof.begins("first"):
            _take_first(proof, folder, place, 2 if proof.quick else 3)
        else:
            _add(place)
            _alone(folder, place)
        if proof.begins("changed"):
            _take_changed(proof, folder, place, paths, rounds)
        if proof.begins("forks"):
            _take_forks(proof, folder, place, paths, forks)
    finally:
        shutil.rmtree(folder)


def _take_first(proof: Proof, folder: Path, place: Path, rounds: int) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    peaks: list[float] = []

    def keep() -> None:
        shutil.rmtree(folder / "shadow", ignore_errors=True)
        began = time.perf_counter()
        told = _alone(folder, place)
        ours.append(time.perf_counter() - began)
        peaks.append(told[1] / 1024)

    def add() -> None:
        theirs.append(_add(place))

    for number in range(rounds):
        for act in (keep, add) if number % 2 else (add, keep):
            act()
    proof.note("git add -A, median", median(theirs), "s")
    proof.note("first snapshot, median", median(ours), "s")
    proof.at_most("first snapshot to git add", median_ratio(ours, theirs), "x", BAR, of="time")
    proof.at_most("first snapshot, peak memory", max(peaks), "MB", PEAK_MB_BAR)
    kept = _bytes_below(folder / "shadow")
    proof.note("store after it", kept / MB, "MB")
    proof.note("git's objects after it", _bytes_below(place / ".git" / "objects") / MB, "MB")


def _take_changed(proof: Proof, folder: Path, place: Path, paths: list[Path], rounds: int) -> None:
    ours: list[float] = []
    alone: list[float] = []
    theirs: list[float] = []
    chance = random.Random(proof.seed)
    _git(place, "status", "--porcelain")

    def keep() -> None:
        # A keeper of its own each time: nothing but what lies on the disk is known beforehand.
        keeper = DirectoryDriver(folder)
        ours.append(_timed(lambda: keeper.snapshot(str(place))))

    def look() -> None:
        theirs.append(_timed(lambda: _git(place, "status", "--porcelain")))

    for number in range(rounds):
        for act in (keep, look) if number % 2 else (look, keep):
            _change(chance.choice(paths), number)
            time.sleep(0.05)  # Long enough for the change to be told from the snapshot after it.
            act()
        _change(chance.choice(paths), number)
        alone.append(_timed(lambda: _alone(folder, place)))
    proof.note("git status, median", median(theirs) * 1000, "ms")
    proof.note("snapshot after one change, median", median(ours) * 1000, "ms")
    proof.at_most(
        "snapshot after one change to git status", median_ratio(ours, theirs), "x", BAR, of="time"
    )
    proof.note("the same with the start of a process, median", median(alone) * 1000, "ms")


def _take_forks(proof: Proof, folder: Path, place: Path, paths: list[Path], forks: int) -> None:
    keeper = DirectoryDriver(folder)
    keeper.snapshot(str(place))
    before = _bytes_below(folder / "shadow" / "packs")
    chance = random.Random(proof.seed + 1)
    touched = 0
    states = []
    for number in range(forks):
        path = chance.choice(paths)
        _change(path, number)
        touched += path.stat().st_size
        states.append((path, path.read_bytes(), keeper.snapshot(str(place)).external))
    grown = _bytes_below(folder / "shadow" / "packs") - before
    proof.note("forks", forks, "")
    proof.note("changed in each", len(LINE % 0), "bytes")
    proof.note("size of the file it was changed in", touched / forks, "bytes")
    proof.at_most("stored for each", grown / forks, "bytes", FORK_BYTES_BAR)
    proof.note("packs they lie in", len(keeper.store.packs()), "")
    for path, data, state in states[:: max(1, forks // 50)]:
        found = DirectoryDriver(folder).read(state, str(path.relative_to(place)))
        assert found == data, "every fork reads back"


def write_workspace(place: Path, files: int, size: int, seed: int) -> list[Path]:
    """Write files that compress as source code does, in folders of folders."""
    chance = random.Random(seed)
    words = [
        "".join(chance.choices("etaoinshrdlucmfw_", k=chance.randint(2, 11))) for _ in range(4000)
    ]
    lines = [
        "    " * chance.randint(0, 4) + " ".join(chance.choices(words, k=chance.randint(2, 10)))
        for _ in range(60_000)
    ]
    text = "\n".join(lines).encode()
    paths: list[Path] = []
    average = size // files
    for number in range(files):
        folder = number // FILES_A_FOLDER
        path = place / f"area{folder // 100:02}" / f"part{folder % 100:02}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        length = int(average * chance.triangular(0.05, 1.95, 1.0))
        start = chance.randrange(len(text) - length)
        path.write_bytes(text[start : start + length])
        paths.append(path)
    return paths


def _change(path: Path, number: int) -> None:
    with path.open("ab") as file:
        file.write(LINE % number)


def _alone(folder: Path, place: Path) -> tuple[float, float]:
    """Keep the workspace from a process of its own; its seconds and its peak memory in KB."""
    told = subprocess.run(
        [sys.executable, "-c", ALONE, str(folder / "shadow"), str(place)],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, peak = told.stdout.split()
    return float(seconds), float(peak)


def _git(place: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)


def _add(place: Path) -> float:
    """Have git add everything to an empty repository; return the seconds it took."""
    shutil.rmtree(place / ".git", ignore_errors=True)
    _git(place, "init", "-q")
    return _timed(lambda: _git(place, "add", "-A"))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    run(prove, __doc__ or "")
