"""Sessions written for other tools: files, the command to paste, and their removal."""

import subprocess
from pathlib import Path

import pytest

from tests.server.acts.conftest import Client

PROGRAMS = {"claude-code": "claude", "codex": "codex", "opencode": "opencode", "gemini": "gemini"}


@pytest.mark.parametrize("tool", PROGRAMS)
def test_handoff_is_written_where_the_session_worked(
    client: Client, tool: str, tmp_path: Path
) -> None:
    client.project.turn("write", {"a.txt": "one\n"})
    (tmp_path / "person").mkdir()
    done = client.act("/acts/handoff", at="main", tool=tool)
    assert done["folder"] == str(client.project.folder)
    stub = f"{PROGRAMS[tool]}() {{ pwd; }}; {done['paste']}"
    said = subprocess.run(
        ["bash", "-c", stub], capture_output=True, check=True, text=True, cwd=tmp_path
    )
    assert said.stdout.split()[-1] == str(client.project.folder)
    files = [path for path in (tmp_path / "person").rglob("*") if path.is_file()]
    assert files
    assert done["undo"]["path"] is None
    subprocess.run(["bash", "-c", done["undo"]["command"]], check=True, cwd=tmp_path)
    assert not any(path.exists() for path in files)
    client.run(done["command"])


def test_handoff_into_a_folder_that_is_missing_is_refused(client: Client, tmp_path: Path) -> None:
    client.project.say("one")
    asked = {"at": "main", "tool": "codex"}
    assert client.post("/acts/handoff", **asked, folder=str(tmp_path / "none")).status == 422
    unknown = client.post("/acts/handoff", **asked)
    assert "name one" in unknown.body["detail"]


def test_tool_that_is_not_offered_is_refused(client: Client) -> None:
    client.project.say("one")
    assert client.post("/acts/handoff", at="main", tool="vim").status == 422
