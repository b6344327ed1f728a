"""What is shipped for other programs says the same as what we install into them."""

import json
import os
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from turntree import __version__
from turntree.hooks.coding_agents import CLAUDE_CODE, CODEX, OPENCODE, Tool
from turntree.hooks.events import HOOK_KINDS

PLUGINS = Path(str(files("turntree").joinpath("plugins")))


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PLUGINS / path).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(
    ("tool", "path"),
    [(CLAUDE_CODE, "claude-code/hooks/hooks.json"), (CODEX, "codex/hooks.json")],
    ids=["claude-code", "codex"],
)
def test_every_event_is_told_as_what_it_means(tool: Tool, path: str) -> None:
    hooks = read(path)["hooks"]
    assert list(hooks) == list(tool.events)
    for event, kind in tool.events.items():
        ((handler,),) = (group["hooks"] for group in hooks[event])
        assert f" {tool.name} {kind}" in handler["command"]
        assert handler["timeout"] == tool.timeout
        ((matcher,),) = ([group.get("matcher")] for group in hooks[event])
        assert matcher == tool.matchers().get(event)


def test_the_plugin_has_the_version_of_the_package() -> None:
    assert read("claude-code/.claude-plugin/plugin.json")["version"] == __version__


def test_the_module_tells_nothing_but_kinds_there_are() -> None:
    text = (PLUGINS / "opencode/turntree.js").read_text(encoding="utf-8")
    assert [kind for kind in HOOK_KINDS if f'tell("{kind}"' in text] == [
        kind for kind in HOOK_KINDS if kind in OPENCODE.events.values()
    ]


def test_the_plugins_script_does_nothing_where_turntree_is_not(tmp_path: Path) -> None:
    script = PLUGINS / "claude-code/hooks/turntree-hook"
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", script, "claude-code", "end"],
        input=b"{}",
        capture_output=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
