"""The runner: carries out a run's next step and records it before the following one.

``Run.next_step``, which is pure, decides what to do. Every side effect happens between two events:
the intent before it, the result after it. After a crash, an intent without a result shows what may
have happened.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from typing import Any, Protocol, assert_never

import orjson

from turntree.auth import audit
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Decision, Right, right
from turntree.core import event as events
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import (
    Conflict,
    Hint,
    InvalidOperation,
    NotCanonical,
    ProviderError,
    ProviderNotConfigured,
    StalePolicy,
)
from turntree.core.event import Event
from turntree.core.ids import Digest, RunId, Timestamp, TurnId, unix_ms
from turntree.core.message import (
    Message,
    ObjectRef,
    ToolResult,
    ToolUse,
    check_message,
    distinct_calls,
    line_of,
    part_from_json,
    tool,
)
from turntree.core.principal import Principal
from turntree.core.ref import EventRef
from turntree.core.ref import to_json as ref_to_json
from turntree.core.run import (
    AskModel,
    CallTools,
    Done,
    Fail,
    InterruptionReason,
    Seal,
    SettleCalls,
    WaitForUnpark,
    reader_of,
)
from turntree.core.turn import Header, Outcome, seal
from turntree.core.usage import ModelCall
from turntree.core.usage import to_json as call_to_json
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.models.compacting import finish_compaction
from turntree.runs.attempt import Attempt, Draft
from turntree.runs.engine import Wake
from turntree.runs.judging.call_judge import CallJudge, CallRuling
from turntree.runs.judging.call_questions import AskedCalls, CallQuestions, parking
from turntree.runs.live.stream import Hub, StreamPosition
from turntree.runs.model_call import (
    Assemble,
    ModelCaller,
    ModelCallResult,
    ModelRequest,
    PromptInput,
    TooLongPrompt,
)
from turntree.runs.run_files import FileRecorder, NoFiles
from turntree.runs.tool_calls import ToolCaller
from turntree.tools.toolset import GivenAnswer, ToolContext, ToolQuestion, Toolset

ERROR_SIGNS_MAX = 2000
"""Limit of an error in a journal; a provider may return a whole HTML page."""
RETAKEN_MAX = 1
"""How often a repeatable call is made again after its worker died. Without a limit, a call that
kills its worker would kill one worker after the other."""
LOGGED_SIGNS_MAX = 400
"""Limit of an error in a worker's log."""
_LOG = logging.getLogger(__name__)
RunContext = Callable[[Mapping[str, Json], Mapping[str, Json]], Awaitable[ExecutionContext]]
"""Returns the context of a run's tools, from the data of its start and of its first request."""
OwnTools = Callable[[Principal, Mapping[str, Json]], Awaitable[Sequence[Toolset]]]
"""Returns a run's own tools, as its request pinned them, for the principal whose access counts."""


async def no_own_tools(
    reader: Principal,  # noqa: ARG001
    request: Mapping[str, Json],  # noqa: ARG001
) -> Sequence[Toolset]:
    """Return no tools."""
    return ()


class AnswerPoster(Protocol):
    """Posts the answers of runs in the conversations in which they were asked for."""

    async def lock(self, attempt: Attempt) -> None:
        """Lock the conversation, before the session of the run."""
        ...

    async def post(
        self, attempt: Attempt, outcome: Outcome, reply: Sequence[Message]
    ) -> Sequence[Wake]:
        """Post the answer, or why there is none, in the transaction that seals the turn.

        Returns the wake-ups of other sessions that are owed once it has committed.
        """
        ...

    async def wake(self, wakes: Sequence[Wake]) -> None:
        """Schedule the wake-ups."""
        ...

    async def choose(self, attempt: Attempt) -> Draft | None:
        """Return the event that ends a run without a model, if the run can end so.

        Where its data says that it is not clear, a model is better, if there is one.
        """
        ...


