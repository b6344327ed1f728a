"""Mending: what was damaged or lost comes back from a place that still holds it, and only that."""

from pathlib import Path

import pytest

from proofs.fsck_files import PLANTS
from tests.resources.snapshots.test_verify import look
from turntree.core.ref import ExtRef
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.snapshots.repair import ASIDE
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import read_state, walk_nodes

OLD = b"".join(b"line %d\n" % number for number in range(2000))
NEW = OLD.replace(b"line 1000\n", b"another line\n")


@pytest.fixture
def states(tmp_path: Path) -> list[ExtRef]:
    """Two states of a folder; the newer one of a file is kept against the older."""
    place, keeper = tmp_path / "work", DirectoryDriver(tmp_path / "home")
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "a").write_bytes(OLD)
    (place / "large").write_bytes(bytes(range(256)) * 10_000)
    first = keeper.snapshot(str(place)).external
    (place / "deep" / "a").write_bytes(NEW)
    return [first, keeper.snapshot(str(place)).external]


def plant(home: Path, state: ExtRef, path: str, how: str) -> None:
    store = ObjectStore(str(home / "shadow"))
    top = read_state(store.get, bytes.fromhex(state.id.removeprefix("sha256:")))
    PLANTS[how](store, dict(walk_nodes(store.get, top))[path.encode()].digest)


def mend(home: Path, place: Path) -> list[int]:
    """Mend as the check of a whole workspace does."""
    keeper, counts = DirectoryDriver(home), list[int]()
    for unreadable in (False, True):
        counts.append(keeper.mend(unreadable=unreadable))
        keeper.snapshot(str(place))
    keeper.put_back()
    return counts


@pytest.mark.parametrize("how", ["removed", "damaged"])
@pytest.mark.parametrize("path", ["deep", "deep/a", "large"])
def test_what_still_stands_at_its_place_comes_back(
    tmp_path: Path, states: list[ExtRef], how: str, path: str
) -> None:
    home, place, newest = tmp_path / "home", tmp_path / "work", states[-1]
    plant(home, newest, path, how)
    assert look(home, newest.id, full=True) != []
    mend(home, place)
    assert look(home, newest.id, full=True) == []
    assert DirectoryDriver(home).read(newest, "deep/a") == NEW


def test_what_was_kept_against_something_damaged_comes_back_too(
    tmp_path: Path, states: list[ExtRef]
) -> None:
    home, place = tmp_path / "home", tmp_path / "work"
    plant(home, states[0], "deep/a", "damaged")
    assert len(look(home, states[0].id, states[1].id, full=True)) == 2
    assert mend(home, place) == [1, 1]
    (lost,) = look(home, states[0].id, states[1].id, full=True)
    assert (lost.state, lost.path) == (states[0].id, "deep/a")
    assert DirectoryDriver(home).read(states[1], "deep/a") == NEW


def test_what_something_damaged_carried_needs_only_that_back(
    tmp_path: Path, states: list[ExtRef]
) -> None:
    home, place = tmp_path / "home", tmp_path / "work"
    plant(home, states[0], "deep/a", "damaged")
    (place / "deep" / "a").write_bytes(OLD)
    assert mend(home, place) == [1, 0]
    assert look(home, states[0].id, states[1].id, full=True) == []


def test_what_is_sound_and_was_not_brought_is_read_once_its_base_is_back(
    tmp_path: Path, states: list[ExtRef]
) -> None:
    home, place = tmp_path / "home", tmp_path / "work"
    (place / "deep" / "a").write_bytes(b"neither")
    (place / "large").write_bytes(b"other")
    plant(home, states[0], "deep/a", "damaged")
    for _ in range(2):
        assert mend(home, place)[1] == 1
        assert len(look(home, states[0].id, states[1].id, full=True)) == 2
    (place / "deep" / "a").write_bytes(OLD)
    DirectoryDriver(home).snapshot(str(place))
    assert look(home, states[0].id, states[1].id, full=True) == []
    assert DirectoryDriver(home).read(states[1], "deep/a") == NEW


def test_a_damaged_pack_is_put_aside_and_a_sound_one_is_not(
    tmp_path: Path, states: list[ExtRef]
) -> None:
    home, place = tmp_path / "home", tmp_path / "work"
    aside = home / "shadow" / ASIDE
    assert mend(home, place) == [0, 0]
    assert not aside.exists()
    plant(home, states[1], "deep/a", "damaged")
    mend(home, place)
    assert len(list(aside.iterdir())) == 1
