"""The door: one façade with a facet per noun. It holds no logic of its own.

A facet is made, and its module imported, when it is first asked for: a command that lists turns
must not pay for importers, plans and workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from turntree.domain.ids import RunId, TurnId

if TYPE_CHECKING:
    from turntree.domain.checks import Verified
    from turntree.domain.principal import Principal
    from turntree.domain.program import Program
    from turntree.domain.secrets import Redactor
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
    from turntree.runtime.line_blame import LineBlame
    from turntree.runtime.meanings import Meanings
    from turntree.runtime.personas import Personas
    from turntree.runtime.plans import Plans
    from turntree.runtime.programs import Programs, Voices
    from turntree.runtime.recorder import Recorder
    from turntree.runtime.replay import Replays
    from turntree.runtime.resources import FindKeeper, Resources
    from turntree.runtime.revisions import Found, Revisions
    from turntree.runtime.router import Router
    from turntree.runtime.runs import Runs
    from turntree.runtime.search import Search
    from turntree.runtime.seen import Contexts
    from turntree.runtime.sessions import Sessions
    from turntree.runtime.tokens import Tokens
    from turntree.runtime.turns import ThreadReader, Turns
    from turntree.runtime.worktrees import Worktrees


class Neighbours(Protocol):
    """What a tree stands on. Each may be made when it is first asked for."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def marks(self) -> Marks: ...

    @property
    def sessions(self) -> session_ports.Sessions: ...

    @property
    def reflog(self) -> session_ports.Reflog: ...

    @property
    def threads(self) -> Threads: ...

    @property
    def index(self) -> Index: ...

    @property
    def feed(self) -> Feed: ...

    @property
    def checks(self) -> check_ports.Checks: ...

    @property
    def edges(self) -> Edges: ...

    @property
    def search_reader(self) -> SearchReader: ...

    @property
    def search_writer(self) -> SearchWriter: ...

    @property
    def resources(self) -> ResourceFacts: ...

    @property
    def attachments(self) -> Attachments: ...

    @property
    def pins(self) -> Pins: ...

    @property
    def all_resources(self) -> ResourceFacts:
        """With those that only private sessions work on: for checks."""
        ...

    @property
    def all_pins(self) -> Pins:
        """With those of private sessions: to tell changes apart."""
        ...

    @property
    def advice(self) -> Advice: ...

    @property
    def plans(self) -> PlanFacts: ...

    @property
    def keepers(self) -> FindKeeper: ...

    @property
    def processes(self) -> Processes: ...

    @property
    def host(self) -> str:
        """What this machine is called."""
        ...

    @property
    def meanings(self) -> meaning_ports.Meanings: ...

    @property
    def routing(self) -> RouteReader: ...

    @property
    def programs(self) -> program_ports.Programs: ...

    @property
    def kinds(self) -> Mapping[str, ProgramKind]: ...

    @property
    def permissions(self) -> Permissions: ...

    @property
    def inbox(self) -> Inbox: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def holding(self) -> Holding: ...

    @property
    def together(self) -> Together: ...

    @property
    def world(self) -> World: ...

    @property
    def by(self) -> Principal: ...

    @property
    def current(self) -> str | None:
        """The session that ``HEAD`` stands for."""
        ...

    @property
    def embedder(self) -> Embedder | None: ...

    @property
    def describers(self) -> tuple[Describer, ...]: ...

    @property
    def workplace(self) -> Workplace | None: ...

    @property
    def redactor(self) -> Redactor: ...

    @property
    def voices(self) -> Voices | None:
        """Has questions to models answered; None where nothing can."""
        ...

    @property
    def end_here(self) -> Callable[[RunId], bool]:
        """Ends what this process does for a run, if it does anything."""
        ...


