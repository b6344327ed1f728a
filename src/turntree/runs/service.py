"""``tree.runs``: send a message, follow its run, cancel it.

Runs are driven by a worker, in this process or another, not here.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import anyio

from turntree.auth.run_rights import links_of_sender
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import Hint, InvalidOperation, NotFound, NoWorker
from turntree.core.ids import Label, RunId, TurnId, find_long_id
from turntree.core.message import (
    Message,
    Source,
    check_message,
    lift_parts,
    user,
)
from turntree.core.principal import ACTIVE, Actor, Principal
from turntree.core.redaction import BY_FORMAT, Redactor, without_secrets
from turntree.core.revision import find_label, is_turn_like
from turntree.core.run import Caller, Done, Run, RunEvent, WaitForUnpark
from turntree.core.thread import ThreadTurn
from turntree.core.value import Facet, value
from turntree.ledger.sessions import Sessions
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.ledger.turns import restore_turns
from turntree.models.compacting import KEEP_TURNS, KEEP_TURNS_MAX, compaction_query
from turntree.routing.route import Route
from turntree.routing.target import (
    CHANNEL,
    ENTITY,
    TRIGGERS,
    Target,
    ToSession,
    TriggerRouting,
)
from turntree.runs.answer import Answer, check_outcome, read_failure
from turntree.runs.inbox import (
    FailedRun,
    OpenRun,
    PendingMessage,
    QueuedMessage,
    RunReport,
    RunStatus,
)
from turntree.runs.inbox_store import InboxStore
from turntree.runs.live.stream import (
    Hub,
    LiveChunk,
    StreamPosition,
    position_after,
    with_restart,
)
from turntree.runs.run_feed import RunFeed
from turntree.runs.worker_store import WorkerStore
from turntree.system.trace import TRACEPARENT

if TYPE_CHECKING:
    from turntree.routing.router import Router

POLL_S = 0.2
"""Polling interval for events that another process recorded."""

ASK_LOOK_S = 1.0
"""How often ``ask`` makes sure that a worker still serves."""

FAILED_LAST = 100
"""Newest messages of a session that are searched for failures."""

UNANSWERED_LAST = 1000
"""Newest runs of all sessions that are searched for failures."""

NO_TOOLS: Final[Mapping[str, Json]] = {"allow": []}
"""Permissions of a message that is answered by one call of a model."""

_ADDRESSED: Final = (CHANNEL, ENTITY, "persona")
"""Namespaces of targets that a router has to look up."""


class PostOptions(TypedDict, total=False):
    """Options of a message."""

    model: str
    situation: str
    params: Mapping[str, Json]
    agent: str
    """The agent that answers, by name; without one, the session decides."""
    prompt: str
    """Instructions of this turn alone, instead of the session's."""
    permissions: Mapping[str, Json]
    """Permissions of this turn alone; they can narrow those of the agent, never widen them."""
    max_steps: int
    retry_of: TurnId
    """The turn that this one reruns, its sibling in the tree."""
    compact: int
    """Makes the turn a compaction that keeps this many turns; see ``compact``."""
    fold: bool
    tells_failure: bool
    """Whether a failure of the run comes to the inbox of the person for whom it was sent. For a
    sender that does not wait."""


def _not_here(run: RunId) -> bool:  # noqa: ARG001
    return False


