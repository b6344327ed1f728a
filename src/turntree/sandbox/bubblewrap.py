"""Runs untrusted code in bubblewrap: no network, no disk, no other process, limited resources.

There are four independent layers. Separate namespaces: the program sees only the system's libraries
and its interpreter, read-only, and no other process. A ``seccomp`` filter that allows only the
system calls an interpreter needs. Limits on memory, time and output. Nothing to steal: an empty
environment, and no file descriptors but stdin, stdout and stderr. A command has to start processes
and read a folder, so its layers allow more: see ``bwrap_args`` and ``process_watch``.

If one of them cannot be set up, nothing is run. JavaScript runs without JIT compilers, so that
every byte of memory counts against the limit; Node itself strips the types of TypeScript first,
also in a sandbox. Must never know what a program is for.
"""

import os
import platform
import secrets
import shutil
import stat
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import field, replace
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import orjson
from anyio.abc import Process

from turntree.core.canonical import Json
from turntree.core.errors import CodeError, InvalidOperation, SandboxUnavailable
from turntree.core.value import value
from turntree.sandbox import bwrap_args as walls
from turntree.sandbox.cgroup import a_group, inside
from turntree.sandbox.code import (
    INPUT_BYTES_MAX,
    Code,
    CodeLimits,
    CommandLimits,
    CommandResult,
    CommandView,
)
from turntree.sandbox.node import MAJOR_MIN
from turntree.sandbox.process_watch import NamespaceWatch
from turntree.sandbox.seccomp import find_denials, find_filter
from turntree.sandbox.subprocess_io import IoLimits, ProcessOutput, converse

STDERR_BYTES_MAX: Final = 65_536
SAID_CHARS_MAX: Final = 500
# 128 and the number of SIGKILL, as a shell reports it.
KILLED_RC: Final = 137
NO_PROGRAM_RC: Final = 127
"""Exit codes as a shell reports them."""
SERVER_CPU_S: Final = 86_400
"""CPU time of a command that serves; then it is ended, and started again when it is needed."""
_NO_PROGRAM: Final = "bwrap: execvp "
_FILE_BYTES_MAX: Final = 1_048_576
_SCRATCH_BYTES: Final = 67_108_864
_COMMAND_FILES_MAX: Final = 1024
_SPACE_BYTES: Final = 1_073_741_824
"""Limit of address space, not of memory: an engine reserves far more than it uses."""
_COMPILED_SPACE_BYTES: Final = 8 * _SPACE_BYTES
_WAY: Final = (
    getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
)
_CODE: Final = CodeLimits()
_COMMAND: Final = CommandLimits()
_STRIP_LIMITS: Final = CodeLimits(wall_s=10.0, cpu_s=8, memory_bytes=1_073_741_824)
_STRIP: Final = """
import { stripTypeScriptTypes } from "node:module";
import { readFileSync } from "node:fs";
const { source } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ source: stripTypeScriptTypes(source) }));
"""


@value
class Interpreter:
    """An interpreter, and where it appears inside the sandbox."""

    command: tuple[str, ...]
    suffix: str
    binds: tuple[str, str]
    """A path outside, and where it appears inside."""
    space_bytes: int = _SPACE_BYTES


