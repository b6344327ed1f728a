"""The coding agents whose hooks we support: their events, and where their settings are.

All but one read JSON, each with its own names; opencode loads a module. Each event maps to a kind
of hook event. Found by running the programs, except Cursor, whose documentation was followed: see
docs/reference/hooks.md.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final, Literal

from turntree.core.value import value
from turntree.hooks.events import HookKind, JudgeKind
from turntree.transcripts.importer import ToolPaths

Scope = Literal["user", "project"]
Format = Literal["groups", "cursor", "copilot", "module"]
"""The shape of its settings (see ``settings_text``), or a module of ours."""


@value
class Tool:
    """One tool, and how its hooks are configured."""

    name: str
    """The name of its importer."""
    title: str
    program: str
    """The command that starts it."""
    folder: Callable[[ToolPaths], Path]
    """The folder of its settings, which it creates when it is first used."""
    events: Mapping[str, HookKind]
    """Its own event names, in the order they are written."""
    timeout: int
    """Its timeout of a hook, in its own unit; 0 for the tool's default."""
    format: Format
    user_file: Callable[[ToolPaths], Path]
    project_file: str
    """Relative to the project folder."""
    judged: Mapping[str, JudgeKind] = field(default_factory=dict[str, JudgeKind])
    """Its events that the judge answers, where it is installed."""
    writing_tools: str | None = None
    """A pattern of the tools that may change files; calls of others are not reported."""

    def file(self, scope: Scope, places: ToolPaths, top: Path) -> Path:
        """Return where its settings are, or would be."""
        return self.user_file(places) if scope == "user" else top / self.project_file

    def matchers(self) -> dict[str, str]:
        """Return the events that are reported for some tools only, each with their pattern."""
        pattern = self.writing_tools
        calls = [event for event, kind in self.events.items() if kind in ("call", "return")]
        return {} if pattern is None else dict.fromkeys(calls, pattern)

    def is_writing(self, name: str) -> bool:
        """Whether one of its tools may change files."""
        return self.writing_tools is None or re.fullmatch(self.writing_tools, name) is not None

    def is_found(self, places: ToolPaths) -> bool:
        """Whether this machine has the tool: it was used, or its program is on the PATH."""
        has_program = shutil.which(self.program, path=places.environ.get("PATH")) is not None
        return has_program or self.folder(places).is_dir()


def claude_folder(places: ToolPaths) -> Path:
    """Return Claude Code's folder."""
    told = places.environ.get("CLAUDE_CONFIG_DIR")
    return Path(told) if told else places.home / ".claude"


def codex_folder(places: ToolPaths) -> Path:
    """Return Codex's folder, as Codex itself spells it in its list of trusted hooks."""
    told = places.environ.get("CODEX_HOME")
    return Path(told).resolve() if told else places.home / ".codex"


def gemini_folder(places: ToolPaths) -> Path:
    """Return the folder of the Gemini CLI."""
    told = places.environ.get("GEMINI_CLI_HOME")
    return (Path(told) if told else places.home) / ".gemini"


def opencode_folder(places: ToolPaths) -> Path:
    """Return opencode's folder."""
    told = places.environ.get("XDG_CONFIG_HOME")
    return (Path(told) if told else places.home / ".config") / "opencode"


def _copilot_folder(places: ToolPaths) -> Path:
    told = places.environ.get("COPILOT_HOME")
    return Path(told) if told else places.home / ".copilot"


CLAUDE_CODE: Final = Tool(
    "claude-code",
    "Claude Code",
    "claude",
    claude_folder,
    {
        "SessionStart": "session",
        "UserPromptSubmit": "begin",
        "Stop": "end",
        "StopFailure": "end",
        "SubagentStart": "begin",
        "SubagentStop": "end",
        "PreToolUse": "call",
        "PostToolUse": "return",
        "PostToolUseFailure": "return",
        "PreCompact": "cut",
        "SessionEnd": "close",
        "PermissionRequest": "wait",
        "Notification": "wait",
    },
    timeout=5,
    format="groups",
    user_file=lambda places: claude_folder(places) / "settings.json",
    # The settings file that is not committed: our command contains a path of this machine.
    project_file=".claude/settings.local.json",
    judged={"PreToolUse": "judge"},
    writing_tools="Agent|Bash|Edit|MultiEdit|NotebookEdit|Task|Write|mcp__.*",
)
CODEX: Final = Tool(
    "codex",
    "Codex",
    "codex",
    codex_folder,
    {
        "SessionStart": "session",
        # Sent for subagents too, so their beginnings need no event of their own.
        "UserPromptSubmit": "begin",
        "Stop": "end",
        "Interrupt": "end",
        "SubagentStop": "end",
        "PreToolUse": "call",
        # Its PostToolUse does not come for a patch that is applied through the shell. It asks its
        # model again only after all calls of a reply have returned.
        "PreModelRequest": "return",
        "PreCompact": "cut",
        "SessionEnd": "close",
        "PermissionRequest": "wait",
    },
    # A longer timeout would be cut to this at the end of a session.
    timeout=3,
    format="groups",
    user_file=lambda places: codex_folder(places) / "hooks.json",
    project_file=".codex/hooks.json",
    judged={"PreToolUse": "judge", "PermissionRequest": "permit"},
)
GEMINI: Final = Tool(
    "gemini",
    "Gemini CLI",
    "gemini",
    gemini_folder,
    # PreCompress is left out: it comes before every request, whether or not anything is compressed.
    {
        "SessionStart": "session",
        "BeforeAgent": "begin",
        "AfterAgent": "end",
        "SessionEnd": "close",
        "Notification": "wait",
    },
    timeout=5000,
    format="groups",
    user_file=lambda places: gemini_folder(places) / "settings.json",
    project_file=".gemini/settings.json",
)
OPENCODE: Final = Tool(
    "opencode",
    "opencode",
    "opencode",
    opencode_folder,
    {
        "session.created": "session",
        "chat.message": "begin",
        "session.idle": "end",
        "tool.execute.before": "call",
        "tool.execute.after": "return",
        "permission.asked": "wait",
    },
    timeout=2000,
    format="module",
    user_file=lambda places: opencode_folder(places) / "plugins" / "turntree.js",
    project_file=".opencode/plugins/turntree.js",
)
CURSOR: Final = Tool(
    "cursor",
    "Cursor",
    "cursor-agent",
    lambda places: places.home / ".cursor",
    {
        "sessionStart": "session",
        "beforeSubmitPrompt": "begin",
        "stop": "end",
        "preCompact": "cut",
        "sessionEnd": "close",
    },
    timeout=0,
    format="cursor",
    user_file=lambda places: places.home / ".cursor" / "hooks.json",
    project_file=".cursor/hooks.json",
)
COPILOT: Final = Tool(
    "copilot",
    "Copilot CLI",
    "copilot",
    _copilot_folder,
    {
        "sessionStart": "session",
        "userPromptSubmitted": "begin",
        "agentStop": "end",
        "preCompact": "cut",
        "sessionEnd": "close",
        # Its permissionRequest also comes before what needs no permission.
        "notification": "wait",
    },
    timeout=5,
    format="copilot",
    # Every file of this folder is read, so ours is apart from the user's.
    user_file=lambda places: _copilot_folder(places) / "hooks" / "turntree.json",
    project_file=".github/hooks/turntree.json",
)
TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool for tool in (CLAUDE_CODE, CODEX, GEMINI, OPENCODE, CURSOR, COPILOT)
}
