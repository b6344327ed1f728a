"""A place where code of others can do no harm."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.canonical import Json
from turntree.sandbox.code import Code, CodeLimits, CommandLimits, CommandResult


class Sandbox(Protocol):
    """Runs programs and commands without network and within limits, or not at all."""

    @property
    def name(self) -> str:
        """What a persona calls it: its ``sandbox``."""
        ...

    def find_fault(self) -> str | None:
        """Return what keeps it from running anything on this machine, or None."""
        ...

    async def run(self, code: Code, document: Json, limits: CodeLimits = ...) -> Json:
        """Hand a program one document and return the one it answered with.

        Raises:
            NoSandbox: It cannot start here; the program was not run.
            CodeFailed: The program crashed, went beyond a limit or answered with no document.
        """
        ...

    async def run_command(
        self,
        command: Sequence[str],
        folder: str,
        *,
        writes: bool = False,
        limits: CommandLimits = ...,
    ) -> CommandResult:
        """Run a command in a folder and return how it ended.

        It sees the system's programs and the folder, which it may change only if it ``writes``; a
        small ``/tmp`` is its own. Going beyond a limit ends it, which is told and not raised.

        Raises:
            NoSandbox: It cannot start here; the command was not run.
            Refused: There is no command, or no such folder.
        """
        ...
