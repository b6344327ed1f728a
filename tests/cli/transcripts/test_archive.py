"""``export --all`` and ``import FILE``, as a person types them."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call, choose_database
from tests.databases import Databases


def test_export_all_is_imported_into_an_empty_ledger(
    planted: Call,
    databases: Databases,
    template: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, again = str(tmp_path / "all.jsonl"), str(tmp_path / "again.jsonl")
    exported = planted("export", "--all", "-o", first)
    assert exported.code == 0
    assert "turns and" in exported.err
    with databases.lend(template) as lent:
        choose_database(lent, monkeypatch)
        checked = planted("import", first, "--dry-run")
        assert checked.out.rstrip().endswith("every digest matches")
        assert "0 turns" in planted("export", "--all", "-o", again).err
        imported = planted("import", first)
        assert imported.code == 0, imported.err
        assert imported.out.rstrip().endswith("added")
        assert planted("export", "--all", "-o", again).code == 0
        assert Path(again).read_bytes() == Path(first).read_bytes()
        assert planted("fsck").code == 0
        assert planted("import", first, "--json").document["added"]["turn"] == 0
        Path(first).write_bytes(
            Path(first).read_bytes().replace(b'"role":"user"', b'"role":"tool"')
        )
        refused = planted("import", first)
        assert refused.code == 1
        assert "does not match its digest" in refused.err


def test_import_of_an_archive_takes_no_options_of_transcripts(turntree: Call) -> None:
    turntree("export", "--all", "-o", "all.jsonl")
    assert turntree("import", "all.jsonl", "--private").code == 2
    assert turntree("import", "all.jsonl", ".").code == 2
