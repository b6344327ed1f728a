"""ChatGPT's export: a tree of nodes for each conversation.

A bundle is one conversation. Where it stands is known to ``export_files``, what a node says to
``nodes``, how a tree becomes turns to ``message_tree``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turntree.adapters.importers.chatgpt.nodes import ASSET, Assets, asset_ids, node_of
from turntree.adapters.importers.export_files import ExportReader
from turntree.adapters.importers.message_tree import NEVER, MessageTree, Node
from turntree.adapters.importers.reading import entries, mapping, moment, parse, tidy, word
from turntree.domain.canonical import Json
from turntree.domain.transcript import DraftSession, Projection, Record
from turntree.ports.importers import Bundle, Places

ORIGIN: Final = "chatgpt"
PROVIDER: Final = "openai"
_ID_SHOWN: Final = 8
_DETAILS: Final[Mapping[str, str]] = {
    "create_time": "created_s", "update_time": "updated_s", "default_model_slug": "model",
    "gizmo_id": "gizmo", "gizmo_type": "gizmo_type", "conversation_template_id": "template",
    "is_archived": "archived", "is_starred": "starred", "is_temporary": "temporary",
    "is_temporary_chat": "temporary", "plugin_ids": "plugins", "voice": "voice",
    "moderation_results": "moderation", "safe_urls": "safe_urls", "async_status": "async_status",
    "conversation_origin": "origin", "memory_scope": "memory_scope",
}  # fmt: skip


class ChatGpt:
    """Reads the export that ChatGPT makes of a person's conversations."""

    origin: Final = ORIGIN
    version: Final = 1

    def __init__(self) -> None:
        """Read exports; the file that was read last stays open until another is."""
        self._exports = ExportReader(ORIGIN, _identify, b'"mapping"')

    def discover(self, places: Places) -> Iterator[Bundle]:
        """Yield nothing: an export lies wherever somebody put it."""
        del places
        return iter(())

    def open(self, path: Path) -> Iterable[Bundle]:
        """Yield the conversations of a zip, a folder or a list of them."""
        return self._exports.open(path)

    def read(self, bundle: Bundle) -> Iterator[Record]:
        """Yield a conversation as it stands in the list, and the files of the export it names.

        Raises:
            OSError: The export is gone or has changed.
        """
        conversation = self._exports.read(bundle)
        yield conversation
        yield from self._exports.assets(bundle, asset_ids(conversation.data), ASSET)

    def project(self, bundle: Bundle, records: Sequence[Record]) -> Projection:
        """Return the turns of a conversation, those of all its branches."""
        del bundle
        found: tuple[int, Mapping[str, Any]] | None = None
        assets: dict[str, int] = {}
        broken = strange = 0
        for place, record in enumerate(records):
            if ASSET.match(record.file):
                assets[record.file] = place
            elif (document := parse(record.data)) is None:
                broken += 1
            elif _identify(document) is None:
                strange += 1
            else:
                found = place, document
        unknown = {"no conversation": strange} if strange else {}
        if found is None:
            return Projection([], [], unknown, broken=broken)
        tree, counted = _tree(found[1], found[0], assets)
        sessions = _sessions(found[1], tree)
        return Projection(tree.turns, sessions, unknown | counted, broken=broken)


def _identify(document: Mapping[str, Any]) -> str | None:
    if not isinstance(document.get("mapping"), dict):
        return None
    return word(document.get("conversation_id")) or word(document.get("id"))


def _tree(
    document: Mapping[str, Any], place: int, files: Mapping[str, int]
) -> tuple[MessageTree, dict[str, int]]:
    names = {found[0]: file for file in files if (found := ASSET.match(file)) is not None}
    assets = Assets(names, files)
    mapped = mapping(document.get("mapping"))
    nodes: dict[str, Node] = {}
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
    """Return the ids so that siblings stand in the order in which their parent lists them."""
    rank = {
        child: number
        for node in mapped.values()
        for number, child in enumerate(entries(mapping(node).get("children")))
        if isinstance(child, str)
    }
    return sorted(mapped, key=lambda node: rank.get(node, 0))


def _sessions(document: Mapping[str, Any], tree: MessageTree) -> list[DraftSession]:
    id = _identify(document) or ""
    if tree.head is None:
        return []
    shown = re.sub(r"[^A-Za-z0-9_-]", "", id)[:_ID_SHOWN] or "unnamed"
    details: dict[str, Json] = {
        ours: tidy(document[theirs])
        for theirs, ours in _DETAILS.items()
        if document.get(theirs) not in (None, "", [], {}, False)
    }
    title = word(document.get("title"))
    return [DraftSession(id, f"chatgpt/{shown}", tree.head, title, details=details)]
