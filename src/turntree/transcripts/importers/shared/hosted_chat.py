"""What the importers of hosted chats share: a transcript is one conversation of an export.

``export_files`` finds a conversation, ``message_tree`` makes turns of a tree. Knows no tool's
message format.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from turntree.core.canonical import Json, tidy
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftSession, Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef
from turntree.transcripts.importers.shared.export_files import ExportReader
from turntree.transcripts.importers.shared.lenient_json import parse, word
from turntree.transcripts.importers.shared.message_tree import MessageTree

_ID_SHOWN: Final = 8
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


class ExportImporter(ABC):
    """Reads an export; each tool defines the format of its conversations."""

    origin: ClassVar[str]
    version: ClassVar[int] = 1
    hint: ClassVar[bytes]
    """A byte sequence in every conversation, even a truncated one."""
    title: ClassVar[str]
    """The member that holds a conversation's title."""
    details: ClassVar[Mapping[str, str]]
    """Other members to store: the member's name, and ours."""

    def __init__(self) -> None:
        """Read exports; the last file stays open until another one is read."""
        self.exports = ExportReader(self.origin, self.identify, self.hint)

    @staticmethod
    @abstractmethod
    def identify(document: Mapping[str, Any]) -> str | None:
        """Return a conversation's id, or None if this tool did not write it."""

    @abstractmethod
    def tree(
        self, document: Mapping[str, Any], place: int, beside: Mapping[str, int]
    ) -> tuple[MessageTree, dict[str, int]]:
        """Return a conversation's messages, and the number of each unknown kind.

        ``place`` is the index of the conversation's record, ``beside`` those of its files.
        """

    def is_beside(self, file: str) -> bool:
        """Return whether a record is a file that a conversation names."""
        del file
        return False

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield nothing: exports have no default folder."""
        del places
        return iter(())

    def open(self, path: Path) -> Iterable[TranscriptRef]:
        """Yield the conversations of a zip, a folder or a list of them."""
        return self.exports.open(path)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield a conversation as it is in the list.

        Raises:
            OSError: The export is gone or has changed.
        """
        yield self.exports.read(bundle)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return the turns of a conversation, on all its branches."""
        del bundle
        found: tuple[int, Mapping[str, Any]] | None = None
        beside: dict[str, int] = {}
        broken = strange = 0
        for place, record in enumerate(records):
            if self.is_beside(record.file):
                beside[record.file] = place
            elif (document := parse(record.data)) is None:
                broken += 1
            elif self.identify(document) is None:
                strange += 1
            else:
                found = place, document
        unknown = {"no conversation": strange} if strange else {}
        if found is None:
            return Projection([], [], unknown, broken=broken)
        tree, counted = self.tree(found[1], found[0], beside)
        sessions = self._sessions(found[1], tree)
        return Projection(tree.turns, sessions, unknown | counted, broken=broken)

    def _sessions(self, document: Mapping[str, Any], tree: MessageTree) -> list[DraftSession]:
        if tree.head is None:
            return []
        id = self.identify(document) or ""
        shown = _UNFIT.sub("", id)[:_ID_SHOWN] or "unnamed"
        details: dict[str, Json] = {
            ours: tidy(document[theirs])
            for theirs, ours in self.details.items()
            if document.get(theirs) not in (None, "", [], {}, False)
        }
        title = word(document.get(self.title))
        label = f"{self.origin}/{shown}"
        return [DraftSession(id, label, tree.head, title, details=details)]
