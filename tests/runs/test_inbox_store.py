"""The inbox: order, keys, wake-ups, and runs that begin, go on, park and end."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio
import pytest

from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.core.errors import Canceled, Conflict, InvalidOperation, NotFound
from turntree.core.event import Event
from turntree.core.ids import RunId, SessionId, derived_id, unix_ms
from turntree.core.message import Message, assistant, user
from turntree.core.principal import Principal
from turntree.core.run import Run, RunEvent
from turntree.db.database import Database
from turntree.db.pool import CONNECTIONS_MAX
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox import Idle, QueuedMessage, ResumeRun, StartRun
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkerStore
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

NOBODY = RunId("01900000-0000-7000-8000-000000000000")


@dataclass(frozen=True)
class Desk:
    """An inbox, a session, and a hand that writes facts."""

    inbox: InboxStore
    engine: InlineEngine
    tree: Tree
    world: FakeClock
    session: SessionId

    async def post(self, text: str, *, key: str | None = None, **options: Json) -> QueuedMessage:
        """Send a text to the session."""
        said = user(text)
        now = self.world.now()
        return await self.inbox.post(
            self.session, said, by="human:ana", at=now, key=key, options=options
        )

    def fact(
        self, run: RunId, seq: int, kind: str, said: Message | None = None, **data: Json
    ) -> RunEvent:
        """Return a fact at a place."""
        return RunEvent.of(Event(run, seq, kind, self.world.now(), data), said)

    async def work(self, worker: str = "w1") -> StartRun | ResumeRun | Idle:
        """Ask what is to be done."""
        return await self.inbox.next_work(self.session, worker=worker)

    async def begin(self, worker: str = "w1") -> tuple[RunId, int]:
        """Begin the run of what waits."""
        found = await self.work(worker)
        assert isinstance(found, StartRun)
        first, *others = found.messages
        facts = [self.fact(first.run, 0, "run.started", first.message)]
        for place, other in enumerate(others, 1):
            facts.append(self.fact(first.run, place, "message.appended", other.message))
        seqs = [one.seq for one in found.messages]
        run = first.run
        return run, await self.inbox.begin(run, self.session, facts, seqs, worker=worker)

    async def wakes(self) -> Mapping[str, object]:
        """Return the actor's row."""
        async with self.inbox.database.connection() as connection:
            cursor = await connection.execute(
                "SELECT to_jsonb(a) FROM turntree.session_queues a WHERE session_id = %s",
                (self.session,),
            )
            row = await cursor.fetchone()
        assert row is not None
        found: Mapping[str, object] = row[0]
        return found


@pytest.fixture
async def desk(tree: Tree, database: Database, world: FakeClock) -> Desk:
    """A session with a turn and an empty inbox."""
    await tree.turns.record("main", [user("before")], [assistant("yes")])
    engine = InlineEngine(database.lend)
    session = await tree.sessions.get("main")
    return Desk(InboxStore(database, engine), engine, tree, world, session.id)


async def test_post_returns_turn_address_before_run_starts(desk: Desk) -> None:
    posted = await desk.post("hello")
    (waiting,) = await desk.inbox.list_waiting(desk.session)
    assert posted == QueuedMessage(waiting.run, 1)
    assert waiting.run == derived_id(unix_ms(waiting.at), desk.session, "1")
    assert waiting.message == user("hello")
    assert waiting.by == "human:ana"


async def test_addresses_follow_from_place_and_time(desk: Desk) -> None:
    for number in range(30):
        await desk.post(f"number {number}")
    for one in await desk.inbox.list_waiting(desk.session):
        assert one.run == derived_id(unix_ms(one.at), desk.session, str(one.seq))


async def test_messages_that_are_sent_together_are_answered_in_one_turn(desk: Desk) -> None:
    said = [user("one"), user("two"), user("three")]
    posted = await desk.inbox.post(
        desk.session, *said, by="human:ana", at=desk.world.now(), key="k"
    )
    waiting = await desk.inbox.list_waiting(desk.session)
    assert [(one.run, one.message) for one in waiting] == [(posted.run, one) for one in said]
    again = await desk.inbox.post(desk.session, *said, by="human:ana", at=desk.world.now(), key="k")
    assert again.repeated
    assert len(await desk.inbox.list_waiting(desk.session)) == 3


async def test_a_key_sends_once(desk: Desk) -> None:
    first = await desk.post("hello", key="k")
    again = await desk.post("hello", key="k")
    assert (again.run, again.seq, again.repeated) == (first.run, first.seq, True)
    assert (await desk.post("next")).seq == 2
    assert len(await desk.inbox.list_waiting(desk.session)) == 2


