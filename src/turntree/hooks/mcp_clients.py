"""The agents that can start our MCP server: where each lists its servers, and in which shape."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from turntree.core.value import value
from turntree.hooks.coding_agents import (
    claude_folder,
    codex_folder,
    gemini_folder,
    opencode_folder,
)
from turntree.transcripts.importer import ToolPaths

SERVER: Final = "turntree"
"""The name of our entry."""


@value
class McpClient:
    """One agent, and how its servers are configured."""

    name: str
    title: str
    file: Callable[[ToolPaths], Path]
    format: Literal["json", "toml"]
    key: str
    """The member of the settings that lists its servers."""
    entry: Callable[[Sequence[str], Mapping[str, str]], Mapping[str, Any]]
    """Returns the entry of a command and its environment."""


def _entry(command: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, Any]:
    return {"command": command[0], "args": [*command[1:]], "env": dict(environ)}


def _claude_entry(command: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, Any]:
    return {"type": "stdio", **_entry(command, environ)}


def _opencode_entry(command: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "type": "local",
        "command": [*command],
        "environment": dict(environ),
        "enabled": True,
    }


def _claude_file(places: ToolPaths) -> Path:
    # Beside the folder of its settings, unless that was moved: then inside it.
    moved = places.environ.get("CLAUDE_CONFIG_DIR")
    return (claude_folder(places) if moved else places.home) / ".claude.json"


CLIENTS: Final[Mapping[str, McpClient]] = {
    client.name: client
    for client in (
        McpClient("claude-code", "Claude Code", _claude_file, "json", "mcpServers", _claude_entry),
        McpClient(
            "codex",
            "Codex",
            lambda places: codex_folder(places) / "config.toml",
            "toml",
            "mcp_servers",
            _entry,
        ),
        McpClient(
            "gemini",
            "Gemini CLI",
            lambda places: gemini_folder(places) / "settings.json",
            "json",
            "mcpServers",
            _entry,
        ),
        McpClient(
            "opencode",
            "opencode",
            lambda places: opencode_folder(places) / "opencode.json",
            "json",
            "mcp",
            _opencode_entry,
        ),
        McpClient(
            "cursor",
            "Cursor",
            lambda places: places.home / ".cursor" / "mcp.json",
            "json",
            "mcpServers",
            _entry,
        ),
    )
}
