"""The contract of importers: read other tools' transcripts.

An importer is one module and one entry point of the group ``turntree.importers``. It finds what its
tool left on a machine, reads it record by record and projects the records. It never writes, never
uses the network and never decides what is stored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from turntree.core.value import value
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import Projection


@value
class ToolPaths:
    """The folders where tools store their files on a machine."""

    home: Path
    environ: Mapping[str, str]


@value
class TranscriptRef:
    """What is read and projected together: a session of the source and its subagents."""

    origin: str
    id: str
    """Its id in the source; stable over time."""
    files: tuple[Path, ...]
    """The first one is the session's own."""
    stamp: str
    """A fingerprint that changes with the content; computed without reading it."""
    size: int
    """Bytes on the disk."""
    part_of: str | None = None
    """The session of the source of which it holds only a part, such as the prompts.

    It is not imported if a transcript of that session was.
    """


class Importer(Protocol):
    """Reads the transcripts of one tool."""

    @property
    def origin(self) -> str:
        """The tool's name: ``claude-code``."""
        ...

    @property
    def version(self) -> int:
        """Of the projection. A higher one projects stored records again, beside the old turns."""
        ...

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield what the tool left in its default folders, without reading it."""
        ...

    def open(self, path: Path) -> Iterable[TranscriptRef]:
        """Yield the transcripts in a file or folder; nothing if this tool did not write it."""
        ...

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield every record unchanged, including unknown and malformed ones.

        A record is a line without its line break, a row, or a member of an export.

        Raises:
            OSError: It cannot be read now, or not to its end.
        """
        ...

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return what the records describe. Pure: equal records, equal projection.

        A record that cannot be parsed is counted; it never raises.
        """
        ...


@runtime_checkable
class HasDefaultPaths(Protocol):
    """An importer whose tool has default folders."""

    def usual_places(self, places: ToolPaths) -> Sequence[Path]:
        """Return the folders that ``discover`` searches, whether they exist or not."""
        ...


@runtime_checkable
class OpensUnnamed(Protocol):
    """An importer of transcripts that may have lost the record that names their session."""

    def open_unnamed(self, path: Path, session: str) -> Iterable[TranscriptRef]:
        """Yield the transcript of a session in a file that does not name one.

        Nothing if the file cannot be that session's.
        """
        ...


def stamp_of(files: Iterable[Path]) -> tuple[str, int]:
    """Return a fingerprint that changes when a file grows or is replaced, and the total size."""
    size, told = 0, list[str]()
    for file in files:
        found = file.stat()
        size += found.st_size
        told.append(f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}")
    return ";".join(told), size


def source_bytes(transcripts: Iterable[TranscriptRef]) -> int:
    """Return the bytes of transcripts on the disk; a file that several share counts once."""
    files: dict[Path, int] = {}
    rows = 0
    for bundle in transcripts:
        sizes = {file: file.stat().st_size for file in bundle.files if file.is_file()}
        if sum(sizes.values()) == bundle.size:
            files |= sizes
        else:
            # It is part of a database file that also holds other data.
            rows += bundle.size
    return rows + sum(files.values())
