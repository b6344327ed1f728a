"""A backup with any byte changed is refused in a sentence, or is as it was."""

import hashlib
import json
import random
import zipfile
from pathlib import Path

from turntree.core.errors import InvalidOperation
from turntree.transfer.backup import FORMAT, MANIFEST, verify_backup


def test_any_changed_byte_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    table = random.Random(7).randbytes(300).hex().encode()
    members = [
        {
            "name": "tables/turns", "bytes": len(table), "rows": 1, "columns": ["id"],
            "sha256": hashlib.sha256(table).hexdigest(),
        }
    ]  # fmt: skip
    manifest = {
        "format": FORMAT, "created_at": "2026-01-01T00:00:00Z", "turntree": "0.1.0", "schema": 1,
        "postgresql": "18", "members": members,
    }  # fmt: skip
    path = tmp_path / "one.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tables/turns", table)
        archive.writestr(MANIFEST, json.dumps(manifest))
    whole, refused = path.read_bytes(), 0
    for place in range(len(whole)):
        for byte in (0, 255, whole[place] ^ 1):
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                verify_backup(path, lambda *_: None)
            except InvalidOperation:
                refused += 1
    assert refused > len(whole)
