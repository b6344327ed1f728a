"""Folders that nobody may write to: they come back with what they hold, and shut."""

from pathlib import Path

from turntree.resources.drivers.directory import DirectoryDriver


def test_a_shut_folder_inside_a_shut_folder_comes_back_shut(tmp_path: Path) -> None:
    keeper, place = DirectoryDriver(tmp_path / "home"), tmp_path / "work"
    place.mkdir()
    empty = keeper.snapshot(str(place)).external
    outer, inner = place / "outer", place / "outer/inner"
    inner.mkdir(parents=True)
    (inner / "a").symlink_to("b")
    (outer / "beside").mkdir()
    inner.chmod(0o500)
    outer.chmod(0o500)
    full = keeper.snapshot(str(place)).external
    keeper.restore(empty, str(place))
    assert not outer.exists()
    keeper.restore(full, str(place))
    assert [folder.stat().st_mode & 0o777 for folder in (outer, inner)] == [0o500, 0o500]
    assert keeper.snapshot(str(place)).external == full
    keeper.restore(empty, str(place))
