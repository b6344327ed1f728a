"""This machine as a source of history: the tools whose transcripts and hooks the server reads."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path

from turntree.core.value import value
from turntree.transcripts.importer import Importer, ToolPaths, TranscriptRef
from turntree.transcripts.imports import ImportService


@value
class Machine:
    """The tools of this machine, and how their transcripts become turns of the user's."""

    home: Path
    """Turntree's own folder."""
    importers: Mapping[str, Importer]
    places: ToolPaths
    make_import: Callable[[], ImportService]
    """Returns an import that acts as the user."""
    sync_hooks: Callable[[], Awaitable[object]]
    """Imports what hooks have reported."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by what imports: two at once would read the same transcripts twice."""

    async def find(self, tool: str) -> list[tuple[Importer, TranscriptRef]]:
        """Return the transcripts of a tool in its usual places, without reading them."""
        importer = self.importers[tool]
        found = await asyncio.to_thread(lambda: list(importer.discover(self.places)))
        return [(importer, bundle) for bundle in found]