class Tree:
    """A workspace's turns and the sessions that point into them."""

    def __init__(self, on: Neighbours, **facets: Any) -> None:
        """Stand on neighbours; a facet that is given takes the place of the one made here."""
        self._on = on
        self._given = facets
        # Where a cached property keeps what it made, so that it never makes these.
        vars(self).update(facets)

    def with_facets(self, **facets: Any) -> Tree:
        """Return a tree on the same neighbours in which some facets are others."""
        return Tree(self._on, **self._given | facets)

    @property
    def ledger(self) -> Ledger:
        """Turns, events and objects, as they are stored."""
        return self._on.ledger

    @property
    def feed(self) -> Feed:
        """All events, in the order in which they were committed."""
        return self._on.feed

    @property
    def edges(self) -> Edges:
        """What refers to what."""
        return self._on.edges

    @cached_property
    def revisions(self) -> Revisions:
        """What people write instead of a turn's id."""
        from turntree.runtime.revisions import Revisions

        on = self._on
        find_program = partial(_find_program, on)
        return Revisions(
            on.sessions, on.reflog, on.threads, on.index, on.world, on.current, find_program
        )

    @cached_property
    def sessions(self) -> Sessions:
        """Names that move."""
        from turntree.runtime.sessions import Sessions

        on = self._on
        return Sessions(on.sessions, on.reflog, self.revisions, on.world, on.by)

    @cached_property
    def turns(self) -> Turns:
        """Recording turns, reading and erasing them."""
        from turntree.runtime.turns import Turns

        on = self._on
        return Turns(
            on.ledger, on.marks, on.threads, on.index, self.revisions, self.sessions, on.world,
            on.by, on.redactor,
        )  # fmt: skip

    @cached_property
    def threads(self) -> ThreadReader:
        """Turns with their ancestry."""
        from turntree.runtime.turns import ThreadReader

        return ThreadReader(self._on.threads, self._on.index, self.revisions)

    @cached_property
    def checks(self) -> Checks:
        """Proving what the ledger and the keepers hold."""
        from turntree.runtime.checks import Checks

        return Checks(self._on.checks, replace(self.resources, ledger=self._on.all_resources))

    @cached_property
    def causes(self) -> Causes:
        """What led to a turn."""
        from turntree.runtime.causes import Causes

        return Causes(self._on.edges, self._on.threads, self._on.sessions)

    @cached_property
    def search(self) -> Search:
        """Turns by what was said in them."""
        from turntree.runtime.search import Search

        on = self._on
        return Search(on.search_reader, on.search_writer, on.world, on.holding, on.embedder)

    @cached_property
    def resources(self) -> Resources:
        """What turns work on, and its states."""
        from turntree.runtime.resources import Resources

        on = self._on
        return Resources(
            on.resources, on.attachments, on.pins, on.all_pins, on.advice, on.keepers, on.host,
            on.threads, self.revisions, self.sessions, on.world, on.by,
        )  # fmt: skip

    @cached_property
    def plans(self) -> Plans:
        """Forks and moves that take files along."""
        from turntree.runtime.fork_plans import ForkProposer
        from turntree.runtime.hands import Hands
        from turntree.runtime.plans import Plans
        from turntree.runtime.restore_plans import RestoreProposer
        from turntree.runtime.saga import Saga

        on, places = self._on, self.resources
        hands = Hands(on.resources, on.attachments, on.ledger, on.keepers, on.host, on.world)
        saga = Saga(on.plans, on.advice, hands, on.processes, on.world)
        restores = RestoreProposer(places, on.plans, hands)
        return Plans(on.plans, saga, ForkProposer(places), restores)

    @cached_property
    def files(self) -> Files:
        """The files in a state."""
        from turntree.runtime.files import Files

        return Files(self.resources)

    @cached_property
    def blame(self) -> LineBlame:
        """Which turn wrote a line."""
        from turntree.runtime.line_blame import LineBlame

        return LineBlame(self.resources, self.files, self._on.world)

    @cached_property
    def worktrees(self) -> Worktrees:
        """Folders with the files of any turn."""
        from turntree.runtime.worktrees import Worktrees

        return Worktrees(self.resources, self.files)

    @cached_property
    def programs(self) -> Programs:
        """Everything that has an address."""
        from turntree.runtime.programs import Programs

        on = self._on
        return Programs(
            on.programs, on.kinds, on.sessions, on.world, on.by, on.workplace, on.voices, on.by
        )

    @cached_property
    def authority(self) -> Authority:
        """Who may do what."""
        from turntree.runtime.authority import Authority

        return Authority(self._on.permissions, self._on.ledger, self._on.world)

    @cached_property
    def tokens(self) -> Tokens:
        """Rights that travel."""
        from turntree.runtime.tokens import Tokens

        return Tokens(self._on.permissions, self._on.world, self._on.by)

    @cached_property
    def personas(self) -> Personas:
        """Identities of agents and what they may do."""
        from turntree.runtime.personas import Personas

        on = self._on
        return Personas(
            on.permissions, on.ledger, self.sessions, self.revisions, self.authority, on.world,
            on.together,
        )  # fmt: skip

    @cached_property
    def meanings(self) -> Meanings:
        """What is like what."""
        from turntree.runtime.meanings import Meanings

        return Meanings(self._on.meanings, self.search, self.revisions, self._on.describers)

    @cached_property
    def router(self) -> Router:
        """Where a message goes."""
        from turntree.runtime.matching import Matcher
        from turntree.runtime.router import Router

        on = self._on
        return Router(Matcher(on.routing, self.search), self.sessions, on.programs, on.by)

    @cached_property
    def runs(self) -> Runs:
        """What is being answered."""
        from turntree.runtime.hub import Hub
        from turntree.runtime.runs import Runs

        on = self._on
        return Runs(
            on.inbox, on.workers, on.ledger, on.threads, self.sessions, on.world, on.by, Hub(),
            on.end_here, redactor=on.redactor,
        )  # fmt: skip

    @cached_property
    def contexts(self) -> Contexts:
        """What a model saw."""
        from turntree.runtime.pinning import Pinning
        from turntree.runtime.seen import Contexts

        on = self._on
        return Contexts(Pinning(self.programs, on.ledger, on.permissions), on.ledger, on.threads)

    @cached_property
    def replays(self) -> Replays:
        """Turns taken again from their journals."""
        from turntree.runtime.replay import Replays

        return Replays(self.contexts, self._on.ledger, self._on.threads)

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


async def _find_program(on: Neighbours, name: str) -> Program | None:
    return await on.programs.find(name, by=str(on.by))
