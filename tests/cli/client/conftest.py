"""The command line before a server that another process runs, and without a database."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import furnish

SOON_S = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """The same workspace as its owner sees it, here and over a server."""

    turntree: Call
    url: str
    key: str
    local: dict[str, str]
    """The variables with which commands work on the database."""
    remote: dict[str, str]
    """The variables with which they work over the server, and no database answers."""
    patch: pytest.MonkeyPatch

    def here(self) -> None:
        """Work on the database."""
        self._use(self.local, self.remote)

    def there(self) -> None:
        """Work over the server."""
        self._use(self.remote, self.local)

    def _use(self, chosen: dict[str, str], others: dict[str, str]) -> None:
        for name in others.keys() - chosen.keys():
            self.patch.delenv(name, raising=False)
        for name, text in chosen.items():
            self.patch.setenv(name, text)


@pytest.fixture
def served(
    turntree: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Served, None, None]:
    """A workspace with a scripted model, served with a worker."""
    furnish(turntree)
    made = turntree("key", "create", "laptop", "--json")
    assert made.code == 0, made.err
    key = made.document["key"]
    process = subprocess.Popen(
        [sys.executable, "-m", "turntree", "serve", "--port", "0", "--json", "--drain-s", "1"],
        env={**os.environ, "TURNTREE_HOME": str(place / "served")},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            url = told["url"].removesuffix("/api/v1")
            local = {"TURNTREE_DATABASE_URL": os.environ["TURNTREE_DATABASE_URL"]}
            remote = {
                "TURNTREE_DATABASE_URL": "postgresql://nobody:secret@127.0.0.1:1/nothing",
                "TURNTREE_SERVER": url,
                "TURNTREE_KEY": key,
            }
            yield Served(turntree, url, key, local, remote, monkeypatch)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SOON_S)
