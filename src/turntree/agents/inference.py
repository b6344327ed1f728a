"""Invocations of models, agents and sessions, by a person or as a tool. Each leaves a turn."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, ProviderNotConfigured, TurntreeError
from turntree.core.ids import RunId, SessionId, TurnId, short_id
from turntree.core.message import Message, Text, user
from turntree.core.principal import ACTIVE
from turntree.core.program import Program
from turntree.core.redaction import without_secrets
from turntree.core.revision import check_label
from turntree.core.run import Caller, caller_of
from turntree.core.session import Session, Spawn
from turntree.core.usage import ModelCall, to_json
from turntree.core.value import value
from turntree.models.provider import Provider
from turntree.programs.model_choice import Choice, choose_model, without_provider
from turntree.programs.service import Programs, Spoken
from turntree.routing.route import Route
from turntree.routing.target import ToSession
from turntree.runs.answer import Answer, check_outcome
from turntree.runs.follow import RunFollower, RunNotice, TextChunk, TurnSealed
from turntree.runs.service import NO_TOOLS, PostOptions, Runs

BuildProvider = Callable[[Program], Provider]
DEPTH_MAX: Final = 8
"""How many runs may wait for one another."""
TASK_CHARS_MAX: Final = 200


@value
class Inference:
    """Answers requests of programs with a model or a session. See ``programs.service``."""

    build_provider: BuildProvider
    runs: Runs
    ensure_served: Callable[[], Awaitable[bool]]
    """Ensures that a worker serves the message; returns whether this process does."""
    pump: Callable[[SessionId], None] | None = None
    """Processes a session's inbox in the background; None outside of a worker. A tool call that
    waits for another run occupies its worker, which might otherwise have no place for that run."""

    async def ask(
        self,
        programs: Programs,
        asked: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Return the reply of a model or an agent to one message, and the turn that it is in.

        The turn is the first one of a session of its own, ``NAME:call-…``: an invocation has no
        history. The session is archived at the end, so that invocations do not fill the list of
        sessions. An agent uses its own model, or the one that the request or the workspace names.

        Raises:
            ProviderNotConfigured: No provider runs the model.
            InvalidOperation: The agent waits for this answer itself, or too many runs do.
            TurnFailed: There is no reply.
        """
        is_agent = asked.kind == "agent"
        choice = await choose_model(
            programs,
            turn={"model": request.get("model") if is_agent else asked.name},
            agent=asked.name if is_agent else None,
            situation=_text(request.get("situation")),
        )
        # Before anything is stored, like the check of a message that is sent.
        await self._check(choice)
        text = _text(request.get("message"))
        if text is None or not text.strip():
            raise InvalidOperation(f"{asked.address} is asked something: say a message")
        options = _read_options(request)
        if is_agent:
            _check_cycle(asked.name)
            options["agent"] = asked.name
        else:
            options["model"] = asked.name
            options["permissions"] = NO_TOOLS
        caller = await self._find_caller(programs, told)
        runs = self._runs_of(programs)
        message, _ = without_secrets(_said(text, caller), runs.redactor)
        system = None if is_agent else _text(request.get("system"))
        before = [] if system is None else [Message("system", (Text(system),))]
        session = await self._begin(runs, asked, caller, message.text)
        try:
            reply = await self._post(runs, session, [*before, message], options, hear, caller)
        except TurntreeError:
            await _archive(runs, session)
            raise
        await _archive(runs, session)
        return reply

    async def send(
        self,
        programs: Programs,
        session: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Send a message to a session, wait for the turn, and return the reply.

        A busy session answers after what it is working on, and after what was sent before.

        Raises:
            ProviderNotConfigured: The session has no model with a provider.
            InvalidOperation: The session or its agent waits for this answer, or too many runs do.
            TurnFailed: The turn did not complete.
        """
        options = _read_options(request)
        caller = await self._find_caller(programs, told)
        runs = self._runs_of(programs)
        # A session's program has the session's own id.
        found = await runs.sessions.ledger.get(SessionId(session.id))
        await programs.check_right(session, "invoke")
        if caller is not None and found.id in caller.waiting:
            raise InvalidOperation(f"{found.label} waits for this answer and cannot be asked")
        if (agent := await runs.find_agent(_route_to(found))) is not None:
            _check_cycle(agent)
        await self.ensure_served()
        message = _said(str(request["message"]), caller)
        return await self._post(runs, found, [message], options, hear, caller)

    async def list_models(self, provider: Program) -> Json:
        """Return the names of a provider's models.

        Raises:
            ProviderNotConfigured: The provider cannot be built.
            ProviderError: The service did not list them.
        """
        return [*await self._build(provider).list_models()]

    def with_runs(self, find_runs: Callable[[], Runs]) -> "Inference":
        """Return the same for another principal, whose runs are given."""
        return replace(self, runs=find_runs())

    async def _check(self, choice: Choice) -> None:
        """Check that the model has a provider, which can be used from here if this process asks."""
        if choice.provider is None:
            error = without_provider(choice.model.address)
            raise ProviderNotConfigured(f"no provider wired: {error}", hint=error.hint)
        # Another worker has its own keys and libraries, which this process cannot see.
        if await self.ensure_served():
            self._build(choice.provider)

    def _build(self, program: Program) -> Provider:
        try:
            return self.build_provider(program)
        except ProviderNotConfigured as error:
            raise ProviderNotConfigured(f"no provider wired: {error}", hint=error.hint) from error

    def _runs_of(self, programs: Programs) -> Runs:
        """Return the runs as the principal that invokes."""
        by = programs.by
        return replace(self.runs, by=by, sessions=replace(self.runs.sessions, by=by))

    async def _find_caller(self, programs: Programs, told: Mapping[str, Json]) -> Caller | None:
        """Return the tool call that invokes; None for a person.

        Raises:
            InvalidOperation: Too many runs wait for one another.
        """
        if "run" not in told:
            return None
        run = RunId(str(told["run"]))
        started = (await self.runs.ledger.facts(run))[0].event.data
        above = caller_of(started)
        waiting = (*(() if above is None else above.waiting), SessionId(str(started["session"])))
        if len(waiting) > DEPTH_MAX:
            raise InvalidOperation(f"{DEPTH_MAX} runs wait for one another: answer without asking")
        return Caller(run, str(told["call_id"]), programs.by, waiting)

    async def _begin(self, runs: Runs, asked: Program, caller: Caller | None, task: str) -> Session:
        """Create the session of an invocation; a repeated call gets the one it created before."""
        id, store = SessionId(runs.world.new_id()), runs.sessions.ledger
        spawn, brief = None, " ".join(task.split())[:TASK_CHARS_MAX]
        if caller is not None:
            spawn = Spawn(caller.waiting[-1], TurnId(caller.run), caller.call_id, task=brief)
        created = await store.create(
            id,
            check_label(f"{asked.name}:call-{short_id(id)[-10:]}"),
            by=str(runs.by),
            at=runs.world.now(),
            key=None if caller is None else caller.key,
            spawn=spawn,
        )
        return await store.get(created.session)

    async def _post(
        self,
        runs: Runs,
        session: Session,
        messages: Sequence[Message],
        options: PostOptions,
        hear: Spoken,
        caller: Caller | None,
    ) -> dict[str, Json]:
        posted = await runs.post(_route_to(session), messages, caller=caller, **options)
        if self.pump is not None:
            self.pump(session.id)
        failed = RunNotice("failed", "")
        calls: tuple[ModelCall, ...] = ()

        def heard(one: object) -> None:
            nonlocal failed, calls
            match one:
                case TextChunk(kind="text", text=text):
                    hear(text)
                case RunNotice("failed"):
                    failed = one
                case TurnSealed():
                    calls = one.calls
                case _:
                    pass

        placed = await RunFollower(runs).follow(posted.run, heard)
        check_outcome(placed.turn, failed.reason, failed.hint)
        return {
            "text": Answer(placed).text,
            "turn": placed.turn.id,
            "digest": placed.turn.digest,
            "session": session.label,
            "model": placed.turn.header.model,
            "call": to_json(calls[-1]) if calls else None,
            "tokens": sum(call.usage.total for call in calls),
        }


async def _archive(runs: Runs, session: Session) -> None:
    await runs.sessions.ledger.set_status(
        session.id, "archived", by=str(runs.by), at=runs.world.now()
    )


def _read_options(request: Mapping[str, Json]) -> PostOptions:
    options: PostOptions = {}
    if (model := _text(request.get("model"))) is not None:
        options["model"] = model
    if (situation := _text(request.get("situation"))) is not None:
        options["situation"] = situation
    return options


def _check_cycle(agent: str) -> None:
    """Refuse an agent that acts already in the run that invokes it, or in one that waits for it.

    Raises:
        InvalidOperation: It does.
    """
    acting = ACTIVE.get()
    principal = None if acting is None else acting.principal
    while principal is not None:
        if (principal.kind, principal.id) == ("agent", agent):
            raise InvalidOperation(f"@({agent}) waits for this answer and cannot be asked")
        principal = principal.on_behalf_of


def _said(text: str, caller: Caller | None) -> Message:
    return user(text, source="human" if caller is None else "agent")


def _route_to(session: Session) -> Route:
    return Route(ToSession(session.label), session.head, session.id, session.label, ())


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
