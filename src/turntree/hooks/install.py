"""Install our hooks, or our MCP server, in a tool's settings, and uninstall them.

Before a file is changed its bytes are saved in ``home/hooks``, with the digest of what was written.
If the file is unchanged since, uninstalling restores the old bytes; if it was edited, uninstalling
removes our hooks and leaves everything else.
"""

import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.db.embedded.account import make_home
from turntree.hooks.codex_trust import (
    TrustedHook,
    is_trusting,
    list_missing,
    trusted,
    with_trust,
    without_trust,
)
from turntree.hooks.coding_agents import CODEX, TOOLS, Scope, Tool, codex_folder
from turntree.hooks.launcher import (
    command,
    find_lost_python,
    is_judging,
    launcher_path,
    write_launcher,
)
from turntree.hooks.mcp_clients import CLIENTS, SERVER, McpClient
from turntree.hooks.server_table import find_server, with_server, without_server
from turntree.hooks.settings_text import (
    OURS,
    find_member,
    list_commands,
    with_hooks,
    with_member,
    without_hooks,
    without_member,
)
from turntree.policy.local import FOLDER as JUDGE
from turntree.system.processes import lock_file
from turntree.transcripts.importer import ToolPaths

FOLDER: Final = "hooks"
CODEX_CONFIG: Final = "config.toml"
"""Where Codex keeps which hooks it trusts, in the same folder as the user's hooks."""
JUDGE_TIMEOUT_S: Final = 30
"""When a tool gives up a hook that asks the judge, and makes the call.

The hook gives up long before and says what then holds; only a machine that stalls takes longer.
"""
_MODULE: Final = "plugins/opencode/turntree.js"


@value
class SettingsChange:
    """What an installation or uninstallation did to a file."""

    path: Path
    changed: bool
    backup: Path | None = None
    """Where the old bytes are; None if there was no file."""


@value
class _Record:
    """What is recorded about a file that we changed."""

    path: str
    existed: bool
    written: str
    """The digest of what we wrote."""
    made: tuple[str, ...]
    """Folders that were created for it, deepest first."""
    tool: str


@value
class InstallState:
    """The state of a tool's hooks in one scope."""

    tool: str
    scope: Scope
    path: Path
    installed: bool
    lacks: str | None = None
    """Why installing it again would help."""
    untrusted: int = 0
    """Number of hooks that the tool skips until the user has reviewed them there."""
    problem: str | None = None
    judges: bool = False
    """Whether calls are judged before they are made."""

    @property
    def is_complete(self) -> bool:
        """Whether every event has its command as it would be written today."""
        return self.installed and self.lacks is None


