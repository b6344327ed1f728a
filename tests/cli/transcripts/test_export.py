"""``export -o``: the file is complete, or as it was before."""

import os
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from turntree.cli.output.output_file import output_file
from turntree.core.errors import InvalidOperation


def test_a_failed_export_leaves_the_file_as_it_was(reader: Call, tmp_path: Path) -> None:
    kept, absent = tmp_path / "kept.jsonl", tmp_path / "absent.jsonl"
    kept.write_text("yesterday's", encoding="utf-8")
    for path in (kept, absent):
        assert reader("export", "no-such-session", "-o", str(path)).code != 0
    assert kept.read_text(encoding="utf-8") == "yesterday's"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["kept.jsonl"]


def test_an_export_keeps_the_mode_of_the_file_and_the_link_to_it(
    reader: Call, tmp_path: Path
) -> None:
    kept, link = tmp_path / "kept.md", tmp_path / "link.md"
    kept.touch(mode=0o600)
    link.symlink_to(kept)
    assert reader("export", "demo/fix-login", "--format", "md", "-o", str(link)).code == 0
    assert link.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text(encoding="utf-8").startswith("#")


def test_a_pipe_is_written_to_and_stays_a_pipe(reader: Call, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for what in ("demo/fix-login", "--all"):
        read: list[bytes] = []
        thread = threading.Thread(target=lambda read=read: read.append(pipe.read_bytes()))
        thread.start()
        assert reader("export", what, "-o", str(pipe)).code == 0
        thread.join(timeout=20)
        assert pipe.is_fifo()
        assert read[0].startswith(b'{"')


def test_what_replaces_a_private_file_is_private_while_it_is_written(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.touch(mode=0o600)
    with output_file(str(kept)) as file:
        file.write(b"words")
        (fresh,) = [path for path in tmp_path.iterdir() if path != kept]
        assert fresh.stat().st_mode & 0o777 == 0o600
    assert kept.read_bytes() == b"words"


def test_a_file_of_another_process_is_not_removed(tmp_path: Path) -> None:
    other = tmp_path / f".new.jsonl.{os.getpid()}.new"
    other.write_bytes(b"theirs")
    with pytest.raises(InvalidOperation), output_file(str(tmp_path / "new.jsonl")):
        pass
    assert other.read_bytes() == b"theirs"
