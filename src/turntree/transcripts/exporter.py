"""Exporters: writers of sessions that another tool can continue.

An exporter is one module and one entry point of the group ``turntree.exporters``. It says which
files a tool would have to find, and what to type then. It never writes them, never changes what
a tool has written itself, and knows nothing of a ledger.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.models.portable_thread import PortableMessage
from turntree.transcripts.importer import ToolPaths


@value
class HandoffRequest:
    """What a session of another tool is to be."""

    session: str
    """A UUID that nobody else has; a tool with ids of its own kind derives one from it."""
    at: Timestamp
    folder: Path
    """Where the work goes on."""
    title: str


@value
class NewFile:
    """A file that must not exist yet."""

    path: Path
    text: str


@value
class HandoffFiles:
    """What makes a session of another tool: files first, then perhaps a command, then it runs."""

    session: str
    """What the tool calls it."""
    files: tuple[NewFile, ...]
    resume: tuple[str, ...]
    """The tool's own command that continues it."""
    prepare: tuple[str, ...] | None = None
    """The tool's own command that has to run once before; None if it finds the files itself."""
    mark: str | None = None
    """How the ids of all messages in it end, and of nobody else's.

    None if they have none, and the tool goes on in the first file, behind what was written.
    """
    last: str | None = None
    """The id of the last message, if they have ids."""


class Exporter(Protocol):
    """Writes what one tool can continue."""

    @property
    def tool(self) -> str:
        """The tool's name, the same as its importer's: ``claude-code``."""
        ...

    @property
    def program(self) -> str:
        """What the tool is called on a command line."""
        ...

    @property
    def install(self) -> str:
        """How somebody gets the tool who does not have it."""
        ...

    def plan(
        self, told: Sequence[PortableMessage], order: HandoffRequest, places: ToolPaths
    ) -> HandoffFiles:
        """Return the files and commands that continue a thread. Writes nothing.

        Raises:
            Refused: The tool would not find the files.
        """
        ...
