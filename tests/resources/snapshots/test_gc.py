"""Sweeping: what would go is told first, what is needed stays, and in doubt nothing goes."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Digest
from turntree.core.ref import ExtRef
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.drivers.file import FileDriver
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import read_state, read_tree
from turntree.testing.driver_fixtures import Described, describe_folder

GONE = -1
"""No grace: what was taken a moment ago may go too."""
Look = dict[bytes, Described] | bytes | None
Steps = list[tuple[str, int, int]]


def test_a_dry_run_tells_what_a_sweep_does(tmp_path: Path) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    place.mkdir()
    (place / "a").write_text("one" * 1000)
    needed = keeper.snapshot(str(place)).external
    (place / "a").write_text("two" * 1000)
    other = keeper.snapshot(str(place)).external
    keep = [Digest(needed.id)]
    told = keeper.sweep(keep, grace_s=GONE, dry_run=True)
    assert told.removed > 0
    assert keeper.read(other, "a") == b"two" * 1000
    assert keeper.sweep(keep, grace_s=GONE) == told
    fresh = DirectoryDriver(tmp_path / "home")
    assert fresh.read(needed, "a") == b"one" * 1000
    with pytest.raises(NotFound):
        fresh.read(other, "a")
    assert fresh.sweep(keep, grace_s=GONE, dry_run=True).removed == 0


def test_a_folder_that_another_is_kept_against_keeps_what_it_holds(tmp_path: Path) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    (place / "deep").mkdir(parents=True)
    dice = Random(1)
    states: list[ExtRef] = []
    looks: list[Look] = []
    for round_ in range(6):
        for number in range(20):
            if round_ in {0, number}:
                (place / "deep" / f"file {number}").write_bytes(dice.randbytes(300))
        states.append(keeper.snapshot(str(place)).external)
        looks.append(describe_folder(str(place)))
    for order in (states, states[::-1]):
        keeper.sweep([Digest(one.id) for one in order], grace_s=GONE)
    fresh = DirectoryDriver(tmp_path / "home")
    for number, (state, look) in enumerate(zip(states, looks, strict=True)):
        again = str(tmp_path / f"again {number}")
        fresh.fork(state, again)
        assert describe_folder(again) == look


def test_whatever_shares_a_store_is_swept_at_once(tmp_path: Path) -> None:
    folders, files = DirectoryDriver(tmp_path / "home"), FileDriver(tmp_path / "home")
    assert folders.store_name == files.store_name
    place, note = tmp_path / "work", tmp_path / "note"
    place.mkdir()
    (place / "a").write_text("in a folder")
    note.write_text("alone")
    states = [folders.snapshot(str(place)).external, files.snapshot(str(note)).external]
    folders.sweep([Digest(one.id) for one in states], grace_s=GONE)
    assert DirectoryDriver(tmp_path / "home").read(states[0], "a") == b"in a folder"
    assert FileDriver(tmp_path / "home").read(states[1], ".") == b"alone"


def test_what_is_kept_elsewhere_need_not_be_here(tmp_path: Path) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    place.mkdir()
    (place / "a").write_text("one")
    here = keeper.snapshot(str(place)).external
    absent = Digest("sha256:" + "ab" * 32)
    keeper.sweep([], grace_s=GONE, elsewhere=[Digest(here.id), absent])
    assert DirectoryDriver(tmp_path / "home").read(here, "a") == b"one"
    with pytest.raises(InvalidOperation, match=absent):
        keeper.sweep([absent], grace_s=GONE)


@pytest.mark.parametrize("lost", ["state", "folder", "file"])
def test_whoever_misses_something_removes_nothing(tmp_path: Path, lost: str) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "a").write_text("old")
    keeper.snapshot(str(place))
    (place / "deep" / "a").write_text("new")
    needed = keeper.snapshot(str(place)).external
    store = ObjectStore(keeper.store_name)
    lose(store, object_of(store, needed, lost))
    before = set(store.refresh())
    with pytest.raises(InvalidOperation, match=needed.id):
        DirectoryDriver(tmp_path / "home").sweep([Digest(needed.id)], grace_s=GONE)
    assert set(store.refresh()) == before


def test_who_was_there_before_a_sweep_keeps_anew_what_it_removed(tmp_path: Path) -> None:
    keepers = DirectoryDriver(tmp_path / "home"), FileDriver(tmp_path / "home")
    place, note = tmp_path / "work", tmp_path / "note"
    place.mkdir()
    for text in ("first" * 100, "second" * 100):
        (place / "a").write_text(text)
        note.write_text(text[::-1])
        states = keepers[0].snapshot(str(place)), keepers[1].snapshot(str(note))
    keep = [Digest(taken.external.id) for taken in states]
    assert DirectoryDriver(tmp_path / "home").sweep(keep, grace_s=GONE).removed > 0
    (place / "a").write_text("first" * 100)
    note.write_text(("first" * 100)[::-1])
    folder, file = keepers[0].snapshot(str(place)), keepers[1].snapshot(str(note))
    again = DirectoryDriver(tmp_path / "home")
    assert again.read(folder.external, "a") == b"first" * 100
    assert FileDriver(tmp_path / "home").read(file.external, ".") == b"tsrif" * 100


steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "remove", "pin", "pin", "sweep"]),
        st.integers(0, 11),
        st.integers(0, 2**16),
    ),
    min_size=10,
    max_size=50,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(steps)
def test_whatever_is_pinned_comes_back_byte_by_byte(story: Steps) -> None:
    with TemporaryDirectory() as name:
        _tell(Path(name), story)


def _tell(root: Path, story: Steps) -> None:
    place, home = root / "work", root / "home"
    for number in range(12):
        (place / f"folder {number % 2}").mkdir(parents=True, exist_ok=True)
        (place / f"folder {number % 2}" / f"file {number}").write_bytes(
            Random(number).randbytes(400)
        )
    pinned: dict[ExtRef, Look] = {}
    for word, number, seed in story:
        path = place / f"folder {number % 2}" / f"file {number}"
        # Each step is taken by a process of its own, which knows what lies on the disk.
        folders, files = DirectoryDriver(home), FileDriver(home)
        if word == "write":
            # Alike, so that one is kept as what differs from another.
            path.write_bytes(Random(number).randbytes(400) + str(seed).encode())
        elif word == "remove":
            path.unlink(missing_ok=True)
        elif word == "sweep":
            folders.sweep([Digest(one.id) for one in pinned], grace_s=GONE)
        elif seed % 3 == 0 and path.exists():
            pinned[files.snapshot(str(path)).external] = path.read_bytes()
        else:
            taken = folders.snapshot(str(place)).external
            if seed % 3 == 1:
                pinned[taken] = describe_folder(str(place))
    DirectoryDriver(home).sweep([Digest(one.id) for one in pinned], grace_s=GONE)
    _check(root, home, pinned)


def _check(root: Path, home: Path, pinned: dict[ExtRef, Look]) -> None:
    folders, files = DirectoryDriver(home), FileDriver(home)
    for number, (state, look) in enumerate(pinned.items()):
        if isinstance(look, bytes):
            assert files.read(state, ".") == look
        else:
            again = str(root / f"again {number}")
            folders.fork(state, again)
            assert describe_folder(again) == look


def object_of(store: ObjectStore, state: ExtRef, which: str) -> bytes:
    """Return the digest of a state, of the folder in it or of the file in that."""
    own = bytes.fromhex(state.id.removeprefix("sha256:"))
    top = read_state(store.get, own)
    (folder,) = read_tree(store.get(top.digest))
    (file,) = read_tree(store.get(folder.digest))
    return {"state": own, "folder": folder.digest, "file": file.digest}[which]


def lose(store: ObjectStore, digest: bytes) -> None:
    """Write every pack anew without one object."""
    every = {one for pack in store.refresh().values() for one, _ in pack.objects()}
    store.rewrite(list(store.packs().values()), every - {digest})
