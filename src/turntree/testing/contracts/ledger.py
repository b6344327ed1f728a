"""The contract of ledgers, as tests that any implementation can run.

Inherit from the two classes in a test module and give them a fixture ``neighbours`` that returns a
fresh, empty ``OtherWriter``. The tests are coroutines: mark the module for AnyIO.

    class TestMyLedger(LedgerContract): ...
    class TestMySessions(SessionsContract): ...

This module knows interfaces and values. It must never know an implementation or a test runner.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from turntree.core.canonical import digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.errors import Conflict, InvalidOperation, NotFound, TurntreeError
from turntree.core.event import Event, SealedEvent, record
from turntree.core.ids import (
    Digest,
    Label,
    RunId,
    SessionId,
    Timestamp,
    TurnId,
    instant,
    uuid7,
)
from turntree.core.message import Message, assistant, line_of, user
from turntree.core.principal import Principal
from turntree.core.run import RunEvent
from turntree.core.turn import Header, SealedTurn, seal
from turntree.testing.fakes import START_MS
from turntree.testing.scenarios import OtherWriter

BY: Final = "human:ana"
NOBODY: Final = "01a0c3a8-2001-7000-8000-00000000dead"


def moment(number: int) -> Timestamp:
    """Return the timestamp of a numbered event."""
    return instant(START_MS + number * 1000)


def id_of(number: int) -> str:
    """Return the id of a numbered object."""
    return uuid7(START_MS + number * 1000, number)


def a_turn(number: int, parent: SealedTurn | None = None, said: str = "") -> SealedTurn:
    """Return a turn with the given parent, or a root."""
    header = Header(
        TurnId(id_of(number)),
        None if parent is None else parent.turn.digest,
        Principal("human", "ana"),
        moment(number),
        moment(number),
    )
    return seal(header, [user(said or f"question {number}")], [assistant(f"answer {number}")])


def a_fact(run: RunId, seq: int, kind: str, said: Message | None = None) -> RunEvent:
    """Return an event of a run; its message is bound to it by digest."""
    data = {} if said is None else {"message": digest_bytes(line_of(said))}
    return RunEvent.of(Event(run, seq, kind, moment(seq), data), said)


@contextmanager
def raises(error: type[TurntreeError]) -> Generator[None, None, None]:
    """Check that the block raises this error."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected, and nothing was raised")


async def begin(neighbours: OtherWriter, label: str, number: int = 900) -> SessionId:
    """Create an empty session."""
    session = SessionId(id_of(number))
    await neighbours.sessions.create(session, Label(label), by=BY, at=moment(0))
    return session


async def grow(
    neighbours: OtherWriter,
    session: SessionId | None,
    *numbers: int,
    after: SealedTurn | None = None,
) -> list[SealedTurn]:
    """Seal one turn after the other."""
    turns: list[SealedTurn] = []
    for number in numbers:
        sealed = a_turn(number, after)
        parent = None if after is None else after.turn.id
        await neighbours.ledger.seal(sealed, parent, session=session, by=BY, at=moment(number))
        turns.append(sealed)
        after = sealed
    return turns


