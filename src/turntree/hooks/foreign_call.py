"""A tool call of another coding agent, as a policy sees it.

Turns what Claude Code and Codex tell their hooks into a ``JudgedCall``: what the call may do, which
paths it names with links resolved, and which commands its shell line would run. What cannot be told
for certain is left undeclared, which counts as the worst.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from turntree.auth.permissions import Effect
from turntree.core.canonical import Json
from turntree.core.value import value
from turntree.policy.call import CallOrigin, JudgedCall
from turntree.policy.shell import ShellCommand, list_words_of_paths, read_commands
from turntree.policy.shell_effects import effects_of, is_following

_READS: Final[tuple[Effect, ...]] = ("reads_private",)
_WRITES: Final[tuple[Effect, ...]] = ("destructive",)
_WEB: Final[tuple[Effect, ...]] = ("untrusted_output", "external_write")
_EFFECTS: Final[Mapping[str, tuple[Effect, ...]]] = {
    "Read": _READS, "Glob": _READS, "Grep": _READS, "LS": _READS, "NotebookRead": _READS,
    "Edit": _WRITES, "MultiEdit": _WRITES, "Write": _WRITES, "NotebookEdit": _WRITES,
    "apply_patch": _WRITES, "WebFetch": _WEB, "WebSearch": _WEB,
    # They keep to the conversation, and what a subagent does is judged call by call.
    "Agent": (), "Task": (), "TodoWrite": (), "ToolSearch": (), "AskUserQuestion": (),
    "EnterPlanMode": (), "ExitPlanMode": (), "TaskCreate": (), "TaskGet": (), "TaskList": (),
    "TaskOutput": (), "TaskStop": (), "TaskUpdate": (), "BashOutput": (), "KillShell": (),
    "Skill": (), "update_plan": (), "view_image": _READS,
}  # fmt: skip
"""What the tools of coding agents may do; one that is not here declares nothing."""
_PATH_ARGS: Final = ("file_path", "path", "notebook_path")
SHELLS: Final = frozenset({"Bash", "shell", "exec_command", "local_shell"})
_PATCHED: Final = re.compile(
    r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE
)
_NAMING: Final = frozenset({"Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead"})
"""Tools that say which file they are about."""
_GLOB: Final = re.compile(r"[*?\[]")
_BRACKETS: Final = re.compile(r"\[[!^]?\]?(?:\[:\w+:\]|[^\]])*\]")
LOOKED_AT_MAX: Final = 20_000
"""How many files are looked at for the links among them, for one call."""
_RUNS_LATER: Final = frozenset(
    {
        ".git", ".claude", ".codex", ".vscode", ".idea", ".envrc", ".husky", ".mcp.json", ".gemini",
        ".cursor", ".opencode", ".devcontainer", ".zed",
    }
)  # fmt: skip
"""Folders and files of a project from which other programs run what is written there."""


@value
class ForeignToolCall:
    """A call that a hook reported, before it is made."""

    call: JudgedCall
    session: str
    """The agent's id of the session."""
    call_id: str | None
    is_subagent: bool
    cwd: str
    """Where the call is made: the folder of Claude Code's shell, or the one Codex's model chose."""
    transcript: str | None


def read_call(
    origin: CallOrigin,
    told: Mapping[str, Any],
    folder: str | None,
    person: str | None,
    context: Sequence[Effect],
) -> ForeignToolCall:
    """Return the call that the document of a hook describes.

    Raises:
        ValueError, KeyError, TypeError: The document is malformed.
    """
    tool, args = str(told["tool_name"]), cast("Json", told["tool_input"])
    session, cwd = str(told["session_id"]), os.path.realpath(str(told["cwd"]))
    server = f"mcp:{tool.split('__')[1]}" if tool.startswith("mcp__") else origin
    commands: tuple[ShellCommand, ...] | None = ()
    effects, paths = _EFFECTS.get(tool), list[str]()
    named: Mapping[str, Any] = args if isinstance(args, Mapping) else {}
    if tool in SHELLS:
        # The shell starts in the folder that the hook names, wherever earlier calls have gone. If
        # Codex's model chose one with ``workdir``, the hook names that one.
        line = _line(named)
        commands = read_commands(line, cwd, str(Path.home()))
        effects = None
        if commands is not None:
            effects = effects_of(commands) if not _runs_settings(commands) else None
            paths = list(_list_paths(commands))
            names = _PATCHED.findall(line)
            if not names and re.match(r"\s*apply_patch\b", line):
                effects = None
            starts = {cwd, *_list_folders(commands, "apply_patch")}
            paths += [_resolved(start, name) for start in sorted(starts) for name in names]
    elif tool == "apply_patch":
        text = next((one for one in named.values() if isinstance(one, str)), "")
        found = _PATCHED.findall(text)
        paths, effects = [_resolved(cwd, name) for name in found], effects if found else None
    elif server == origin:
        given = [named[name] for name in _PATH_ARGS if named.get(name)]
        paths = [_resolved(cwd, one) for one in given]
        if not all(isinstance(one, str) for one in given) or (tool in _NAMING and not given):
            effects = None
        pattern = named.get("pattern") if tool == "Glob" else None
        if isinstance(pattern, str) and (pattern.startswith(("/", "~")) or ".." in pattern):
            paths.append(_resolved(cwd, pattern.partition("*")[0]))
    if effects is not None and "destructive" in effects and any(map(_runs_later, paths)):
        effects = None
    if folder is None and tool in SHELLS:
        # Without a project there is no folder in which a command could stay.
        paths.append(cwd)
    call = JudgedCall(
        tool, args, effects, server, origin, agent=origin,
        chain=(person,) if person is not None else (), session=session,
        folder=None if folder is None else os.path.realpath(folder),
        context_effects=tuple(context),
        commands=None if commands is None else tuple(one.to_json() for one in commands),
        paths=tuple(dict.fromkeys(paths)),
    )  # fmt: skip
    id, transcript = told.get("tool_use_id"), told.get("transcript_path")
    return ForeignToolCall(
        call, session, str(id) if id else None, bool(told.get("agent_id")), cwd,
        str(transcript) if transcript else None,
    )  # fmt: skip