@value
class Bubblewrap:
    """Runs programs and commands in bubblewrap. Implements ``Sandbox``."""

    bwrap: str | None = field(default_factory=lambda: shutil.which("bwrap"))
    prlimit: str | None = field(default_factory=lambda: shutil.which("prlimit"))
    node: str | None = None
    """Path of a Node that can strip types; without one, JavaScript is refused."""
    home: Path | None = None
    """The directory with the ledger's keys and its server's socket; no command may see it."""
    name: str = "code"

    def find_fault(self) -> str | None:
        """Return why nothing can be run on this machine, or None."""
        if sys.platform != "linux":
            return "bubblewrap runs on Linux only"
        if find_filter(platform.machine()) is None:
            return f"there is no system call filter for {platform.machine()}"
        if self.bwrap is None:
            return "bubblewrap is not installed (the package bubblewrap)"
        if self.prlimit is None:
            return "prlimit is not installed (the package util-linux)"
        return None

    async def run(self, code: Code, document: Json, limits: CodeLimits = _CODE) -> Json:
        """Run a program with one JSON document, and return the document it wrote."""
        said = orjson.dumps(document)
        if len(said) > INPUT_BYTES_MAX:
            raise InvalidOperation(f"a program is handed at most {INPUT_BYTES_MAX} bytes")
        if code.language == "python":
            return await self._run(_python(), code.source, said, limits)
        source = await self._strip(code.source) if code.language == "typescript" else code.source
        return await self._run(self._javascript(limits), source, said, limits)

    async def run_command(
        self,
        command: Sequence[str],
        folder: str,
        *,
        writes: bool = False,
        limits: CommandLimits = _COMMAND,
        view: CommandView | None = None,
    ) -> CommandResult:
        """Run a command in a folder, and return its result."""
        where = Path(folder)
        if not command or not await anyio.Path(where).is_dir():
            raise InvalidOperation("there is no command, or no folder to run it in")
        seen, token = view or CommandView(), f"turntree {secrets.token_hex(16)}"
        for path in (where, *map(Path, (*seen.reads, *seen.writes))):
            self._check_folder(path)
        prlimit, bwrap = self._tools()
        guarded: dict[str, str] = {}
        if view is not None:
            places, guarded = find_places(where, view.guarded), find_guarded(view)
            seen = replace(view, guarded=tuple(name for name in view.guarded if name in places))
            inside_of = {f"{walls.WORK}/{name}".rstrip("/"): one for name, one in places.items()}
            command = [*walls.checked(inside_of | guarded, token, view), *command]
        patience = IoLimits(
            limits.wall_s, limits.output_bytes, limits.output_bytes, stops_when_loud=False
        )
        async with AsyncExitStack() as held:
            entering = await held.enter_async_context(a_group(limits.processes))
            rules = held.enter_context(walls.holding(find_denials(platform.machine()) or b""))
            status = held.enter_context(walls.holding(b""))
            words = [
                *entering,
                *walls.limited(prlimit, cpu_s=limits.cpu_s, memory_bytes=limits.memory_bytes,
                               space_bytes=_COMPILED_SPACE_BYTES, files=_COMMAND_FILES_MAX,
                               file_bytes=limits.memory_bytes),
                *walls.around_command(bwrap, where, writes=writes, scratch_bytes=_SCRATCH_BYTES,
                                      view=seen, guarded=guarded),
                "--seccomp", str(rules.fileno()), "--json-status-fd", str(status.fileno()),
                "--remount-ro", "/dev", "--remount-ro", "/",
                "--", *inside(prlimit, limits.processes), *command,
            ]  # fmt: skip
            watch = NamespaceWatch(status, limits.processes, limits.memory_bytes)
            fds = (rules.fileno(), status.fileno())
            started = time.monotonic()
            process = await anyio.open_process(
                words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}, pass_fds=fds
            )
            heard = await converse(process, b"", patience, watch)
            if heard.err.text == token.encode():
                raise InvalidOperation(f"{folder} changed while a command was about to start there")
            status.seek(0)
            return _ended(heard, status.read(), watch.why, limits, time.monotonic() - started)

    @asynccontextmanager
    async def open_command(
        self,
        command: Sequence[str],
        view: CommandView,
        limits: CommandLimits,
        environment: Mapping[str, str],
    ) -> AsyncGenerator[Process]:
        """Yield a command that runs while the block lasts, with pipes to it."""
        for path in map(Path, (*view.reads, *view.writes)):
            self._check_folder(path)
        prlimit, bwrap = self._tools()
        guarded = find_guarded(view)
        if guarded:
            command = [*walls.checked(guarded, "a folder changed meanwhile", view), *command]
        async with AsyncExitStack() as held:
            folder = held.enter_context(TemporaryDirectory(prefix="turntree-server-"))
            entering = await held.enter_async_context(a_group(limits.processes))
            rules = held.enter_context(walls.holding(find_denials(platform.machine()) or b""))
            # By a file: the words of a command can be read by every user of the machine.
            variables = [
                word for name, text in environment.items() for word in ("--setenv", name, text)
            ]
            given = held.enter_context(walls.holding("\0".join(variables).encode()))
            words = [
                *entering,
                *walls.limited(prlimit, cpu_s=SERVER_CPU_S, memory_bytes=limits.memory_bytes,
                               space_bytes=_COMPILED_SPACE_BYTES, files=_COMMAND_FILES_MAX,
                               file_bytes=limits.memory_bytes),
                # Its own folder is new and empty: nothing in it is guarded.
                *walls.around_command(bwrap, Path(folder), writes=True,
                                      scratch_bytes=_SCRATCH_BYTES,
                                      view=replace(view, guarded=()), guarded=guarded),
                "--args", str(given.fileno()), "--seccomp", str(rules.fileno()),
                "--remount-ro", "/dev", "--remount-ro", "/",
                "--", *inside(prlimit, limits.processes), *command,
            ]  # fmt: skip
            yield await anyio.open_process(
                words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={},
                pass_fds=(rules.fileno(), given.fileno()),
            )  # fmt: skip

    def _check_folder(self, folder: Path) -> None:
        """Raise if a command could see the home: its keys and sockets defeat the sandbox.

        Raises:
            InvalidOperation: The folder contains the home, or is inside it.
        """
        if self.home is None:
            return
        home, folder = self.home.resolve(), folder.resolve()
        if home.is_relative_to(folder) or folder.is_relative_to(home):
            raise InvalidOperation(
                f"no command runs in {folder}: it would see {home}, where Turntree keeps its "
                "keys and its server; work in another folder"
            )

    async def _strip(self, source: str) -> str:
        """Return a program without its types; invalid TypeScript fails here."""
        flags = ("/node", "--v8-pool-size=0")
        engine = Interpreter(flags, ".mjs", (self._node(), "/node"), _COMPILED_SPACE_BYTES)
        answer = await self._run(engine, _STRIP, orjson.dumps({"source": source}), _STRIP_LIMITS)
        match answer:
            case {"source": str(stripped)}:
                return stripped
            case _:
                raise CodeError("the types could not be taken out")

    def _javascript(self, limits: CodeLimits) -> Interpreter:
        heap_mb = max(16, limits.memory_bytes // 1_048_576 // 2)
        flags = ("--jitless", "--v8-pool-size=0", f"--max-old-space-size={heap_mb}")
        return Interpreter(("/node", *flags), ".js", (self._node(), "/node"))

    def _node(self) -> str:
        if self.node is None:
            raise SandboxUnavailable(
                f"JavaScript needs Node {MAJOR_MIN} or newer: pip install 'turntree[code]'"
            )
        return self.node

    def _tools(self) -> tuple[str, str]:
        fault = self.find_fault()
        if fault is not None or self.prlimit is None or self.bwrap is None:
            raise SandboxUnavailable(f"no sandbox can start here: {fault}")
        return self.prlimit, self.bwrap

    async def _run(
        self, interpreter: Interpreter, source: str, said: bytes, limits: CodeLimits
    ) -> Json:
        prlimit, bwrap = self._tools()
        place = f"/program{interpreter.suffix}"
        with ExitStack() as held:
            program = held.enter_context(walls.holding(source.encode()))
            rules = held.enter_context(walls.holding(find_filter(platform.machine()) or b""))
            status = held.enter_context(walls.holding(b""))
            words = [
                *walls.limited(prlimit, cpu_s=limits.cpu_s, memory_bytes=limits.memory_bytes,
                               space_bytes=interpreter.space_bytes, file_bytes=_FILE_BYTES_MAX),
                *walls.around_code(bwrap),
                "--ro-bind", *interpreter.binds,
                "--ro-bind-data", str(program.fileno()), place,
                "--seccomp", str(rules.fileno()), "--json-status-fd", str(status.fileno()),
                # Last, because everything above is mounted into the directories that become
                # read-only.
                "--remount-ro", "/dev", "--remount-ro", "/",
                "--", *interpreter.command, place,
            ]  # fmt: skip
            fds = (program.fileno(), rules.fileno(), status.fileno())
            process = await anyio.open_process(
                words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={}, pass_fds=fds
            )
            patience = IoLimits(limits.wall_s, limits.output_bytes, STDERR_BYTES_MAX)
            heard = await converse(process, said, patience)
            status.seek(0)
            return _answer(heard, status.read(), limits)


def find_places(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return what a folder and the names in it are, by device and inode; "" is the folder.

    A name that does not exist is left out.

    Raises:
        InvalidOperation: The folder, one above it or a name is a link or gone.
    """
    fd = os.open("/", _WAY)
    try:
        for part in folder.parts[1:]:
            above, fd = fd, os.open(part, _WAY, dir_fd=fd)
            os.close(above)
        found = {"": _identity(os.fstat(fd))}
        for name in names:
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISLNK(status.st_mode):
                raise InvalidOperation(f"{folder / name} is a link, so no command runs beside it")
            found[name] = _identity(status)
    except OSError as error:
        raise InvalidOperation(f"{folder} is not a folder, or a link leads to it") from error
    finally:
        os.close(fd)
    return found


def find_guarded(view: CommandView) -> dict[str, str]:
    """Return the guarded paths in the folders that a command may change, each by its identity.

    Raises:
        InvalidOperation: One of the folders or of the paths is a link or gone.
    """
    return {
        f"{folder}/{name}": identity
        for folder in view.writes
        for name, identity in find_places(Path(folder), view.guarded).items()
        if name
    }


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"


def _answer(heard: ProcessOutput, status: bytes, limits: CodeLimits) -> Json:
    """Return the document that a program wrote, or raise the reason why there is none."""
    if heard.is_late:
        raise CodeError(f"it took longer than {limits.wall_s:g} s")
    if heard.is_loud:
        raise CodeError(f"it wrote more than {limits.output_bytes} bytes")
    said = heard.err.text.decode(errors="replace").strip()[-SAID_CHARS_MAX:]
    _check_begun(status, said)
    if heard.code != 0:
        raise CodeError(f"it ended with {heard.code}: {said}".removesuffix(": "))
    try:
        document: Json = orjson.loads(heard.out.text)
    except orjson.JSONDecodeError as error:
        raise CodeError(f"it answered with no JSON document: {error}") from error
    return document


def _ended(
    heard: ProcessOutput, status: bytes, why: str | None, limits: CommandLimits, took_s: float
) -> CommandResult:
    """Return the result of a command; raise if it never started."""
    said = heard.err.text.decode(errors="replace")
    if heard.is_late:
        why = f"it took longer than {limits.wall_s:g} s"
    elif why is None and said.startswith(_NO_PROGRAM) and b"exit-code" not in status:
        # The sandbox was set up, but the command does not exist inside.
        return CommandResult(NO_PROGRAM_RC, "", said, int(took_s * 1000))
    elif why is None:
        _check_begun(status, said.strip()[-SAID_CHARS_MAX:])
    return CommandResult(
        rc=heard.code if heard.code is not None and why is None else KILLED_RC,
        stdout=heard.out.text.decode(errors="replace"),
        stderr=said,
        duration_ms=int(took_s * 1000),
        why=why,
    )


def _check_begun(status: bytes, said: str) -> None:
    # The status has an exit code only if the command was started.
    if b"exit-code" not in status:
        raise SandboxUnavailable(f"no sandbox can start here: {said or 'bubblewrap said nothing'}")


def _python() -> Interpreter:
    """Return this process's Python interpreter, without its packages."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    command = (f"/python/bin/{name}", "-I", "-S", "-B")
    # Python reserves no address space, so a tight limit also covers shared memory, which counts
    # only as address space.
    return Interpreter(command, ".py", (sys.base_prefix, "/python"), space_bytes=0)
