"""The live stream: pieces in order, taken back when an attempt begins again."""

import anyio
import anyio.lowlevel
import pytest

from turntree.core.ids import RunId
from turntree.runs.live.hub import PIECES_MAX, RUNS_MAX, LiveHub
from turntree.runs.live.stream import PartialMessage, StreamPosition

pytestmark = pytest.mark.anyio

RUN = RunId("run")


def said(hub: LiveHub, after: StreamPosition | None = None) -> str:
    partial = PartialMessage()
    for live in hub.pieces(RUN, after or StreamPosition()):
        partial = partial.read(live)
    return partial.text


def test_a_repeated_attempt_never_doubles_text() -> None:
    hub = LiveHub()
    for attempt in (1, 2, 3):
        for piece in ("four ", "degrees"):
            hub.publish(RUN, StreamPosition(2, 1), attempt, "text", piece)
    assert said(hub) == "four degrees"


def test_neither_does_a_worker_that_took_over() -> None:
    hub = LiveHub()
    hub.publish(RUN, StreamPosition(2, 1), 1, "text", "four ")
    hub.publish(RUN, StreamPosition(2, 2), 1, "text", "five ")
    hub.publish(RUN, StreamPosition(2, 2), 1, "text", "degrees")
    assert said(hub) == "five degrees"


def test_follower_continues_from_its_position() -> None:
    hub = LiveHub()
    for piece in "abcdef":
        hub.publish(RUN, StreamPosition(2, 1), 1, "text", piece)
    third = hub.pieces(RUN, StreamPosition())[2]
    assert [live.text for live in hub.pieces(RUN, third.position)] == ["d", "e", "f"]


def test_follower_cut_off_before_restart_gets_restart() -> None:
    hub = LiveHub()
    hub.publish(RUN, StreamPosition(2, 1), 1, "text", "a")
    partial = PartialMessage().read(hub.pieces(RUN, StreamPosition())[0])
    hub.publish(RUN, StreamPosition(2, 1), 2, "text", "b")
    for live in hub.pieces(RUN, partial.position):
        partial = partial.read(live)
    assert partial.text == "b"


def test_the_next_event_takes_nothing_back() -> None:
    hub = LiveHub()
    hub.publish(RUN, StreamPosition(2, 1), 1, "text", "a")
    hub.publish(RUN, StreamPosition(5, 1), 1, "text", "b")
    assert [live.kind for live in hub.pieces(RUN, StreamPosition())] == ["text", "text"]


def test_memory_is_bounded() -> None:
    hub = LiveHub()
    for _ in range(PIECES_MAX + 10):
        hub.publish(RUN, StreamPosition(2, 1), 1, "text", "a")
    assert len(hub.pieces(RUN, StreamPosition())) == PIECES_MAX
    for number in range(RUNS_MAX):
        hub.publish(RunId(f"run {number}"), StreamPosition(2, 1), 1, "text", "a")
    assert hub.pieces(RUN, StreamPosition()) == []


async def test_news_between_looking_and_waiting_is_not_missed() -> None:
    hub = LiveHub()
    news = hub.news(RUN)
    hub.publish(RUN, StreamPosition(2, 1), 1, "text", "a")
    with anyio.fail_after(30):
        await hub.wait(RUN, since=news, timeout_s=60)


async def test_waiting_follower_is_notified_of_event() -> None:
    hub = LiveHub()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            news = hub.news(RUN)
            group.start_soon(lambda: hub.wait(RUN, since=news, timeout_s=60))
            await anyio.lowlevel.checkpoint()
            hub.tell(RUN)


def test_asking_for_a_run_drops_the_text_of_no_other() -> None:
    hub = LiveHub()
    hub.publish(RUN, StreamPosition(2, 1), 1, "text", "a")
    followers = [hub.listen(RunId(f"run {number}")) for number in range(RUNS_MAX + 1)]
    assert {hub.news(RunId(f"other {number}")) for number in range(RUNS_MAX + 1)} == {0}
    assert said(hub) == "a"
    hub.publish(RunId("run 0"), StreamPosition(2, 1), 1, "text", "b")
    assert [live.text for live in followers[0](StreamPosition())] == ["b"]


def test_a_run_without_text_is_kept_for_its_followers_alone() -> None:
    hub = LiveHub()
    follower = hub.listen(RUN)
    hub.tell(RUN)
    assert hub.news(RUN) == 1
    del follower
    assert hub.news(RUN) == 0