def _line(args: Mapping[str, Any]) -> str:
    command = args.get("command", args.get("cmd", ""))
    if isinstance(command, list):
        words = cast("list[object]", command)
        # Codex's older shell tool: ["bash", "-lc", "…"].
        is_script = len(words) == len(("bash", "-lc", "…")) and words[1] in ("-lc", "-c")
        return str(words[2]) if is_script else "\0"
    return str(command)


def _list_paths(commands: Sequence[ShellCommand]) -> Iterator[str]:
    files = _Files()
    for command in commands:
        for folder in command.folders or ():
            yield os.path.realpath(folder)
            for word in list_words_of_paths(command):
                if word is not None:
                    yield _resolved(folder, word)
            for word in (*command.words[1:], *command.reads, *command.writes):
                # A name without a slash leaves the folder only as a link.
                if (
                    word
                    and "/" not in word
                    and (
                        _runs_later(word) or os.path.islink(os.path.join(folder, word))  # noqa: PTH114, PTH118
                    )
                ):
                    yield _resolved(folder, word)
                if word and _GLOB.search(word):
                    yield from files.list_matches(folder, word)
            if is_following(command):
                for start in (".", *(word for word in command.words[1:] if word)):
                    yield from files.list_links(os.path.join(folder, start))  # noqa: PTH118


class _Files:
    """Looks at files for the links among them, and gives up when there are too many."""

    def __init__(self) -> None:
        self._left = LOOKED_AT_MAX

    def list_matches(self, folder: str, pattern: str) -> Iterator[str]:
        """Yield what a pattern stands for now, as far as it is a link or runs later."""
        places = ["/" if pattern.startswith("/") else folder]
        for part in pattern.split("/"):
            if part and _GLOB.search(part):
                # The shell and this module read brackets differently: any character may be meant.
                wanted = _BRACKETS.sub("?", part)
                places = [
                    entry.path
                    for place in places
                    for entry in self._scan(place)
                    if fnmatchcase(entry.name, wanted)
                ]
            elif part:
                places = [os.path.join(place, part) for place in places]  # noqa: PTH118
        for path in places:
            resolved = os.path.realpath(path)
            is_there = os.path.lexists(path)
            if is_there and (resolved != path or _runs_later(path)):
                yield resolved
        if self._left <= 0:
            # There are too many to look at, and one of them may be a link.
            yield "/"

    def list_links(self, folder: str) -> Iterator[str]:
        """Yield where the links below a folder lead."""
        waiting = [folder]
        while waiting and self._left > 0:
            for entry in self._scan(waiting.pop()):
                if entry.is_symlink():
                    yield os.path.realpath(entry.path)
                elif entry.is_dir():
                    waiting.append(entry.path)
        if self._left <= 0:
            yield "/"

    def _scan(self, folder: str) -> list["os.DirEntry[str]"]:
        if self._left <= 0:
            return []
        try:
            with os.scandir(folder) as entries:
                found = [*islice(entries, self._left)]
        except OSError:
            return []
        self._left -= len(found)
        return found


def _runs_settings(commands: Sequence[ShellCommand]) -> bool:
    """Whether git may read settings, which name programs that it runs, from an ordinary folder."""
    for command in commands:
        if command.program == "git":
            others = (one for one in commands if one is not command)
            changes = any(map(_is_changing, others))
            for folder in command.folders or ():
                if _is_taken_for_repository(folder, changes=changes):
                    return True
    return False


def _is_changing(command: ShellCommand) -> bool:
    """Whether a command may put files into a folder."""
    effects = effects_of((command,))
    is_index_only = command.program == "git" and command.words[1:2] in (("add",), ("branch",))
    return effects is None or ("destructive" in effects and not is_index_only)


def _is_taken_for_repository(folder: str, *, changes: bool) -> bool:
    """Return whether git may take a folder without ``.git`` for a repository.

    It needs a few files for that, which any tool can write. Those that the line itself writes are
    not there yet: then only a folder that has its ``.git`` is certain.
    """
    for at in (Path(folder), *Path(folder).parents):
        if (at / ".git" / "HEAD").exists() or (at / ".git").is_file():
            return False
        if changes or all((at / name).exists() for name in ("HEAD", "objects", "refs")):
            return True
    return False


def _list_folders(commands: Sequence[ShellCommand], program: str) -> Iterator[str]:
    for command in commands:
        if command.program == program:
            yield from command.folders or ()


def _resolved(folder: str, word: object) -> str:
    # Joined and resolved as one text: ``link/..`` is not where it looks.
    return os.path.realpath(os.path.join(folder, os.path.expanduser(str(word))))  # noqa: PTH111, PTH118


def _runs_later(path: str) -> bool:
    # Some file systems do not tell .git from .GIT.
    return not _RUNS_LATER.isdisjoint(part.casefold() for part in Path(path).parts)
