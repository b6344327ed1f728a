"""Reassemble a composer from its rows: its document, its bubbles in order, and leftover rows.

Knows the keys of the rows and the three formats of a conversation: whole inside the composer's
document, as a list of headers with a row per bubble, or as a tab of a workspace's chat panel. Does
not know what a bubble says.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from turntree.core.value import value
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.importers.cursor.storage import ENTRY, TAB, WORKSPACE_FILE
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, parse, text, word


@value
class Row:
    """A record's index in its transcript, and its value; None is a deleted one."""

    place: int
    value: bytes | None


@value
class Composer:
    """The rows of one conversation."""

    id: str
    documents: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list[Any])
    """The composer's own first, then those of lists and headers."""
    bubbles: dict[str, Row] = field(default_factory=dict[str, Row])
    checkpoints: dict[str, Row] = field(default_factory=dict[str, Row])
    requests: dict[str, Row] = field(default_factory=dict[str, Row])

    def member(self, name: str) -> Any:
        """Return the first value that any of its documents has under a name."""
        return next((doc[name] for _, doc in self.documents if doc.get(name) is not None), None)


@value
class Bubble:
    """A bubble in its position."""

    id: str
    document: Mapping[str, Any]
    header: Mapping[str, Any]
    places: tuple[int, ...]
    """Of its own row and of those about it."""
    checkpoint: Mapping[str, Any] | None


@value
class ComposerRows:
    """The rows of a transcript, by composer."""

    composers: Mapping[str, Composer]
    folder: str | None
    """Of the workspace, as a URI."""
    unknown: Mapping[str, int]
    broken: int


def gather(records: Sequence[RawRecord]) -> ComposerRows:
    """Group the rows by composer; each is parsed at most once, here or later."""
    composers: dict[str, Composer] = {}
    folder: str | None = None
    unknown: Counter[str] = Counter()
    broken = 0
    for place, record in enumerate(records):
        if record.file.endswith(WORKSPACE_FILE):
            document = parse(record.data)
            broken += document is None
            told = document or {}
            folder = word(told.get("folder")) or word(told.get("workspace")) or folder
            continue
        key, _, data = record.data.partition(b"\n")
        row = Row(place, data if b"\n" in record.data else None)
        family, _, name = key.decode("utf-8", "replace").partition(":")
        owner, _, own = name.partition(":")
        if family in ("composerData", "composerHeaders", ENTRY, TAB):
            broken += not _add_document(composers.setdefault(name, Composer(name)), row, family)
        elif family == "codeBlockDiff":
            # The changes of an edit, character by character: stored, but not read.
            continue
        elif not own or family not in _SHELVES:
            unknown[(word(family) or "nameless")[:80]] += 1
        else:
            composer = composers.setdefault(owner, Composer(owner))
            getattr(composer, _SHELVES[family])[own] = row
    return ComposerRows(composers, folder, unknown, broken)


_SHELVES: Mapping[str, str] = {
    "bubbleId": "bubbles",
    "checkpointId": "checkpoints",
    "messageRequestContext": "requests",
}


def bubbles_of(composer: Composer) -> tuple[list[Bubble], list[int], int]:
    """Return the bubbles in order, the indexes of other bubbles, and how many are malformed."""
    found: list[Bubble] = []
    told: set[str] = set()
    broken = 0
    by_id = _inline_by_id(composer)
    tools = _old_tools(composer)
    for index, header in enumerate(_headers(composer)):
        id = _id(header, index)
        if id in told:
            continue
        told.add(id)
        row = composer.bubbles.get(id)
        kept = None if row is None or row.value is None else parse(row.value)
        broken += row is not None and row.value is not None and kept is None
        document = kept or by_id.get(id)
        if document is None:
            continue
        if id in tools and not document.get("toolFormerData"):
            document = {**document, "toolFormerData": tools[id]}
        found.append(_bubble(composer, id, document, header, row))
    orphans = [row.place for id, row in composer.bubbles.items() if id not in told]
    return found, orphans, broken


def _bubble(
    composer: Composer,
    id: str,
    document: Mapping[str, Any],
    header: Mapping[str, Any],
    row: Row | None,
) -> Bubble:
    # One that has no row of its own is in the composer's.
    places = [composer.documents[0][0] if row is None else row.place]
    kept = composer.checkpoints.get(text(document.get("checkpointId")))
    checkpoint = None if kept is None or kept.value is None else parse(kept.value)
    if kept is not None:
        places.append(kept.place)
    if (request := composer.requests.get(id)) is not None:
        places.append(request.place)
    return Bubble(id, document, header, tuple(places), checkpoint)


def _add_document(composer: Composer, row: Row, family: str) -> bool:
    """Store a row's document; False if it cannot be read."""
    if row.value is None:
        return True
    document = parse(row.value)
    if document is None:
        return False
    if family == "composerHeaders":
        # The columns besides the document hold the workspace and the kind.
        document = {**document, **(parse(text(document.get("value")).encode()) or {})}
    own = 0 if family == "composerData" else len(composer.documents)
    composer.documents.insert(own, (row.place, document))
    return True


def _headers(composer: Composer) -> list[Mapping[str, Any]]:
    for name in ("fullConversationHeadersOnly", "conversation", "bubbles"):
        if listed := entries(composer.member(name)):
            return [mapping(entry) for entry in listed]
    return []


def _id(bubble: Mapping[str, Any], index: int) -> str:
    return word(bubble.get("bubbleId")) or word(bubble.get("id")) or f"bubble-{index}"


def _inline_by_id(composer: Composer) -> dict[str, Mapping[str, Any]]:
    """Return the bubbles in the composer's own document."""
    found: dict[str, Mapping[str, Any]] = {
        id: mapping(bubble) for id, bubble in mapping(composer.member("conversationMap")).items()
    }
    for name in ("bubbles", "conversation"):
        for index, entry in enumerate(map(mapping, entries(composer.member(name)))):
            found[_id(entry, index)] = entry
    return {id: bubble for id, bubble in found.items() if bubble}


def _old_tools(composer: Composer) -> dict[str, Mapping[str, Any]]:
    """Return the calls that the first format stored apart from their bubbles."""
    found: dict[str, Mapping[str, Any]] = {}
    for capability in map(mapping, entries(composer.member("capabilities"))):
        kept = mapping(capability.get("data")).get("bubbleDataMap")
        calls = parse(kept.encode("utf-8", "replace")) if isinstance(kept, str) else kept
        if capability.get("type") == _TOOLS:
            found |= {id: mapping(call) for id, call in mapping(calls).items()}
    return found


_TOOLS = 15
"""The capability that holds tool calls."""
