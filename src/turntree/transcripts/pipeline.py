"""Process one transcript: read it, remove secrets, pack, project and seal it as rows.

One function of files, so that any process can run it. Knows no database, and of earlier imports
only the cursor in its task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from turntree.core.canonical import digest_from_raw
from turntree.core.errors import InvalidOperation, NotCanonical
from turntree.core.event import Event, SealedEvent, record
from turntree.core.ids import Digest, Timestamp, TurnId, unix_ms
from turntree.core.principal import Principal
from turntree.core.redaction import redact_all
from turntree.core.usage import recorded
from turntree.core.value import value
from turntree.ledger.raw_codec import RawBlock, RawRecord
from turntree.ledger.turn_rows import TurnRows, TurnSource
from turntree.transcripts.drafts import DraftSession, Key, Projection, SealedDraft, seal_drafts
from turntree.transcripts.handoff_link import (
    HandoffLink,
    OwnRecords,
    bridge,
    find_copy,
    find_gap,
    find_graft,
    list_written,
    plant,
)
from turntree.transcripts.importer import Importer, TranscriptRef
from turntree.transcripts.incoming import ImportedTurn
from turntree.transcripts.packing import Packer

REDACTED_AT_ONCE_BYTES = 1024 * 1024


@value
class ReadTask:
    """What to read, and how far it was read before."""

    bundle: TranscriptRef
    redacting: bool
    hold_open: bool
    """Whether to leave out a last turn that is unfinished."""
    hold_after: Timestamp | None = None
    """Leave out turns that began later."""
    records: int = 0
    prefix: Digest | None = None
    """Digest of the records that are stored already; None if there are none."""
    grafts: Sequence[HandoffLink] = ()
    """Sessions that we wrote ourselves, of which this may be one."""
    gap: OwnRecords | None = None
    """Which of its records we wrote, even if their content was erased."""
    live: tuple[bytes, ...] = field(default=(), repr=False)
    """Secret values to remove, wherever they occur."""


@dataclass(slots=True)
class BundleRead:
    """The content of a transcript, ready to be stored."""

    records: int
    raw_bytes: int
    prefix: Digest
    grown: bool
    """Whether it begins with the stored records; ``blocks`` then holds only later ones."""
    secrets: int
    held: bool = False
    """Whether turns were left out, because they are unfinished."""
    blocks: list[RawBlock] = field(default_factory=list[RawBlock])
    turns: list[TurnRows] = field(default_factory=list[TurnRows])
    heads: dict[Key, TurnId] = field(default_factory=dict[Key, TurnId])
    """The turn of each key."""
    sessions: Sequence[DraftSession] = ()
    graft: HandoffLink | None = None
    """The handoff, if the transcript begins with records we wrote."""
    unknown: Mapping[str, int] = field(default_factory=dict[str, int])
    orphans: int = 0
    broken: int = 0
    repaired: int = 0
    tokens: int | None = None
    """The source's own total of tokens, if it has one."""
    error: str | None = None

    def give_up(self, error: str) -> None:
        """Record why its turns could not be stored. The records are stored all the same."""
        self.turns, self.heads, self.sessions = [], {}, ()
        self.unknown, self.orphans, self.broken, self.repaired = {}, 0, 0, 0
        self.tokens, self.error = None, error


def read_bundle(importer: Importer, task: ReadTask, packing: Packer) -> BundleRead:
    """Return the content of a transcript."""
    records, secrets = _read(importer, task)
    return take_records(importer, task, packing, records, secrets=secrets)


def _read(importer: Importer, task: ReadTask) -> tuple[list[RawRecord], int]:
    """Return every record without its secrets, and the number of secrets removed."""
    records: list[RawRecord] = []
    secrets, begin, size = 0, 0, 0
    for found in importer.read(task.bundle):
        records.append(found)
        size += len(found.data)
        if size >= REDACTED_AT_ONCE_BYTES:
            secrets += _redact(records, begin, task.live) if task.redacting else 0
            begin, size = len(records), 0
    return records, secrets + (_redact(records, begin, task.live) if task.redacting else 0)


def _redact(records: list[RawRecord], begin: int, live: Sequence[bytes]) -> int:
    hidden = redact_all([found.data for found in records[begin:]], live)
    for place, (data, _) in hidden.items():
        records[begin + place] = replace(records[begin + place], data=data)
    return sum(times for _, times in hidden.values())


def take_records(
    importer: Importer,
    task: ReadTask,
    packing: Packer,
    records: Sequence[RawRecord],
    *,
    secrets: int = 0,
    replaces: Mapping[str, TurnId] | None = None,
) -> BundleRead:
    """Return the content of records; ``replaces`` names the turns made from them before."""
    bundle = task.bundle
    kept, prefix = _compare(task, records)
    read = BundleRead(
        len(records),
        sum(len(found.data) for found in records),
        prefix,
        kept > 0,
        secrets,
    )
    gap = None
    try:
        projection, read.graft, gap = _project(importer, task, records)
        if held := _list_held(task, projection):
            projection, read.held = _without(projection, held), True
        turns = list(seal_drafts(projection, Principal("agent", bundle.origin)))
    except (InvalidOperation, NotCanonical) as refused:
        # The records are stored: a later importer version can project them again.
        read.error = str(refused)
        read.blocks = packing.pack(bundle.origin, bundle.id, kept, records[kept:], gap=gap)
        return read
    read.turns = [
        packing.prepare(_incoming(bundle, importer.version, turn, replaces or {})) for turn in turns
    ]
    told = [(item, turn.draft.records) for item, turn in zip(read.turns, turns, strict=True)]
    read.blocks = packing.pack(bundle.origin, bundle.id, kept, records[kept:], told, gap)
    read.heads = {key: turn.id for key, turn in projection.planted.items()}
    read.heads |= {turn.draft.key: turn.sealed.turn.id for turn in turns}
    read.sessions, read.unknown = list(projection.sessions), dict(projection.unknown)
    read.orphans, read.broken = len(projection.orphans), projection.broken
    read.repaired, read.tokens = sum(turn.repaired for turn in turns), projection.usage_told
    return read


