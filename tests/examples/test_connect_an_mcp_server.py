"""The page about tool servers: its commands are typed, with the server that comes with Turntree."""

import re
import sys
from pathlib import Path

import pytest

from tests.examples.tutorial import ROOT, Shell, reader

PAGE = ROOT / "docs/howto/connect-an-mcp-server.md"


@pytest.mark.timeout(300)
def test_connect_an_mcp_server_page_can_be_typed(
    tmp_path: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader(tmp_path, conninfo, monkeypatch)
    shell = Shell(tmp_path, monkeypatch, lambda words: pytest.fail(f"no agent here: {words}"))
    blocks = re.findall(
        r"^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    lines = [line for block in blocks for line in block.splitlines()]
    said = {line: shell.type(line.replace("python -m", f"{sys.executable} -m")) for line in lines}
    assert lines.count("turntree connector tools desk") == 2
    assert all(" accepted " in line for line in said["turntree connector tools desk"])