@value
class Runner:
    """Drives runs, step by step."""

    ledger: Ledger
    assemble: Assemble
    asking: ModelCaller
    calling: ToolCaller
    hub: Hub
    judge: CallJudge | None = None
    """Judges each call before it is made; None in a replay, which makes none."""
    questions: CallQuestions | None = None
    """Asks people for tools; None where no person can be asked, in a replay."""
    own_tools: OwnTools = no_own_tools
    context_of: RunContext | None = None
    """None where no tool can be reached, in a replay."""
    retaken_max: int = RETAKEN_MAX
    files: FileRecorder = field(default_factory=NoFiles)
    answers: AnswerPoster | None = None
    """None where no conversation can be reached, in a replay."""
    together: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Runs all statements within the block in one transaction."""
    forget: Callable[[RunId], None] = lambda _: None
    """Drops what ``assemble`` keeps of a run for its next request."""

    async def drive(self, attempt: Attempt) -> None:
        """Carry out a run's steps until it is sealed or parked.

        Raises:
            Canceled: Its cancellation was requested.
            Conflict: Another worker took it over.
            DatabaseUnavailable: The database is unreachable; everything recorded so far is safe.
        """
        while True:
            step = attempt.run.next_step()
            match step:
                case AskModel(is_requested):
                    await self._ask(attempt, is_requested=is_requested)
                case CallTools(uses):
                    await self._call(attempt, uses)
                case SettleCalls(call_ids):
                    await self._settle(attempt, call_ids)
                case Fail(reason):
                    # The only reason that the state machine itself has.
                    limit = attempt.run.steps_limit
                    await self.fail(
                        attempt,
                        reason,
                        f"the model was asked {limit} times, the limit of this run, and still wants"
                        " to call tools; send another message to continue, or raise the agent's"
                        " harness/max_steps",
                    )
                case Seal(outcome, reply):
                    await self.seal(attempt, outcome, reply)
                    return
                case WaitForUnpark() | Done():
                    return
                case _:
                    assert_never(step)
            self.hub.tell(attempt.run.id)

    async def interrupt(
        self,
        attempt: Attempt,
        reason: InterruptionReason,
        *,
        by: str | None,
        discard: bool,
        said: Message | None = None,
    ) -> None:
        """End a run where it is, and seal its turn.

        ``said`` is the part of the reply that the model had produced.
        """
        if not isinstance(attempt.run.next_step(), Seal | Done):
            data: dict[str, Json] = {"reason": reason}
            if by is not None:
                data["by"] = by
            if stops := _list_open(attempt):
                data["stops"] = stops
            await attempt.append(Draft("run.interrupted", data, said))
        step = attempt.run.next_step()
        if isinstance(step, Seal):
            await self.seal(attempt, step.outcome, step.reply, discard=discard)

    async def fail(
        self,
        attempt: Attempt,
        reason: str,
        error: str | None = None,
        hint: Hint | None = None,
    ) -> None:
        """Record that a run failed, and what to do about it."""
        data: dict[str, Json] = {"reason": reason}
        if error is not None:
            data["error"] = error[:ERROR_SIGNS_MAX]
        if hint is not None:
            data["hint"] = hint.to_json()
        await attempt.append(Draft("run.failed", data))
        run, why = attempt.run.id, reason if error is None else f"{reason}: {error}"
        _LOG.warning("run %s failed: %s", run, _one_line(why))

    async def _ask(self, attempt: Attempt, *, is_requested: bool) -> None:
        run, (parent, _) = attempt.run, attempt.parent
        before = attempt.requested if is_requested else None
        choice = await self._choose(attempt)
        if choice is not None and before is None and choice.data["is_clear"]:
            await attempt.append(choice)
            return
        question = PromptInput(
            run, attempt.session, parent, attempt.started,
            None if before is None else before.event.data,
        )  # fmt: skip
        try:
            request = await self.assemble(question)
        except (ProviderNotConfigured, InvalidOperation) as error:
            if choice is not None:
                await attempt.append(choice)
                return
            # Retrying cannot help: the configuration has to change. So the run fails, and its
            # reason tells the user what to configure.
            await self.fail(attempt, "no_model", str(error), error.hint)
            return
        match request.request:
            case {"compaction": None}:
                # The session was moved, or compacted, while the message waited.
                await self.fail(attempt, "nothing_to_summarize")
                return
            case _:
                pass
        if before is None:
            # The position makes the id unique; the reply names the request it belongs to.
            await attempt.append(
                Draft("model_call.started", request.request, correlation_id=f"{run.id}/{run.seq}")
            )
        replaced: list[Draft] = []
        try:
            try:
                result = await self._ask_once(attempt, request)
            except ProviderError as error:
                if error.kind != "too_long":
                    raise
                request = await self._ask_for_less(attempt, question, request, error)
                replaced = [_substitution(attempt)]
                result = await self._ask_once(attempt, request)
            message = _fit(result.answer.message, attempt)
        except ProviderError as error:
            if choice is not None:
                await attempt.append(choice)
                return
            await self.fail(attempt, f"provider_{error.kind}", str(error), error.hint)
        except (InvalidOperation, NotCanonical) as error:
            # It could not be sealed, so the run fails now, while the reason is known.
            await self.fail(attempt, "unfit_answer", str(error), error.hint)
        else:
            await attempt.append(*replaced, _response(request, result, message, attempt))

    async def _choose(self, attempt: Attempt) -> Draft | None:
        """Return the event with which a run may end before a model has said anything."""
        if self.answers is None or attempt.run.reply or "triage" not in _options(attempt.started):
            return None
        return await self.answers.choose(attempt)

    async def _ask_once(self, attempt: Attempt, request: ModelRequest) -> ModelCallResult:
        position = StreamPosition(attempt.run.seq, attempt.epoch)
        return await self.asking.ask(request, attempt.run.id, position)

    async def _ask_for_less(
        self,
        attempt: Attempt,
        question: PromptInput,
        request: ModelRequest,
        error: ProviderError,
    ) -> ModelRequest:
        """Record and return a request with less context, after one that was too long."""
        estimated = request.prompt.estimated_tokens
        refused = TooLongPrompt(estimated, error.sent_tokens, error.limit_tokens)
        less = await self.assemble(replace(question, run=attempt.run, refused=refused))
        # Less of the thread did not make it shorter: the turn itself is too long.
        if less.prompt.estimated_tokens >= estimated:
            raise error
        await attempt.append(
            Draft(
                "model_call.started",
                less.request,
                correlation_id=f"{attempt.run.id}/{attempt.run.seq}",
            )
        )
        return less

    async def _call(self, attempt: Attempt, requested: Sequence[ToolUse | ObjectRef]) -> None:
        uses = [await self._whole(use) for use in requested]
        caller = await self._calling(attempt)
        rulings = [CallRuling(use) for use in uses]
        if self.judge is not None:
            rulings = await self.judge.rule(attempt, uses, caller)
        running = [one for one in rulings if one.denial is None and one.waits_for is None]
        withheld = [_denial(use.tool, attempt) for use in uses if caller.withholds(use.tool)]
        writing = [one.use.call_id for one in running if caller.may_write(one.use.tool)]
        files: Mapping[str, Json] = {}
        if writing and attempt.has_folder:
            files = await self.files.begin(attempt)
        intents = [
            _intent(one, attempt, caller, files if one.use.call_id in writing[:1] else {})
            for one in running
        ]
        denials = [
            _result(one.denial, tool(one.denial), attempt, _explain_denial(one, caller))
            for one in rulings
            if one.denial is not None
        ]
        waiting = {str(one.use.call_id): one.waits_for for one in rulings if one.waits_for}
        # What can proceed does so first; then the calls that wait are all that is left.
        parked = [parking(waiting, "approval")] if waiting and not running else []
        judged = [draft for one in rulings for draft in one.drafts]
        try:
            await attempt.append(*judged, *withheld, *denials, *intents, *parked)
        except StalePolicy:
            assert self.judge is not None, "without a judge, no policy decides"
            self.judge.forget()
            return
        changed: dict[str | None, Json] = {
            one.use.call_id: one.use.args for one in running if one.is_substituted
        }
        await self._make(attempt, [one.use for one in running], caller, changed=changed)

    async def _settle(self, attempt: Attempt, call_ids: Sequence[str]) -> None:
        """Repeat interrupted calls that are repeatable; record the others as interrupted."""
        uses = [
            await self._whole(use)
            for data in attempt.run.reply
            for use in data.tool_uses
            if use.call_id in call_ids
        ]
        calling = await self._calling(attempt)
        # Arguments that replaced the model's are the policy's, whose worker died, or a person's.
        uses = [await self._as_begun(attempt, use) for use in uses]
        begun = {use.call_id for use in uses if _has_begun_with(use, attempt)}
        substituted = {
            str(fact.event.data["call_id"])
            for fact in attempt.facts
            if fact.event.kind == "event.substituted" and "call_id" in fact.event.data
        }
        changed: dict[str | None, Json] = {
            use.call_id: use.args for use in uses if use.call_id in substituted
        }
        asked = AskedCalls()
        if self.questions is not None:
            asked = await self.questions.sort(attempt, call_ids)
        uses = [use for use in uses if use.call_id not in asked.waiting]
        for use in uses:
            if (ended := asked.ended.get(use.call_id)) is not None:
                await attempt.append(
                    _result(ended, tool(ended), attempt, calling.explain(use, ended))
                )
        uses = [use for use in uses if use.call_id not in asked.ended]
        if not uses:
            if asked.waiting:
                await attempt.append(parking(asked.waiting))
            return
        continuing = [use for use in uses if use.call_id in asked.answers and use.call_id in begun]
        uses = [use for use in uses if use not in continuing]
        again = [
            use.call_id for use in uses if use.call_id in begun and calling.is_repeatable(use.tool)
        ]
        lost = {use.call_id: "crash" for use in uses if use.call_id not in again}
        lost |= await self._list_given_up(attempt, again)
        if lost:
            affects: list[Json] = [
                _ref_to(fact.event)
                for fact in attempt.facts
                if fact.event.kind == "tool_call.started" and fact.event.data["call_id"] in lost
            ]
            data: dict[str, Json] = {"reason": "crash", "affects": affects, "calls": [*lost]}
            results = [
                _lost_result(ToolResult(call_id, "interrupted", why), attempt)
                for call_id, why in lost.items()
            ]
            await attempt.append(Draft("run.interrupted", data), *results)
        if continuing:
            await attempt.append(*asked.continuing())
        made = [use for use in uses if use.call_id not in lost]
        await self._make(attempt, [*made, *continuing], calling, asked.answers, changed)

    async def _as_begun(self, attempt: Attempt, use: ToolUse) -> ToolUse:
        """Return a call with the arguments that a person gave it, if it was begun with those."""
        if self.judge is None or _has_begun_with(use, attempt):
            return use
        return await self.judge.find_edited(attempt, use) or use

    async def _list_given_up(self, attempt: Attempt, calls: Sequence[str]) -> dict[str, str]:
        """Return the calls that were taken over too often, each with the reason to record."""
        if not calls:
            return {}
        # Counted before the call is made: the call may kill this worker too.
        counted = await attempt.inbox.note_retaken(attempt.run.id, calls, epoch=attempt.epoch)
        return {
            call: f"{count} workers stopped during this call; not retried"
            for call, count in counted.items()
            if count > self.retaken_max
        }

    async def _make(
        self,
        attempt: Attempt,
        uses: Sequence[ToolUse],
        caller: ToolCaller,
        answers: Mapping[str, GivenAnswer] | None = None,
        changed: Mapping[str | None, Json] | None = None,
    ) -> None:
        """Make calls and record their results.

        ``answers`` are what calls continue with, and ``changed`` has the arguments that are not
        those of the model.
        """
        running = {use.call_id: use for use in uses}
        looked_up: dict[str, dict[Right, Decision]] = {}

        def note(call: str, decision: Decision) -> None:
            looked_up.setdefault(call, {})[decision.right] = decision

        async def record(result: ToolResult | ToolQuestion) -> None:
            use = running.pop(result.call_id)
            if isinstance(result, ToolQuestion):
                if self.questions is not None:
                    await attempt.append(self.questions.ask(attempt, use, result))
                    return
                result = ToolResult(use.call_id, "error", "a person cannot be asked here")
            message = tool(result)
            if attempt.has_folder or not attempt.stamps:
                message = await self.files.describe(attempt, result, is_last=not running)
            if changed and use.call_id in changed:
                # The turn has to say what was called. Its events could not be erased with it.
                given = {"arguments": changed[use.call_id]}
                message = replace(message, context={**(message.context or {}), **given})
            decisions = looked_up.pop(result.call_id, {}).values()
            await attempt.append(
                *(_judged(one, attempt) for one in decisions),
                _result(result, message, attempt, caller.explain(use, result)),
            )
            self.hub.tell(attempt.run.id)

        run, session = attempt.run.id, attempt.session
        given = answers or {}
        calls = [
            (use, ToolContext(run, session, use.call_id, given.get(use.call_id))) for use in uses
        ]
        await replace(caller, note=note, store=self.ledger.put_object).call_all(calls, record)

    async def _calling(self, attempt: Attempt) -> ToolCaller:
        request = attempt.first_request
        if request is None:
            return self.calling.among(attempt.offered)
        own = await self.own_tools(reader_of(attempt.started), request)
        caller = self.calling.besides(own).among(attempt.offered)
        if self.context_of is None:
            return caller
        return caller.acting(await self.context_of(attempt.started, request))

    async def _whole(self, use: ToolUse | ObjectRef) -> ToolUse:
        if isinstance(use, ToolUse):
            return use
        part = part_from_json(orjson.loads(await self.ledger.get_object(use.object)))
        assert isinstance(part, ToolUse), "a tool use is offloaded as a tool use"
        return part

    async def seal(
        self,
        attempt: Attempt,
        outcome: Outcome,
        reply: tuple[Message, ...],
        *,
        discard: bool = False,
    ) -> None:
        """Seal a run's turn, and advance its session if the session has to remember the turn."""
        run = attempt.run
        is_filed = attempt.has_folder and bool(run.begun)
        if is_filed:
            await self.files.finish(attempt)
        parent, parent_digest = attempt.parent
        at = attempt.moment(run.id, run.seq)
        header = Header(
            TurnId(run.id),
            parent_digest,
            attempt.acting,
            attempt.facts[0].event.at,
            at,
            outcome=outcome,
            **_asked(attempt),
            **(_compaction(attempt, reply, at) if outcome == "completed" else {}),
        )
        sealed = seal(header, run.query, reply)
        data: dict[str, Json] = {"outcome": outcome, "turn": sealed.turn.digest}
        if outcome == "completed":
            # The last message says what came of it; its address is its position in the turn.
            data["summary_ref"] = f"{run.id}/{len(run.query) + len(reply) - 1}"
        journal = [events.record(Event(run.id, run.seq, "run.finished", at, data))]
        # An agent must not forget what it did, so a turn with a side effect advances the session
        # even if it failed. A failed turn without one leaves the session where it was.
        advances = not discard and (outcome == "completed" or bool(run.begun))
        # Of most runs none is expected: those pass no module of conversations.
        answers = self.answers if "conversation" in _options(attempt.started) else None
        wakes: Sequence[Wake] = ()
        # If the session's head moved meanwhile, the turn stays a child of its parent and the
        # session keeps its new head.
        for session in (attempt.session, None) if advances else (None,):
            try:
                async with self.together() if is_filed or answers else nullcontext():
                    if answers is not None:
                        await answers.lock(attempt)
                    await self.ledger.seal(
                        sealed, parent, by=str(header.by), at=at, session=session,
                        calls=run.calls, journal=journal, epoch=attempt.epoch,
                    )  # fmt: skip
                    if is_filed:
                        await self.files.record(attempt, header.by, at)
                    if answers is not None:
                        wakes = await answers.post(attempt, outcome, reply)
            except Conflict:
                if session is None:
                    raise
            else:
                break
        if answers is not None and wakes:
            await answers.wake(wakes)
        for observer in attempt.observers:
            observer.note_sealed(attempt.facts, header)
        self.hub.forget(run.id)


