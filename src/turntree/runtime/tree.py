"""The door: one façade with a facet per noun. It holds no logic of its own."""

from dataclasses import dataclass

from turntree.domain.checks import Verified
from turntree.domain.ids import TurnId
from turntree.domain.principal import Principal
from turntree.ports import sessions as session_ports
from turntree.ports.checks import Checks
from turntree.ports.edges import Edges
from turntree.ports.embedder import Embedder
from turntree.ports.feed import Feed
from turntree.ports.ledger import Ledger, Marks
from turntree.ports.resources import Advice, Attachments, Pins
from turntree.ports.resources import Plans as PlanFacts
from turntree.ports.resources import Resources as ResourceFacts
from turntree.ports.search import SearchReader, SearchWriter
from turntree.ports.threads import Index, Threads
from turntree.ports.world import Processes, World
from turntree.runtime.causes import Causes
from turntree.runtime.files import Files
from turntree.runtime.fork_plans import ForkProposer
from turntree.runtime.hands import Hands
from turntree.runtime.line_blame import LineBlame
from turntree.runtime.plans import Plans
from turntree.runtime.recorder import Recorder
from turntree.runtime.resources import FindKeeper, Resources
from turntree.runtime.restore_plans import RestoreProposer
from turntree.runtime.revisions import Found, Revisions
from turntree.runtime.saga import Saga
from turntree.runtime.search import Search
from turntree.runtime.sessions import Sessions
from turntree.runtime.turns import ThreadReader, Turns
from turntree.runtime.worktrees import Worktrees


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
    resources: Resources
    plans: Plans
    files: Files
    blame: LineBlame
    worktrees: Worktrees

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
    resources: ResourceFacts,
    attachments: Attachments,
    pins: Pins,
    advice: Advice,
    plans: PlanFacts,
    keepers: FindKeeper,
    processes: Processes,
    host: str,
    world: World,
    by: Principal,
    current: str | None = None,
    embedder: Embedder | None = None,
) -> Tree:
    """Return the tree that stands on these neighbours."""
    revisions = Revisions(sessions, reflog, threads, index, world, current)
    names = Sessions(sessions, reflog, revisions, world, by)
    turns = Turns(ledger, marks, threads, index, revisions, names, world, by)
    reader = ThreadReader(threads, index, revisions)
    causes = Causes(edges, threads, sessions)
    search = Search(search_reader, search_writer, world, embedder)
    places = Resources(
        resources, attachments, pins, advice, keepers, host, threads, revisions, names, world, by
    )
    hands = Hands(resources, attachments, ledger, keepers, host, world)
    saga = Saga(plans, advice, hands, processes, world)
    restores = RestoreProposer(places, plans, hands)
    files = Files(places)
    return Tree(
        ledger=ledger,
        feed=feed,
        revisions=revisions,
        sessions=names,
        turns=turns,
        threads=reader,
        checks=checks,
        edges=edges,
        causes=causes,
        search=search,
        resources=places,
        plans=Plans(plans, saga, ForkProposer(places), restores),
        files=files,
        blame=LineBlame(places, files, world),
        worktrees=Worktrees(places, files),
    )
