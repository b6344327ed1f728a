"""A project with files, the API over its ledger, and the command line beside it."""

import json
import subprocess
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner

from tests.cli.project import Project
from tests.databases import as_owner
from turntree.boot.open import Settings, connect, tree_on
from turntree.cli.hints import command_for
from turntree.cli.root import root
from turntree.server.app import make_app
from turntree.server.context import ServerContext
from turntree.server.keys import AccessKeys
from turntree.system.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    status: int
    body: dict[str, Any]


@dataclass(slots=True)
class Client:
    """Calls the API, and runs the commands that it answers."""

    project: Project
    keys: Generator[str, None, None] = field(
        default_factory=lambda: (f"key-{number}" for number in count())
    )

    def post(self, path: str, **body: object) -> Reply:
        """Send one request to a server of its own."""
        (reply,) = self.post_all([(path, body)])
        return reply

    def post_all(
        self, requests: list[tuple[str, dict[str, object]]], *, key: str | None = None
    ) -> list[Reply]:
        """Send requests to one server, one after the other."""
        return anyio.run(self._post_all, requests, key)

    def act(self, path: str, **body: object) -> dict[str, Any]:
        """Do something that must succeed, and return the answer."""
        reply = self.post(path, **body)
        assert reply.status == 200, reply.body
        command = reply.body["command"]
        assert command.isprintable(), command
        return reply.body

    def undo(self, done: dict[str, Any]) -> dict[str, Any]:
        """Undo what was done, by the request that its answer names."""
        return self.act(done["undo"]["path"], **done["undo"]["body"])

    def run(self, command: str) -> None:
        """Have a shell split a command line, and the command line run it."""
        script = f'turntree() {{ printf \'%s\\0\' "$TURNTREE_WORKSPACE" "$@"; echo; }}; {command}'
        said = subprocess.run(
            ["bash", "-c", script], capture_output=True, check=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        ).stdout  # fmt: skip
        for line in said.split(b"\0\n")[:-1]:
            workspace, *words = line.decode().split("\0")
            assert workspace == self.project.settings.workspace
            ended = CliRunner().invoke(root, words, prog_name="turntree")
            assert ended.exit_code == 0, (words, ended.output, ended.exception)

    def session(self, label: str) -> dict[str, Any]:
        """Return a session as the command line shows it."""
        words = ["session", "show", label, "--json"]
        ended = CliRunner().invoke(root, words, prog_name="turntree")
        assert ended.exit_code == 0, ended.output
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    async def _post_all(
        self, requests: list[tuple[str, dict[str, object]]], key: str | None
    ) -> list[Reply]:
        settings, clock = self.project.settings, SystemClock()
        async with connect(settings, clock) as database:
            tree = tree_on(database, settings, clock)
            keys = AccessKeys(b"secret of these tests", "launch", 1, lambda: 0.0)
            context = ServerContext(tree, database, settings, clock, command_for, keys)
            transport = httpx2.ASGITransport(make_app(context))
            replies: list[Reply] = []
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                for path, body in requests:
                    headers = {"Idempotency-Key": key or next(self.keys)}
                    sent = await http.post(f"/api/v1{path}", json=body, headers=headers)
                    replies.append(Reply(sent.status_code, sent.json()))
            return replies


@pytest.fixture
def client(conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The API over an empty workspace, and a folder for its turns."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    settings = Settings(home, as_owner(conninfo), workspace="tests", user="ana")
    for name, text in {
        "TURNTREE_HOME": str(home),
        "TURNTREE_CONFIG": str(tmp_path / "config.toml"),
        "TURNTREE_DATABASE_URL": as_owner(conninfo),
        "TURNTREE_WORKSPACE": "tests",
        "TURNTREE_USER": "ana",
        "HOME": str(tmp_path / "person"),
    }.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("TURNTREE_SESSION", raising=False)
    monkeypatch.chdir(folder)
    return Client(Project(folder, settings))
