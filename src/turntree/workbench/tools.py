"""The tools ``fs.*`` and ``shell.exec``: an agent works in the folder of its session.

Files are read and written by this process, never through a link; commands and searches run in the
sandbox. The calls of one reply run one after the other, in the order in which the model made them:
what reads a file sees what was written before. Must never know what is recorded of a run.
"""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final
from weakref import WeakValueDictionary

import anyio.to_thread

from turntree.auth.permissions import Effect
from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.core.message import ToolResult, ToolUse
from turntree.models.prompt import ToolSpec
from turntree.sandbox.code import CommandLimits, CommandResult, CommandView
from turntree.sandbox.sandbox import Sandbox
from turntree.tools.functions import FunctionTools, tool
from turntree.tools.toolset import ToolContext, ToolReply
from turntree.workbench.folder import INSIDE, WorkFolder
from turntree.workbench.profile import SandboxProfile

TIMEOUT_DEFAULT_MS: Final = 120_000
WAIT_S: Final = 1800.0
"""How long a call may take, including the calls of the same reply before it."""
OUTPUT_BYTES: Final = 262_144
"""Kept of each stream of a command."""
LINES_DEFAULT: Final = 2000
READ_CHARS: Final = 262_144
LISTED_MAX: Final = 500
DEPTH_MAX: Final = 8
HITS_MAX: Final = 200
LINE_CHARS: Final = 300
SEARCH_S: Final = 30.0
_READS: Final[tuple[Effect, ...]] = ("reads_private", "untrusted_output")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

FindFolder = Callable[[ToolContext], Awaitable[str]]
"""Returns the folder that a call may work in, or raises."""
Path = Annotated[str, "A path relative to the folder."]


