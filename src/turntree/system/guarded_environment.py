"""Hides the environment of this process from the tools of a run.

A tool is a Python function in the worker's process, so it could read every variable that the worker
was started with, and so could the processes that it starts. After ``guard_environment``, code in a
run sees the variables that say how to run programs, and the credentials that the run may look up.
Everything else in the process sees what it saw before.

This keeps a tool from reading a secret by mistake or because a model asked for it. It is no wall
against code that wants to get through: such code shares the worker's memory.
"""

import os
import subprocess
from collections.abc import Callable, Iterator, MutableMapping
from functools import wraps
from typing import Any, Final, Protocol

PLAIN: Final = frozenset(
    {"COMSPEC", "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PATHEXT", "PWD", "SHELL",
     "SSL_CERT_DIR", "SSL_CERT_FILE", "SYSTEMROOT", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
     "USERNAME", "VIRTUAL_ENV", "WINDIR"}
)  # fmt: skip
"""Variables that say how to run programs here. None of them is a secret."""
PLAIN_BEGINNING: Final = "LC_"


class VariableReader(Protocol):
    """Decides what the active tool may read."""

    def may_list(self, name: str) -> bool:
        """Whether the tool learns that a variable exists."""
        ...

    def may_read(self, name: str) -> bool:
        """Whether the tool gets the value of a variable, which it reads now."""
        ...


def _unguarded() -> VariableReader | None:
    return None


_find: Callable[[], VariableReader | None] = _unguarded


def guard_environment(find: Callable[[], VariableReader | None]) -> None:
    """Show a tool only what it may read; ``find`` returns None outside of tools."""
    global _find  # noqa: PLW0603
    _find = find
    if isinstance(os.environ, _ShownVariables):
        return
    # The object stays the same: a module that imported ``environ`` by name is guarded too.
    os.environ.__class__ = _ShownVariables
    if os.supports_bytes_environ:
        os.environb.__class__ = _ShownVariables  # pyright: ignore[reportAttributeAccessIssue]
    begin = subprocess.Popen.__init__
    system = os.system  # pyright: ignore[reportDeprecated]

    @wraps(begin)
    def begin_guarded(self: Any, *args: Any, **settings: Any) -> None:
        # Without a mapping, a child process inherits what C knows, which nothing here changes.
        if settings.get("env") is None and len(args) <= _ENV_POSITION and _find() is not None:
            settings["env"] = dict(os.environ)
        begin(self, *args, **settings)

    @wraps(system)  # pyright: ignore[reportDeprecated]
    def system_guarded(command: Any) -> int:
        if _find() is None:
            return system(command)  # pyright: ignore[reportDeprecated]
        # Started by ``Popen``; the status is encoded as by the system call.
        code = subprocess.call(command, shell=True)  # noqa: S602
        return code << 8 if code >= 0 else -code

    subprocess.Popen.__init__ = begin_guarded  # type: ignore[method-assign]
    os.system = system_guarded


_ENV_POSITION: Final = 10
"""Position of ``env`` among the arguments of ``Popen``."""
_Environ: Final[type[MutableMapping[str, str]]] = type(os.environ)


class _ShownVariables(_Environ):  # type: ignore[misc,valid-type]
    """The environment, as text or as bytes, as far as the active run may read it."""

    def __getitem__(self, name: Any) -> Any:
        reader, word = _find(), os.fsdecode(name)
        if reader is not None and not is_plain(word) and not reader.may_read(word):
            raise KeyError(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[Any]:
        reader = _find()
        # A copy: another thread may set a variable meanwhile.
        for name in list(super().__iter__()):
            word = os.fsdecode(name)
            if reader is None or is_plain(word) or reader.may_list(word):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def copy(self) -> dict[Any, Any]:
        """Return the variables that can be read."""
        return dict(self)


def is_plain(name: str) -> bool:
    """Whether a variable only says how to run programs here."""
    return name.upper() in PLAIN or name.startswith(PLAIN_BEGINNING)