async def test_a_key_is_known_after_its_run_began(desk: Desk) -> None:
    first = await desk.post("hello", key="k")
    await desk.begin()
    assert (await desk.post("hello", key="k")) == QueuedMessage(first.run, 1, repeated=True)
    with pytest.raises(InvalidOperation, match="another message"):
        await desk.post("goodbye", key="k")


async def test_a_key_belongs_to_one_message_and_one_session(desk: Desk) -> None:
    await desk.post("hello", key="k")
    with pytest.raises(InvalidOperation, match="another message"):
        await desk.post("goodbye", key="k")
    other = await desk.tree.sessions.create("other")
    with pytest.raises(InvalidOperation, match="another message"):
        await desk.inbox.post(other.id, user("hello"), by="human:ana", at=desk.world.now(), key="k")


async def test_a_key_of_one_principal_is_none_of_anothers(desk: Desk) -> None:
    """Nobody takes a word from anybody, and nobody is answered with what another's led to."""
    first = await desk.post("hello", key="k")
    now = desk.world.now()
    other = await desk.inbox.post(desk.session, user("hi"), by="human:bob", at=now, key="k")
    assert not other.repeated
    assert other.run != first.run
    again = await desk.inbox.post(desk.session, user("hi"), by="human:bob", at=now, key="k")
    assert (again.run, again.repeated) == (other.run, True)
    mine = await desk.tree.turns.record("main", [user("q")], [assistant("a")], key="k")
    bob = replace(desk.tree.turns, by=Principal("human", "bob"))
    his = await bob.record("main", [user("p")], [assistant("b")], key="k")
    assert his.turn.id != mine.turn.id
    assert (await bob.record("main", [user("p")], [assistant("b")], key="k")).turn.id == his.turn.id


async def test_a_key_is_for_all_messages_that_are_sent_together(desk: Desk) -> None:
    said, now = [user("one"), user("two")], desk.world.now()
    first = await desk.inbox.post(desk.session, *said, by="human:ana", at=now, key="k")
    again = await desk.inbox.post(desk.session, *said, by="human:ana", at=now, key="k")
    assert (again.run, again.repeated) == (first.run, True)
    for other in ([user("one")], [user("one"), user("three")], [*said, user("three")]):
        with pytest.raises(InvalidOperation, match="another message"):
            await desk.inbox.post(desk.session, *other, by="human:ana", at=now, key="k")
    assert len(await desk.inbox.list_waiting(desk.session)) == 2


async def test_the_key_of_a_turn_is_not_the_key_of_a_message(desk: Desk) -> None:
    await desk.tree.turns.record("main", [user("q")], [assistant("a")], key="k")
    assert not (await desk.post("hello", key="k")).repeated


async def test_nothing_can_be_sent_to_no_session(desk: Desk) -> None:
    with pytest.raises(NotFound):
        await desk.inbox.post(SessionId(NOBODY), user("hi"), by="b", at=desk.world.now())
    assert await desk.engine.list_live([(SessionId(NOBODY), 1)]) == set()


async def test_one_wake_up_is_owed_however_many_messages_come(desk: Desk) -> None:
    for text in ("one", "two", "three"):
        await desk.post(text)
    assert (await desk.wakes())["wakeup_number"] == 1
    assert await desk.engine.list_live([(desk.session, 1)]) == {(desk.session, 1)}


async def test_concurrent_posters_get_places_without_gaps(desk: Desk) -> None:
    posted = await asyncio.gather(*(desk.post(f"number {n}") for n in range(40)))
    assert sorted(one.seq for one in posted) == list(range(1, 41))
    waiting = await desk.inbox.list_waiting(desk.session)
    assert [one.seq for one in waiting] == list(range(1, 41))
    assert {one.run for one in waiting} == {one.run for one in posted}
    assert (await desk.wakes())["wakeup_number"] == 1


async def test_concurrent_posters_of_one_key_send_one_message(desk: Desk) -> None:
    posted = await asyncio.gather(*(desk.post("hello", key="k") for _ in range(8)))
    assert len({one.run for one in posted}) == 1
    assert sum(not one.repeated for one in posted) == 1


async def test_messages_are_answered_in_order_after_the_head(desk: Desk) -> None:
    await desk.post("one")
    await desk.post("two")
    found = await desk.work()
    head = await desk.tree.sessions.get("main")
    assert isinstance(found, StartRun)
    assert [one.message for one in found.messages] == [user("one")]
    assert found.head == head.head
    assert found.head_digest is not None