def _one_line(text: str) -> str:
    # A provider's error may contain terminal escape sequences.
    printable = "".join(
        character for character in " ".join(text.split()) if character.isprintable()
    )
    return printable[:LOGGED_SIGNS_MAX]


def _fit(message: Message, attempt: Attempt) -> Message:
    """Return a reply as it can be recorded, with call ids that are unique in the run.

    Raises:
        InvalidOperation: It is not a valid assistant message.
        NotCanonical: It holds a value without a canonical form.
    """
    if message.role != "assistant":
        raise InvalidOperation(f"a model must reply as assistant, not as {message.role}")
    check_message(message)
    taken = {str(use.call_id) for earlier in attempt.run.reply for use in earlier.tool_uses}
    fitting = distinct_calls(message, taken, attempt.run.seq)
    line_of(fitting)
    return fitting


def _response(
    request: ModelRequest, result: ModelCallResult, message: Message, attempt: Attempt
) -> Draft:
    answer, requested = result.answer, attempt.requested
    assert requested is not None, "the intent comes first"
    # Some providers return no request id; the position in the journal is unique.
    request_id = answer.request_id or f"{attempt.run.id}/{attempt.run.seq}"
    vendor = answer.provider or request.provider.name
    call = ModelCall(answer.model, answer.usage, vendor, request_id)
    data: dict[str, Any] = {
        "call": call_to_json(call),
        "attempts": result.attempts,
        "latency_ms": result.latency_ms,
        "finish_reason": answer.finish_reason,
        "request_id": answer.request_id,
    }
    present = {name: value for name, value in data.items() if value is not None}
    return Draft("model_call.finished", present, message, requested.event.correlation_id)


