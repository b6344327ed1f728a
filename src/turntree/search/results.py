"""Values that a search returns, and that fill an index."""

from collections.abc import Mapping
from dataclasses import field

from turntree.core.event import FeedPosition
from turntree.core.ids import Digest, SessionId, TurnId
from turntree.core.message_context import ChangeKind, FileUse
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.search.document import RECIPE, Where
from turntree.search.query import Query
from turntree.search.rank import Snippet

Vector = tuple[float, ...]
MEANS_THE_SAME = "means the same"
WORDS = f"words {RECIPE}"
"""The name of the word index; a semantic index has its embedder's id. With another recipe it starts
again, and replaces the documents of the old one."""


@value
class HitSession:
    """A session whose thread ever contained a turn."""

    id: SessionId
    label: str
    is_head: bool
    """Whether the turn is its head."""


@value
class SearchHit:
    """A turn that was found, and why."""

    placed: ThreadTurn
    matched: Mapping[str, tuple[Where, ...]]
    """Each word or phrase that was found, and in which kinds of text."""
    means_the_same: bool
    """Whether it was found by semantic search."""
    snippet: Snippet | None
    holders: tuple[HitSession, ...]
    """Sessions that contain it; those with it as their head come first."""

    @property
    def reasons(self) -> list[str]:
        """What was found and where: ``redirect (asked, answered)``."""
        reasons = [f"{said} ({', '.join(where)})" for said, where in self.matched.items()]
        return [*reasons, MEANS_THE_SAME] if self.means_the_same else reasons


@value
class SearchResult:
    """What a search found, best first."""

    query: Query
    hits: tuple[SearchHit, ...]
    by_meaning: bool
    """Whether semantic search was used, and not words alone."""
    is_behind: bool = False
    """Whether some turns were not in the index yet."""


@value
class SearchableTurn:
    """A turn with the beginnings of its large parts."""

    placed: ThreadTurn
    lifted: Mapping[Digest, bytes] = field(default_factory=dict[Digest, bytes])


@value
class SearchPlaces:
    """Positions of turns: the number of a segment and a depth."""

    hits: tuple[tuple[int, int], ...]
    is_complete: bool
    """Whether these are all, and all turns are in the index."""


@value
class IndexBatch:
    """Turns that an index lacks, and its progress once it has them."""

    turns: tuple[SearchableTurn, ...]
    seen_from: int
    """The oldest transaction that was running when they were read."""
    position: FeedPosition | None
    """The next position in the feed; None if the index stays where it is."""
    is_last: bool
    oldest: TurnId | None = None
    """Where a pass over existing turns, newest first, has arrived."""


@value
class IndexProgress:
    """The progress of filling an index."""

    turns: int = 0
    is_behind: bool = False


@value
class SnapshotChange:
    """A change of a file between two snapshots, and a turn that ran then."""

    turn: TurnId
    kind: ChangeKind
    path: str
    is_certain: bool
    """Whether no other turn can have made it."""


@value
class FileUseRecord:
    """One use of a file by a message of a turn."""

    turn: TurnId
    message: int
    use: FileUse
    path: str
    line_start: int | None
    line_end: int | None