async def test_messages_fold_into_one_turn_on_request(desk: Desk) -> None:
    one = await desk.post("one")
    two = await desk.post("two", fold=True)
    three = await desk.post("three")
    assert one.run == two.run != three.run
    found = await desk.work()
    assert isinstance(found, StartRun)
    assert [one.message for one in found.messages] == [user("one"), user("two")]


async def test_message_does_not_join_claimed_message(desk: Desk) -> None:
    one = await desk.post("one")
    await desk.work()
    late = await desk.post("late", fold=True)
    assert late.run != one.run
    run, _ = await desk.begin()
    assert run == one.run
    assert [one.run for one in await desk.inbox.list_waiting(desk.session)] == [late.run]


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("human:bob", {}),
        ("human:ana", {"permissions": {"deny": ["tool:*"]}}),
        ("human:ana", {"chain": [{"kind": "human", "id": "ana", "rights": {}}]}),
    ],
    ids=["another sender", "narrower limits", "a token"],
)
async def test_message_does_not_join_one_that_runs_with_other_rights(
    desk: Desk, by: str, options: dict[str, Json]
) -> None:
    one = await desk.post("one")
    two = await desk.inbox.post(
        desk.session, user("two"), by=by, at=desk.world.now(), options={**options, "fold": True}
    )
    assert two.run != one.run
    found = await desk.work()
    assert isinstance(found, StartRun)
    assert [one.message for one in found.messages] == [user("one")]


async def test_message_does_not_join_canceled_message(desk: Desk) -> None:
    one = await desk.post("one")
    await desk.inbox.cancel_one(one.run, by="human:ana", at=desk.world.now())
    two = await desk.post("two", fold=True)
    assert two.run != one.run
    assert [one.run for one in await desk.inbox.list_waiting(desk.session)] == [two.run]


async def test_a_run_begins_with_its_facts_and_takes_its_words_along(desk: Desk) -> None:
    await desk.post("one")
    await desk.post("two", fold=True)
    run, epoch = await desk.begin()
    assert epoch == 1
    assert await desk.inbox.list_waiting(desk.session) == []
    facts = await desk.tree.ledger.facts(run)
    assert Run.replay(run, facts).query == (user("one"), user("two"))


async def test_begin_with_a_message_that_does_not_wait_is_refused(desk: Desk) -> None:
    posted = await desk.post("one")
    facts = [desk.fact(posted.run, 0, "run.started", user("one"))]
    with pytest.raises(Conflict):
        await desk.inbox.begin(posted.run, desk.session, facts, [1, 2], worker="w1")
    assert len(await desk.inbox.list_waiting(desk.session)) == 1


async def test_a_message_is_taken_once(desk: Desk) -> None:
    await desk.post("one")
    found = await desk.work()
    run, _ = await desk.begin("w2")
    assert isinstance(found, StartRun)
    facts = [desk.fact(run, 0, "run.started", found.messages[0].message)]
    with pytest.raises(Conflict):
        await desk.inbox.begin(run, desk.session, facts, [1], worker="w1")


async def test_an_open_run_is_taken_over_and_its_last_owner_fenced_off(desk: Desk) -> None:
    await desk.post("one")
    run, epoch = await desk.begin()
    assert await desk.work("w2") == ResumeRun(run, epoch + 1, is_canceled=False)
    with pytest.raises(Conflict, match="taken over"):
        await desk.inbox.append_facts([desk.fact(run, 1, "model_call.started")], epoch=epoch)
    await desk.inbox.append_facts([desk.fact(run, 1, "model_call.started")], epoch=epoch + 1)


async def test_second_worker_leaves_session_to_live_worker(desk: Desk) -> None:
    workers = WorkerStore(desk.inbox.database, desk.engine)
    await workers.lease("w1")
    await desk.post("one")
    run, epoch = await desk.begin("w1")
    assert await desk.work("w2") == Idle()
    await desk.inbox.append_facts([desk.fact(run, 1, "model_call.started")], epoch=epoch)
    await workers.leave("w1")
    assert isinstance(await desk.work("w2"), ResumeRun)


async def test_facts_become_true_together_or_not_at_all(desk: Desk) -> None:
    await desk.post("one")
    run, epoch = await desk.begin()
    calls = [
        desk.fact(run, 1 + n, "tool_call.started", call_id=str(n), tool="read") for n in range(3)
    ]
    await desk.inbox.append_facts(calls, epoch=epoch)
    await desk.inbox.append_facts(calls, epoch=epoch)
    assert len(await desk.tree.ledger.facts(run)) == 4
    late = [
        desk.fact(run, 3, "tool_call.finished", call_id="0"),
        desk.fact(run, 4, "model_call.started"),
    ]
    with pytest.raises(Conflict, match="another fact"):
        await desk.inbox.append_facts(late, epoch=epoch)
    with pytest.raises(InvalidOperation, match="comes before"):
        await desk.inbox.append_facts([desk.fact(run, 9, "model_call.started")], epoch=epoch)
    assert len(await desk.tree.ledger.facts(run)) == 4


