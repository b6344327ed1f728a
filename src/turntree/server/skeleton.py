"""The skeleton of the tree, read once for each viewer for as long as nothing changes.

Lists need the agent, the project and the title of sessions. The skeleton has them for all sessions,
and a server answers many reads between two changes. Viewers share nothing: what one of them may not
see is not in what is kept for them. Any event of the workspace is a change, also one that the
viewer cannot read: what is taken from a viewer's sight leaves no other trace. So is any import, in
this process or another: a tool gives its session another title, and no event follows from that.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

import anyio

from turntree.api import Tree
from turntree.core.viewer import Sight
from turntree.db.pool import Connections
from turntree.ledger.shape import Shape, Skeleton
from turntree.ledger.shape_store import ShapeState

ANSWERS_MAX: Final = 8
"""Answers that are kept with a skeleton. There are hundreds of time zones, and a year in each
takes as much room as the shape."""
VIEWERS_MAX: Final = 16
"""Viewers of a database for whom a skeleton is kept: that of a million turns takes tens of MB."""
WORDS_MAX: Final = 5_000
"""Words of titles that a mistyped one is compared with."""
_WORD: Final = re.compile(r"\w{4,}")


@dataclass(frozen=True)
class KeptSkeleton:
    """A skeleton, the state in which it was read, and answers that hold until that changes."""

    state: ShapeState
    skeleton: Skeleton
    answers: OrderedDict[str, bytes] = field(default_factory=OrderedDict[str, bytes])

    def keep_answer(self, name: str, answer: bytes) -> bytes:
        """Keep an answer, in place of the oldest of too many, and return it."""
        self.answers[name] = answer
        while len(self.answers) > ANSWERS_MAX:
            self.answers.popitem(last=False)
        return answer

    @cached_property
    def projects(self) -> dict[int, int]:
        """The index of the project of each segment, by the segment's id."""
        return {segment.id: segment.project for segment in self.skeleton.segments}

    @cached_property
    def title_words(self) -> tuple[str, ...]:
        """Words of titles, labels and projects, each once, up to ``WORDS_MAX``."""
        return tuple(islice(dict.fromkeys(_title_words(self.skeleton)), WORDS_MAX))


@dataclass(slots=True, eq=False)
class _ViewerPlace:
    """What is kept for one viewer of a workspace."""

    shape: Shape
    """Reads the skeleton, and remembers the project of each tree for the next time."""
    kept: KeptSkeleton | None = None
    reading: anyio.Lock = field(default_factory=anyio.Lock)


_Places = OrderedDict[tuple[UUID, Sight], _ViewerPlace]
_PLACES: WeakKeyDictionary[Connections, _Places] = WeakKeyDictionary()
"""By the connections of a database: by workspace and viewer, the one that asked last at the end."""


def find_shape(tree: Tree) -> Shape:
    """Return the shape as the viewer of a tree sees it, with what is remembered for them."""
    return _place_of(tree).shape


async def read_skeleton(tree: Tree) -> Skeleton:
    """Return the skeleton of the tree as it is now."""
    return (await keep_skeleton(tree)).skeleton


async def keep_skeleton(tree: Tree) -> KeptSkeleton:
    """Return the skeleton of the tree as it is now, with the answers that were made from it.

    It is kept for the viewer, not for the tree: a server over the network has one for each key.
    """
    place = _place_of(tree)
    # A page asks for several things at once: the first question reads for all of them.
    async with place.reading:
        state = await place.shape.store.find_state()
        if place.kept is not None and place.kept.state == state:
            return place.kept
        # The state is older than what is read now: what comes in between is read again.
        place.kept = KeptSkeleton(state, await place.shape.read())
        return place.kept


def _place_of(tree: Tree) -> _ViewerPlace:
    database = tree.shape.store.database
    places = _PLACES.setdefault(database.pool, OrderedDict())
    viewer = database.workspace, database.sight
    place = places.get(viewer)
    if place is None:
        place = places[viewer] = _ViewerPlace(Shape(tree.shape.store, tree.shape.revisions))
    places.move_to_end(viewer)
    while len(places) > VIEWERS_MAX:
        places.popitem(last=False)
    return place


def _title_words(skeleton: Skeleton) -> Iterator[str]:
    for session in skeleton.sessions:
        for word in _WORD.findall(f"{session.title} {session.label}"):
            yield word.lower()
    for project in skeleton.projects:
        yield project.lower()
