"""Processes one session's inbox in order, then goes idle.

A worker may die at any line: the next one reads what was recorded and continues. If two workers
process the same session, the run's epoch lets only one of them write, and the other gives up.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import anyio

from turntree.core.canonical import Json
from turntree.core.errors import Canceled, Conflict, DatabaseUnavailable
from turntree.core.event import Event
from turntree.core.ids import RunId, SessionId
from turntree.core.message import Message, partial
from turntree.core.run import ASSISTANT, Run, RunEvent, Seal
from turntree.ledger.store import Ledger
from turntree.runs.attempt import Attempt, Moment, RunObserver
from turntree.runs.inbox import Idle, PendingMessage, ResumeRun, StartRun
from turntree.runs.inbox_store import InboxStore
from turntree.runs.live.stream import StreamPosition
from turntree.runs.runner import Runner
from turntree.runs.worker_store import WorkerStore

FAILURES_MAX = 3
"""Fail a run after this many internal errors."""
_REASONS: Mapping[str | None, str] = {"cron": "schedule", "agent": "subagent"}
_INTERNAL = ("fold", "rest", "source_event", "traceparent")
"""Members of a message's options that the sender did not choose."""
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _SessionState:
    """A session that this process is processing."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0
    attempt: Attempt | None = None
    """The last attempt in this process."""


@dataclass(slots=True)
class SessionLoop:
    """Processes sessions for one worker."""

    worker: str
    inbox: InboxStore
    workers: WorkerStore
    ledger: Ledger
    runner: Runner
    moment: Moment
    observers: Sequence[RunObserver] = ()
    _scopes: dict[RunId, anyio.CancelScope] = field(default_factory=dict[RunId, anyio.CancelScope])
    _pumped: dict[SessionId, _SessionState] = field(default_factory=dict[SessionId, _SessionState])

    async def handle(self, session: SessionId) -> None:
        """Process a session; errors in its runs are recorded, not raised.

        Raises:
            DatabaseUnavailable: The database is unreachable; handle the wake-up again.
        """
        # One at a time in this process: a second wake-up waits, and then finds little to do.
        pumped = self._pumped.setdefault(session, _SessionState())
        pumped.users += 1
        try:
            async with pumped.lock:
                while not await self._survives(session):
                    pass
        finally:
            # The state outlives one wake-up while others wait for its lock, and no longer: a worker
            # serves thousands of sessions in its life.
            pumped.users -= 1
            if pumped.users == 0:
                del self._pumped[session]

    async def pump(self, session: SessionId) -> None:
        """Process a session's inbox until it is idle.

        Raises:
            Conflict: Another worker took its run over.
            DatabaseUnavailable: The database is unreachable.
        """
        while True:
            # The database decides what is next, not this loop: after a crash, another worker gets
            # the same answer.
            work = await self.inbox.next_work(session, worker=self.worker)
            match work:
                case Idle():
                    return
                case StartRun():
                    first = work.messages[0]
                    run, seqs = first.run, [waiting.seq for waiting in work.messages]
                    facts = _first_facts(session, work, self.moment)
                    epoch = await self.inbox.begin(run, session, facts, seqs, worker=self.worker)
                    attempt = self._attempt(run, epoch, facts)
                    await self._drive(session, attempt)
                case ResumeRun():
                    attempt = await self._resume(work)
                    if work.is_canceled:
                        await self._cancel(session, attempt)
                    else:
                        await self._drive(session, attempt)
                case _:
                    assert_never(work)

    def cancel(self, run: RunId) -> bool:
        """Stop the work on a canceled run; False if it is not in this process."""
        scope = self._scopes.get(run)
        if scope is not None:
            scope.cancel()
        return scope is not None

    @property
    def busy(self) -> int:
        """Number of sessions being processed."""
        return len(self._pumped)

    async def _survives(self, session: SessionId) -> bool:
        """Process a session; return False if it has to be processed again."""
        try:
            await self.pump(session)
        except Conflict:
            # The worker that took the run over also does the rest of the session's work.
            return True
        except DatabaseUnavailable:
            raise
        except Exception as error:
            # An unexpected error must end in a failed run, not in a session that never answers.
            return await self._failed(session, error)
        return True

    async def _failed(self, session: SessionId, error: Exception) -> bool:
        """Count an internal error; fail the run after ``FAILURES_MAX`` of them."""
        _LOG.error("session %s: %s", session, error, exc_info=error)
        attempt = self._pumped[session].attempt
        # The error came before there was a run to fail. The engine tries the wake-up again.
        if attempt is None:
            raise error
        failures = await self.inbox.note_failure(attempt.run.id, epoch=attempt.epoch)
        # Giving up did not work either. Only the engine's retry is left.
        if failures > FAILURES_MAX:
            raise error
        if failures == FAILURES_MAX:
            await self._give_up(session, f"{type(error).__name__}: {error}")
        # A count of 0: the run is finished, or another worker has it.
        return failures == 0

    async def _give_up(self, session: SessionId, error: str) -> None:
        work = await self.inbox.next_work(session, worker=self.worker)
        if isinstance(work, ResumeRun):
            attempt = await self._resume(work)
            # A run that is complete except for its seal has succeeded and must not be failed by an
            # error in the seal.
            if not isinstance(attempt.run.next_step(), Seal):
                await self.runner.fail(attempt, "error", error)
            await self.runner.drive(attempt)

    async def _resume(self, work: ResumeRun) -> Attempt:
        return self._attempt(work.run, work.epoch, await self.ledger.facts(work.run))

    def _attempt(self, run: RunId, epoch: int, facts: Sequence[RunEvent]) -> Attempt:
        state = Run.replay(run, facts)
        return Attempt(
            self.inbox, self.ledger, self.moment, epoch, [*facts], state,
            observers=self.observers,
        )  # fmt: skip

    async def _drive(self, session: SessionId, attempt: Attempt) -> None:
        """Drive a run until it is sealed, parked or canceled."""
        run = attempt.run.id
        self._pumped.setdefault(session, _SessionState()).attempt = attempt
        with anyio.CancelScope() as scope:
            self._scopes[run] = scope
            try:
                await self.runner.drive(attempt)
            except Canceled:
                # The session's next work is to end this run.
                return
            finally:
                self.runner.forget(run)
                # A run that continued under another scope has replaced the entry meanwhile.
                if self._scopes.get(run) is scope:
                    del self._scopes[run]

    async def _cancel(self, session: SessionId, attempt: Attempt) -> None:
        pumped = self._pumped.setdefault(session, _SessionState())
        partial_reply, pumped.attempt = self._cut_off(pumped.attempt, attempt), attempt
        opened = [run for run in await self.workers.list_open(session) if run.run == attempt.run.id]
        by = opened[0].canceled_by if opened else None
        discard = bool(opened) and opened[0].is_discarded
        await self.runner.interrupt(attempt, "canceled", by=by, discard=discard, said=partial_reply)

    def _cut_off(self, before: Attempt | None, now: Attempt) -> Message | None:
        """Return the unrecorded text of a reply that was interrupted in this process."""
        # After a restart, or if another event was recorded since, the buffered text is not the end
        # of this run.
        if before is None or (before.run.id, before.run.seq) != (now.run.id, now.run.seq):
            return None
        words = self.runner.hub.said(now.run.id, StreamPosition(now.run.seq, before.epoch))
        return partial(words) if words.strip() else None


def _first_facts(session: SessionId, begin: StartRun, moment: Moment) -> list[RunEvent]:
    first, *rest = begin.messages
    data: dict[str, Json] = {
        "session": session,
        "parent": begin.head,
        "parent_digest": begin.head_digest,
        "reason": _REASONS.get(first.message.source, "user"),
        "by": first.by,
        "agent": first.options.get("agent") or ASSISTANT,
    }
    for name in ("source_event", "traceparent"):
        if name in first.options:
            data[name] = first.options[name]
    if begin.workspace_path is not None:
        data["workspace_path"] = begin.workspace_path
    if options := {name: value for name, value in first.options.items() if name not in _INTERNAL}:
        data["options"] = options
    match options.get("max_steps"):
        case int(bound) if bound > 0:
            data["max_steps"] = bound
        case _:
            pass
    facts = [_fact(first.run, 0, "run.started", moment, data, _received(first))]
    for seq, waiting in enumerate(rest, start=1):
        facts.append(
            _fact(
                first.run,
                seq,
                "message.appended",
                moment,
                {"by": waiting.by, "seq": waiting.seq},
                _received(waiting),
            )
        )
    return facts


def _received(waiting: PendingMessage) -> Message:
    """Return a message with the time at which it was sent, if it has none of its own."""
    return replace(waiting.message, at=waiting.message.at or waiting.at)


def _fact(
    run: RunId, seq: int, kind: str, moment: Moment, data: Mapping[str, Json], message: Message
) -> RunEvent:
    return RunEvent.of(Event(run, seq, kind, moment(run, seq), data), message)
