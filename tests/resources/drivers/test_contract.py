"""Every keeper of this package keeps what keepers promise."""

from pathlib import Path

import pytest

from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.drivers.file import FileDriver
from turntree.testing.contracts.driver import check_keeper
from turntree.testing.driver_fixtures import FileScene, FolderScene

pytestmark = pytest.mark.slow


def test_directories_are_kept_as_promised(tmp_path: Path) -> None:
    check_keeper(DirectoryDriver(tmp_path / "home"), FolderScene(tmp_path))


def test_files_are_kept_as_promised(tmp_path: Path) -> None:
    check_keeper(FileDriver(tmp_path / "home"), FileScene(tmp_path))
