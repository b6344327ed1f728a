"""Imports the command line and reads every help page without what only POSIX systems have.

Run by `test_platforms.py` in a process of its own. It prints what failed, one line each.
"""

# What other packages import for this system has to be there before it is hidden from ours.
import asyncio  # noqa: F401
import importlib
import multiprocessing  # noqa: F401
import os
import pkgutil
import signal
import socket
import subprocess  # noqa: F401
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec

import click
import filelock  # noqa: F401
import rich.console  # noqa: F401
from click.testing import CliRunner

MODULES = frozenset({
    "crypt", "curses", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline", "resource",
    "syslog", "termios", "tty",
})  # fmt: skip
ATTRIBUTES = {
    os: (
        "fork", "forkpty", "geteuid", "getegid", "setsid", "setuid", "killpg", "getpgid", "mkfifo",
        "fchmod", "fchown", "lchown", "pread", "pwrite", "nice", "sysconf", "statvfs",
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "WNOHANG",
    ),
    signal: ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGQUIT"),
    socket: ("AF_UNIX",),
}  # fmt: skip


class Hidden:
    """Finds none of the modules that only POSIX systems have."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Refuse them, and leave everything else to the other finders."""
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def hide() -> None:
    """Take away what another system does not have."""
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Hidden())
    for module, names in ATTRIBUTES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


def failures() -> Iterator[str]:
    """Yield what cannot be imported or shown."""
    # Imported here, because it must not happen before something is hidden.
    cli = importlib.import_module("turntree.cli")
    for module in pkgutil.walk_packages(cli.__path__, "turntree.cli."):
        try:
            importlib.import_module(module.name)
        except (AttributeError, ImportError) as error:
            yield f"{module.name}: {error}"
    root = importlib.import_module("turntree.cli.root").root
    yield from pages(root, root, ())


def pages(root: click.Group, command: click.Command, words: Sequence[str]) -> Iterator[str]:
    """Yield each help page that cannot be shown, from a command downwards."""
    ended = CliRunner().invoke(root, [*words, "--help"])
    if ended.exit_code or "Usage:" not in ended.output:
        yield f"{' '.join(words)} --help: {ended.exception!r}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from pages(root, below, (*words, name))


if __name__ == "__main__":
    hide()
    for failure in failures():
        sys.stdout.write(f"{failure}\n")
