"""``tree.runs``: sending in, waiting, following and ending."""

from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest

from tests.workshop import Workshop, ask_always
from turntree.core.errors import Canceled, Conflict, InvalidOperation, NotFound
from turntree.core.ids import Label, RunId, SessionId, TurnId
from turntree.core.message import ObjectRef, assistant, user
from turntree.core.run import Caller, RunEvent
from turntree.core.session import Spawn
from turntree.ledger.feed import Feed
from turntree.runs.follow import Heard, RunFollower, TurnSealed
from turntree.runs.live.hub import LiveHub
from turntree.runs.live.stream import LiveChunk, PartialMessage, StreamPosition, position_after
from turntree.runs.run_feed import LOOK_S, RunFeed
from turntree.runs.service import Runs

pytestmark = pytest.mark.anyio

SOON_S = 30.0


async def test_posted_run_is_waiting_then_finished(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "hello")
    assert await runs.status(posted.run) == "waiting"
    await shop.actor().handle(shop.session)
    assert await runs.status(posted.run) == "finished"
    assert RunId((await runs.wait(posted.run)).turn.id) == posted.run


async def test_status_follows_the_run(shop: Workshop) -> None:
    seen: list[str] = []

    async def look(piece: str) -> None:
        del piece
        seen.append(await runs.status(posted.run))

    shop.policy, shop.provider.before_piece = ask_always(), look
    runs = shop.runs()
    posted = await runs.post("main", "tool")
    await shop.actor().handle(shop.session)
    assert set(seen) == {"open"}
    assert await runs.status(posted.run) == "parked"
    await runs.cancel("main")
    await shop.actor().handle(shop.session)
    assert await runs.status(posted.run) == "finished"


async def test_a_report_says_what_became_of_a_run(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "hello")
    assert (await runs.get(posted.run)).status == "waiting"
    await shop.actor().handle(shop.session)
    report = await runs.get(posted.run)
    assert (report.status, report.reason) == ("finished", "")
    assert report.turn is not None
    assert report.turn.turn.header.outcome == "completed"


async def test_a_run_that_does_not_exist_is_not_waited_for(shop: Workshop) -> None:
    runs, unknown = shop.runs(), RunId(shop.world.new_id())
    with anyio.fail_after(SOON_S):
        for ask in (runs.get, runs.status, runs.wait):
            with pytest.raises(NotFound, match="there is no run"):
                await ask(unknown)
        for after in (None, StreamPosition(3)):
            with pytest.raises(NotFound, match="there is no run"):
                await read_all(runs, unknown, after)
        # A session has events too, and is no run.
        with pytest.raises(NotFound, match="there is no run"):
            await runs.get(RunId(shop.session))


async def test_a_message_that_expects_a_head_becomes_the_next_turn_or_is_refused(
    shop: Workshop,
) -> None:
    runs = shop.runs()
    first = await runs.post("main", "hello")
    await shop.actor().handle(shop.session)
    head = TurnId(first.run)
    second = await runs.post("main", "two", expected_head=head, key="two")
    with pytest.raises(Conflict, match="another message comes after"):
        await runs.post("main", "three", expected_head=head)
    await shop.actor().handle(shop.session)
    with pytest.raises(Conflict, match="the head of main is another turn"):
        await runs.post("main", "three", expected_head=head)
    # Sent again after an answer that did not arrive.
    assert (await runs.post("main", "two", expected_head=head, key="two")).run == second.run
    assert await runs.list_waiting("main") == []
    parent = (await runs.wait(first.run)).turn
    assert (await runs.wait(second.run)).turn.header.parent == parent.digest


async def test_open_runs_come_in_pages(shop: Workshop) -> None:
    shop.policy = ask_always()
    runs = shop.runs()
    for label in ("one", "two", "three"):
        await runs.post(label, "tool")
        await shop.actor().handle((await runs.sessions.get(label)).id)
    whole = await runs.list_open()
    assert len(whole) == 3
    pages, last = list[RunId](), None
    while page := await runs.list_open(after=last, limit=2):
        pages += [one.run for one in page]
        last = page[-1]
    assert pages == [one.run for one in whole]


async def test_a_message_is_sent_once_under_a_key(shop: Workshop) -> None:
    runs = shop.runs()
    first = await runs.post("main", "hello", key="k1")
    again = await runs.post("main", "hello", key="k1")
    assert (again.run, again.repeated) == (first.run, True)
    with pytest.raises(InvalidOperation, match="k1"):
        await runs.post("main", "something else", key="k1")
    assert len(await runs.list_waiting("main")) == 1


