"""The execution host: a folder, a sandbox beside it, and ways to reach a person."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.canonical import Json
from turntree.sandbox.code import CommandResult


class ExecutionHost(Protocol):
    """What programs can access of the machine they are invoked on."""

    @property
    def is_lent(self) -> bool:
        """Whether its user allowed the folder for programs of other authors."""
        ...

    async def read_file(self, path: str) -> bytes | None:
        """Return a file of the folder, or None if it does not exist.

        Raises:
            InvalidOperation: The path leads out of the folder.
        """
        ...

    async def run_command(self, command: Sequence[str], *, timeout_s: float) -> CommandResult:
        """Run a command in the folder, inside a sandbox.

        Raises:
            SandboxUnavailable: No sandbox can be started here.
        """
        ...

    async def run_code(
        self, language: str, source: str, document: Json, *, timeout_s: float
    ) -> Json:
        """Run a program that reads one document and writes one, inside a sandbox.

        Raises:
            SandboxUnavailable: No sandbox can be started here.
            CodeError: The program failed, or exceeded a limit.
        """
        ...

    async def notify(self, channel: str, text: str) -> bool:
        """Notify a person; returns whether the channel reached them."""
        ...