def _substitution(attempt: Attempt) -> Draft:
    """Return the event that the newest request replaces the one before, which was too long."""
    asked = [fact.event for fact in attempt.facts if fact.event.kind == "model_call.started"]
    *_, original, replacement = asked
    data: dict[str, Json] = {
        "original": _ref_to(original),
        "replacement": _ref_to(replacement),
        "reason": "too_long",
    }
    return Draft("event.substituted", data)


def _ref_to(event: Event) -> Json:
    return ref_to_json(EventRef(events.record(event).id, event.stream, event.seq))


def _judged(decision: Decision, attempt: Attempt) -> Draft:
    return Draft(audit.kind_of(decision), audit.judged_data(attempt.acting, decision))


def _denial(tool: str, attempt: Attempt) -> Draft:
    """Return the event that a model called an installed tool which it was not offered."""
    reason = "the tool was not given to it"
    return _judged(Decision(right("tool", tool), allowed=False, reason=reason), attempt)


def _explain_denial(ruling: CallRuling, caller: ToolCaller) -> Mapping[str, Json]:
    """Return why a call was not made, as its event records it."""
    assert ruling.denial is not None, "it was denied"
    explained = caller.explain(ruling.use, ruling.denial) or {}
    is_refused = caller.refuse(ruling.use) is not None
    return explained if is_refused else {**explained, "code": "denied"}