def may_begin_with(bundle: TranscriptRef, graft: HandoffLink) -> bool:
    """Return whether a transcript must be read to know whether we wrote its beginning."""
    # A copy may have any file name, and stored records have no files.
    return (
        graft.mark is not None
        or not bundle.files
        or any(file.name.startswith(graft.file) for file in bundle.files)
    )


def _project(
    importer: Importer, task: ReadTask, records: Sequence[RawRecord]
) -> tuple[Projection, HandoffLink | None, OwnRecords | None]:
    """Return the projection of records without the turns that we wrote.

    Also returns the handoff they continue, if it is this session's own, and which records we
    wrote.
    """
    projection = importer.project(task.bundle, records)
    graft = find_graft(projection, records, task.grafts)
    # A fork that copies our records is a file next to ours, with ids of its own.
    beside = [one for one in task.grafts if one.mark is None] if graft is None else [graft]
    for one in beside:
        places = frozenset(list_written(one, records))
        if not places:
            continue
        written = _project_ours(importer, task.bundle, one, [records[p] for p in sorted(places)])
        if graft is None:
            copied = find_copy(projection, written)
            places = places | copied if copied else copied
        planted = plant(projection, one, places, written)
        if planted is not projection:
            goes_on = graft if planted.planted else None
            return planted, goes_on, find_gap(projection, planted, one, places, len(records))
    if graft is None and task.gap is not None:
        # Our records were erased, so nothing in them shows any more that we wrote them.
        return bridge(projection, task.gap), None, task.gap
    return projection, None, None


def _project_ours(
    importer: Importer, bundle: TranscriptRef, graft: HandoffLink, ours: Sequence[RawRecord]
) -> Projection:
    """Return the projection of our own records, whatever session they are in."""
    written = importer.project(bundle, ours)
    # The start of a fork belongs to another session.
    return written if written.turns else importer.project(replace(bundle, id=graft.session), ours)


def _compare(task: ReadTask, records: Sequence[RawRecord]) -> tuple[int, Digest]:
    """Return how many records are stored already, and the digest of all."""
    hashed = sha256()
    kept = 0
    for place, found in enumerate(records):
        if place == task.records and digest_from_raw(hashed.digest()) == task.prefix:
            kept = place
        data = found.data
        # The offset and the length are part of a record's identity.
        hashed.update(b"%s\n%d\n%d\n%s" % (found.file.encode(), found.offset, len(data), data))
    prefix = digest_from_raw(hashed.digest())
    return len(records) if prefix == task.prefix else kept, prefix


def _list_held(task: ReadTask, projection: Projection) -> dict[Key, Key | None]:
    """Return the turns that are left out, each with its parent."""
    ends = None if task.hold_after is None else unix_ms(task.hold_after)
    held: dict[Key, Key | None] = {}
    for turn in projection.turns:
        is_open = task.hold_open and turn.open
        is_late = ends is not None and unix_ms(turn.started_at) > ends
        if is_open or is_late or turn.parent in held:
            held[turn.key] = turn.parent
    return held


def _without(projection: Projection, held: Mapping[Key, Key | None]) -> Projection:
    """Leave out unfinished turns; the heads of their sessions move to the turns before."""

    def stands(head: Key | None) -> Key | None:
        while head is not None and head in held:
            head = held[head]
        return head

    turns = [turn for turn in projection.turns if turn.key not in held]
    sessions = [replace(one, head=stands(one.head)) for one in projection.sessions]
    kept = {turn.key for turn in turns} | projection.planted.keys()
    return replace(
        projection,
        turns=turns,
        sessions=[one for one in sessions if one.spawn is None or one.spawn.parent_turn in kept],
        usage_told=None,  # It includes calls that no turn counts yet.
    )


def _incoming(
    bundle: TranscriptRef, version: int, turn: SealedDraft, replaces: Mapping[str, TurnId]
) -> ImportedTurn:
    draft, sealed = turn.draft, turn.sealed
    places = draft.records or (0,)
    source = TurnSource(bundle.origin, bundle.id, draft.key, min(places), max(places), version)
    journal = recorded(sealed.turn, draft.calls)
    old = replaces.get(draft.key)
    if old is not None and old != sealed.turn.id:
        journal = [*journal, _substitution(turn, old, len(journal))]
    return ImportedTurn(sealed, turn.parent, draft.calls, journal, turn.objects, source)


def _substitution(turn: SealedDraft, old: TurnId, seq: int) -> SealedEvent:
    """Return the event that a turn replaces one of an older importer version."""
    data = {"original_turn": old, "replacement_turn": turn.sealed.turn.id, "reason": "reprojected"}
    at = turn.sealed.turn.header.sealed_at
    return record(Event(turn.sealed.turn.id, seq, "event.substituted", at, data))