class LedgerContract:
    """Turns, runs, events and objects: what is committed together, and what is refused."""

    async def test_a_sealed_turn_is_the_head_of_its_session(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        first, second = await grow(neighbours, session, 1, 2)
        found = await neighbours.sessions.get(session)
        assert (found.head, found.head_digest) == (second.turn.id, second.turn.digest)
        assert (found.version, found.depth) == (3, 2)
        placed = await neighbours.threads.get_turn(second.turn.id)
        assert placed.turn == second.turn
        assert (placed.depth, placed.parent) == (2, first.turn.id)

    async def test_a_turn_needs_no_session(self, neighbours: OtherWriter) -> None:
        (sealed,) = await grow(neighbours, None, 1)
        assert (await neighbours.threads.get_turn(sealed.turn.id)).turn == sealed.turn

    async def test_sealing_again_is_answered_again(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        first, second = await grow(neighbours, session, 1, 2)
        before = await neighbours.sessions.get(session)
        for sealed, parent in ((first, None), (second, first.turn.id)):
            stored = await neighbours.ledger.seal(
                sealed, parent, session=session, by=BY, at=moment(9)
            )
            assert stored.repeated
            assert stored.turn == sealed.turn.id
        assert await neighbours.sessions.get(session) == before

    async def test_the_same_key_leads_to_the_same_turn(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        one, other = a_turn(1), a_turn(2)
        first = await neighbours.ledger.seal(
            one, None, session=session, by=BY, at=moment(1), key="k"
        )
        again = await neighbours.ledger.seal(
            other, None, session=session, by=BY, at=moment(2), key="k"
        )
        assert (again.turn, again.version, again.repeated) == (first.turn, first.version, True)

    async def test_whoever_read_an_old_head_loses(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        (first,) = await grow(neighbours, session, 1)
        await grow(neighbours, session, 2, after=first)
        with raises(Conflict):
            await grow(neighbours, session, 3, after=first)
        with raises(NotFound):
            await neighbours.threads.get_turn(TurnId(id_of(3)))

    async def test_a_turn_proves_its_parent(self, neighbours: OtherWriter) -> None:
        (first,), (other,) = await grow(neighbours, None, 1), await grow(neighbours, None, 2)
        with raises(InvalidOperation):
            await neighbours.ledger.seal(a_turn(3, other), first.turn.id, by=BY, at=moment(3))

    async def test_an_id_is_sealed_once(self, neighbours: OtherWriter) -> None:
        await grow(neighbours, None, 1)
        with raises(InvalidOperation):
            await neighbours.ledger.seal(a_turn(1, said="else"), None, by=BY, at=moment(1))

    async def test_only_what_exists_can_be_a_parent_or_move(self, neighbours: OtherWriter) -> None:
        stray = a_turn(1)
        with raises(NotFound):
            await neighbours.ledger.seal(a_turn(2, stray), stray.turn.id, by=BY, at=moment(2))
        with raises(NotFound):
            await neighbours.ledger.seal(
                stray, None, session=SessionId(NOBODY), by=BY, at=moment(2)
            )

    async def test_a_turn_can_be_built_while_its_session_is_held(
        self, neighbours: OtherWriter
    ) -> None:
        session = await begin(neighbours, "main")
        (first,) = await grow(neighbours, session, 1)

        def build(
            head: TurnId | None, digest: Digest | None
        ) -> tuple[SealedTurn, list[SealedEvent]]:
            assert (head, digest) == (first.turn.id, first.turn.digest)
            return a_turn(2, first), []

        stored, sealed = await neighbours.ledger.seal_at_head(build, session, by=BY, at=moment(2))
        assert (stored.turn, stored.depth) == (sealed.turn.id, 2)
        with raises(NotFound):
            await neighbours.ledger.seal_at_head(build, SessionId(NOBODY), by=BY, at=moment(2))

    async def test_a_run_begins_once(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        run, first = RunId(id_of(1)), a_fact(RunId(id_of(1)), 0, "run.started", user("hello"))
        epoch = await neighbours.ledger.start(run, session, first)
        assert await neighbours.ledger.start(run, session, first) == epoch
        assert await neighbours.ledger.facts(run) == [first]

    async def test_a_session_has_one_open_run(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        for number in (1, 2):
            run = RunId(id_of(number))
            first = a_fact(run, 0, "run.started", user("hello"))
            if number == 1:
                await neighbours.ledger.start(run, session, first)
            else:
                with raises(Conflict):
                    await neighbours.ledger.start(run, session, first)

    async def test_a_fact_has_one_place_and_a_place_one_fact(self, neighbours: OtherWriter) -> None:
        run = RunId(id_of(1))
        epoch = await neighbours.ledger.start(run, None, a_fact(run, 0, "run.started", user("a")))
        said = a_fact(run, 1, "model_call.finished", assistant("b"))
        assert await neighbours.ledger.append_fact(said, epoch=epoch)
        assert not await neighbours.ledger.append_fact(said, epoch=epoch)
        with raises(Conflict):
            await neighbours.ledger.append_fact(a_fact(run, 1, "model_call.started"), epoch=epoch)
        with raises(InvalidOperation):
            await neighbours.ledger.append_fact(a_fact(run, 3, "model_call.started"), epoch=epoch)
        assert await neighbours.ledger.facts(run, after=1) == [said]

    async def test_whoever_lost_a_run_writes_no_more(self, neighbours: OtherWriter) -> None:
        run = RunId(id_of(1))
        slow = await neighbours.ledger.start(run, None, a_fact(run, 0, "run.started", user("a")))
        quick = await neighbours.ledger.take(run)
        assert quick > slow
        with raises(Conflict):
            await neighbours.ledger.append_fact(a_fact(run, 1, "model_call.started"), epoch=slow)
        with raises(Conflict):
            await neighbours.ledger.seal(a_turn(1), None, by=BY, at=moment(1), epoch=slow)
        assert await neighbours.ledger.append_fact(
            a_fact(run, 1, "model_call.started"), epoch=quick
        )

    async def test_sealing_ends_the_run_and_frees_its_session(
        self, neighbours: OtherWriter
    ) -> None:
        session = await begin(neighbours, "main")
        run, sealed = RunId(id_of(1)), a_turn(1)
        epoch = await neighbours.ledger.start(
            run, session, a_fact(run, 0, "run.started", user("question 1"))
        )
        finished = record(a_fact(run, 1, "run.finished").event)
        await neighbours.ledger.seal(
            sealed, None, session=session, by=BY, at=moment(1), epoch=epoch, journal=[finished]
        )
        facts = await neighbours.ledger.facts(run)
        assert [fact.event.kind for fact in facts] == ["run.started", "run.finished"]
        # The message is stored in the turn now, and nowhere else.
        assert [fact.message for fact in facts] == [None, None]
        with raises(NotFound):
            await neighbours.ledger.take(run)
        with raises(InvalidOperation):
            await neighbours.ledger.append_fact(a_fact(run, 2, "model_call.started"), epoch=epoch)
        again = RunId(id_of(2))
        await neighbours.ledger.start(again, session, a_fact(again, 0, "run.started", user("b")))

    async def test_only_what_was_started_can_be_taken(self, neighbours: OtherWriter) -> None:
        with raises(NotFound):
            await neighbours.ledger.take(RunId(NOBODY))
        with raises(NotFound):
            fact = a_fact(RunId(NOBODY), 0, "model_call.started")
            await neighbours.ledger.append_fact(fact, epoch=1)

    async def test_any_stream_keeps_facts(self, neighbours: OtherWriter) -> None:
        stream = id_of(7)
        facts = [Event(stream, n, "acme.deployed", moment(n), {"n": n}) for n in range(3)]
        assert [await neighbours.ledger.append(record(fact)) for fact in facts] == [True] * 3
        assert not await neighbours.ledger.append(record(facts[1]))
        with raises(Conflict):
            await neighbours.ledger.append(record(replace(facts[1], data={})))
        assert [fact.event for fact in await neighbours.ledger.facts(stream, after=1)] == facts[1:]

    async def test_an_object_is_kept_under_its_digest(self, neighbours: OtherWriter) -> None:
        data = bytes(range(256))
        digest = await neighbours.ledger.put_object(data)
        assert digest == digest_bytes(data) == await neighbours.ledger.put_object(data)
        assert await neighbours.ledger.get_object(digest) == data
        with raises(NotFound):
            await neighbours.ledger.get_object(digest_bytes(b"never kept"))

    async def test_several_objects_are_read_at_once(self, neighbours: OtherWriter) -> None:
        kept = {await neighbours.ledger.put_object(data): data for data in (b"one", b"two")}
        assert await neighbours.ledger.get_objects([*kept]) == kept
        asked = [*kept, digest_bytes(b"never kept")]
        assert await neighbours.ledger.find_objects(asked) == kept
        with raises(NotFound):
            await neighbours.ledger.get_objects(asked)


class SessionsContract:
    """Sessions with moving heads, their reflogs, and the tree they point into."""

    async def test_a_name_belongs_to_one_session(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        with raises(Conflict):
            await begin(neighbours, "main", 901)
        other = await begin(neighbours, "other", 902)
        with raises(Conflict):
            await neighbours.sessions.name(
                other, Label("main"), by=BY, at=moment(1), as_label=False
            )
        found = await neighbours.sessions.find("main")
        assert found is not None
        assert (found.id, found.head, found.version, found.depth) == (session, None, 1, 0)

    async def test_a_fork_copies_nothing(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        first, second = await grow(neighbours, session, 1, 2)
        side = SessionId(id_of(901))
        await neighbours.sessions.create(
            side, Label("side"), by=BY, at=moment(3), head=first.turn.id
        )
        (third,) = await grow(neighbours, side, 3, after=first)
        threads = neighbours.threads
        assert [p.turn.id for p in await threads.list_range(third.turn.id)] == [
            first.turn.id,
            third.turn.id,
        ]
        assert (await neighbours.sessions.get(session)).head == second.turn.id
        assert await threads.list_children(first.turn.id) == [second.turn.id, third.turn.id]
        assert await threads.list_children(first.turn.id, limit=1) == [second.turn.id]
        page = await threads.list_children(first.turn.id, after=second.turn.id, limit=1)
        assert page == [third.turn.id]
        assert await threads.list_leaves() == [second.turn.id, third.turn.id]
        assert await threads.find_common_ancestor(second.turn.id, third.turn.id) == first.turn.id
        assert not await threads.is_ancestor(second.turn.id, third.turn.id)
        assert await threads.is_ancestor(third.turn.id, third.turn.id)
        assert set(await threads.list_sessions_holding(first.turn.id)) == {session, side}
        assert await threads.list_sessions_holding(third.turn.id) == [side]

    async def test_trees_that_share_nothing_have_no_common_ancestor(
        self, neighbours: OtherWriter
    ) -> None:
        (left,), (right,) = await grow(neighbours, None, 1), await grow(neighbours, None, 2)
        shared = await neighbours.threads.find_common_ancestor(left.turn.id, right.turn.id)
        assert shared is None
        with raises(NotFound):
            await neighbours.threads.is_ancestor(left.turn.id, TurnId(NOBODY))

    async def test_a_thread_is_read_between_two_depths(self, neighbours: OtherWriter) -> None:
        turns = await grow(neighbours, None, 1, 2, 3, 4)
        head = turns[-1].turn.id
        page = await neighbours.threads.list_range(head, low=2, high=3)
        assert [(placed.turn.id, placed.depth) for placed in page] == [
            (turns[1].turn.id, 2),
            (turns[2].turn.id, 3),
        ]
        assert await neighbours.threads.find_at_depth(head, 1) == turns[0].turn.id
        assert await neighbours.threads.find_at_depth(head, 5) is None

    async def test_moves_are_typed_checked_and_logged(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        first, second = await grow(neighbours, session, 1, 2)
        move = neighbours.sessions.move
        with raises(InvalidOperation):
            await move(session, "rewind", second.turn.id, by=BY, at=moment(3))
        await move(session, "rewind", first.turn.id, by=BY, at=moment(3))
        with raises(Conflict):
            await move(
                session, "reset", second.turn.id, by=BY, at=moment(4),
                expected_head=second.turn.id, check_head=True,
            )  # fmt: skip
        await move(session, "reset", second.turn.id, by=BY, at=moment(5), key="k")
        again = await move(session, "reset", first.turn.id, by=BY, at=moment(6), key="k")
        assert (again.repeated, again.head) == (True, second.turn.id)
        with raises(NotFound):
            await move(session, "reset", TurnId(NOBODY), by=BY, at=moment(6))
        moves = await neighbours.reflog.list_moves(session)
        assert [(m.version, m.kind) for m in moves] == [
            (5, "reset"),
            (4, "rewind"),
            (3, "advance"),
            (2, "advance"),
            (1, "create"),
        ]
        at_three = await neighbours.reflog.find_move_at(session, moment(4))
        assert at_three is not None
        assert at_three.after_digest == first.turn.digest

    async def test_undoing_twice_goes_back_two_moves(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        first, _ = await grow(neighbours, session, 1, 2)
        heads = [
            (await neighbours.sessions.move(session, "undo", None, by=BY, at=moment(n))).head
            for n in (3, 4)
        ]
        assert heads == [first.turn.id, None]
        with raises(InvalidOperation):
            await neighbours.sessions.move(session, "undo", None, by=BY, at=moment(5))

    async def test_a_moment_before_the_first_move_has_none(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        assert await neighbours.reflog.find_move_at(session, moment(-1)) is None

    async def test_a_renamed_session_answers_to_both_names(self, neighbours: OtherWriter) -> None:
        session = await begin(neighbours, "main")
        name = neighbours.sessions.name
        await name(session, Label("login"), by=BY, at=moment(1), as_label=True)
        await name(session, Label("auth"), by=BY, at=moment(2), as_label=False)
        for word in ("main", "login", "auth"):
            found = await neighbours.sessions.find(word)
            assert found is not None
            assert (found.id, found.label, found.aliases) == (session, "login", ("auth", "main"))

    async def test_a_merged_session_gives_its_names_away(self, neighbours: OtherWriter) -> None:
        main, guest = await begin(neighbours, "main"), await begin(neighbours, "guest", 901)
        merge = neighbours.sessions.merge
        with raises(InvalidOperation):
            await merge(main, main, Label("kept"), by=BY, at=moment(1))
        await merge(main, guest, Label("kept"), by=BY, at=moment(1))
        found, kept = (
            await neighbours.sessions.find("guest"),
            await neighbours.sessions.find("kept"),
        )
        assert found is not None
        assert kept is not None
        assert (found.id, kept.id, kept.status) == (main, guest, "archived")

    async def test_sessions_are_listed_in_pages_by_label(self, neighbours: OtherWriter) -> None:
        ids = [await begin(neighbours, label, 900 + n) for n, label in enumerate("cab")]
        await neighbours.sessions.set_status(ids[0], "archived", by=BY, at=moment(1))
        page = await neighbours.sessions.list_page(limit=1)
        assert [session.label for session in page] == ["a"]
        rest = await neighbours.sessions.list_page(after="a")
        assert [session.label for session in rest] == ["b"]
        every = await neighbours.sessions.list_page(status=None)
        assert [session.label for session in every] == ["a", "b", "c"]

    async def test_the_newest_compaction_of_a_thread_is_found(
        self, neighbours: OtherWriter
    ) -> None:
        first, second, third = await grow(neighbours, None, 1, 2, 3)
        plain = a_turn(4, third).turn.header
        details = Compaction(first.turn.id, second.turn.id, 1)
        header = replace(plain, kind="compaction", compaction=details)
        sealed = seal(header, [], [assistant("in short")])
        await neighbours.ledger.seal(sealed, third.turn.id, by=BY, at=moment(4))
        (fifth,) = await grow(neighbours, None, 5, after=sealed)
        assert await neighbours.threads.find_compaction(fifth.turn.id) == (4, 2)
        assert await neighbours.threads.find_compaction(third.turn.id) is None

    async def test_a_compaction_keeps_what_follows_what_it_covers(
        self, neighbours: OtherWriter
    ) -> None:
        first, second, third = await grow(neighbours, None, 1, 2, 3)
        (stray,) = await grow(neighbours, None, 9)
        plain = a_turn(4, third).turn.header
        for through, kept in ((stray, None), (first, third), (second, first)):
            details = Compaction(through.turn.id, None if kept is None else kept.turn.id, 1)
            header = replace(plain, kind="compaction", compaction=details)
            with raises(InvalidOperation):
                await neighbours.ledger.seal(
                    seal(header, [], [assistant("in short")]), third.turn.id, by=BY, at=moment(4)
                )
