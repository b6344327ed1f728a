"""Drafts: turns, sessions and subagents as another tool's transcript describes them, and sealing.

An importer reads *records*, which are stored unchanged, and projects them: it returns the turns,
sessions and subagents they describe, as the values defined here. A draft names turns by keys of the
source. Sealing derives each id from the parent's digest, the content and the recorded time, so that
every import of one transcript gives the same turns, and a prefix that a tool copied into another
file becomes one ancestry.

Pure: nothing here knows a file, a tool or a database.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import NewType

from turntree.core.canonical import Json, digest_bytes
from turntree.core.compaction import Compaction, CompactionKind, CompactionTrigger
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.message import PART_INLINE_MAX_BYTES, Media, Message, Part, lift, lift_parts
from turntree.core.principal import Principal
from turntree.core.session import SpawnMode
from turntree.core.turn import (
    AgentRole,
    Header,
    Outcome,
    SealedTurn,
    TurnKind,
    interrupt_calls,
    seal_derived,
)
from turntree.core.usage import ModelCall
from turntree.core.value import value

Key = NewType("Key", str)
"""The source's name of a turn; it is only valid within one projection."""

LOST = "the transcript holds no result of this call"


@value
class DraftCompaction:
    """What a compaction covered, by the keys of its source."""

    summarized_through: Key | None = None
    """None: everything up to the turn before, or up to the one before ``first_kept``."""
    first_kept: Key | None = None
    kind: CompactionKind = "summary"
    trigger: CompactionTrigger = "manual"
    tokens_before: int | None = None
    tokens_after: int | None = None
    summary_tokens: int | None = None
    duration_ms: int | None = None


@value
class DraftTurn:
    """A turn as a transcript describes it."""

    key: Key
    parent: Key | None
    query: tuple[Message, ...]
    reply: tuple[Message, ...]
    started_at: Timestamp
    sealed_at: Timestamp
    outcome: Outcome = "completed"
    kind: TurnKind = "normal"
    agent_role: AgentRole = "unified"
    model: str | None = None
    provider: str | None = None
    calls: tuple[ModelCall, ...] = ()
    compaction: DraftCompaction | None = None
    open: bool = False
    """The transcript ends in the middle of the turn, so it may still continue."""
    records: tuple[int, ...] = ()
    """The indexes of its records, in the order they were read."""


@value
class SpawnCall:
    """The call that started a subagent, until the subagent's own session is read."""

    turn: Key
    call: str
    task: str | None


@value
class DraftSpawn:
    """The tool call that started a subagent's session, as the source describes it."""

    parent_session: str
    parent_turn: Key
    call_id: str
    mode: SpawnMode = "fresh"
    task: str | None = None


@value
class DraftSession:
    """A session of the source and its head."""

    id: str
    """Its id in the source."""
    label: str
    """The label it should get; if that is taken, it gets another."""
    head: Key | None
    title: str | None = None
    spawn: DraftSpawn | None = None
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Other metadata: its working directory, the branch, the version of the tool."""


@value
class KnownTurn:
    """A turn that is stored already, under a key of the source."""

    id: TurnId
    digest: Digest
    depth: int


@value
class Projection:
    """The content of a transcript."""

    turns: Sequence[DraftTurn]
    """Parents first."""
    sessions: Sequence[DraftSession]
    unknown: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of records of each unknown kind; they are stored all the same."""
    orphans: Sequence[int] = ()
    """The indexes of records that belong to no turn, although others of their kind do."""
    broken: int = 0
    """Number of records that could not be parsed, such as a truncated last line."""
    usage_told: int | None = None
    """The sum of the tokens that all records report, for comparison with what the turns count.

    None if the importer does not count them, or if its records are also read in other transcripts.
    """
    planted: Mapping[Key, KnownTurn] = field(default_factory=dict[Key, KnownTurn])
    """Turns of other transcripts that its own turns may follow."""


