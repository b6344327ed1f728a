"""A local folder with a sandbox beside it: code and commands run in the sandbox or not at all."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, SandboxUnavailable
from turntree.core.value import value
from turntree.sandbox.code import (
    LANGUAGES,
    Code,
    CodeLimits,
    CommandLimits,
    CommandResult,
    Language,
)
from turntree.sandbox.sandbox import Sandbox

# A file that a program reads is held in memory.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024


@value
class LocalFolder:
    """A folder, and the terminal of the person who works there.

    This is all that programs can access of the machine they are invoked on.
    """

    root: Path
    say: Callable[[str], None] | None = None
    """Prints to the terminal, if there is one."""
    find_sandbox: Callable[[], Sandbox] | None = None
    """Finds the sandbox on first use, because that takes a while."""
    is_lent: bool = False
    """Whether programs of other authors may use it too."""

    async def read_file(self, path: str) -> bytes | None:
        """Return a file of the folder, or None if it does not exist.

        Raises:
            InvalidOperation: The path leads out of the folder.
        """
        root = await anyio.Path(self.root).resolve()
        try:
            file = await (root / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidOperation(f"{path!r} cannot be a file: {error}") from error
        # Resolve links first: the check must see where they end.
        if not file.is_relative_to(root):
            raise InvalidOperation(f"{path} leads out of the folder that is worked in")
        if not await file.is_file():
            return None
        size = (await file.stat()).st_size
        if size > FILE_BYTES_MAX:
            raise InvalidOperation(f"{path} has {size} bytes; at most {FILE_BYTES_MAX} are read")
        return await file.read_bytes()

    async def run_command(self, command: Sequence[str], *, timeout_s: float) -> CommandResult:
        """Run a command that can read the folder and change nothing.

        Raises:
            SandboxUnavailable: No sandbox can be started here.
        """
        limits = CommandLimits(wall_s=timeout_s, cpu_s=max(1, int(timeout_s)))
        return await self._sandbox().run_command(command, str(self.root.absolute()), limits=limits)

    async def run_code(
        self, language: str, source: str, document: Json, *, timeout_s: float
    ) -> Json:
        """Run a program that sees only its input document, and return the document it writes.

        Raises:
            SandboxUnavailable: No sandbox can be started here.
            CodeError: The program failed, or exceeded a limit.
        """
        limits = CodeLimits(wall_s=timeout_s, cpu_s=max(1, int(timeout_s)))
        return await self._sandbox().run(Code(_language(language), source), document, limits)

    async def notify(self, channel: str, text: str) -> bool:
        """Print to the terminal if that is the channel; no other channel works from here."""
        if channel != "terminal" or self.say is None:
            return False
        self.say(text)
        return True

    def _sandbox(self) -> Sandbox:
        if self.find_sandbox is None:
            raise SandboxUnavailable("there is no sandbox here, so nothing is run")
        return self.find_sandbox()


def _language(word: str) -> Language:
    for one in LANGUAGES:
        if one == word:
            return one
    raise InvalidOperation(f"unknown language {word!r}; there are {', '.join(LANGUAGES)}")
