"""Adding our MCP server to an agent's settings, and removing it again."""

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turntree.core.errors import InvalidOperation
from turntree.hooks.coding_agents import CODEX, GEMINI
from turntree.hooks.install import Installer
from turntree.hooks.mcp_clients import CLIENTS, McpClient
from turntree.transcripts.importer import ToolPaths

JSON_CLIENTS = [client for client in CLIENTS.values() if client.format == "json"]
CODEX_CLIENT = CLIENTS["codex"]


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    places = ToolPaths(tmp_path / "person", {})
    python = Path(sys.executable)
    return Installer(tmp_path / "home", places, tmp_path / "top", python, tmp_path / "entry.py")


def write(installer: Installer, client: McpClient, text: str) -> Path:
    path = client.file(installer.places)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(client: McpClient, path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text) if client.format == "json" else tomllib.loads(text)
    return found


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_server_is_added_and_leaves_nothing_behind(
    installer: Installer, client: McpClient, tmp_path: Path
) -> None:
    (tmp_path / "person").mkdir()
    assert installer.install_server(client).changed
    assert not installer.install_server(client).changed
    entry = read(client, client.file(installer.places))[client.key]["turntree"]
    command = entry["command"]
    words = command if isinstance(command, list) else [command, *entry["args"]]
    assert words == [sys.executable, "-m", "turntree", "mcp"]
    environ = entry.get("env", entry.get("environment"))
    assert environ == {"TURNTREE_HOME": str(installer.home)}
    assert installer.list_servers() == [client]
    assert installer.uninstall_server(client).changed
    assert not installer.uninstall_server(client).changed
    assert list((tmp_path / "person").rglob("*")) == []


@pytest.mark.parametrize("client", JSON_CLIENTS, ids=lambda client: client.name)
def test_what_is_there_stays_byte_for_byte(installer: Installer, client: McpClient) -> None:
    text = f'{{"b":1,   "a" : [1,2],\n  "{client.key}":{{"mine": {{"command":"x"}} }}}}'
    path = write(installer, client, text)
    installer.install_server(client)
    now = read(client, path)
    assert now[client.key]["mine"] == {"command": "x"}
    assert path.read_text(encoding="utf-8").startswith('{"b":1,   "a" : [1,2],')
    installer.uninstall_server(client)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("client", JSON_CLIENTS, ids=lambda client: client.name)
def test_edits_made_since_stay(installer: Installer, client: McpClient) -> None:
    path = write(installer, client, '{\n  "a": 1\n}\n')
    installer.install_server(client)
    edited = path.read_text(encoding="utf-8").replace('"a": 1', '"a": 2')
    path.write_text(edited, encoding="utf-8")
    installer.uninstall_server(client)
    assert path.read_text(encoding="utf-8") == '{\n  "a": 2\n}\n'


def test_codex_settings_keep_their_comments(installer: Installer) -> None:
    text = 'model = "x" # mine\n\n[mcp_servers.other]\ncommand = "y"\n'
    path = write(installer, CODEX_CLIENT, text)
    installer.install_server(CODEX_CLIENT)
    assert path.read_text(encoding="utf-8").startswith(text)
    assert set(read(CODEX_CLIENT, path)["mcp_servers"]) == {"other", "turntree"}
    path.write_text(path.read_text(encoding="utf-8") + "\n[tui]\ntheme = 1\n", encoding="utf-8")
    installer.uninstall_server(CODEX_CLIENT)
    assert path.read_text(encoding="utf-8") == f"{text}\n[tui]\ntheme = 1\n"


def test_server_and_hooks_in_one_file_are_removed_each_alone(installer: Installer) -> None:
    gemini = CLIENTS["gemini"]
    path = write(installer, gemini, '{"theme": "dark"}')
    installer.install(GEMINI, "user")
    installer.install_server(gemini)
    installer.uninstall_server(gemini)
    assert set(read(gemini, path)) == {"theme", "hooks"}
    installer.install_server(gemini)
    installer.uninstall(GEMINI, "user")
    assert set(read(gemini, path)) == {"theme", "mcpServers"}
    installer.uninstall_server(gemini)
    assert path.read_text(encoding="utf-8") == '{"theme": "dark"}'


def test_server_and_trust_of_codex_are_removed_each_alone(installer: Installer) -> None:
    path = write(installer, CODEX_CLIENT, 'model = "x"\n')
    installer.install(CODEX, "user", trust=True)
    installer.install_server(CODEX_CLIENT)
    installer.uninstall(CODEX, "user")
    assert set(read(CODEX_CLIENT, path)) == {"model", "mcp_servers"}
    installer.install(CODEX, "user", trust=True)
    installer.uninstall_server(CODEX_CLIENT)
    assert set(read(CODEX_CLIENT, path)) == {"model", "hooks"}
    installer.uninstall(CODEX, "user")
    assert path.read_text(encoding="utf-8") == 'model = "x"\n'


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_settings_that_cannot_be_read_are_left_alone(
    installer: Installer, client: McpClient
) -> None:
    path = write(installer, client, "{ // a comment\n")
    with pytest.raises(InvalidOperation, match="was left alone"):
        installer.install_server(client)
    assert path.read_text(encoding="utf-8") == "{ // a comment\n"


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_another_server_of_our_name_is_not_replaced(
    installer: Installer, client: McpClient
) -> None:
    is_json = client.format == "json"
    text = f'[{client.key}.turntree]\nurl = "mine"\n'
    text = json.dumps({client.key: {"turntree": {"url": "mine"}}}) if is_json else text
    write(installer, client, text)
    with pytest.raises(InvalidOperation, match="another server"):
        installer.install_server(client)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_server_of_another_python_is_replaced(installer: Installer, client: McpClient) -> None:
    replace(installer, python=Path("/gone/python")).install_server(client)
    assert installer.install_server(client).changed
    assert "/gone/python" not in client.file(installer.places).read_text(encoding="utf-8")
