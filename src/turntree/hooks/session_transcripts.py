"""Find the transcripts of a session that a hook named."""

from collections.abc import Iterator
from pathlib import Path

from turntree.transcripts.importer import Importer, OpensUnnamed, ToolPaths, TranscriptRef


def list_transcripts(
    importer: Importer, session: str, transcript: str | None, places: ToolPaths
) -> Iterator[TranscriptRef]:
    """Yield the transcripts of a session; without a path, search the tool's default folders."""
    if transcript is None:
        for bundle in importer.discover(places):
            if session in bundle.id and bundle.part_of is None:
                yield bundle
    elif Path(transcript).is_file():
        bundles = list(importer.open(Path(transcript)))
        if not bundles and isinstance(importer, OpensUnnamed):
            bundles = list(importer.open_unnamed(Path(transcript), session))
        yield from bundles
