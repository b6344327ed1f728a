"""Sandbox profiles: what an agent's commands may reach besides the folder of their session.

A persona names a profile, and the user of a machine says in a file what it means there. Nothing
that is written in the ledger can make a profile wider.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from turntree.core.errors import InvalidOperation
from turntree.core.value import value

CODE: Final = "code"
"""The profile of agents that run code programs and nothing in a folder."""
FOLDER: Final = "folder"
"""The profile that every machine has: the folder of the session, and nothing else."""
GUARDED: Final = (
    ".git", ".hg", ".turntree", ".claude", ".codex", ".gemini", ".cursor", ".vscode",
)  # fmt: skip
"""Names that a command reads and does not change: other programs run what is written there, such
as hooks, outside of every sandbox."""
SECONDS_MAX: Final = 600
MEMORY_MB_MAX: Final = 65_536
PROCESSES_MAX: Final = 4096
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SYSTEM: Final = tuple(
    map(Path, ("/proc", "/sys", "/dev", "/run", "/work", "/usr", "/bin", "/lib", "/etc"))
)


@value
class SandboxProfile:
    """What commands may reach, and how much they may use."""

    name: str
    reads: tuple[str, ...] = ()
    """Folders that they may read besides the session's."""
    writes: tuple[str, ...] = ()
    """Folders that they may change. These are in no snapshot."""
    has_network: bool = False
    writes_git: bool = False
    """Whether they may change ``.git``, and so commit. What is written there as a hook runs
    outside of the sandbox when a person uses the repository."""
    seconds: int = SECONDS_MAX
    """The longest that a command may ask for."""
    memory_mb: int = 2048
    processes: int = 256

    @property
    def guarded(self) -> tuple[str, ...]:
        """Names in the folder that may be read and not changed."""
        return tuple(name for name in GUARDED if not (self.writes_git and name == ".git"))


PLAIN: Final = SandboxProfile(FOLDER)


def is_profile_name(name: str) -> bool:
    """Return whether a persona may name a profile like this."""
    return _NAME.fullmatch(name) is not None


def read_profiles(path: Path | None) -> dict[str, SandboxProfile]:
    """Return the profiles of a TOML file and the one that every machine has, by name.

    Raises:
        InvalidOperation: The file cannot be read, or a profile in it is invalid.
    """
    if path is None:
        return {FOLDER: PLAIN}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidOperation(f"the sandbox profiles in {path} cannot be read: {error}") from error
    profiles = {FOLDER: PLAIN}
    for name, given in document.items():
        if not is_profile_name(name) or name in (CODE, FOLDER):
            raise InvalidOperation(f"{path}: a profile cannot be named {name!r}")
        if not isinstance(given, Mapping):
            raise InvalidOperation(f"{path}: {name} is not a table: write [{name}]")
        try:
            profiles[name] = _read_profile(name, cast("Mapping[str, Any]", given))
        except InvalidOperation as error:
            raise InvalidOperation(f"{path}: [{name}] {error}") from error
    return profiles


def _read_profile(name: str, given: Mapping[str, Any]) -> SandboxProfile:
    known = ("read", "write", "network", "git", "seconds", "memory_mb", "processes")
    if strangers := sorted(set(given) - set(known)):
        raise InvalidOperation(f"has {strangers[0]!r}; it may have {', '.join(known)}")
    return SandboxProfile(
        name,
        _read_folders("read", given.get("read", [])),
        _read_folders("write", given.get("write", [])),
        _read_choice("network", given.get("network", "none"), ("none", "open")) == "open",
        _read_choice("git", given.get("git", "read"), ("read", "write")) == "write",
        _read_number("seconds", given.get("seconds", PLAIN.seconds), SECONDS_MAX),
        _read_number("memory_mb", given.get("memory_mb", PLAIN.memory_mb), MEMORY_MB_MAX),
        _read_number("processes", given.get("processes", PLAIN.processes), PROCESSES_MAX),
    )


def _read_folders(member: str, given: object) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise InvalidOperation(f"{member} = {given!r} is not a list of folders")
    folders: list[str] = []
    for text in cast("list[object]", given):
        if not isinstance(text, str):
            raise InvalidOperation(f"{member}: {text!r} is not the path of a folder")
        path = Path(text).expanduser()
        if not path.is_absolute() or ".." in path.parts or len(path.parts) < 2:  # noqa: PLR2004
            raise InvalidOperation(f"{member}: {text!r} is not an absolute path of a folder")
        if path == Path("/tmp") or any(path.is_relative_to(one) for one in _SYSTEM):  # noqa: S108
            raise InvalidOperation(f"{member}: {text!r} is the system's, which commands see anyway")
        # Links are resolved now, by the user whose file this is, and not when a command starts.
        folders.append(str(path.resolve()))
    return tuple(folders)


def _read_choice(member: str, given: object, choices: tuple[str, ...]) -> str:
    if given not in choices:
        raise InvalidOperation(f"{member} = {given!r} is not one of {', '.join(choices)}")
    return str(given)


def _read_number(member: str, given: object, most: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= most:
        raise InvalidOperation(f"{member} = {given!r} is not a number from 1 to {most}")
    return given
