"""The store under its users: many at once, some of which die; and what is swept away."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from turntree.core.errors import NotFound
from turntree.core.ids import Digest
from turntree.core.ref import ExtRef
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.snapshots.store import PACKS_OF_A_SIZE_MAX
from turntree.testing.driver_fixtures import describe_folder

EDITOR = """
import sys
from pathlib import Path
from turntree.resources.drivers.directory import DirectoryDriver

home, place, name, rounds = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
keeper = DirectoryDriver(home)
for number in range(rounds):
    (place / name).write_text(f"{name} {number}\\n" * 50)
    (place / "same").mkdir(exist_ok=True)
    (place / "same" / f"{number}").write_text(f"the same for everybody {number}\\n" * 50)
    taken = keeper.snapshot(str(place))
    print(taken.external.id, flush=True)
"""
SWINGER = """
import sys
from pathlib import Path
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.core.ref import ExtRef

keeper, place = DirectoryDriver(Path(sys.argv[1])), sys.argv[2]
states = [ExtRef("shadow-tree", id) for id in sys.argv[3:]]
print("ready", flush=True)
while True:
    for state in states:
        keeper.restore(state, place)
"""


@pytest.fixture
def keeper(tmp_path: Path) -> DirectoryDriver:
    return DirectoryDriver(tmp_path / "home")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_two_writers_at_once_lose_nothing(keeper: DirectoryDriver, tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two", tmp_path / "two"]
    for folder in places:
        folder.mkdir(exist_ok=True)
    editors = [
        _start(EDITOR, tmp_path / "home", folder, f"own {number}", "25")
        for number, folder in enumerate(places)
    ]
    told = [editor.communicate(timeout=100)[0].split() for editor in editors]
    assert [editor.returncode for editor in editors] == [0, 0, 0]
    assert [len(states) for states in told] == [25, 25, 25]
    for number, state in enumerate(told[0]):
        external = ExtRef("shadow-tree", state)
        assert keeper.read(external, "own 0").startswith(f"own 0 {number}\n".encode())
        for entry in keeper.list_entries(external):
            if entry.kind == "file":
                keeper.read(external, entry.path)


def test_threads_share_a_keeper(keeper: DirectoryDriver, tmp_path: Path) -> None:
    found: list[bool] = []

    def work(number: int) -> None:
        folder = tmp_path / f"thread {number}"
        folder.mkdir()
        for step in range(10):
            (folder / "file").write_text(f"{number} {step}\n" * 100, encoding="utf-8")
            state = keeper.snapshot(str(folder)).external
            found.append(keeper.read(state, "file") == (folder / "file").read_bytes())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 40


def test_packs_are_merged_before_there_are_many(keeper: DirectoryDriver, place: Path) -> None:
    states = []
    for number in range(5 * PACKS_OF_A_SIZE_MAX):
        (place / "file").write_text(f"{number}\n" * 40, encoding="utf-8")
        states.append(keeper.snapshot(str(place)).external)
    assert len(keeper.store.packs()) < 2 * PACKS_OF_A_SIZE_MAX
    assert [keeper.read(state, "file") for state in states] == [
        f"{number}\n".encode() * 40 for number in range(len(states))
    ]


def test_a_reader_finds_what_somebody_else_merged(keeper: DirectoryDriver, place: Path) -> None:
    reader = DirectoryDriver(Path(keeper.store.folder).parent)
    (place / "file").write_text("first", encoding="utf-8")
    first = keeper.snapshot(str(place)).external
    assert reader.read(first, "file") == b"first"
    for number in range(2 * PACKS_OF_A_SIZE_MAX):
        (place / "file").write_text(f"{number}", encoding="utf-8")
        last = keeper.snapshot(str(place)).external
    assert reader.read(first, "file") == b"first"
    assert reader.read(last, "file") == f"{number}".encode()


def test_damage_is_noticed(keeper: DirectoryDriver, place: Path) -> None:
    (place / "file").write_bytes(os.urandom(5000))
    state = keeper.snapshot(str(place)).external
    (pack,) = Path(keeper.store.folder, "packs").iterdir()
    data = bytearray(pack.read_bytes())
    data[2000] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(data)
    with pytest.raises(NotFound, match="damaged"):
        DirectoryDriver(Path(keeper.store.folder).parent).read(state, "file")


def test_a_memory_that_is_lost_or_damaged_costs_only_time(
    keeper: DirectoryDriver, place: Path
) -> None:
    (place / "file").write_text("x", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    (memory,) = Path(keeper.store.folder, "places").iterdir()
    for damage in (b"", b"nonsense", memory.read_bytes()[:-3], memory.read_bytes() + b"x"):
        memory.write_bytes(damage)
        assert keeper.snapshot(str(place)).external == state


def test_a_store_that_was_lost_is_filled_again(keeper: DirectoryDriver, place: Path) -> None:
    (place / "file").write_text("x", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    shutil.rmtree(Path(keeper.store.folder, "packs"))
    again = DirectoryDriver(Path(keeper.store.folder).parent)
    assert again.snapshot(str(place)).external == state
    assert again.read(state, "file") == b"x"


def test_a_sweep_leaves_what_is_needed(keeper: DirectoryDriver, place: Path) -> None:
    states = []
    for number in range(6):
        (place / "file").write_text(f"line {number}\n" * 300, encoding="utf-8")
        (place / f"only {number}").write_bytes(os.urandom(2000))
        states.append(keeper.snapshot(str(place)).external)
        (place / f"only {number}").unlink()
    assert keeper.sweep([], grace_s=3600).removed == 0
    swept = keeper.sweep([Digest(states[2].id)], grace_s=0)
    assert swept.removed > 0
    assert swept.freed > 5 * 2000
    assert keeper.read(states[2], "file") == b"line 2\n" * 300
    assert len(keeper.read(states[2], "only 2")) == 2000
    for gone in (0, 1, 3, 4):
        with pytest.raises(NotFound):
            keeper.read(states[gone], f"only {gone}")
    described = describe_folder(place)
    state = keeper.snapshot(str(place)).external
    keeper.restore(states[2], str(place))
    keeper.restore(state, str(place))
    assert describe_folder(place) == described


def test_what_was_just_taken_survives_a_sweep(keeper: DirectoryDriver, place: Path) -> None:
    (place / "file").write_text("old\n" * 500, encoding="utf-8")
    keeper.snapshot(str(place))
    (place / "file").write_text("old\n" * 500 + "new\n", encoding="utf-8")
    state = keeper.snapshot(str(place)).external
    keeper.sweep([], grace_s=60)
    assert keeper.read(state, "file").endswith(b"new\n")


@pytest.mark.slow
def test_kill_9_during_snapshots_leaves_a_sound_store(
    keeper: DirectoryDriver, tmp_path: Path
) -> None:
    folder = tmp_path / "victim"
    folder.mkdir()
    for round in range(8):
        editor = _start(EDITOR, tmp_path / "home", folder, "own", "1000")
        assert editor.stdout is not None
        first = editor.stdout.readline().strip()
        time.sleep(0.037 * round)
        editor.send_signal(signal.SIGKILL)
        # A line that was cut off is a state that nobody was told of.
        told = editor.communicate()[0].rpartition("\n")[0].split()
        for state in (first, *told):
            external = ExtRef("shadow-tree", state)
            for entry in keeper.list_entries(external):
                if entry.kind == "file":
                    keeper.read(external, entry.path)
        taken = keeper.snapshot(str(folder))
        assert keeper.read(taken.external, "own") == (folder / "own").read_bytes()


@pytest.mark.slow
def test_kill_9_during_restores_leaves_old_or_new_paths(
    keeper: DirectoryDriver, place: Path
) -> None:
    states = []
    for version in (b"one\n", b"two\n"):
        for number in range(60):
            (place / f"{number % 7}").mkdir(exist_ok=True)
            (place / f"{number % 7}" / f"{number}").write_bytes(version * 2000)
        states.append((keeper.snapshot(str(place)).external, describe_folder(place)))
    for round in range(8):
        swinger = _start(
            SWINGER, Path(keeper.store.folder).parent, place, *(state.id for state, _ in states)
        )
        assert swinger.stdout is not None
        assert swinger.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.031 * round)
        swinger.send_signal(signal.SIGKILL)
        swinger.communicate()
        found = describe_folder(place)
        assert found is not None
        for path, described in found.items():
            assert described in [known[path] for _, known in states if known is not None]
        for state, described_then in states:
            keeper.restore(state, str(place))
            assert describe_folder(place) == described_then
        assert not (place / ".turntree").exists()


def _start(program: str, *words: Path | str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)], stdout=subprocess.PIPE, text=True
    )
