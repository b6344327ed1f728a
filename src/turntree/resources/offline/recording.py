"""Record in the ledger what was done while the database was stopped, and refresh replicas.

Recording is idempotent: ids come from the journal, and what the ledger has already is not written
again.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from turntree.core.errors import NotFound
from turntree.core.event import record
from turntree.core.ids import PlanId, TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.resources.offline.journal import JournalEntry, OperationJournal
from turntree.resources.offline.replica import Replica, Replicas, ReplicaTurn, without_messages
from turntree.resources.plans.plan import PlanCommit, fold
from turntree.resources.plans.steps import RecordMerge
from turntree.resources.plans.store import PlanStore
from turntree.resources.resource import ResolvedTurnSnapshot, Resource
from turntree.resources.service import Resources

TURNS_MAX: Final = 200
"""Of a longer history, the newest turns can be taken back without the database."""
MERGES_MAX: Final = 200


@value
class OfflineRecorder:
    """Brings the ledger and the files of this machine together."""

    journal: OperationJournal
    replicas: Replicas
    resources: Resources
    plans: PlanStore
    ledger: Ledger

    async def record_all(self, unread: Iterable[TurnId] = ()) -> list[PlanId]:
        """Record the operations of the journal, oldest first, and return them.

        An operation on a turn that the ledger does not have yet waits, with all later ones.
        ``unread`` are such turns.
        """
        done: list[PlanId] = []
        touched: dict[str, Resource] = {}
        with self.journal.alone() as is_alone:
            if not is_alone:
                return done
            names, missing = self.journal.read_names(), {*unread}
            for plan in self.journal.list_plans():
                if _turns_of(self.journal.read(plan)) & (missing - names.keys()):
                    break
                for resource in await self._record(plan, dict(names)):
                    touched[resource.place] = resource
                self.journal.remove(plan)
                done.append(plan)
        for resource in touched.values():
            await self.remember(resource)
        return done

    async def _record(self, plan: PlanId, names: dict[str, str]) -> list[Resource]:
        """Record one operation and return the resources that it touched."""
        by = str(self.resources.by)
        for number in range(len(self.journal.read(plan))):
            # Again for each line: what the one before it refers to may have got another id.
            entry = self.journal.read_renamed(plan, names)[number]
            for resource in entry.resources:
                names[resource.id] = (await self.resources.ledger.ensure(resource, by=by)).id
            for data in entry.objects.values():
                await self.ledger.put_object(data)
            # The resource of a snapshot may have just got another id.
            for snapshot in self.journal.read_renamed(plan, names)[number].snapshots:
                names[snapshot.id] = (await self.resources.ledger.keep(snapshot, by=by)).id
            await self._append(self.journal.read_renamed(plan, names)[number])
        state = fold(e for one in self.journal.read_renamed(plan, names) for e in one.events)
        return [await self.resources.get(id) for id in state.plan.resources]

    async def _append(self, entry: JournalEntry) -> None:
        facts = [record(event) for event in entry.events]
        if facts[0].event.seq == 0:
            await self.plans.begin(facts[0])
        elif len(facts) > 1:
            first = facts[0].event
            step = RecordMerge(())
            commitment = PlanCommit(PlanId(first.stream), str(self.resources.by), first.at, step)
            await self.plans.commit(facts, commitment)
        else:
            await self.plans.append(facts[0], notes=[note for _, note in entry.notes])

    async def remember(self, resource: Resource) -> None:
        """Write the replica of a folder."""
        if resource.host != self.resources.host:
            return
        resource = await self.resources.get(resource.id)
        pins = self.resources.all_pins
        newest = await pins.list_newest(resource.id, limit=TURNS_MAX)
        turns = [one.pin.turn for one in newest]
        calls = await pins.list_calls(resource.id, turns)
        late, written = await pins.list_late(turns), await pins.list_written(turns)
        before = self.replicas.read(resource.place)
        known = {} if before is None else {one.pinned.pin.turn: one for one in before.turns}
        found: list[ReplicaTurn] = []
        for one in newest:
            turn = one.pin.turn
            pin = replace(one.pin, calls=tuple(calls.get(turn, ())), late_ms=late.get(turn))
            told = known.get(turn)
            placed = await self._find_turn(turn) if told is None else told.placed
            found.append(
                ReplicaTurn(
                    replace(one, pin=pin, resource=resource),
                    placed,
                    tuple(sorted(written.get(turn, ()))),
                    await self._list_parents(one, newest),
                )
            )
        merges = [
            tuple(events)
            for events in await self.plans.list_merges(limit=MERGES_MAX)
            if resource.id in fold(events).plan.resources
        ]
        self.replicas.write(Replica(resource, tuple(found), tuple(merges)))

    async def _find_turn(self, turn: TurnId) -> ThreadTurn | None:
        # A turn that the user may not see still counts as a rival of those that they may.
        with suppress(NotFound):
            return without_messages(await self.resources.threads.get_turn(turn))
        return None

    async def _list_parents(
        self, child: ResolvedTurnSnapshot, newest: Sequence[ResolvedTurnSnapshot]
    ) -> tuple[TurnId, ...]:
        """Return the turns that spawned one; they ran when it began."""
        pin, pins = child.pin, self.resources.all_pins
        others = [one.pin for one in newest if one.pin.turn != pin.turn]
        met = [one.turn for one in others if one.began_at <= pin.began_at <= one.ended_at]
        return tuple([one for one in met if await pins.list_spawned([pin.turn], [one])])


def _turns_of(entries: Sequence[JournalEntry]) -> set[TurnId]:
    events = [event for entry in entries for event in entry.events]
    commit = fold(events).plan.steps[-1] if events else None
    return {*commit.turns} if isinstance(commit, RecordMerge) else set()