async def test_a_parked_run_lets_its_session_sleep_and_goes_on_when_it_is_unparked(
    desk: Desk,
) -> None:
    await desk.post("one")
    run, epoch = await desk.begin()
    await desk.inbox.append_facts([desk.fact(run, 1, "run.parked", reason="approval")], epoch=epoch)
    assert await desk.work() == Idle()
    assert (await desk.wakes())["awake"] is False
    await desk.post("two")
    assert await desk.work() == Idle(), "one run at a time"
    now = desk.world.now()
    assert await desk.inbox.unpark(run, by="human:ana", at=now, data={"verdict": "yes"})
    assert not await desk.inbox.unpark(run, by="human:ana", at=now, data={"verdict": "no"})
    assert (await desk.wakes())["wakeup_number"] == 3
    assert await desk.work() == ResumeRun(run, epoch + 1, is_canceled=False)
    last = (await desk.tree.ledger.facts(run))[-1].event
    assert (last.kind, last.data) == ("run.unparked", {"by": "human:ana", "verdict": "yes"})


async def test_a_canceled_run_begins_no_more_effects_but_may_say_what_happened(desk: Desk) -> None:
    workers = WorkerStore(desk.inbox.database, desk.engine)
    assert await desk.inbox.cancel(desk.session, by="human:ana", at=desk.world.now()) is None
    await desk.post("one")
    run, epoch = await desk.begin()
    canceled = await desk.inbox.cancel(
        desk.session, by="human:ana", at=desk.world.now(), discard=True
    )
    assert canceled == run
    for kind in ("model_call.started", "tool_call.started"):
        with pytest.raises(Canceled):
            await desk.inbox.append_facts([desk.fact(run, 1, kind, call_id="c")], epoch=epoch)
    said = desk.fact(run, 1, "run.interrupted", reason="canceled")
    await desk.inbox.append_facts([said], epoch=epoch)
    (open_run,) = await workers.list_open(desk.session)
    assert (open_run.is_canceled, open_run.is_discarded) == (True, True)
    assert open_run.canceled_by == "human:ana"


async def test_a_parked_run_that_is_canceled_is_woken_up(desk: Desk) -> None:
    await desk.post("one")
    run, epoch = await desk.begin()
    await desk.inbox.append_facts([desk.fact(run, 1, "run.parked", reason="approval")], epoch=epoch)
    await desk.work()
    await desk.inbox.cancel(desk.session, by="human:ana", at=desk.world.now())
    assert (await desk.wakes())["wakeup_number"] == 2
    assert await desk.work() == ResumeRun(run, epoch + 1, is_canceled=True)


async def test_unforeseen_ends_are_counted(desk: Desk) -> None:
    await desk.post("one")
    run, epoch = await desk.begin()
    assert [await desk.inbox.note_failure(run, epoch=epoch) for _ in range(2)] == [1, 2]
    assert await desk.inbox.note_failure(run, epoch=epoch + 1) == 0


async def test_calls_that_are_taken_over_are_counted(desk: Desk) -> None:
    await desk.post("one")
    run, epoch = await desk.begin()
    assert await desk.inbox.note_retaken(run, ["a", "b"], epoch=epoch) == {"a": 1, "b": 1}
    assert await desk.inbox.note_retaken(run, ["a"], epoch=epoch) == {"a": 2}
    assert await desk.inbox.note_retaken(run, ["b"], epoch=epoch + 1) == {"b": 0}


async def test_words_leave_the_inbox_when_their_run_begins(desk: Desk) -> None:
    await desk.post("a secret of ours")
    await desk.begin()
    async with desk.inbox.database.connection() as connection:
        cursor = await connection.execute(
            "SELECT to_jsonb(i)::text FROM turntree.queued_messages i"
        )
        (row,) = await cursor.fetchall()
    assert "secret" not in row[0]


async def test_canceled_statement_does_not_leak_connection(desk: Desk) -> None:
    database = desk.inbox.database
    for _ in range(2 * CONNECTIONS_MAX):
        with anyio.move_on_after(0.02):
            async with database.connection() as connection:
                await connection.execute("SELECT pg_sleep(10)")
    with anyio.fail_after(30):
        await asyncio.gather(*(desk.work() for _ in range(2 * CONNECTIONS_MAX)))
