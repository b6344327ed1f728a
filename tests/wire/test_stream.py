"""Messages of the stream: events gathered by what they change, words joined."""

from turntree.core.event import Event, FeedPosition
from turntree.core.ids import Timestamp
from turntree.wire.stream import Words, gather, join

AT = Timestamp("2026-01-01T00:00:00.000Z")


def event(n: int, stream: str, kind: str) -> tuple[FeedPosition, Event]:
    return FeedPosition(1, 10, n), Event(stream, 0, kind, AT, {})


def words(position: str, text: str, kind: str = "text", **fields: object) -> Words:
    return Words("run", "session", "main", int(position[0]), position, kind, text, **fields)  # type: ignore[arg-type]


def test_events_are_gathered_by_what_they_change() -> None:
    changed = gather([
        event(1, "t1", "turn.recorded"), event(2, "s1", "session.created"),
        event(3, "s1", "session.head_moved"), event(4, "r1", "run.started"),
        event(5, "r1", "model_call.finished"), event(6, "r2", "run.finished"),
        event(7, "t2", "node.tagged"), event(8, "acme", "acme.deployed"),
        event(9, "c1", "post.created"), event(10, "c1", "participant.removed"),
        event(11, "c2", "conversation.forked"),
    ])  # fmt: skip
    assert changed.turns == ("t1", "r2", "t2")
    assert changed.sessions == ("s1",)
    assert changed.runs == ("r1",)
    assert changed.conversations == ("c1", "c2")
    assert changed.position == "1-10-11"


def test_neighbouring_words_are_one_message() -> None:
    joined = join([words("2.1.1", "four "), words("2.1.2", "degrees"), words("3.1.1", "five")])
    assert [(one.text, one.position) for one in joined] == [
        ("four degrees", "2.1.2"),
        ("five", "3.1.1"),
    ]


def test_words_of_another_attempt_kind_or_whole_message_stay_apart() -> None:
    apart = [
        words("2.1.1", "a"),
        words("2.2.1", "b"),
        words("2.2.2", "c", "reasoning"),
        words("2.2.3", "", "restart"),
        words("2.2.4", "d"),
        words("3.0.0", "whole", is_whole=True),
    ]
    assert join(apart) == apart
