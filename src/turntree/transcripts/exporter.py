"""The contract of exporters: write a session that another tool can continue.

An exporter is one module and one entry point of the group ``turntree.exporters``. It returns the
files the tool needs and the command that continues the session. It never writes them itself, never
changes a file the tool has written, and knows nothing about a ledger.
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
    """The session of another tool that should be written."""

    session: str
    """A new UUID; a tool with another id format derives its own from it."""
    at: Timestamp
    folder: Path
    """The working directory of the session."""
    title: str


@value
class NewFile:
    """A file that must not exist yet."""

    path: Path
    text: str


@value
class HandoffFiles:
    """What creates a session of another tool: files, perhaps a command, and one that runs it."""

    session: str
    """The tool's id of the session."""
    files: tuple[NewFile, ...]
    resume: tuple[str, ...]
    """The tool's own command that continues it."""
    prepare: tuple[str, ...] | None = None
    """The tool's own command that must run once before; None if it finds the files itself."""
    mark: str | None = None
    """A suffix that the ids of all its messages share, and no others have.

    None if they have no ids, and the tool continues in the first file, after what was written.
    """
    last: str | None = None
    """The id of the last message, if they have ids."""


class Exporter(Protocol):
    """Writes sessions for one tool."""

    @property
    def tool(self) -> str:
        """The tool's name, the same as its importer's: ``claude-code``."""
        ...

    @property
    def program(self) -> str:
        """The tool's executable."""
        ...

    @property
    def install(self) -> str:
        """The command that installs the tool."""
        ...

    def plan(
        self, told: Sequence[PortableMessage], order: HandoffRequest, places: ToolPaths
    ) -> HandoffFiles:
        """Return the files and commands that continue a thread. Writes nothing.

        Raises:
            InvalidOperation: The tool would not find the files.
        """
        ...
