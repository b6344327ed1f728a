"""Reconcile hook events with transcripts, and record turn snapshots.

For each session that the events name, its transcript is imported, the turn of every span is found,
and the snapshots before and after the turn are linked to it. Events that cannot be resolved yet
stay in the spool. The work is idempotent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turntree.core.errors import Conflict, InvalidOperation, NotFound
from turntree.core.ids import ResourceId, Timestamp, TurnId, unix_ms
from turntree.core.turn import Header
from turntree.hooks.events import (
    AgentStream,
    HookEvent,
    HookTimeline,
    TurnSpan,
    find_turn,
    fold_sightings,
    join_spans,
    pair_calls,
)
from turntree.hooks.session_transcripts import list_transcripts
from turntree.ledger.thread_store import ThreadStore
from turntree.resources.driver import TakenSnapshot
from turntree.resources.resource import CallStates, Resource
from turntree.resources.service import Resources
from turntree.transcripts.importer import Importer, ToolPaths, TranscriptRef
from turntree.transcripts.imports import ImportService, Progress
from turntree.transcripts.incoming import ImportCursor

PAGE_TURNS: Final = 64
KEPT_MAX_MS: Final = 7 * 24 * 3600 * 1000
"""An event older than this waits for a turn that its tool will never record."""


@dataclass(slots=True)
class ReconcileResult:
    """The result of reconciling hook events."""

    done: list[HookEvent] = field(default_factory=list[HookEvent])
    waiting: list[HookEvent] = field(default_factory=list[HookEvent])
    """Ends whose turn is not in the transcript yet."""
    open: int = 0
    """Turns that are still running."""
    pinned: int = 0
    known: int = 0
    complaints: list[str] = field(default_factory=list[str])
    turns: dict[HookEvent, TurnId] = field(default_factory=dict[HookEvent, TurnId])
    """The turns that were found, by the events that ended their spans."""
    resources: dict[ResourceId, Resource] = field(default_factory=dict[ResourceId, Resource])
    """Resources that got turn snapshots."""
    progress: Progress = field(default_factory=Progress)


@dataclass(slots=True)
class HookReconciler:
    """Reconciles hook events in one workspace."""

    importing: ImportService
    pinning: Resources
    threads: ThreadStore
    importers: Mapping[str, Importer]
    places: ToolPaths
    now: Callable[[], Timestamp]

    async def settle(
        self, sightings: Sequence[HookEvent], states: Mapping[str, TakenSnapshot]
    ) -> ReconcileResult:
        """Import the transcripts that the events name and record snapshots of finished turns.

        Raises:
            DatabaseUnavailable: The database does not answer; nothing is lost.
        """
        settled = ReconcileResult()
        folded = fold_sightings(sightings)
        await self._import(folded, settled)
        cursors = [
            one
            for tool in {sighting.stream.tool for sighting in sightings}
            for one in await self.importing.imports.list_cursors(tool)
        ]
        for sighting in folded.announced:
            await self._announce(sighting, settled)
        settled.done += folded.idle
        settled.open = len(folded.waiting)
        unsettled: list[TurnSpan] = []
        for stream, spans in _by_stream(folded.spans):
            unsettled += await self._pin_all(stream, spans, cursors, states, settled)
        self._judge(folded, unsettled, settled)
        return settled

    async def _import(self, folded: HookTimeline, settled: ReconcileResult) -> None:
        """Import every session in which a turn has ended, up to its last end."""
        found: dict[tuple[str, str], tuple[Importer, TranscriptRef]] = {}
        until: dict[tuple[str, str], Timestamp] = {}
        for sighting in _last_told(folded):
            importer = self.importers.get(sighting.stream.tool)
            if importer is None:
                settled.complaints.append(f"no importer reads what {sighting.stream.tool} writes")
                continue
            for bundle in list_transcripts(
                importer, sighting.stream.session, sighting.transcript, self.places
            ):
                key = bundle.origin, bundle.id
                found[key] = importer, bundle
                until[key] = max(sighting.at, until.get(key, sighting.at), key=unix_ms)
        # The agent may be writing its next turn already. Importing only up to the end that a hook
        # reported keeps half a turn out of the ledger.
        self.importing.hold_open, self.importing.hold_after = True, until
        settled.progress = await self.importing.run(list(found.values()))
        for name, reason in settled.progress.failed.items():
            settled.complaints.append(f"{name}: {reason}")

    async def _announce(self, sighting: HookEvent, settled: ReconcileResult) -> None:
        """Create a session, and attach its folder."""
        importer = self.importers.get(sighting.stream.tool)
        try:
            session = await self._find_session(sighting.stream)
            if session is None and importer is not None and sighting.transcript is not None:
                bundle = unwritten(importer, Path(sighting.transcript))
                # Not every tool's path names its session, and one of another name stays empty.
                named = {draft.id for draft in importer.project(bundle, []).sessions}
                if sighting.stream.session in named:
                    await self.importing.announce(importer, bundle)
                    session = await self._find_session(sighting.stream)
            if session is not None and sighting.place is not None:
                await self.pinning.ensure_directory(sighting.place, session)
        except (NotFound, InvalidOperation, Conflict) as error:
            # One hook event that cannot be placed must not hold back the others.
            settled.complaints.append(f"{sighting.stream.session} was not made known: {error}")
        # Done in any case: a second try would meet the same error.
        settled.done.append(sighting)

    async def _find_session(self, stream: AgentStream) -> str | None:
        """Return the label of the session imported from a session of the source."""
        found = await self.importing.imports.find_session(stream.tool, stream.session)
        # Another principal's session does not follow this user's hooks.
        if found is None or not found.is_own:
            return None
        return (await self.importing.sessions.get(found.id)).label

    async def _pin_all(
        self,
        stream: AgentStream,
        spans: Sequence[TurnSpan],
        cursors: Sequence[ImportCursor],
        states: Mapping[str, TakenSnapshot],
        settled: ReconcileResult,
    ) -> list[TurnSpan]:
        """Record the turn snapshots of one agent and return the spans without a turn yet."""
        name, head = _where_stands(stream, cursors)
        turns = {} if head is None else await self._read_back(head, spans)
        found = [(find_turn(span, turns.values()), span) for span in spans]
        settled.turns |= {span.end: turn for turn, span in found if turn is not None}
        joined = join_spans((turn, span) for turn, span in found if turn is not None)
        for turn, span in joined.items():
            try:
                await self._pin(stream._replace(session=name), turns[turn], span, states, settled)
            except (NotFound, InvalidOperation, Conflict) as error:
                # The other turns of the session can still get their snapshots.
                settled.complaints.append(f"the turn {turn} was not pinned: {error}")
            settled.done += span.sightings
        return self._missing(found, settled)

    def _missing(
        self, found: Sequence[tuple[TurnId | None, TurnSpan]], settled: ReconcileResult
    ) -> list[TurnSpan]:
        """Return the spans that may still find their turn; the others are done."""
        last = max((place for place, (turn, _) in enumerate(found) if turn is not None), default=-1)
        waiting: list[TurnSpan] = []
        for place, (turn, span) in enumerate(found):
            if turn is not None:
                continue
            # A later turn is recorded: this one was not, and will not be.
            if place < last or self._is_old(span.end):
                settled.done += span.sightings
            else:
                waiting.append(span)
        return waiting

    def _is_old(self, sighting: HookEvent) -> bool:
        return unix_ms(self.now()) - unix_ms(sighting.at) > KEPT_MAX_MS

    async def _pin(
        self,
        stream: AgentStream,
        turn: Header,
        span: TurnSpan,
        states: Mapping[str, TakenSnapshot],
        settled: ReconcileResult,
    ) -> None:
        begin, end = span.begin, span.end
        after = states.get(end.id)
        # The hook could not take a snapshot, or the agent had no folder. The turn is recorded
        # without one.
        if end.place is None or after is None:
            return
        session = await self._find_session(stream)
        resource = await self.pinning.ensure_directory(end.place, session)
        is_same = begin is not None and begin.place == end.place
        # A snapshot of another folder would show every file as changed.
        before = states.get(begin.id) if begin is not None and is_same else None
        began = turn.started_at if begin is None else begin.at
        calls = list_call_states(span, states)
        pinned = await self.pinning.pin(
            turn.id, resource, before, after, began, end.at, calls=calls,
            late_ms=None if begin is None or before is None else begin.late_ms,
        )  # fmt: skip
        settled.resources[resource.id] = resource
        settled.pinned += pinned
        settled.known += not pinned

    async def _read_back(self, head: TurnId, spans: Sequence[TurnSpan]) -> dict[TurnId, Header]:
        """Return the turns of a thread, newest first, as far back as the spans go."""
        first = min(unix_ms((span.begin or span.end).at) for span in spans)
        turns: dict[TurnId, Header] = {}
        high = (await self.threads.get_turn(head)).depth
        while high > 0:
            low = max(1, high - PAGE_TURNS + 1)
            page = await self.threads.list_range(head, low=low, high=high)
            turns |= {one.turn.id: one.turn.header for one in page}
            # Sealed before the first event, so that no older turn can belong to a span.
            if not page or unix_ms(page[0].turn.header.sealed_at) < first:
                break
            high = low - 1
        return turns

    def _judge(
        self, folded: HookTimeline, unsettled: Sequence[TurnSpan], settled: ReconcileResult
    ) -> None:
        """Keep events that are still needed: a turn's beginning may have ended the previous one."""
        needed = {sighting for span in unsettled for sighting in span.sightings}
        needed |= {sighting for sighting in folded.waiting if not self._is_old(sighting)}
        settled.waiting = [span.end for span in unsettled]
        old = [sighting for sighting in folded.waiting if self._is_old(sighting)]
        settled.done = [
            sighting for sighting in dict.fromkeys((*settled.done, *old)) if sighting not in needed
        ]


