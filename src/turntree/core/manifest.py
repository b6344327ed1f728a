"""The manifest: what a model's context consisted of, besides the thread.

Each entry names an object: a base prompt, a persona, a rules file, a tool's specification, a set of
permissions. The order is the order of assembly. Details of one session (paths, times, ids) are
never part of it, so that two forks share it and, with it, the provider's cache.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from turntree.core.ids import Digest
from turntree.core.value import value

EntryKind = Literal[
    "prompt", "persona", "rules", "tool", "toolset", "permissions", "params", "program"
]
SESSION_PROMPT: Final = "session"
"""The name of the instructions that a thread has of its own; its forks inherit them."""
MESSAGE_PROMPT: Final = "message"
"""The name of the instructions of one message, which replace those of its thread this once."""


@value
class ManifestEntry:
    """One object of a manifest."""

    kind: EntryKind
    name: str
    object: Digest


@value
class Manifest:
    """The ordered objects a context was assembled from."""

    entries: tuple[ManifestEntry, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the document whose canonical bytes are the manifest's object."""
        return {
            "turntree": "manifest/1",
            "entries": [
                {"kind": entry.kind, "name": entry.name, "object": entry.object}
                for entry in self.entries
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Manifest":
        """Return the manifest that a document describes."""
        return cls(
            tuple(ManifestEntry(e["kind"], e["name"], e["object"]) for e in document["entries"])
        )
