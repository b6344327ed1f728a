"""What a search returns, and what fills an index. Values only."""

from collections.abc import Mapping
from dataclasses import field

from turntree.core.feed import FeedPosition
from turntree.core.ids import Digest, SessionId, TurnId
from turntree.core.message_context import ChangeKind, FileUse
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.search.document import Where
from turntree.search.query import Query
from turntree.search.rank import Snippet

Vector = tuple[float, ...]


@value
class HoldingSession:
    """A session whose thread ever held a turn."""

    id: SessionId
    label: str
    is_head: bool
    """Whether it stands at that turn."""


@value
class SearchHit:
    """A turn that was found, and why."""

    placed: ThreadTurn
    matched: Mapping[str, tuple[Where, ...]]
    """Each word or phrase that was found, and in which kinds of text."""
    means_the_same: bool
    """Whether it was found by what it means."""
    snippet: Snippet | None
    holders: tuple[HoldingSession, ...]
    """Where it can be continued as it stands; sessions that stand at it come first."""


@value
class SearchResult:
    """What a search found, best first."""

    query: Query
    hits: tuple[SearchHit, ...]
    by_meaning: bool
    """Whether meanings were compared, and not words alone."""
    is_behind: bool = False
    """Whether some turns were not in the index yet."""


@value
class SearchableTurn:
    """A turn with the beginnings of what is too large to stand in it."""

    placed: ThreadTurn
    lifted: Mapping[Digest, bytes] = field(default_factory=dict[Digest, bytes])


@value
class IndexBatch:
    """Turns that an index lacks, and how far it has come once it has them."""

    turns: tuple[SearchableTurn, ...]
    seen_from: int
    """The oldest transaction that was still running when they were read."""
    position: FeedPosition | None
    """Where to go on in the feed; None while older turns are still being gone through."""
    is_last: bool


@value
class IndexProgress:
    """How far filling an index has come."""

    turns: int = 0
    is_behind: bool = False


@value
class SnapshotChange:
    """A change of a file between two states that were kept, and a turn that was at work then."""

    turn: TurnId
    kind: ChangeKind
    path: str
    is_certain: bool
    """Whether it can have been no other."""


@value
class FileUseRecord:
    """One use of a file by a message of a turn."""

    turn: TurnId
    message: int
    use: FileUse
    path: str
    line_start: int | None
    line_end: int | None
