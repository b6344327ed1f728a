"""What other tools left on this machine: counts, sizes and an estimate, without reading it all."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from turntree.core.errors import InvalidOperation
from turntree.server.access.rights import CREATE, READ
from turntree.server.context import ServerContext
from turntree.server.machine import Machine
from turntree.server.route import ApiRoute, NoValues
from turntree.transcripts.display import tool_title
from turntree.transcripts.importer import HasDefaultPaths, Importer, TranscriptRef, source_bytes
from turntree.wire.sources import (
    DemoRequest,
    DemoShown,
    ImportList,
    ImportRequest,
    ImportStarted,
    Source,
    SourceList,
    SourceState,
)

SAMPLES: Final = 3
SAMPLE_BYTES_MAX: Final = 2_000_000
"""A transcript larger than this is not read to estimate the turns of its tool."""


async def get_sources(context: ServerContext, _: NoValues) -> SourceList:
    """Return what was found on this machine; nothing while the sample data is shown."""
    importing = None if context.live is None else context.live.importing
    tools = () if importing is None else await list_sources(importing.machine)
    return SourceList(tools, demo=context.sample is not None and not context.is_sample)


async def get_imports(context: ServerContext, _: NoValues) -> ImportList:
    """Return the imports since the server started."""
    importing = None if context.live is None else context.live.importing
    return ImportList(() if importing is None else tuple(importing.list_jobs()))


async def post_imports(context: ServerContext, request: ImportRequest) -> ImportStarted:
    """Start an import; its progress is on the stream."""
    importing = None if context.live is None else context.live.importing
    if importing is None:
        raise InvalidOperation("the sample data takes no imports")
    return ImportStarted(importing.start(request.tools))


async def post_demo(context: ServerContext, request: DemoRequest) -> DemoShown:
    """Show the sample data from now on, or the user's own history again."""
    if context.sample is None:
        raise InvalidOperation("this server shows one workspace only")
    if request.leaves:
        context.sample.leave()
        return DemoShown(0)
    return DemoShown(await context.sample.show())


async def list_sources(machine: Machine) -> tuple[Source, ...]:
    """Return what each tool left in its usual folders; tools without one are left out."""
    imported = await machine.make_import().imports.count_by_origin()
    sources: list[Source] = []
    for tool, importer in sorted(machine.importers.items()):
        if isinstance(importer, HasDefaultPaths):
            folders = importer.usual_places(machine.places)
            # Of the places of all systems, the one that this machine has, or is nearest to.
            folder = max(folders, key=_count_existing, default=None)
            found = [bundle for _, bundle in await machine.find(tool)]
            turns = await asyncio.to_thread(estimate_turns, importer, found)
            known = imported.get(tool, 0)
            sources.append(
                Source(
                    tool,
                    tool_title(tool),
                    None if folder is None else str(folder),
                    len(found),
                    turns,
                    source_bytes(found),
                    known,
                    judge(len(found), known),
                )
            )
    return tuple(sources)


def _count_existing(folder: Path) -> int:
    return sum(path.exists() for path in (folder, *folder.parents))


def judge(found: int, imported: int) -> SourceState:
    """Return how much of what a tool left was imported."""
    if not imported:
        return "found" if found else "absent"
    return "imported" if imported >= found else "partly"


def estimate_turns(importer: Importer, found: Sequence[TranscriptRef]) -> int:
    """Return about how many turns transcripts hold, by what a few of middling size do."""
    small = sorted((one for one in found if one.size <= SAMPLE_BYTES_MAX), key=lambda one: one.size)
    step = max(len(small) // (SAMPLES + 1), 1)
    read, turns = 0, 0
    for sample in small[step : step * SAMPLES + 1 : step] or small[:1]:
        try:
            turns += len(importer.project(sample, list(importer.read(sample))).turns)
        except OSError:
            # It vanished since it was listed.
            continue
        read += sample.size
    total = sum(one.size for one in found)
    return round(turns * total / read) if read else 0


ROUTES: Final = (
    ApiRoute(
        "GET", "/sources", READ, get_sources, "What other tools left on this machine.",
        answers=SourceList, is_local=True,
    ),
    ApiRoute(
        "GET", "/imports", READ, get_imports, "The imports and their progress.",
        answers=ImportList, is_local=True,
    ),
    ApiRoute(
        "POST", "/imports", CREATE, post_imports, "Import what some tools left on this machine.",
        asks=ImportRequest, answers=ImportStarted, kind="write", is_local=True,
    ),
    ApiRoute(
        "POST", "/demo", CREATE, post_demo, "Show the sample data, or leave it.",
        asks=DemoRequest, answers=DemoShown, kind="write", is_local=True,
    ),
)  # fmt: skip
