"""Processes of ours that a command starts import nothing of the folder that it is started in."""

import subprocess
from pathlib import Path

import pytest

from turntree.boot.open import READER
from turntree.integrity.scan_process import COMMAND

PLANTED = "open('taken', 'w').close()\nraise SystemExit(0)\n"


@pytest.mark.parametrize("command", [READER, COMMAND], ids=["reader", "scanner"])
def test_a_module_of_the_current_folder_is_not_imported(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    for name in ("orjson", "turntree"):
        (tmp_path / f"{name}.py").write_text(PLANTED)
    subprocess.run(command, cwd=tmp_path, input=b"", capture_output=True, timeout=60, check=False)
    assert not (tmp_path / "taken").exists()
