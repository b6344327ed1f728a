"""What the commands that serve start with."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.setup.planted import LABEL, MODEL, PERSON, PROVIDER, WORKSPACE
from tests.databases import as_owner
from turntree.boot.open import Settings


@pytest.fixture
def planted(bare: Call, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A workspace in which every name is one that no figure may have."""
    url = as_owner(conninfo)
    for name, text in (
        ("TURNTREE_DATABASE_URL", url), ("TURNTREE_HOME", str(tmp_path / "home")),
        ("TURNTREE_WORKSPACE", WORKSPACE), ("TURNTREE_USER", PERSON),
    ):  # fmt: skip
        monkeypatch.setenv(name, text)
    for words in (
        ("session", "create", LABEL),
        ("provider", "create", PROVIDER, "--type", "scripted"),
        ("model", "create", MODEL, "--backend", "scripted-1", "--provider", PROVIDER),
    ):
        assert bare(*words).code == 0, words
    return Settings(tmp_path / "home", database_url=url, workspace=WORKSPACE, user=PERSON)
