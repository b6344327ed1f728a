"""The door: one façade with a facet per noun. It holds no logic of its own."""

from dataclasses import dataclass

from turntree.domain.checks import Verified
from turntree.domain.ids import TurnId
from turntree.domain.principal import Principal
from turntree.ports import meanings as meaning_ports
from turntree.ports import sessions as session_ports
from turntree.ports.checks import Checks
from turntree.ports.edges import Edges
from turntree.ports.embedder import Embedder
from turntree.ports.feed import Feed
from turntree.ports.ledger import Ledger, Marks
from turntree.ports.meanings import Describer
from turntree.ports.search import SearchReader, SearchWriter
from turntree.ports.threads import Index, Threads
from turntree.ports.world import World
from turntree.runtime.causes import Causes
from turntree.runtime.meanings import Meanings
from turntree.runtime.recorder import Recorder
from turntree.runtime.revisions import Found, Revisions
from turntree.runtime.search import Search
from turntree.runtime.sessions import Sessions
from turntree.runtime.turns import ThreadReader, Turns


@dataclass(frozen=True, slots=True)
class Tree:
    """A workspace's turns and the sessions that point into them."""

    ledger: Ledger
    feed: Feed
    revisions: Revisions
    sessions: Sessions
    turns: Turns
    threads: ThreadReader
    checks: Checks
    edges: Edges
    causes: Causes
    search: Search
    meanings: Meanings

    async def resolve(self, revision: str) -> Found:
        """Return the turn a revision names; see the revision grammar.

        Raises:
            NotFound: It names nothing.
        """
        return await self.revisions.resolve(revision)

    async def verify(self, revision: str | TurnId = "HEAD") -> Verified:
        """Hash a thread again, from its root to the turn a revision names.

        Raises:
            NotFound: It names nothing.
        """
        return await self.checks.verify((await self.resolve(revision)).turn)

    async def recorder(self, session: str) -> Recorder:
        """Return a recorder that appends turns to a session."""
        return await self.turns.recorder(session)


def assemble(  # noqa: PLR0913  (one for each neighbour)
    *,
    ledger: Ledger,
    marks: Marks,
    sessions: session_ports.Sessions,
    reflog: session_ports.Reflog,
    threads: Threads,
    index: Index,
    feed: Feed,
    checks: Checks,
    edges: Edges,
    search_reader: SearchReader,
    search_writer: SearchWriter,
    meanings: meaning_ports.Meanings,
    world: World,
    by: Principal,
    current: str | None = None,
    embedder: Embedder | None = None,
    describers: tuple[Describer, ...] = (),
) -> Tree:
    """Return the tree that stands on these neighbours."""
    revisions = Revisions(sessions, reflog, threads, index, world, current)
    names = Sessions(sessions, reflog, revisions, world, by)
    turns = Turns(ledger, marks, threads, index, revisions, names, world, by)
    reader = ThreadReader(threads, index, revisions)
    causes = Causes(edges, threads, sessions)
    search = Search(search_reader, search_writer, world, embedder)
    return Tree(
        ledger, feed, revisions, names, turns, reader, checks, edges, causes, search,
        Meanings(meanings, search, revisions, describers),
    )  # fmt: skip