def _has_begun_with(use: ToolUse, attempt: Attempt) -> bool:
    """Return whether a call was begun with the arguments that the model gave."""
    given = digest_bytes(canonical(use.args))
    return any(
        fact.event.data["call_id"] == use.call_id and fact.event.data.get("args_digest") == given
        for fact in attempt.facts
        if fact.event.kind == "tool_call.started"
    )


def _intent(
    ruling: CallRuling, attempt: Attempt, caller: ToolCaller, files: Mapping[str, Json]
) -> Draft:
    use = ruling.use
    data: dict[str, Json] = {
        "call_id": use.call_id,
        "tool": use.tool,
        "server": caller.server_of(use.tool),
        "args_digest": digest_bytes(canonical(use.args)),
        **files,
    }
    if ruling.approval is not None:
        data["approval"] = ruling.approval
    for fact in reversed(attempt.facts):
        if fact.event.kind == "model_call.finished":
            data["requested_by"] = _ref_to(fact.event)
            break
    return Draft("tool_call.started", data, correlation_id=_correlation(attempt))


def _result(
    result: ToolResult, message: Message, attempt: Attempt, error: Mapping[str, Json] | None
) -> Draft:
    data: dict[str, Json] = {"call_id": result.call_id, "status": result.status}
    if error is not None:
        data["error"] = dict(error)
    return Draft("tool_call.finished", data, message, _correlation(attempt))


