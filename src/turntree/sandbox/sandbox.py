"""The sandbox protocol: runs untrusted code."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from anyio.abc import Process

from turntree.core.canonical import Json
from turntree.sandbox.code import Code, CodeLimits, CommandLimits, CommandResult, CommandView


class Sandbox(Protocol):
    """Runs programs and commands without network and within limits, or not at all."""

    @property
    def name(self) -> str:
        """Its name in the ``sandbox`` member of a persona."""
        ...

    def find_fault(self) -> str | None:
        """Return why nothing can be run on this machine, or None."""
        ...

    async def run(self, code: Code, document: Json, limits: CodeLimits = ...) -> Json:
        """Run a program with one JSON document, and return the document it wrote.

        Raises:
            SandboxUnavailable: The sandbox cannot start here; the program was not run.
            CodeError: The program crashed, exceeded a limit or wrote no document.
        """
        ...

    async def run_command(
        self,
        command: Sequence[str],
        folder: str,
        *,
        writes: bool = False,
        limits: CommandLimits = ...,
        view: CommandView | None = None,
    ) -> CommandResult:
        """Run a command in a folder, and return its result.

        It sees the system's programs and the folder, which it may change only if ``writes``; it has
        a small private ``/tmp``, and what ``view`` gives it. A command that exceeds a limit is
        killed, which the result reports.

        Raises:
            SandboxUnavailable: The sandbox cannot start here; the command was not run.
            InvalidOperation: The command is empty, or the folder does not exist.
        """
        ...

    def open_command(
        self,
        command: Sequence[str],
        view: CommandView,
        limits: CommandLimits,
        environment: Mapping[str, str],
    ) -> AbstractAsyncContextManager[Process]:
        """Return a command that runs while the block lasts, with pipes to it.

        It sees an empty folder, the system's programs and what ``view`` gives it. Neither other
        users nor other commands see its variables.

        Raises:
            SandboxUnavailable: The sandbox cannot start here; the command was not run.
        """
        ...