async def test_post_options_are_recorded_in_run_started(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post(
        "main", "hello", model="fast", params={"temperature": 0.5}, situation="draft", max_steps=3
    )
    await shop.actor().handle(shop.session)
    first = (await runs.ledger.facts(posted.run))[0].event.data
    assert first["options"] == {
        "model": "fast", "params": {"temperature": 0.5}, "situation": "draft", "max_steps": 3,
    }  # fmt: skip
    assert (first["reason"], first["by"], first["max_steps"]) == ("user", "human:ana", 3)


async def test_agent_acts_on_behalf_of_sender(shop: Workshop) -> None:
    runs = shop.runs()
    await shop.tree.programs.create("agent", "atlas", {})
    posted = await runs.post("main", "hello", agent="atlas")
    await shop.actor().handle(shop.session)
    by = (await runs.wait(posted.run)).turn.header.by
    assert (str(by), str(by.on_behalf_of)) == ("agent:atlas", "human:ana")


async def test_only_what_can_be_sent_in_is_taken(shop: Workshop) -> None:
    with pytest.raises(InvalidOperation, match="must have the role user"):
        await shop.runs().post("main", assistant("I was the model"))
    with pytest.raises(TypeError, match=r"unknown option .color."):
        await shop.runs().post("main", "hello", color="red")  # type: ignore[call-arg]


async def test_what_is_too_large_is_lifted_on_its_way_in(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", user("w" * 20_000))
    (waiting,) = await runs.list_waiting("main")
    assert isinstance(waiting.message.parts[0], ObjectRef)
    assert posted.run == waiting.run


async def test_waiting_ends(shop: Workshop) -> None:
    posted = await shop.runs().post("main", "hello")
    with pytest.raises(TimeoutError):
        await shop.runs().wait(posted.run, timeout_s=0.05)


async def read_all(
    runs: Runs, run: RunId, after: StreamPosition | None = None
) -> list[LiveChunk | RunEvent]:
    with anyio.fail_after(SOON_S):
        return [news async for news in runs.follow(run, after=after)]


async def test_a_run_is_followed_from_its_first_word_to_its_end(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "tool broken")
    heard: list[LiveChunk | RunEvent] = []

    async def slowly(piece: str) -> None:
        del piece
        await anyio.sleep(0.01)

    async def listen() -> None:
        async for news in runs.follow(posted.run):
            heard.append(news)  # noqa: PERF401

    shop.provider.before_piece = slowly
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await shop.actor().handle(shop.session)
    facts = [news.event.kind for news in heard if isinstance(news, RunEvent)]
    assert facts == await shop.kinds(posted.run)
    # What was heard of an event before it was recorded is the beginning of what then stood there.
    partial, texts = PartialMessage(), list[str]()
    for news in heard:
        if isinstance(news, LiveChunk):
            partial = partial.read(news)
        elif news.event.kind == "model_call.finished":
            assert news.message is not None
            texts.append(news.message.text)
            assert news.message.text.startswith(partial.text)
            partial = partial.recorded(news.event.seq)
    assert texts == ["let me see", "broken!"]


async def test_follower_that_read_words_of_an_earlier_epoch_is_told_to_drop_them(
    shop: Workshop,
) -> None:
    runs, begun = shop.runs(), anyio.Event()
    posted = await runs.post("main", "hello")
    heard: list[LiveChunk | RunEvent] = []

    async def listen() -> None:
        # It was cut off after the third word of another worker, which has died since.
        async for news in runs.follow(posted.run, after=StreamPosition(2, 0, 3)):
            heard.append(news)  # noqa: PERF401

    async def slowly(piece: str) -> None:
        del piece
        if not begun.is_set():
            begun.set()
            group.start_soon(listen)
        await anyio.sleep(0.05)

    shop.provider.before_piece = slowly
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as group:
            await shop.actor().handle(shop.session)
    chunks = [one for one in heard if isinstance(one, LiveChunk)]
    assert [one.kind for one in chunks[:2]] == ["restart", "text"]
    assert str(chunks[0].position) == "2.1.0"
    assert "restart" not in [one.kind for one in chunks[1:]]


async def test_late_follower_reads_events_from_ledger(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "tool")
    await shop.actor().handle(shop.session)
    heard = await read_all(runs, posted.run)
    assert [news.event.kind for news in heard if isinstance(news, RunEvent)] == await shop.kinds(
        posted.run
    )
    later = await read_all(runs, posted.run, StreamPosition.parse("5.0.0"))
    assert [news.event.seq for news in later if isinstance(news, RunEvent)] == [5, 6, 7, 8]


async def test_following_a_finished_run_returns_from_any_position(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "tool")
    await shop.actor().handle(shop.session)
    whole = await read_all(runs, posted.run)
    for number, news in enumerate(whole, start=1):
        assert await read_all(runs, posted.run, position_after(news)) == whole[number:]
    with pytest.raises(InvalidOperation, match=r"no position 99\.0\.0"):
        await read_all(runs, posted.run, StreamPosition(99))
    recorded = await shop.tree.turns.record("elsewhere", [user("q")], [assistant("a")])
    assert await read_all(runs, RunId(recorded.turn.id)) == []


async def test_a_watcher_resumes_at_any_position_it_got(shop: Workshop) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "tool")
    await shop.actor().handle(shop.session)
    watcher = RunFollower(runs)

    async def watch(after: StreamPosition | None = None) -> list[tuple[StreamPosition, Heard]]:
        with anyio.fail_after(SOON_S):
            return [one async for one in watcher.watch(posted.run, after=after)]

    whole = await watch()
    assert isinstance(whole[-1][1], TurnSealed)
    assert len(whole) > 4
    for position, _ in whole:
        rest = [one for one in whole if one[0] > position]
        assert [heard for _, heard in await watch(position)][:-1] == [h for _, h in rest][:-1]


async def test_many_followers_share_one_reader(shop: Workshop) -> None:
    """What another process records reaches them by the feed: their own look is a minute away."""
    feed = RunFeed(Feed(shop.database), LiveHub())
    runs = replace(shop.runs(), hub=feed.hub, feed=feed, poll_s=0.02)
    posted = await runs.post("main", "tool")
    ended: list[int] = []

    async def follow() -> None:
        ended.append(len(await read_all(runs, posted.run)))

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(follow)
            while feed.find_timeout(0.02) < LOOK_S:  # noqa: ASYNC110 - the reader tells its followers
                await anyio.sleep(0.01)
            # Its hub is another one, as if it were in another process.
            await shop.actor().handle(shop.session)
    assert ended == [len(await shop.kinds(posted.run))] * 20
    assert feed.find_timeout(0.02) == 0.02


async def test_a_session_is_followed_run_after_run(shop: Workshop) -> None:
    runs = shop.runs()
    await runs.post("main", "before anybody listened")
    await shop.actor().handle(shop.session)
    ended: list[str] = []

    async def listen() -> None:
        async for news in runs.follow("main"):
            if isinstance(news, RunEvent) and news.event.kind == "run.finished":
                ended.append(news.event.stream)
                if len(ended) == 2:
                    return

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await anyio.sleep(0.1)
            posted = [await runs.post("main", text) for text in ("one", "two")]
            await shop.actor().handle(shop.session)
    assert ended == [one.run for one in posted]


async def test_one_run_is_canceled_and_no_other(shop: Workshop) -> None:
    runs = shop.runs()
    first, second, third = [await runs.post("main", word) for word in ("one", "two", "three")]
    assert await runs.cancel(second.run) == second.run
    await shop.actor().handle(shop.session)
    outcomes = [(await shop.turn(one.run)).turn.header.outcome for one in (first, second, third)]
    assert outcomes == ["completed", "canceled", "completed"]
    # Nothing was asked in it, nobody follows it, and it is known who took it back.
    assert await shop.kinds(second.run) == ["run.started", "run.interrupted", "run.finished"]
    assert (await shop.turn(third.run)).parent == TurnId(first.run)
    told = (await runs.ledger.facts(second.run))[1].event.data
    assert told == {"reason": "canceled", "by": "human:ana"}
    assert await runs.cancel(second.run) is None


@pytest.mark.parametrize("has_begun", [True, False])
async def test_cancel_ends_a_spawned_run_and_lets_none_follow(
    shop: Workshop, *, has_begun: bool
) -> None:
    shop.policy = ask_always()
    runs = shop.runs()
    parent = await runs.post("main", "tool")
    await shop.actor().handle(shop.session)
    caller = Caller(parent.run, "c1", runs.by, (shop.session,))
    child = SessionId(shop.world.new_id())
    await runs.sessions.ledger.create(
        child, Label("helper:call-1"), by="human:ana", at=shop.world.now(), key=caller.key,
        spawn=Spawn(shop.session, TurnId(parent.run), "c1"),
    )  # fmt: skip
    posted = await runs.post("helper:call-1", "tool", caller=caller)
    if has_begun:
        await shop.actor().handle(child)
    assert await runs.status(posted.run) == ("parked" if has_begun else "waiting")
    assert await runs.cancel("main") == parent.run
    await shop.actor().handle(child)
    assert (await shop.turn(posted.run)).turn.header.outcome == "canceled"
    with pytest.raises(Canceled, match="was canceled"):
        await runs.post("helper:call-1", "hello", caller=replace(caller, call_id="c2"))


async def test_cancel_without_run_returns_none(shop: Workshop) -> None:
    assert await shop.runs().cancel("main") is None


async def test_a_follower_hears_the_words_that_came_while_it_read_the_facts(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = shop.runs()
    posted = await runs.post("main", "hello")
    facts, asked = runs.ledger.facts, list[str]()

    async def read_late(stream: str, *, after: int = 0) -> Sequence[RunEvent]:
        # All of it is said, recorded, sealed and forgotten while the follower waits for this.
        asked.append(stream)
        if asked == [posted.run, posted.run]:
            await shop.actor().handle(shop.session)
        return await facts(stream, after=after)

    monkeypatch.setattr(
        type(runs.ledger), "facts", lambda _, *args, **named: read_late(*args, **named)
    )
    heard = [one async for one in runs.follow(posted.run)]
    words = "".join(one.text for one in heard if isinstance(one, LiveChunk) and one.kind == "text")
    assert words
    assert words == (await runs.wait(posted.run)).turn.reply[-1].text
