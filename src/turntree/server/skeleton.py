"""The skeleton of the tree, read once for as long as nothing changes.

Lists need the agent, the project and the title of sessions. The skeleton has them for all sessions,
and a server answers many reads between two changes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary

import anyio

from turntree.api import Tree
from turntree.ledger.shape import Skeleton

WORDS_MAX: Final = 5_000
"""Words of titles that a mistyped one is compared with."""
_WORD: Final = re.compile(r"\w{4,}")


@dataclass(frozen=True)
class KeptSkeleton:
    """A skeleton, the position at which it was read, and answers that hold until that moves."""

    position: object
    skeleton: Skeleton
    is_whole: bool
    """Whether nothing is hidden: what is taken from a viewer's sight moves no position."""
    answers: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @cached_property
    def projects(self) -> dict[int, int]:
        """The index of the project of each segment, by the segment's id."""
        return {segment.id: segment.project for segment in self.skeleton.segments}

    @cached_property
    def title_words(self) -> tuple[str, ...]:
        """Words of titles, labels and projects, each once, up to ``WORDS_MAX``."""
        return tuple(islice(dict.fromkeys(_title_words(self.skeleton)), WORDS_MAX))


KEPT: WeakKeyDictionary[Tree, KeptSkeleton] = WeakKeyDictionary()
_READING: WeakKeyDictionary[Tree, anyio.Lock] = WeakKeyDictionary()


async def read_skeleton(tree: Tree) -> Skeleton:
    """Return the skeleton of the tree as it is now."""
    return (await keep_skeleton(tree)).skeleton


async def keep_skeleton(tree: Tree) -> KeptSkeleton:
    """Return the skeleton of the tree as it is now, with the answers that were made from it."""
    # A page asks for several things at once: the first question reads for all of them.
    async with _READING.setdefault(tree, anyio.Lock()):
        position, is_whole = await tree.shape.store.find_position()
        known = KEPT.get(tree)
        if known is not None and known.position == position and known.is_whole == is_whole:
            return known
        # The position is older than what is read now: what comes in between is read again.
        kept = KeptSkeleton(position, await tree.shape.read(), is_whole)
        KEPT[tree] = kept
        return kept


def _title_words(skeleton: Skeleton) -> Iterator[str]:
    for session in skeleton.sessions:
        for word in _WORD.findall(f"{session.title} {session.label}"):
            yield word.lower()
    for project in skeleton.projects:
        yield project.lower()
