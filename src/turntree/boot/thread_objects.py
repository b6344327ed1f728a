"""Read a whole thread with the objects it refers to, to write it elsewhere.

Knows the ledger. Must never know a format.
"""

from collections.abc import Sequence

from turntree.api import Tree
from turntree.core.ids import Digest, SessionId
from turntree.core.session import Origin
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.ledger.revisions import ResolvedRevision
from turntree.models.portable_thread import PortableMessage, hand_over, objects_of

SESSIONS_READ_MAX = 20


@value
class WholeThread:
    """A thread with its objects, the tool it came from, and the session that ends in it."""

    turns: Sequence[ThreadTurn]
    objects: dict[Digest, bytes]
    origin: Origin | None
    session: SessionId | None = None
    """The session that was named, if the thread's last turn is its head."""

    @property
    def head(self) -> ThreadTurn:
        """The turn that was asked for."""
        return max(self.turns, key=lambda placed: placed.depth)

    def told(self) -> list[PortableMessage]:
        """Return the thread as exporters take it."""
        return hand_over(self.turns, self.objects)


async def read_whole(tree: Tree, revision: str, *, visible: bool) -> WholeThread:
    """Return a thread: the part a context still reads, or all of it.

    Raises:
        NotFound: The revision names nothing.
    """
    found = await tree.resolve(revision)
    reader = tree.threads
    turns = await (reader.read_visible(found.turn) if visible else reader.read(found.turn))
    objects = await tree.ledger.get_objects(objects_of(turns))
    named = found.session if found.session and found.session.head == found.turn else None
    session = None if named is None else named.id
    return WholeThread(turns, objects, await _find_origin(tree, found), session)


async def _find_origin(tree: Tree, found: ResolvedRevision) -> Origin | None:
    """Return a turn's origin: its session's, or that of any session that held it."""
    if found.session is not None and found.session.origin is not None:
        return found.session.origin
    holding = await tree.turns.threads.list_sessions_holding(found.turn)
    named = [await tree.sessions.ledger.get(id) for id in holding[:SESSIONS_READ_MAX]]
    return next((session.origin for session in named if session.origin is not None), None)
