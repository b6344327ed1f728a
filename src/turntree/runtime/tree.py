"""The door: one façade with a facet per noun. It holds no logic of its own."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from turntree.domain.checks import Verified
from turntree.domain.ids import TurnId
from turntree.domain.principal import Principal
from turntree.domain.secrets import BY_FORMAT, Redactor
from turntree.domain.value import value
from turntree.ports import checks as check_ports
from turntree.ports import meanings as meaning_ports
from turntree.ports import programs as program_ports
from turntree.ports import sessions as session_ports
from turntree.ports.edges import Edges
from turntree.ports.embedder import Embedder
from turntree.ports.feed import Feed
from turntree.ports.inbox import Inbox, Workers
from turntree.ports.ledger import Ledger, Marks
from turntree.ports.locks import Holding, Together
from turntree.ports.meanings import Describer
from turntree.ports.permissions import Permissions
from turntree.ports.program_kinds import ProgramKind
from turntree.ports.resources import Advice, Attachments, Pins
from turntree.ports.resources import Plans as PlanFacts
from turntree.ports.resources import Resources as ResourceFacts
from turntree.ports.routing import RouteReader
from turntree.ports.search import SearchReader, SearchWriter
from turntree.ports.threads import Index, Threads
from turntree.ports.workplace import Workplace
from turntree.ports.world import Processes, World
from turntree.runtime.authority import Authority
from turntree.runtime.causes import Causes
from turntree.runtime.checks import Checks
from turntree.runtime.files import Files
from turntree.runtime.fork_plans import ForkProposer
from turntree.runtime.hands import Hands
from turntree.runtime.hub import Hub
from turntree.runtime.line_blame import LineBlame
from turntree.runtime.matching import Matcher
from turntree.runtime.meanings import Meanings
from turntree.runtime.personas import Personas
from turntree.runtime.pinning import Pinning
from turntree.runtime.plans import Plans
from turntree.runtime.programs import Programs
from turntree.runtime.recorder import Recorder
from turntree.runtime.replay import Replays
from turntree.runtime.resources import FindKeeper, Resources
from turntree.runtime.restore_plans import RestoreProposer
from turntree.runtime.revisions import Found, Revisions
from turntree.runtime.router import Router
from turntree.runtime.runs import Runs
from turntree.runtime.saga import Saga
from turntree.runtime.search import Search
from turntree.runtime.seen import Contexts
from turntree.runtime.sessions import Sessions
from turntree.runtime.tokens import Tokens
from turntree.runtime.turns import ThreadReader, Turns
from turntree.runtime.worktrees import Worktrees


@value
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
    programs: Programs
    authority: Authority
    tokens: Tokens
    personas: Personas
    meanings: Meanings
    router: Router
    runs: Runs
    contexts: Contexts
    replays: Replays

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


@value(kw_only=True)
class Neighbours:
    """What a tree stands on."""

    ledger: Ledger
    marks: Marks
    sessions: session_ports.Sessions
    reflog: session_ports.Reflog
    threads: Threads
    index: Index
    feed: Feed
    checks: check_ports.Checks
    edges: Edges
    search_reader: SearchReader
    search_writer: SearchWriter
    resources: ResourceFacts
    attachments: Attachments
    pins: Pins
    all_resources: ResourceFacts
    """With those that only closed sessions work on: for whoever checks."""
    all_pins: Pins
    """With those of closed sessions: for whoever tells changes apart."""
    advice: Advice
    plans: PlanFacts
    keepers: FindKeeper
    processes: Processes
    host: str
    """What this machine is called."""
    meanings: meaning_ports.Meanings
    routing: RouteReader
    programs: program_ports.Programs
    kinds: Mapping[str, ProgramKind]
    permissions: Permissions
    inbox: Inbox
    workers: Workers
    holding: Holding
    together: Together
    world: World
    by: Principal
    current: str | None = None
    """The session that ``HEAD`` stands for."""
    embedder: Embedder | None = None
    describers: tuple[Describer, ...] = ()
    workplace: Workplace | None = None
    redactor: Redactor = BY_FORMAT


def assemble(on: Neighbours) -> Tree:
    """Return the tree that stands on these neighbours."""
    world, by = on.world, on.by
    find_program = partial(on.programs.find, by=str(by))
    revisions = Revisions(
        on.sessions, on.reflog, on.threads, on.index, world, on.current, find_program
    )
    names = Sessions(on.sessions, on.reflog, revisions, world, by)
    search = Search(on.search_reader, on.search_writer, world, on.holding, on.embedder)
    authority = Authority(on.permissions, on.ledger, world)
    places = _assemble_resources(on, revisions, names)
    files = Files(places)
    programs = Programs(on.programs, on.kinds, on.sessions, world, by, on.workplace, user=by)
    contexts = Contexts(Pinning(programs, on.ledger, on.permissions), on.ledger, on.threads)
    return Tree(
        ledger=on.ledger,
        feed=on.feed,
        revisions=revisions,
        sessions=names,
        turns=Turns(
            on.ledger, on.marks, on.threads, on.index, revisions, names, world, by, on.redactor
        ),
        threads=ThreadReader(on.threads, on.index, revisions),
        checks=Checks(on.checks, replace(places, ledger=on.all_resources)),
        edges=on.edges,
        causes=Causes(on.edges, on.threads, on.sessions),
        search=search,
        resources=places,
        plans=_assemble_plans(on, places),
        files=files,
        blame=LineBlame(places, files, world),
        worktrees=Worktrees(places, files),
        programs=programs,
        authority=authority,
        tokens=Tokens(on.permissions, world, by),
        personas=Personas(
            on.permissions, on.ledger, names, revisions, authority, world, on.together
        ),
        meanings=Meanings(on.meanings, search, revisions, on.describers),
        router=Router(Matcher(on.routing, search), names, on.programs, by),
        runs=Runs(
            on.inbox,
            on.workers,
            on.ledger,
            on.threads,
            names,
            world,
            by,
            Hub(),
            redactor=on.redactor,
        ),
        contexts=contexts,
        replays=Replays(contexts, on.ledger, on.threads),
    )


def _assemble_resources(on: Neighbours, revisions: Revisions, names: Sessions) -> Resources:
    return Resources(
        on.resources,
        on.attachments,
        on.pins,
        on.all_pins,
        on.advice,
        on.keepers,
        on.host,
        on.threads,
        revisions,
        names,
        on.world,
        on.by,
    )


def _assemble_plans(on: Neighbours, places: Resources) -> Plans:
    hands = Hands(on.resources, on.attachments, on.ledger, on.keepers, on.host, on.world)
    saga = Saga(on.plans, on.advice, hands, on.processes, on.world)
    restores = RestoreProposer(places, on.plans, hands)
    return Plans(on.plans, saga, ForkProposer(places), restores)