@value
class SealedDraft:
    """A draft that was sealed as a turn."""

    draft: DraftTurn
    sealed: SealedTurn
    parent: TurnId | None
    objects: tuple[bytes, ...]
    """Content that was too large for its messages."""
    repaired: int
    """Number of calls without a result that were given one."""


def seal_drafts(projection: Projection, by: Principal) -> Iterator[SealedDraft]:
    """Seal every turn of a projection, parents first.

    Calls without a result get one that says so. Only the content, the recorded times and ``by``
    enter an id or a digest.

    Raises:
        InvalidOperation: A turn comes before its parent, or is not valid.
    """
    known = {
        key: _KnownTurn(turn.id, turn.digest, None, turn.depth)
        for key, turn in projection.planted.items()
    }
    for draft in projection.turns:
        parent = None if draft.parent is None else known.get(draft.parent)
        if draft.parent is not None and parent is None:
            raise InvalidOperation(
                f"the turn {draft.key!r} comes before its parent {draft.parent!r}"
            )
        if draft.key in known:
            raise InvalidOperation(f"the turn {draft.key!r} comes twice")
        objects: list[bytes] = []
        whole = interrupt_calls(draft.reply, LOST)
        repaired = sum(len(said.parts) for said in whole) - sum(
            len(said.parts) for said in draft.reply
        )
        sealed = seal_derived(
            _header(draft, parent, by, known),
            [lift_parts(said, objects, _lift) for said in draft.query],
            [lift_parts(said, objects, _lift) for said in whole],
        )
        turn = sealed.turn
        depth = 1 if parent is None else 1 + parent.depth
        known[draft.key] = _KnownTurn(turn.id, turn.digest, draft.parent, depth)
        parent_id = None if parent is None else parent.id
        yield SealedDraft(draft, sealed, parent_id, tuple(objects), repaired)


@value
class _KnownTurn:
    id: TurnId
    digest: Digest
    parent: Key | None
    depth: int


def _header(
    draft: DraftTurn, parent: _KnownTurn | None, by: Principal, known: Mapping[Key, _KnownTurn]
) -> Header:
    return Header(
        id=TurnId(""),
        parent=None if parent is None else parent.digest,
        by=by,
        started_at=draft.started_at,
        sealed_at=max(draft.sealed_at, draft.started_at),
        outcome=draft.outcome,
        kind=draft.kind,
        agent_role=draft.agent_role,
        model=draft.model,
        provider=draft.provider,
        compaction=_compaction(draft, known),
    )


def _compaction(draft: DraftTurn, known: Mapping[Key, _KnownTurn]) -> Compaction | None:
    details = draft.compaction
    if details is None:
        return None
    kept = None if details.first_kept is None else known.get(details.first_kept)
    before = draft.parent if kept is None else kept.parent
    through = known.get(before or details.summarized_through or Key(""))
    if through is None:
        raise InvalidOperation(f"the compaction {draft.key!r} summarises nothing that is known")
    return Compaction(
        summarized_through=through.id,
        first_kept=None if kept is None else kept.id,
        turns_summarized=through.depth,
        kind=details.kind,
        trigger=details.trigger,
        tokens_before=details.tokens_before,
        tokens_after=details.tokens_after,
        summary_tokens=details.summary_tokens,
        duration_ms=details.duration_ms,
    )


def _lift(part: Part) -> tuple[Part, bytes | None]:
    return _unpacked(part) if isinstance(part, Media) else lift(part)


def _unpacked(part: Media) -> tuple[Media, bytes | None]:
    """Return an image or a file by its digest, with its bytes, if it is a large data URL.

    Transcripts embed images; a body that did would have to be read whole every time.
    """
    head, _, data = (part.url or "").partition(";base64,")
    if not head.startswith("data:") or len(data) <= PART_INLINE_MAX_BYTES:
        return part, None
    try:
        raw = b64decode(data, validate=True)
    except ValueError:
        return part, None
    return replace(part, url=None, object=digest_bytes(raw)), raw
