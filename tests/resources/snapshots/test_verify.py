"""Proving states: what is missing and what is damaged is named by its path, and nothing else."""

from pathlib import Path

import pytest

from proofs.fsck_files import PLANTS
from turntree.core.errors import NotFound
from turntree.core.ids import Digest
from turntree.resources.driver import MissingObject
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import read_state, walk_nodes


def look(home: Path, *states: str, full: bool) -> list[MissingObject]:
    done: list[int] = []
    found = DirectoryDriver(home).list_losses(
        [Digest(one) for one in states], done.append, full=full, limit=100
    )
    assert done == list(range(1, len(states) + 1))
    return found


@pytest.fixture
def kept(tmp_path: Path) -> str:
    place = tmp_path / "work"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "a").write_bytes(b"a line\n" * 100)
    (place / "deep" / "b").write_bytes(b"\x01\x02")
    (place / "large").write_bytes(bytes(range(256)) * 10_000)
    return DirectoryDriver(tmp_path / "home").snapshot(str(place)).external.id


@pytest.mark.parametrize("how", ["removed", "damaged"])
@pytest.mark.parametrize("path", ["deep", "deep/a", "deep/b", "large"])
def test_what_is_broken_is_named(tmp_path: Path, kept: str, how: str, path: str) -> None:
    home = tmp_path / "home"
    assert look(home, kept, full=True) == look(home, kept, full=False) == []
    store = ObjectStore(str(home / "shadow"))
    top = read_state(store.get, bytes.fromhex(kept.removeprefix("sha256:")))
    found = dict(walk_nodes(store.get, top))
    PLANTS[how](store, found[path.encode()].digest)
    (loss,) = look(home, kept, full=True)
    assert (loss.state, loss.path) == (kept, path)
    assert ("damaged" if how == "damaged" and path != "large" else "not stored") in loss.why
    if how == "removed":
        assert look(home, kept, full=False) == [loss]


def test_a_state_that_is_not_here_is_named(tmp_path: Path, kept: str) -> None:
    absent = "sha256:" + "0" * 64
    (loss,) = look(tmp_path / "home", absent, kept, full=True)
    assert (loss.state, loss.path) == (absent, ".")


def test_a_damaged_file_does_not_stop_the_next_snapshot(tmp_path: Path, kept: str) -> None:
    home, place = tmp_path / "home", tmp_path / "work"
    store = ObjectStore(str(home / "shadow"))
    top = read_state(store.get, bytes.fromhex(kept.removeprefix("sha256:")))
    found = dict(walk_nodes(store.get, top))
    PLANTS["damaged"](store, found[b"deep/a"].digest)
    (place / "deep" / "a").write_bytes(b"a line\n" * 101)
    keeper = DirectoryDriver(home)
    taken = keeper.snapshot(str(place)).external
    assert keeper.read(taken, "deep/a") == b"a line\n" * 101
    with pytest.raises(NotFound, match="damaged"):
        keeper.read(type(taken)(taken.kind, kept), "deep/a")
