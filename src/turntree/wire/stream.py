"""What the stream of a browser carries: changes, words in progress, and the progress of imports."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

from turntree.core.event import Event, FeedPosition
from turntree.core.value import value

WordKind = Literal["text", "reasoning", "tool", "restart"]
JobState = Literal["waiting", "running", "finished", "failed"]

_OF_RUNS: Final = frozenset({"run", "model_call", "tool_call", "message"})
_OF_TURNS: Final = frozenset({"turn", "node", "snapshot"})
_OF_CONVERSATIONS: Final = frozenset({"conversation", "participant", "post"})


@value
class Hello:
    """The first message on a stream."""

    position: str
    """Where the feed is now."""
    server: str
    """A word that changes when the server was restarted, or shows another workspace."""
    clients: int
    """The number of clients that listen, this one included; the tabs of a browser share one."""
    runs: tuple[str, ...]
    """The runs in progress: a client that was away forgets the words of all others."""


@value
class StreamHello:
    """The first message on the stream of a workspace."""

    position: str
    """Where the feed is now."""
    server: str
    """A word that changes when the server was restarted."""


@value
class ChangeSet:
    """What was recorded since the message before."""

    position: str
    turns: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    """Ids of sessions that were created, moved or renamed."""
    runs: tuple[str, ...] = ()
    """Runs that are in progress and took a step."""
    conversations: tuple[str, ...] = ()
    """Ids of conversations in which something was said or erased, or whose participants changed."""
    is_whole: bool = False
    """More happened than is listed: ask again for everything that is shown."""


@value
class Words:
    """Text of a reply in progress."""

    run: str
    session: str
    label: str
    seq: int
    """The step of the run that the text will become."""
    position: str
    """Grows with each message of a run; one that is not beyond the last is a repeat."""
    kind: WordKind
    """``restart`` discards the text of the step."""
    text: str
    tool: str | None = None
    is_whole: bool = False
    """The text replaces what came before of the same step and kind, instead of continuing it."""


@value
class ImportJob:
    """An import of one tool's transcripts, and how far it is."""

    job: str
    tool: str
    done: int
    """Bytes read so far."""
    total: int
    turns: int
    """New turns so far."""
    sessions: int
    """New sessions so far."""
    state: JobState
    error: str | None = None


def gather(recorded: Sequence[tuple[FeedPosition, Event]]) -> ChangeSet:
    """Return what some events of the feed changed; a turn is named once its run has ended."""
    turns: dict[str, None] = {}
    sessions: dict[str, None] = {}
    runs: dict[str, None] = {}
    conversations: dict[str, None] = {}
    for _, event in recorded:
        noun = event.kind.partition(".")[0]
        if event.kind == "run.finished" or noun in _OF_TURNS:
            turns[event.stream] = None
        elif noun in _OF_RUNS:
            runs[event.stream] = None
        elif noun in _OF_CONVERSATIONS:
            conversations[event.stream] = None
        elif noun == "session":
            sessions[event.stream] = None
            # A turn that was recorded in a session has no event of its own.
            if event.data.get("move") == "advance":
                turns[str(event.data["after"])] = None
    return ChangeSet(str(recorded[-1][0]), (*turns,), (*sessions,), (*runs,), (*conversations,))


def join(words: Iterable[Words]) -> list[Words]:
    """Return the same words in fewer messages: neighbours of one step and kind become one."""
    joined: list[Words] = []
    for new in words:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (last.run, last.seq, last.kind, last.tool) == (new.run, new.seq, new.kind, new.tool)
            and _epoch(last) == _epoch(new)
            and new.kind != "restart"
            and not new.is_whole
        ):
            joined[-1] = replace(last, text=last.text + new.text, position=new.position)
        else:
            joined.append(new)
    return joined


def _epoch(words: Words) -> str:
    return words.position.split(".")[1]