def _lost_result(result: ToolResult, attempt: Attempt) -> Draft:
    error: dict[str, Json] = {"code": "interrupted", "message": str(result.output)}
    return _result(result, tool(result), attempt, error)


def _correlation(attempt: Attempt) -> str | None:
    """Return the id that a model call, its response and its tool calls share."""
    return None if attempt.requested is None else attempt.requested.event.correlation_id


def _list_open(attempt: Attempt) -> list[Json]:
    """Return the model call or the tool calls that have started and not finished."""
    opened: dict[str, Json] = {}
    for fact in attempt.facts:
        event = fact.event
        key = str(event.data.get("call_id", "model"))
        match event.kind:
            case "model_call.started" | "tool_call.started":
                opened[key] = _ref_to(event)
            case "model_call.finished" | "tool_call.finished":
                opened.pop(key, None)
            case _:
                pass
    return [*opened.values()]


def _options(started: Mapping[str, Json]) -> Mapping[str, Json]:
    options = started.get("options")
    return options if isinstance(options, dict) else {}


def _compaction(attempt: Attempt, reply: Sequence[Message], at: Timestamp) -> dict[str, Any]:
    """Return the header fields of a turn that summarizes; none of any other turn."""
    planned = (attempt.first_request or {}).get("compaction")
    if not isinstance(planned, Mapping):
        return {}
    duration_ms = unix_ms(at) - unix_ms(attempt.facts[0].event.at)
    details = finish_compaction(planned, reply, duration_ms)
    return {} if details is None else {"kind": "compaction", "compaction": details}


def _asked(attempt: Attempt) -> dict[str, Any]:
    """Return the header fields for the last model called, and for the turn that this one
    retries."""
    requested = attempt.requested
    retried = _options(attempt.started).get("retry_of")
    retry: dict[str, Any] = {} if retried is None else {"retry_of": TurnId(str(retried))}
    if requested is None:
        return retry
    data, calls = requested.event.data, attempt.run.calls
    manifest = data.get("manifest")
    role = (attempt.first_request or {}).get("role")
    return {
        **retry,
        **({} if role is None else {"agent_role": role}),
        "model": calls[-1].model if calls else data.get("model"),
        "provider": calls[-1].provider if calls else data.get("provider"),
        "manifest": None if manifest is None else Digest(str(manifest)),
    }
