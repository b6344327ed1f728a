"""Files that would fill the memory or never end: refused, in words that say what to do."""

import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import zstandard

from turntree.boot.open import load_importers
from turntree.core.errors import InvalidOperation
from turntree.transcripts.importers.shared import export_files
from turntree.transcripts.importers.shared.export_files import elements
from turntree.transcripts.importers.shared.lenient_json import open_file, read_lines

IMPORTERS = load_importers()
BEGIN = (
    b'[{"title":"x","mapping":{"a":{"id":"a","message":{"id":"a","author":{"role":"user"},"text":"'
)
MB = 1024 * 1024


def test_a_zip_that_unpacks_to_gigabytes_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("conversations.json", "w", force_zip64=True) as file,
    ):
        file.write(BEGIN)
        for _ in range(300):
            file.write(b"A" * MB)
        file.write(b'"}}}}]')
    assert path.stat().st_size < MB
    tracemalloc.start()
    try:
        with pytest.raises(InvalidOperation, match="unpacks to more than 200 times"):
            list(IMPORTERS["chatgpt"].open(path))
        assert tracemalloc.get_traced_memory()[1] < 50 * MB
    finally:
        tracemalloc.stop()


def test_a_conversation_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_files, "ELEMENT_MAX_BYTES", 4 * MB)
    assert [len(data) for _, data in elements(io.BytesIO(b'[{"a":"' + b"A" * MB + b'"}]'))]
    for endless in (BEGIN + b"A" * 9 * MB, b'["' + b"A" * 9 * MB, b"[{" + b'"a":[1],' * MB):
        stream = io.BytesIO(endless)
        with pytest.raises(InvalidOperation, match="a conversation has more than"):
            list(elements(stream))
        assert stream.tell() <= 9 * MB


def test_lines_that_unpack_to_gigabytes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl.zst"
    packer = zstandard.ZstdCompressor().compressobj()
    line = b'{"a":"' + b"A" * MB + b'"}\n'
    data = b"".join(packer.compress(line) for _ in range(100)) + packer.flush()
    path.write_bytes(data)
    read = 0
    with pytest.raises(OSError, match="unpacks to more than"):  # noqa: PT012
        for record in read_lines(path, "x"):
            read += len(record.data)
    assert read < 70 * MB
    path.write_bytes(zstandard.ZstdCompressor().compress(line * 3))
    assert len(list(read_lines(path, "x"))) == 3


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "session.jsonl")
    for path in (tmp_path / "session.jsonl", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a file"):
            open_file(path)
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "aaaaaaaa-0000-4000-8000-000000000001.jsonl")
    for importer in IMPORTERS.values():
        for bundle in importer.open(tmp_path):
            with pytest.raises(OSError, match="not a file"):
                list(importer.read(bundle))