@value
class Installer:
    """Installs hooks and MCP servers for one data directory, on one machine."""

    home: Path
    places: ToolPaths
    top: Path
    """The project folder of scope ``project``."""
    python: Path
    entry: Path

    def install(
        self, tool: Tool, scope: Scope, *, trust: bool = False, judge: bool | None = None
    ) -> list[SettingsChange]:
        """Install a tool's hooks; installing them again changes nothing.

        With ``judge``, its calls are judged before they are made; None leaves that as it is.

        Raises:
            InvalidOperation: Its settings cannot be read or written, or its calls cannot be judged;
                nothing was changed.
        """
        if judge and not tool.judged:
            raise InvalidOperation(f"{tool.title} cannot be judged, only Claude Code and Codex can")
        with self._alone():
            path = tool.file(scope, self.places, self.top)
            before = _read(path)
            wanted = self._wanted(tool, before, path, judge=judge)
            if judge:
                # The daemon sees by it that it will be asked.
                (self.home / JUDGE).mkdir(mode=0o700, exist_ok=True)
            write_launcher(self.home, self.python, self.entry)
            if tool is not CODEX or not trust:
                return [self._write(tool.name, path, before, wanted)]
            config = codex_folder(self.places) / CODEX_CONFIG
            text = _read(config)
            # What the same places held before was ours too, and is trusted no longer.
            known = [] if before is None else _list_trusted(path, before)
            stale = [hook for hook in known if hook not in _list_trusted(path, wanted)]
            left = without_trust(text or "", stale) if stale else text or ""
            trusting = with_trust(left, _list_trusted(path, wanted))
            done = [self._write(tool.name, path, before, wanted)]
            try:
                done.append(self._write(tool.name, config, text, trusting))
            except InvalidOperation:
                if done[0].changed:
                    self._take_back(path, wanted, before or "")
                raise
            return done

    def uninstall(self, tool: Tool, scope: Scope) -> list[SettingsChange]:
        """Uninstall a tool's hooks.

        Raises:
            InvalidOperation: Its settings cannot be read or written.
        """
        return self.uninstall_from(tool, tool.file(scope, self.places, self.top))

    def list_files(self) -> dict[Path, Tool]:
        """Return all files with hooks of this home: those of the user, and those of any project."""
        scopes: tuple[Scope, ...] = ("user", "project")
        files = {
            tool.file(scope, self.places, self.top): tool
            for tool in TOOLS.values()
            for scope in scopes
            if self.state(tool, scope).installed
        }
        # What was installed in other projects, or with other variables of the tools, is recorded.
        for kept in sorted((self.home / FOLDER).glob("*.json")):
            record = _read_record(kept)
            path = None if record is None else Path(record.path)
            if (
                record is not None
                and path is not None
                and path.name != CODEX_CONFIG
                and record.tool in TOOLS
            ):
                text = _read(path)
                if text is not None and OURS in text:
                    files.setdefault(path, TOOLS[record.tool])
        return files

    def uninstall_from(self, tool: Tool, path: Path) -> list[SettingsChange]:
        """Uninstall a tool's hooks from one file.

        Raises:
            InvalidOperation: The file cannot be read or written.
        """
        with self._alone():
            return self._uninstall_from(tool, path)

    def _uninstall_from(self, tool: Tool, path: Path) -> list[SettingsChange]:
        changes: list[SettingsChange] = []
        if tool is CODEX:
            beside = path.with_name(CODEX_CONFIG)
            is_beside = self._find_record(beside) is not None
            config = beside if is_beside else codex_folder(self.places) / CODEX_CONFIG
            text = _read(config)
            if text is not None:
                cleared = without_trust(text, _list_trusted(path, _read(path) or ""))
                changes.append(self._take_back(config, text, cleared))
        text = _read(path)
        if text is None:
            return [*changes, SettingsChange(path, changed=False)]
        if tool.format == "module":
            cleared = "" if OURS in text else text
        else:
            with _left_alone(path):
                cleared = without_hooks(text)
        return [*changes, self._take_back(path, text, cleared)]

    def install_server(self, client: McpClient) -> SettingsChange:
        """Add our MCP server to an agent's settings; adding it again changes nothing.

        Raises:
            InvalidOperation: Its settings cannot be read or written; nothing was changed.
        """
        # As files of this home name it: an agent may be started where another one is the default.
        command = (str(self.python), "-m", "turntree", "mcp")
        entry = client.entry(command, {"TURNTREE_HOME": str(self.home)})
        with self._alone():
            path = client.file(self.places)
            before = _read(path)
            add = with_member if client.format == "json" else with_server
            with _left_alone(path):
                after = add(before, client.key, SERVER, entry)
            return self._write(client.name, path, before, after)

    def uninstall_server(self, client: McpClient) -> SettingsChange:
        """Remove our MCP server from an agent's settings.

        Raises:
            InvalidOperation: Its settings cannot be read or written.
        """
        with self._alone():
            path = client.file(self.places)
            text = _read(path)
            if text is None:
                return SettingsChange(path, changed=False)
            with _left_alone(path):
                cleared = (
                    without_member(text, client.key, SERVER)
                    if client.format == "json"
                    else without_server(text)
                )
            return self._take_back(path, text, cleared)

    def list_servers(self) -> list[McpClient]:
        """Return the agents whose settings have our MCP server."""
        return [one for one in CLIENTS.values() if _has_server(one, _read(one.file(self.places)))]

    def state(self, tool: Tool, scope: Scope) -> InstallState:
        """Return the state of a tool's hooks."""
        path = tool.file(scope, self.places, self.top)
        try:
            text = _read(path)
            if text is None or OURS not in text:
                return InstallState(tool.name, scope, path, installed=False)
            wanted = self._wanted(tool, text, path)
            skipped = 0
            if tool is CODEX:
                config = _read(codex_folder(self.places) / CODEX_CONFIG) or ""
                skipped = len(list_missing(config, _list_trusted(path, text)))
        except InvalidOperation as error:
            # A status must show all tools, also beside one with a broken settings file.
            return InstallState(tool.name, scope, path, installed=False, problem=str(error))
        lacks = None
        if text != wanted:
            lacks = "by another version of Turntree, or for another home of it"
        elif not launcher_path(self.home).is_file():
            lacks = f"but what it calls is gone: {launcher_path(self.home)}"
        elif lost := find_lost_python(self.home, self.places.environ.get("PATH")):
            lacks = f"but the Python that it calls is gone: {lost}"
        return InstallState(
            tool.name, scope, path, installed=True, lacks=lacks, untrusted=skipped,
            judges=_is_judged(tool, text),
        )  # fmt: skip

    def _wanted(
        self, tool: Tool, before: str | None, path: Path, *, judge: bool | None = None
    ) -> str:
        if tool.format == "module":
            if before is not None and OURS not in before:
                raise InvalidOperation(
                    f"{path} was not written by Turntree\nmove it away, and try again"
                )
            text = files("turntree").joinpath(_MODULE).read_text(encoding="utf-8")
            return text.replace("@LAUNCHER@", str(launcher_path(self.home)))
        if judge is None:
            judge = before is not None and _is_judged(tool, before)
        kinds = {**tool.events, **(tool.judged if judge else {})}
        commands = {event: command(self.home, tool.name, kind) for event, kind in kinds.items()}
        if tool.format == "cursor":
            # It expects a JSON document from every hook.
            commands = {event: f"{{ {word}; }}; echo '{{}}'" for event, word in commands.items()}
        with _left_alone(path):
            # Reading something may leave the folder too, so every call is judged.
            spared = set(tool.judged) if judge else set[str]()
            matchers = {event: one for event, one in tool.matchers().items() if event not in spared}
            timeouts = dict.fromkeys(spared, JUDGE_TIMEOUT_S)
            return with_hooks(before, commands, tool.timeout, tool.format, matchers, timeouts)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keep other processes of this home from changing settings at the same time.

        Two that read the same text would each save the other's hooks as the user's settings.
        """
        make_home(self.home)
        folder = self.home / FOLDER
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("a") as lock:
            lock_file(lock.fileno(), wait=True)
            yield

    def _write(self, tool: str, path: Path, before: str | None, after: str) -> SettingsChange:
        """Replace a file, saving what it held before we first changed it."""
        if before == after:
            return SettingsChange(path, changed=False)
        record = self._find_record(path)
        ours = record is not None and before is not None and record.written == _digest(before)
        backup = self._kept(path).with_suffix(".before")
        if not ours:
            made = [str(folder) for folder in path.parents if not folder.exists()]
            record = _Record(str(path), before is not None, "", tuple(made), tool)
            if before is not None:
                # Settings may hold keys, and root's home can be entered by others.
                _write_private(backup, before.encode("utf-8", "surrogateescape"))
        assert record is not None
        kept = {**asdict(record), "written": _digest(after)}
        # Recorded first: after a crash in between, the old settings are known and still in place.
        _write_private(self._kept(path), json.dumps(kept).encode())
        _replace(path, before, after)
        return SettingsChange(path, changed=True, backup=backup if record.existed else None)

    def _take_back(self, path: Path, now: str, cleared: str) -> SettingsChange:
        record = self._find_record(path)
        backup = self._kept(path).with_suffix(".before")
        is_as_left = record is not None and record.written == _digest(now)
        if cleared == now and not is_as_left:
            return SettingsChange(path, changed=False)
        if record is not None and is_as_left and _is_ours(path, cleared):
            # The same file has something else of ours, which stays until it is removed itself.
            if cleared == now:
                return SettingsChange(path, changed=False)
            kept = {**asdict(record), "written": _digest(cleared)}
            _write_private(self._kept(path), json.dumps(kept).encode())
            _replace(path, now, cleared)
            return SettingsChange(path, changed=True)
        if record is not None and is_as_left:
            old = backup.read_bytes().decode("utf-8", "surrogateescape") if record.existed else ""
            gone = not record.existed
        else:
            old, gone = cleared, not cleared.strip() or cleared.strip() == "{}"
            gone = gone and (record is None or not record.existed)
        if gone:
            # Behind a link to nothing we created the file, and not the link.
            path.resolve().unlink()
            for folder in record.made if record is not None else ():
                if Path(folder).is_dir() and not any(Path(folder).iterdir()):
                    Path(folder).rmdir()
        else:
            _replace(path, now, old)
        self._kept(path).unlink(missing_ok=True)
        backup.unlink(missing_ok=True)
        return SettingsChange(path, changed=True)

    def _find_record(self, path: Path) -> _Record | None:
        return _read_record(self._kept(path))

    def _kept(self, path: Path) -> Path:
        name = sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self.home / FOLDER / f"{name}.json"


def _read_record(kept: Path) -> _Record | None:
    try:
        told: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        made = tuple(told["made"])
        return _Record(told["path"], told["existed"], told["written"], made, str(told["tool"]))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _is_ours(path: Path, text: str) -> bool:
    """Whether settings have anything of ours: hooks, our trust in them, or our server."""
    if OURS in text or is_trusting(text):
        return True
    kind = path.suffix.removeprefix(".")
    return any(_has_server(client, text) for client in CLIENTS.values() if client.format == kind)


def _has_server(client: McpClient, text: str | None) -> bool:
    find = find_member if client.format == "json" else find_server
    try:
        return find(text, client.key, SERVER) is not None
    except InvalidOperation:
        return False


@contextmanager
def _left_alone(path: Path) -> Generator[None]:
    """Add the file's path to errors raised inside."""
    try:
        yield
    except InvalidOperation as error:
        raise InvalidOperation(
            f"{path} was left alone: {error}\nput it right, and try again"
        ) from error


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidOperation(f"{path} cannot be read: {error.strerror}") from error


