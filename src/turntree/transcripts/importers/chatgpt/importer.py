"""Import ChatGPT's export: a tree of nodes for each conversation.

A transcript is one conversation. ``nodes`` reads a node, ``hosted_chat`` does what all exports have
in common.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.importer import TranscriptRef
from turntree.transcripts.importers.chatgpt.nodes import ASSET, Assets, asset_ids, node_of
from turntree.transcripts.importers.shared.hosted_chat import ExportImporter
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, moment, word
from turntree.transcripts.importers.shared.message_tree import NEVER, MessageNode, MessageTree

PROVIDER: Final = "openai"
_DETAILS: Final[Mapping[str, str]] = {
    "create_time": "created_s", "update_time": "updated_s", "default_model_slug": "model",
    "gizmo_id": "gizmo", "gizmo_type": "gizmo_type", "conversation_template_id": "template",
    "is_archived": "archived", "is_starred": "starred", "is_temporary": "temporary",
    "is_temporary_chat": "temporary", "plugin_ids": "plugins", "voice": "voice",
    "moderation_results": "moderation", "safe_urls": "safe_urls", "async_status": "async_status",
    "conversation_origin": "origin", "memory_scope": "memory_scope",
}  # fmt: skip


class ChatGptImporter(ExportImporter):
    """Reads ChatGPT's data export."""

    origin = "chatgpt"
    hint = b'"mapping"'
    title = "title"
    details = _DETAILS

    @staticmethod
    def identify(document: Mapping[str, Any]) -> str | None:
        """Return a conversation's id, or None if the document has no tree of nodes."""
        if not isinstance(document.get("mapping"), dict):
            return None
        return word(document.get("conversation_id")) or word(document.get("id"))

    def is_beside(self, file: str) -> bool:
        """Return whether a record is an attached or generated file."""
        return ASSET.match(file) is not None

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield a conversation as it is in the list, and the files of the export it names.

        Raises:
            OSError: The export is gone or has changed.
        """
        conversation = self.exports.read(bundle)
        yield conversation
        yield from self.exports.assets(bundle, asset_ids(conversation.data), ASSET)

    def tree(
        self, document: Mapping[str, Any], place: int, beside: Mapping[str, int]
    ) -> tuple[MessageTree, dict[str, int]]:
        """Return the nodes of a conversation, and the number of each unknown kind."""
        names = {found[0]: file for file in beside if (found := ASSET.match(file)) is not None}
        assets = Assets(names, beside)
        mapped = mapping(document.get("mapping"))
        nodes: dict[str, MessageNode] = {}
        counted: dict[str, int] = {}
        for id in _in_order(mapped):
            told = mapping(mapped[id])
            above = told.get("parent")
            parent = above if isinstance(above, str) and above != id else None
            node, unknown = node_of(id, parent, mapping(told.get("message")), assets, place)
            nodes[id] = node
            if unknown is not None:
                counted[unknown] = counted.get(unknown, 0) + 1
        start = moment(document.get("create_time")) or NEVER
        current = word(document.get("current_node"))
        return MessageTree(nodes, start, current, PROVIDER), counted


def _in_order(mapped: Mapping[str, Any]) -> list[str]:
    """Return the ids so that siblings are in the order in which their parent lists them."""
    rank = {
        child: number
        for node in mapped.values()
        for number, child in enumerate(entries(mapping(node).get("children")))
        if isinstance(child, str)
    }
    return sorted(mapped, key=lambda node: rank.get(node, 0))
