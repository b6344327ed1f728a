"""Transcripts: what another tool wrote down, read as turns that are not sealed yet.

An importer reads *records*, which are kept as they came, and projects them: it says which turns,
sessions and subagents they tell of. Here are the words it says that in, and the sealing. A draft
names turns by keys of the source; sealing derives each id from the parent's digest, the content
and the recorded time, so that everybody who imports one transcript gets the same turns, and a
prefix that a tool copied into another file becomes one ancestry.

Nothing here knows a file, a tool or a database.
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
"""What the source calls a turn; it means something within one projection only."""

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
    """A turn as a transcript tells of it."""

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
    """The transcript ends in the middle of it, so that it may still go on."""
    records: tuple[int, ...] = ()
    """The places of the records it was made from, in the order they were read."""


@value
class DraftSpawn:
    """The call that began a subagent's session, in the words of the source."""

    parent_session: str
    parent_turn: Key
    call_id: str
    mode: SpawnMode = "fresh"
    task: str | None = None


@value
class DraftSession:
    """A session of the source and where it stands."""

    id: str
    """What the source calls it."""
    label: str
    """What it should be called here; somebody who has that name keeps it."""
    head: Key | None
    title: str | None = None
    spawn: DraftSpawn | None = None
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What else is known: the folder it worked in, the branch, the version of the tool."""


@value
class KnownTurn:
    """A turn that is known already, under a key of the source."""

    id: TurnId
    digest: Digest
    depth: int


@value
class Projection:
    """What a bundle of records tells of."""

    turns: Sequence[DraftTurn]
    """Parents first."""
    sessions: Sequence[DraftSession]
    unknown: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many records of each kind nobody here understands; they are kept all the same."""
    orphans: Sequence[int] = ()
    """The places of records that belong to no turn although their like do."""
    broken: int = 0
    """How many records could not be read at all, such as a last line that was cut off."""
    usage_told: int | None = None
    """Tokens that one gets who adds up what every record tells of calls that its turns count.

    None if nobody has looked, or if its records are read in other bundles too.
    """
    planted: Mapping[Key, KnownTurn] = field(default_factory=dict[Key, KnownTurn])
    """Turns that are none of its own, which its own may follow."""


@value
class SealedDraft:
    """A draft that has become a turn."""

    draft: DraftTurn
    sealed: SealedTurn
    parent: TurnId | None
    objects: tuple[bytes, ...]
    """What was too large to stand in its messages."""
    repaired: int
    """How many calls without a result were given one."""


def seal_drafts(projection: Projection, by: Principal) -> Iterator[SealedDraft]:
    """Seal every turn of a projection, parents first.

    Calls without a result are given one that says so. Nothing but the content, the recorded
    times and ``by`` enters an id or a digest.

    Raises:
        InvalidOperation: A turn comes before its parent, or says something impossible.
    """
    known = {
        key: _Known(turn.id, turn.digest, None, turn.depth)
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
        known[draft.key] = _Known(turn.id, turn.digest, draft.parent, 1 + _depth(parent))
        parent_id = None if parent is None else parent.id
        yield SealedDraft(draft, sealed, parent_id, tuple(objects), repaired)


@value
class _Known:
    id: TurnId
    digest: Digest
    parent: Key | None
    depth: int


def _depth(known: _Known | None) -> int:
    return 0 if known is None else known.depth


def _header(
    draft: DraftTurn, parent: _Known | None, by: Principal, known: Mapping[Key, _Known]
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


def _compaction(draft: DraftTurn, known: Mapping[Key, _Known]) -> Compaction | None:
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
    """Return a picture or a file by its digest, with its bytes, if its address holds them.

    Transcripts carry pictures inside; a body that did would be read whole for every look at it.
    """
    head, _, data = (part.url or "").partition(";base64,")
    if not head.startswith("data:") or len(data) <= PART_INLINE_MAX_BYTES:
        return part, None
    try:
        raw = b64decode(data, validate=True)
    except ValueError:
        return part, None
    return replace(part, url=None, object=digest_bytes(raw)), raw