def _last_told(folded: HookTimeline) -> list[HookEvent]:
    """Return, for each session, the last event at which all its turns have ended.

    The end of a subagent says nothing about the parent's turn, which may continue: importing up to
    it would record a part of that turn as all of it.
    """
    last: dict[AgentStream, HookEvent] = {}
    for sighting in (*folded.announced, *(span.end for span in folded.spans)):
        known = last.get(sighting.stream)
        if sighting.stream.agent is None and (
            known is None or unix_ms(known.at) <= unix_ms(sighting.at)
        ):
            last[sighting.stream] = sighting
    return list(last.values())


def list_call_states(span: TurnSpan, states: Mapping[str, TakenSnapshot]) -> list[CallStates]:
    """Return the states around a turn's tool calls; none if one of them is not known for sure.

    With a part of the calls, changes of the others would look like those of another writer.
    """
    pairs = pair_calls(span)
    for call, end in pairs:
        is_here = call.place == end.place == span.end.place
        if not is_here or call.is_late or end.is_late or not {call.id, end.id} <= states.keys():
            return []
    return [
        CallStates(call.at, end.at, states[call.id].external, states[end.id].external)
        for call, end in pairs
    ]


def unwritten(importer: Importer, transcript: Path) -> TranscriptRef:
    """Return the reference to a transcript that its tool has not written yet."""
    return TranscriptRef(importer.origin, f"{transcript.parent.name}/{transcript.stem}", (), "", 0)


def _by_stream(spans: Iterable[TurnSpan]) -> Iterator[tuple[AgentStream, list[TurnSpan]]]:
    streams: dict[AgentStream, list[TurnSpan]] = {}
    for span in spans:
        streams.setdefault(span.end.stream, []).append(span)
    yield from streams.items()


def _where_stands(
    stream: AgentStream, cursors: Iterable[ImportCursor]
) -> tuple[str, TurnId | None]:
    """Return the source's id of a session or of its subagent, and its head."""
    for cursor in cursors:
        if cursor.origin != stream.tool:
            continue
        for name, told in cursor.heads.items():
            mine = name == stream.session if stream.agent is None else name.endswith(stream.agent)
            if mine and told.get("head"):
                return name, TurnId(told["head"])
    return stream.session, None
