"""Sweeping: what would go is told first, and what is needed stays."""

from pathlib import Path

import pytest

from turntree.adapters.resources.directory import DirectoryKeeper
from turntree.domain.errors import NotFound
from turntree.domain.ids import Digest


def test_a_dry_run_tells_what_a_sweep_does(tmp_path: Path) -> None:
    keeper, place = DirectoryKeeper(tmp_path / "home"), tmp_path / "work"
    place.mkdir()
    (place / "a").write_text("one" * 1000)
    needed = keeper.snapshot(str(place)).external
    (place / "a").write_text("two" * 1000)
    other = keeper.snapshot(str(place)).external
    keep = [Digest(needed.id)]
    told = keeper.sweep(keep, grace_s=-1, dry_run=True)
    assert told.removed > 0
    assert keeper.read(other, "a") == b"two" * 1000
    assert keeper.sweep(keep, grace_s=-1) == told
    fresh = DirectoryKeeper(tmp_path / "home")
    assert fresh.read(needed, "a") == b"one" * 1000
    with pytest.raises(NotFound):
        fresh.read(other, "a")
    assert fresh.sweep(keep, grace_s=-1, dry_run=True).removed == 0