@dataclass(slots=True)
class WorkbenchTools:
    """The tools of one sandbox profile. Implements ``Toolset``."""

    profile: SandboxProfile
    sandbox: Sandbox
    find_folder: FindFolder
    name: str = "workbench"
    """The server that its calls name."""
    _turns: "WeakValueDictionary[RunId, asyncio.Lock]" = field(
        default_factory=WeakValueDictionary[RunId, asyncio.Lock]
    )
    _functions: FunctionTools = field(init=False)

    def __post_init__(self) -> None:
        """Describe the tools."""
        self._functions = FunctionTools([*self._make_file_tools(), self._make_shell()])

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The specs of the tools."""
        return self._functions.specs

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult | ToolReply:
        """Make a call, after those of the same reply that came before it."""
        # Taken before anything is awaited, so that the order is that of the calls.
        lock = self._turns.setdefault(occasion.run, asyncio.Lock())
        async with lock:
            return await self._functions.call(use, occasion)

    def _make_file_tools(self) -> Sequence[Callable[..., Any]]:
        @tool(name="fs.read", is_repeatable=True, is_read_only=True, timeout_s=WAIT_S,
              effects=_READS)  # fmt: skip
        async def read(
            path: Path,
            context: ToolContext,
            first: Annotated[int, "Line to begin with."] = 1,
            lines: Annotated[int, "Most lines to return."] = LINES_DEFAULT,
        ) -> dict[str, Any]:
            """Read a text file of the folder."""
            folder = await self._folder(context)
            text = (await anyio.to_thread.run_sync(folder.read, path)).text
            whole = text.splitlines(keepends=True)
            start = max(1, first) - 1
            shown = whole[start : start + max(1, lines)]
            said = "".join(shown)
            result: dict[str, Any] = {"path": path, "text": said[:READ_CHARS], "lines": len(whole)}
            if len(said) > READ_CHARS:
                return {**result, "cut": f"the first {READ_CHARS} of {len(said)} characters"}
            if start + len(shown) < len(whole):
                result["next"] = start + len(shown) + 1
            return result

        @tool(name="fs.list", is_repeatable=True, is_read_only=True, timeout_s=WAIT_S,
              effects=_READS)  # fmt: skip
        async def list_files(
            context: ToolContext,
            path: Annotated[str, "A folder, relative to the session's."] = ".",
            depth: Annotated[int, "Levels of folders to list."] = 1,
        ) -> dict[str, Any]:
            """List the files of a folder. A folder ends in a slash, a link in @."""
            levels = min(max(1, depth), DEPTH_MAX)
            folder = await self._folder(context)
            listed, is_more = await anyio.to_thread.run_sync(
                folder.list_below, path, levels, LISTED_MAX
            )
            signs = {"folder": "/", "link": "@", "other": "?"}
            names = [f"{one.path}{signs.get(one.kind, '')}" for one in listed]
            return {"path": path, "files": names} | ({"more": True} if is_more else {})

        @tool(name="fs.grep", is_repeatable=True, is_read_only=True, timeout_s=WAIT_S,
              effects=_READS)  # fmt: skip
        async def grep(
            pattern: Annotated[str, "An extended regular expression, as of grep -E."],
            context: ToolContext,
            path: Annotated[str, "A file or folder to search."] = ".",
            files: Annotated[str, "Only files whose names match, such as *.py."] = "*",
        ) -> dict[str, Any]:
            """Search the text files of the folder for lines that match."""
            # Python's own expressions can take hours for a short text, and block the worker.
            words = ["grep", "-rnIE", "--exclude-dir=.git", f"--include={files}", "-e", pattern]
            folder = await self._folder(context)
            found = await self._run(
                folder, [*words, "--", _inside(path)], writes=False, wall_s=SEARCH_S
            )
            if found.why is not None or found.rc > 1:
                raise InvalidOperation(found.why or found.stderr.strip()[:LINE_CHARS])
            lines = found.stdout.splitlines()
            hits = [line.removeprefix("./")[:LINE_CHARS] for line in lines[:HITS_MAX]]
            return {"hits": hits} | ({"more": len(lines) - HITS_MAX} if lines[HITS_MAX:] else {})

        @tool(name="fs.write", timeout_s=WAIT_S, effects=("destructive",))
        async def write(
            path: Path, text: Annotated[str, "The whole text of the file."], context: ToolContext
        ) -> dict[str, Any]:
            """Write a text file of the folder; missing folders are made."""
            folder = await self._folder(context)
            is_new = await anyio.to_thread.run_sync(folder.write, path, text)
            return {"path": path, "bytes": len(text.encode()), "created": is_new}

        @tool(name="fs.edit", timeout_s=WAIT_S, effects=("destructive",))
        async def edit(
            path: Path,
            old: Annotated[str, "Text to replace, which occurs exactly once."],
            new: Annotated[str, "Text to put there."],
            context: ToolContext,
            everywhere: Annotated[bool, "Replace every occurrence."] = False,  # noqa: FBT002
        ) -> dict[str, Any]:
            """Replace text in a file of the folder."""
            folder = await self._folder(context)
            known = await anyio.to_thread.run_sync(folder.read, path)
            count = known.text.count(old) if old else 0
            if not count or (count > 1 and not everywhere):
                raise InvalidOperation(f"{path} has {count} occurrences of that text, not one")
            text = known.text.replace(old, new)
            await anyio.to_thread.run_sync(partial(folder.write, path, text, state=known.state))
            return {"path": path, "replaced": count}

        return read, list_files, grep, write, edit

    def _make_shell(self) -> Callable[..., Any]:
        profile = self.profile
        reached: tuple[Effect, ...] = ("external_write",) if profile.has_network else ()
        network = "the machine's network" if profile.has_network else "no network"
        writable = "".join(f", {path}" for path in profile.writes)
        guarded = ", ".join(profile.guarded)

        @tool(
            name="shell.exec",
            description=(
                f"Run a command in the folder, which is {INSIDE} there, with {network}. It may"
                f" change {INSIDE}{writable}, but not {guarded}. What it leaves running is ended."
            ),
            timeout_s=WAIT_S,
            effects=(*_READS, *reached, "exec", "destructive"),
        )
        async def execute(
            cmd: Annotated[str | list[str], "A line for the shell, or a program and its words."],
            context: ToolContext,
            cwd: Annotated[str, "Where to start, relative to the folder."] = ".",
            timeout_ms: Annotated[int | None, "Time limit; two minutes if not given."] = None,
            env: Annotated[dict[str, str] | None, "Variables to set."] = None,
        ) -> dict[str, Any]:
            words = [_shell(), "-c", cmd] if isinstance(cmd, str) else cmd
            limit_ms = profile.seconds * 1000
            patience_ms = min(TIMEOUT_DEFAULT_MS, limit_ms) if timeout_ms is None else timeout_ms
            if not 0 < patience_ms <= limit_ms:
                raise InvalidOperation(f"timeout_ms is {timeout_ms}: it is from 1 to {limit_ms}")
            folder = await self._folder(context)
            ended = await self._run(
                folder, words, writes=True, wall_s=patience_ms / 1000, cwd=cwd, env=env or {}
            )
            result: dict[str, Any] = {
                "rc": ended.rc, "stdout": ended.stdout, "stderr": ended.stderr,
                "duration_ms": ended.duration_ms,
            }  # fmt: skip
            return result if ended.why is None else {**result, "why": ended.why}

        return execute

    async def _folder(self, context: ToolContext) -> WorkFolder:
        return WorkFolder(await self.find_folder(context), self.profile.guarded)

    async def _run(
        self,
        folder: WorkFolder,
        words: Sequence[str],
        *,
        writes: bool,
        wall_s: float,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        given = dict(env or {})
        if strange := [name for name in given if not _VARIABLE.fullmatch(name)]:
            raise InvalidOperation(f"{strange[0][:80]!r} is not the name of a variable")
        if not words or not words[0] or any("\0" in word for word in (*words, *given.values())):
            raise InvalidOperation("the command is empty, or contains NUL")
        profile = self.profile
        view = CommandView(
            profile.reads, profile.writes, profile.has_network, profile.guarded, _inside(cwd), given
        )
        limits = CommandLimits(
            wall_s, max(1, int(wall_s)), profile.memory_mb * 1_048_576, profile.processes,
            OUTPUT_BYTES,
        )  # fmt: skip
        return await self.sandbox.run_command(
            words, folder.place, writes=writes, limits=limits, view=view
        )


def _inside(path: str) -> str:
    """Return a path relative to the folder, also if it is one that a command printed.

    Where links in it lead is decided inside the sandbox, where there is nothing else to find.
    """
    if path == INSIDE or path.startswith(f"{INSIDE}/"):
        path = path.removeprefix(INSIDE).lstrip("/") or "."
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise InvalidOperation(f"{path!r} leads out of the folder: write a path relative to it")
    return path


def _shell() -> str:
    """Return the shell that models write for, or the one that every system has."""
    return "/bin/bash" if shutil.which("bash", path="/bin:/usr/bin") else "/bin/sh"