def _write_private(path: Path, data: bytes) -> None:
    """Write a file atomically that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Its own name in each process, so that two never write into one file.
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as new:
        new.write(data)
    Path(new.name).replace(path)


def _is_judged(tool: Tool, text: str) -> bool:
    """Whether settings have hooks of ours that ask the judge."""
    # A module and other shapes have no such hooks.
    if not tool.judged or OURS not in text:
        return False
    return any(is_judging(word) for _, _, word in list_commands(text))


def _list_trusted(path: Path, text: str) -> list[TrustedHook]:
    found = list_commands(text)
    return [
        trusted(
            str(path), event, at, word, JUDGE_TIMEOUT_S if is_judging(word) else CODEX.timeout
        )
        for event, at, word in found
    ]  # fmt: skip


def _replace(path: Path, before: str | None, text: str) -> None:
    """Write a file atomically, with its owner and permissions; a link stays a link."""
    target = path.resolve()
    fresh: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not os.access(target, os.W_OK, effective_ids=True):
            # Replacing it would work in a writable folder, but its user has protected it.
            raise InvalidOperation(f"{path} is read-only")
        fd, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".new")
        fresh = Path(name)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        if target.exists():
            found = target.stat()
            if os.geteuid() == 0:
                # With sudo, the file must stay its user's.
                os.chown(fresh, found.st_uid, found.st_gid)
            fresh.chmod(found.st_mode & 0o7777)
        else:
            fresh.chmod(0o644)
        if _read(path) != before:
            raise InvalidOperation(f"{path} has just been changed by another program")
        fresh.replace(target)
        fresh = None
    except OSError as error:
        raise InvalidOperation(f"{path} cannot be written: {error.strerror}") from error
    finally:
        if fresh is not None:
            fresh.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
