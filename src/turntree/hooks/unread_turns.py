"""Turns that hooks reported and that no ledger has yet, read from the spool.

Such a turn has no address before its transcript is imported. Until then it is known by its last
hook event, under an id that the journal replaces later.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final

from turntree.core.canonical import digest_bytes
from turntree.core.ids import ResourceId, SnapshotId, TurnId, derived_id, unix_ms
from turntree.core.message import user
from turntree.core.message_context import files_of
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Header, Turn
from turntree.core.value import value
from turntree.hooks.events import HookEvent, TurnSpan, fold_sightings
from turntree.hooks.reconcile import list_call_states
from turntree.hooks.session_transcripts import list_transcripts
from turntree.hooks.spool import Spool
from turntree.resources.driver import TakenSnapshot
from turntree.resources.drivers.directory import DirectoryDriver
from turntree.resources.offline.replica import Replica, ReplicaTurn
from turntree.resources.resource import ResolvedTurnSnapshot, Resource, Snapshot, TurnSnapshot
from turntree.transcripts.drafts import DraftTurn
from turntree.transcripts.importer import Importer, ToolPaths

TITLE_CHARS_MAX: Final = 200
FindImporter = Callable[[str], Importer | None]


def unread_id(end: HookEvent) -> TurnId:
    """Return the id of a turn until the ledger has it, from the event that ended it."""
    return TurnId(derived_id(unix_ms(end.at), "unread", end.id))


def list_unread_ids(spool: Spool) -> list[TurnId]:
    """Return the ids of all turns in the spool."""
    return [unread_id(one.sighting) for one in spool.read()]


@value
class UnreadTurns:
    """Reads the turns of one folder from the spool."""

    spool: Spool
    importers: FindImporter
    places: ToolPaths
    host: str

    def add_to(self, replica: Replica | None, place: str) -> Replica | None:
        """Return a replica with the turns that only the spool has; None if there are none at all.

        Without a replica, the folder gets an id that the journal may replace.
        """
        found = self.spool.read()
        states = {one.sighting.id: one.taken for one in found if one.taken is not None}
        folded = fold_sightings(one.sighting for one in found)
        spans = [span for span in folded.spans if _is_here(span, place, states)]
        if not spans:
            return replica
        resource = _make_resource(place, self.host, spans) if replica is None else replica.resource
        base = replica or Replica(resource)
        turns = [self._read_turn(span, spans, resource, states) for span in reversed(spans)]
        return Replica(resource, (*turns, *base.turns), base.merges)

    def _read_turn(
        self,
        span: TurnSpan,
        spans: Sequence[TurnSpan],
        resource: Resource,
        states: Mapping[str, TakenSnapshot],
    ) -> ReplicaTurn:
        begin, end = span.begin, span.end
        assert begin is not None, "only such spans are asked for"
        before, after = (_snapshot(event, resource, states[event.id]) for event in (begin, end))
        turn = unread_id(end)
        pin = TurnSnapshot(
            turn, resource.id, after.id, before.id, "rw", begin.at, end.at,
            tuple(list_call_states(span, states)), begin.late_ms,
        )  # fmt: skip
        draft = self._find_draft(span)
        header = Header(turn, None, Principal("agent", end.stream.tool), begin.at, end.at)
        digest = digest_bytes(end.id.encode())
        query = () if draft is None else tuple(draft.query)
        # As the ledger will title it: some agents put their own instructions before the prompt.
        title = Turn(header, len(query), query, digest).title
        said = Turn(header, 1, (user(title[:TITLE_CHARS_MAX]),), digest)
        return ReplicaTurn(
            ResolvedTurnSnapshot(pin, resource, after, before),
            ThreadTurn(said, 1, None),
            () if draft is None else _list_written(draft),
            tuple(unread_id(one.end) for one in spans if _spawned(one, span)),
        )

    def _find_draft(self, span: TurnSpan) -> DraftTurn | None:
        """Return a turn as its tool has written it down so far."""
        stream, found = span.end.stream, None
        importer = self.importers(stream.tool)
        if importer is None or stream.agent is not None:
            return None
        # It is being written, and may be gone.
        with suppress(OSError):
            bundles = list_transcripts(importer, stream.session, span.end.transcript, self.places)
            for bundle in bundles:
                for draft in importer.project(bundle, list(importer.read(bundle))).turns:
                    is_begun = unix_ms(draft.started_at) <= unix_ms(span.end.at)
                    if draft.kind == "normal" and is_begun:
                        found = draft
        return found


def _is_here(span: TurnSpan, place: str, states: Mapping[str, TakenSnapshot]) -> bool:
    begin, end = span.begin, span.end
    if begin is None or not {begin.id, end.id} <= states.keys():
        return False
    return begin.place == end.place == place


def _spawned(parent: TurnSpan, child: TurnSpan) -> bool:
    """Whether a turn was taken by a subagent of another one."""
    mine, theirs = child.end.stream, parent.end.stream
    if mine.agent is None or theirs != mine._replace(agent=None) or parent.begin is None:
        return False
    began = unix_ms((child.begin or child.end).at)
    return unix_ms(parent.begin.at) <= began <= unix_ms(parent.end.at)


def _snapshot(event: HookEvent, resource: Resource, taken: TakenSnapshot) -> Snapshot:
    id = SnapshotId(derived_id(unix_ms(event.at), "unread", event.id))
    method = DirectoryDriver.method
    return Snapshot(
        id, resource.id, method, taken.external, taken.size, event.at,
        consistency=taken.consistency,
    )  # fmt: skip


def _make_resource(place: str, host: str, spans: Sequence[TurnSpan]) -> Resource:
    at = spans[0].end.at
    return Resource(
        ResourceId(derived_id(unix_ms(at), "unread", host, place)), DirectoryDriver.kind, host,
        place, PurePath(place).name or place, DirectoryDriver.capabilities, imperative=False,
        created_at=at,
    )  # fmt: skip


def _list_written(draft: DraftTurn) -> tuple[str, ...]:
    paths = {file.path for said in draft.reply for file in files_of(said) if file.kind == "written"}
    return tuple(sorted(paths))