@value
class Runs(Facet):
    """The facet ``tree.runs``."""

    inbox: InboxStore
    workers: WorkerStore
    ledger: Ledger
    threads: ThreadStore
    sessions: Sessions
    world: Clock
    by: Principal
    hub: Hub
    find_router: "Callable[[], Router]"
    """Called for a target that is not the label of an existing session."""
    end_here: Callable[[RunId], bool] = _not_here
    """Stops the work on a run if it is in this process; returns whether it was."""
    poll_s: float = POLL_S
    redactor: Redactor = BY_FORMAT
    """Removes secrets from messages."""
    ensure_served: Callable[[], Awaitable[None]] | None = None
    """Serves sessions in this process unless a worker does; None if this process cannot."""
    model: str | None = None
    """The model that answers, unless a message names another."""
    context: Actor | None = None
    """Who sends, where no other context was entered; None stands for ``by`` with all rights."""
    feed: RunFeed | None = None
    """Tells followers what other processes recorded; None lets each of them look by itself."""

    async def route(
        self,
        target: str | Target,
        text: str = "",
        *,
        key: str | None = None,
        by: Principal | None = None,
        source: Source | None = None,
    ) -> Route:
        """Return where a message goes, without storing anything.

        A target is a session's label, any revision of a turn, ``@(atlas)``, ``persona:atlas``, a
        sender (``channel:telegram:42``, ``entity:ana``) or empty: then the text decides. A label
        that does not exist yet begins a session. A message that was sent with the same ``key``
        before goes where it went then. If its ``source`` is a trigger, a webhook, a clock or an
        event, a plain name is first that of an agent, which decides what to do.

        Raises:
            NotFound: The target names nothing that the sender may read, or no thread matches.
            InvalidQuery: The target is empty, and so is the text.
            InvalidRevision: The target is malformed.
        """
        sender = by or self.by
        label = find_label(target) if isinstance(target, str) else None
        if label is not None and source in TRIGGERS:
            persona = TriggerRouting().target_for(label)
            with suppress(NotFound):
                return await self.find_router().resolve(persona, text, sender=sender)
        session = None if label is None else await self.sessions.ledger.find(label)
        if session is None and label is not None and _is_plain(label):
            return Route(ToSession(label), None, None, label, ())
        if session is None and key is not None:
            known = await self.inbox.find_keyed_session(str(sender), key)
            session = None if known is None else await self.sessions.ledger.get(known)
        if session is not None:
            return Route(ToSession(session.label), session.head, session.id, session.label, ())
        router = self.find_router()
        if isinstance(target, str):
            return await router.locate(target, text, sender=sender)
        return await router.resolve(target, text, sender=sender)

    async def find_agent(
        self, route: Route, *, named: str | None = None, by: Principal | None = None
    ) -> str | None:
        """Return the name of the agent that answers along a route; None if no agent does.

        ``named`` is the agent that the message names; without one, the session decides.

        Raises:
            PermissionDenied: The sender may not invoke the agent.
            NotFound: There is no agent of that name.
            InvalidOperation: What is named is not an agent.
        """
        sender = str(by or self.by)
        return await self.inbox.find_agent(
            route.session, route.label, route.head, named=named, by=sender
        )

    async def post(
        self,
        target: str | Target | Route,
        said: str | Message | Sequence[Message],
        *,
        key: str | None = None,
        by: Principal | None = None,
        chain: Sequence[Mapping[str, Json]] | None = None,
        caller: Caller | None = None,
        expected_head: TurnId | None = None,
        **asked: Unpack[PostOptions],
    ) -> QueuedMessage:
        """Queue a message for a target, and return at once; ``route`` says what a target can be.

        A new label begins a session; the address of a turn begins a fork. In a session that
        belongs to an agent, that agent answers, unless the options name another. ``key`` makes the
        call safe to repeat. ``fold`` joins the message to the one before it, unless a run has
        already started with that one, or it was sent by another principal or with other rights.
        Several messages become the query of one turn. What looks like a secret key is removed
        before anything is stored; ``redacted`` of the result counts them. ``caller`` is the tool
        call that sends it, which has a key of its own. With ``expected_head`` the message must
        become the next turn after that one: nothing else may be running or waiting there.

        The rights of the sender travel with the message: no matter which worker answers it, its run
        does no more than they permit. ``by`` sends for another principal, under the links of a
        recorded ``chain``; that never adds to the rights of the one who calls.

        Raises:
            Conflict: The session has another head, or another message comes before this one.
            InvalidOperation: The message is invalid, or the key belongs to another message.
            NotFound: The target names nothing that the sender may read.
            PermissionDenied: The sender may not invoke the agent that answers.
        """
        messages = [user(said)] if isinstance(said, str) else said
        queued: list[Message] = []
        redacted = 0
        for original in [messages] if isinstance(messages, Message) else messages:
            # Before anything is stored: an append-only ledger cannot take a key back.
            message, count = without_secrets(original, self.redactor)
            queued.append(await self._take(message))
            redacted += count
        if not queued:
            raise InvalidOperation("a message says something")
        given = {"model": self.model, **asked}
        options = {name: value for name, value in given.items() if value is not None}
        acting = ACTIVE.get() or self.context
        if by is None and acting is not None:
            by = acting.principal
        links = None if acting is None else acting.links
        if by is not None and (links is not None or chain is not None):
            links = links_of_sender(by, acting, chain)
        if isinstance(target, Route):
            route = target
        else:
            text = "\n".join(message.text for message in queued)
            route = await self.route(target, text, key=key, by=by, source=queued[0].source)
        # A tool call sends as its agent, to which programs are rarely granted: what counts is the
        # access of the run that it is part of.
        reader = by if caller is None else caller.reader
        agent = await self.find_agent(route, named=asked.get("agent"), by=reader)
        # After the checks, so that a refused message creates no session.
        begun = await self.begin(route, key=key)
        assert begun.session is not None, "a route that has begun has a session"
        found = begun.to_json() if begun.steps else None
        recorded = _options(options)
        if caller is not None:
            recorded["caller"], key = caller.to_json(), caller.key
        if links is not None:
            # The rights under which it is sent travel with the message: they limit its run.
            recorded["chain"] = list(links)
        if (span := TRACEPARENT.get()) is not None:
            # A worker in another process continues the trace.
            recorded["traceparent"] = span
        if found is not None:
            recorded["route"] = found
        if expected_head is not None:
            recorded["expected_head"] = expected_head
        posted = await self.inbox.post(
            begun.session, *queued, by=str(by or self.by), at=self.world.now(), key=key,
            options=recorded,
        )  # fmt: skip
        return replace(posted, redacted=redacted, label=begun.label, route=found, agent=agent)

    async def ask(
        self,
        target: str | Target | Route,
        said: str | Message | Sequence[Message],
        *,
        key: str | None = None,
        timeout_s: float | None = None,
        **asked: Unpack[PostOptions],
    ) -> Answer:
        """Post a message, wait for its turn, and return the answer.

        ``post`` says where it goes. If no worker is running, this process answers. A caller that
        stops waiting loses nothing: the message stays in the inbox, and the same ``key``
        returns its answer later.

        Raises:
            TurnFailed: The turn failed, or was canceled; the message says why.
            ProviderNotConfigured: There is no model that could answer, or it has no provider.
            NoWorker: No worker is running, and this process cannot serve sessions.
            TimeoutError: It took longer than that.
        """
        # Before anything is posted: a message that nothing answers would wait for the next worker.
        await self._check_served()
        return await self._wait_served(await self.post(target, said, key=key, **asked), timeout_s)

    async def post_compaction(
        self,
        session: str,
        *,
        keep: int = KEEP_TURNS,
        focus: str | None = None,
        model: str | None = None,
    ) -> QueuedMessage:
        """Queue a compaction of a session, and return at once; see ``compact``.

        Raises:
            InvalidOperation: There is nothing to summarize.
            NotFound: No such session.
        """
        if not 0 <= keep <= KEEP_TURNS_MAX:
            raise InvalidOperation(f"a compaction keeps 0 to {KEEP_TURNS_MAX} turns, not {keep}")
        found = await self.sessions.get(session)
        newest = None if found.head is None else await self.threads.find_compaction(found.head)
        depth = 0 if found.head is None else (await self.threads.get_turn(found.head)).depth
        fresh = depth - (0 if newest is None else newest[0])
        if fresh <= keep:
            since = "" if newest is None else " since the last summary"
            raise InvalidOperation(
                f"nothing to summarize: turns{since}: {fresh}, of which {keep} would stay whole"
            )
        options = PostOptions(compact=keep, permissions=NO_TOOLS)
        if model is not None:
            options["model"] = model
        return await self.post(found.label, compaction_query(focus), **options)

    async def compact(
        self,
        session: str,
        *,
        keep: int = KEEP_TURNS,
        focus: str | None = None,
        model: str | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Have a model summarize a session, and return the answer, whose text is the summary.

        The summary becomes the session's newest turn, a compaction. Later prompts begin with it,
        followed by the last ``keep`` turns before it and all turns after it. The summarized turns
        stay: a model may recall and read them, a fork from before the compaction still has them in
        its prompts, and undoing the session's last move takes the compaction back. ``focus`` says
        what the summary has to keep above all.

        Raises:
            InvalidOperation: There is nothing to summarize.
            NotFound: No such session.
            TurnFailed: The turn failed, or was canceled; the message says why.
            ProviderNotConfigured: There is no model that could answer, or it has no provider.
            NoWorker: No worker is running, and this process cannot serve sessions.
            TimeoutError: It took longer than that.
        """
        await self._check_served()
        posted = await self.post_compaction(session, keep=keep, focus=focus, model=model)
        return await self._wait_served(posted, timeout_s)

    async def _wait_served(self, posted: QueuedMessage, timeout_s: float | None) -> Answer:
        """Return the answer to a message; if its worker stops meanwhile, this process serves."""
        run = posted.run
        with anyio.move_on_after(timeout_s) as scope:
            while True:
                with suppress(TimeoutError):
                    placed = await self._wait(run, ASK_LOOK_S)
                    return await self._answer(placed)
                # The worker that served the session may have stopped meanwhile.
                await self._check_served()
        assert scope.cancelled_caught, "the loop ends by returning"
        raise TimeoutError(
            f"no answer in {posted.label} after {timeout_s:g} s; the run {run} goes on"
        )

    async def cancel(self, of: str, *, discard: bool = False) -> RunId | None:
        """Request cancellation of a run; return it, or None if there is nothing to cancel.

        ``of`` is a session, for its open run, or a run's address, which may not have started yet.
        ``discard`` keeps the session's head where it was, even if a tool had been called.

        Raises:
            NotFound: No such session.
        """
        by, at = str(self.by), self.world.now()
        # The id may be a session's own; then its open run is meant.
        if (run_id := find_long_id(of)) is not None and await self.sessions.ledger.find(of) is None:
            is_found = await self.inbox.cancel_one(RunId(run_id), by=by, at=at, discard=discard)
            run = RunId(run_id) if is_found else None
        else:
            target = await self.sessions.get(of)
            run = await self.inbox.cancel(target.id, by=by, at=at, discard=discard)
        if run is not None:
            await self._end(run, discard=discard)
        return run

    async def _end(self, run: RunId, *, discard: bool) -> None:
        """Stop a canceled run where it is worked on, and cancel those that it waits for."""
        # A worker in another process learns of it with its next heartbeat.
        self.end_here(run)
        # A tool call of the run may wait for the run of a session that it spawned, which a worker
        # may be about to begin. From now on, none can ask for another one.
        for child in await self.sessions.ledger.list_spawned(TurnId(run)):
            for waiting in await self.inbox.list_waiting(child):
                await self.cancel(waiting.run, discard=discard)
            by, at = str(self.by), self.world.now()
            if (below := await self.inbox.cancel(child, by=by, at=at, discard=discard)) is not None:
                await self._end(below, discard=discard)

    async def unpark(self, run: RunId, **data: Json) -> bool:
        """Resume a parked run; False if it is not parked."""
        return await self.inbox.unpark(run, by=str(self.by), at=self.world.now(), data=data)

    async def wait(self, run: RunId, *, timeout_s: float | None = None) -> ThreadTurn:
        """Return the turn of a run once it is sealed.

        Raises:
            NotFound: There is no such run, or it is hidden.
            TimeoutError: It took longer than that.
        """
        sealed = await self._find(run)
        if sealed is None:
            await self.get(run)
            sealed = await self._wait(run, timeout_s)
        return sealed

    async def follow(
        self, of: str, *, after: StreamPosition | None = None
    ) -> AsyncGenerator[LiveChunk | RunEvent, None]:
        """Yield a run's events and live chunks, from a position on, until it is sealed.

        ``of`` is a run's address, or a session, whose runs are then followed one after the other
        without end. Recorded events come as ``RunEvent``, text in progress as ``LiveChunk``. A
        chunk of kind ``restart`` discards the earlier chunks of the same event.

        A follower that was cut off resumes with ``position_after`` of the last one it got. A run
        that is finished ends at once where nothing is left of it.

        Raises:
            NotFound: No such run or session.
            InvalidOperation: The run has no such position.
        """
        run = find_long_id(of)
        if run is not None and await self.sessions.ledger.find(of) is None:
            async for news in self._follow_run(RunId(run), after or StreamPosition()):
                yield news
            return
        async for news in self._follow_session(of):
            yield news

    async def get(self, run: RunId) -> RunReport:
        """Return what became of a run.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
        # In the order in which these come about: a run that is not found in one place has gone on
        # to the next, however quickly a worker takes it up meanwhile.
        if await self.inbox.find_waiting(run) is not None:
            return RunReport(run, "waiting")
        facts = await self.ledger.facts(run)
        turn = await self._find(run)
        if turn is not None:
            return RunReport(run, "finished", turn, *_read_reason(facts, "run.failed"))
        # Other streams do not begin with ``run.started``.
        if not facts or facts[0].event.kind != "run.started":
            raise NotFound(f"there is no run {run}")
        match Run.replay(run, facts).next_step():
            case Done():
                return RunReport(run, "finished", await self._find(run))
            case WaitForUnpark():
                return RunReport(run, "parked", None, *_read_reason(facts, "run.parked"))
            case _:
                return RunReport(run, "open")

    async def status(self, run: RunId) -> RunStatus:
        """Return the state of a run; one that has not started is waiting.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
        return (await self.get(run)).status

    async def list_open(
        self, session: str | None = None, *, after: OpenRun | None = None, limit: int | None = None
    ) -> list[OpenRun]:
        """Return runs that are open or parked, oldest first.

        With a ``limit`` it is a page of them; the next one comes ``after`` the last of this one.

        Raises:
            NotFound: No such session.
        """
        target = None if session is None else await self.sessions.get(session)
        return await self.workers.list_open(
            None if target is None else target.id, after=after, limit=limit
        )

    async def list_failed(self, session: str | None = None) -> list[FailedRun]:
        """Return the failed runs among the newest of a session, oldest first.

        Without a session: of every active session whose head has not moved since.

        Raises:
            NotFound: No such session.
        """
        if session is None:
            return await self.workers.list_failed(last=UNANSWERED_LAST)
        return await self.workers.list_failed(
            (await self.sessions.get(session)).id, last=FAILED_LAST
        )

    async def list_reasons(self, turns: Sequence[TurnId]) -> dict[TurnId, str]:
        """Return why turns failed; a turn without a recorded reason is absent."""
        reasons = await self.workers.list_reasons([RunId(turn) for turn in turns])
        return {TurnId(run): reason for run, reason in reasons.items()}

    async def list_waiting(self, session: str) -> list[PendingMessage]:
        """Return a session's messages that are neither started nor canceled.

        Raises:
            NotFound: No such session.
        """
        return await self.inbox.list_waiting((await self.sessions.get(session)).id)

    async def find_waiting(self, run: RunId) -> PendingMessage | None:
        """Return the message that a run will start with, or None once it has started."""
        return await self.inbox.find_waiting(run)

    async def find_by_key(self, key: str) -> RunId | None:
        """Return the run of the message that was sent with an idempotency key, or None."""
        return await self.inbox.find_by_key(str(self.by), key)

    async def begin(self, route: Route, *, key: str | None = None) -> Route:
        """Create the session or the fork that a route lacks, and return the route with it."""
        if route.session is not None:
            return route
        if route.label is not None and not route.is_private:
            session = await self.sessions.get_or_create(route.label)
            return replace(route, session=session.id, head=session.head)
        return await self.find_router().begin(route, key=key)

    async def _check_served(self) -> None:
        if self.ensure_served is not None:
            await self.ensure_served()
        elif not await self.workers.list_workers():
            raise NoWorker("no worker is running", hint=Hint("worker.start"))

    async def _answer(self, placed: ThreadTurn) -> Answer:
        failure: tuple[str, Hint | None] = ("", None)
        if placed.turn.header.outcome != "completed":
            for fact in await self.ledger.facts(placed.turn.id):
                if fact.event.kind == "run.failed":
                    failure = read_failure(fact.event.data)
        check_outcome(placed.turn, *failure)
        (restored,) = await restore_turns(self.ledger, [placed])
        return Answer(restored)

    async def _take(self, message: Message) -> Message:
        """Return a message as it is queued, with its large parts stored as objects."""
        if message.role not in ("user", "system"):
            raise InvalidOperation(
                f"a message must have the role user or system, not {message.role}"
            )
        check_message(message)
        objects: list[bytes] = []
        offloaded = lift_parts(message, objects)
        for data in objects:
            await self.ledger.put_object(data)
        return offloaded

    async def _find(self, run: RunId) -> ThreadTurn | None:
        try:
            return await self.threads.get_turn(TurnId(run))
        except NotFound:
            return None

    def _following(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.feed is None else self.feed.following(self.poll_s)

    def _find_timeout(self) -> float:
        return self.poll_s if self.feed is None else self.feed.find_timeout(self.poll_s)

    async def _wait(self, run: RunId, timeout_s: float | None) -> ThreadTurn:
        """Return the turn of a run that exists, once it is sealed."""
        with anyio.fail_after(timeout_s):
            async with self._following():
                while True:
                    # Read before looking: a seal between the two lines then ends the wait at once.
                    news, look_s = self.hub.news(run), self._find_timeout()
                    sealed = await self._find(run)
                    if sealed is not None:
                        return sealed
                    await self.hub.wait(run, since=news, timeout_s=look_s)

    async def _follow_run(
        self, run: RunId, after: StreamPosition
    ) -> AsyncGenerator[LiveChunk | RunEvent, None]:
        if after.seq > 0:
            before = await self.ledger.facts(run, after=after.seq - 1)
            if not before:
                # An unknown run is reported as such.
                await self.get(run)
                raise InvalidOperation(f"the run {run} has no position {after}")
            if before[0].event.kind == "run.finished":
                return
        elif (report := await self.get(run)).status == "finished":
            # A turn that was recorded elsewhere has no events, and would be waited for.
            for fact in await self.ledger.facts(report.run):
                yield fact
            return
        async with self._following():
            while True:
                list_pieces = self.hub.listen(run)
                news, look_s = self.hub.news(run), self._find_timeout()
                for fact in await self.ledger.facts(run, after=after.seq):
                    # The last chunks may have come while the events were read, and the run may have
                    # been sealed and dropped from the hub since. Yield them before the event that
                    # replaces them.
                    for live in list_pieces(after):
                        if live.position.seq == fact.event.seq:
                            for one in with_restart(live, after):
                                after = one.position
                                yield one
                    after = position_after(fact)
                    yield fact
                    if fact.event.kind == "run.finished":
                        return
                for live in list_pieces(after):
                    # Chunks of an event that is already recorded are stale.
                    if live.position.seq == after.seq:
                        for one in with_restart(live, after):
                            after = one.position
                            yield one
                await self.hub.wait(run, since=news, timeout_s=look_s)

    async def _follow_session(self, name: str) -> AsyncGenerator[LiveChunk | RunEvent, None]:
        session = (await self.sessions.get(name)).id
        seen: set[RunId] = set()
        moves = len(await self.ledger.facts(session))
        while True:
            # In the order in which these come about: a run that is claimed meanwhile is found in
            # both, and not passed over for the one that waits behind it.
            waiting = [one.run for one in await self.inbox.list_waiting(session)]
            queue = [one.run for one in await self.workers.list_open(session)] + waiting
            # A run may have started and ended since the last poll: then the session's head has
            # moved.
            recorded = await self.ledger.facts(session, after=moves)
            moves += len(recorded)
            moved = [
                RunId(str(fact.event.data["after"]))
                for fact in recorded
                if fact.event.data.get("move") == "advance"
            ]
            fresh = [run for run in dict.fromkeys((*moved, *queue)) if run not in seen]
            for run in fresh:
                seen.add(run)
                async for news in self._follow_run(run, StreamPosition()):
                    yield news
            if not fresh:
                await anyio.sleep(self.poll_s)


def _read_reason(facts: Sequence[RunEvent], kind: str) -> tuple[str, Hint | None]:
    """Return the reason of the last event of a kind, and what helps against it."""
    for fact in reversed(facts):
        if fact.event.kind == kind:
            return read_failure(fact.event.data)
    return "", None


def _is_plain(label: Label) -> bool:
    """Return whether a name that no session has can only be that of a new session."""
    return label.partition(":")[0] not in _ADDRESSED and not is_turn_like(label)


def _options(given: Mapping[str, object]) -> dict[str, Json]:
    """Return the options as JSON."""
    options: dict[str, Json] = {}
    for name, option in given.items():
        if name not in PostOptions.__annotations__:
            raise TypeError(f"post() got an unknown option {name!r}")
        options[name] = dict(option) if isinstance(option, Mapping) else option  # type: ignore[assignment]
    return options
