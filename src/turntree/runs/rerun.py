"""Reruns a turn live: sends the same query again, to a new session at the same parent.

The first turn does not change. The new session starts at the turn's parent, so both replies are
siblings in the tree. It is as private as the turn.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from turntree.core.errors import Conflict, InvalidOperation
from turntree.core.message import ErasedMessage, Message, Role
from turntree.core.run import RunEvent
from turntree.core.session import Session, numbered_labels
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.ledger.sessions import Sessions
from turntree.ledger.store import Ledger
from turntree.programs.registry import Registry
from turntree.runs.inbox import QueuedMessage
from turntree.runs.service import PostOptions, Runs

DIGITS: Final = 8
_KEPT: Final = ("model", "situation", "params", "agent", "permissions", "max_steps", "compact")
"""Sender's options that a rerun repeats; joining another message is not one of them."""


@value
class RerunStarted:
    """A rerun: its session and its queued message."""

    session: Session
    posted: QueuedMessage


async def rerun(
    runs: Runs,
    sessions: Sessions,
    ledger: Ledger,
    programs: Registry,
    placed: ThreadTurn,
    *,
    label: str | None = None,
    model: str | None = None,
) -> RerunStarted:
    """Send a turn's query again, to a new session at the same parent; return at once.

    It repeats the sender's options: agent, parameters, situation, and the model unless another is
    given. If the first run never called a model, it takes the current settings of its session.

    Raises:
        InvalidOperation: The query has been erased.
        Conflict: A session with that label already exists.
    """
    messages = query_of(placed.turn)
    facts = await ledger.facts(placed.turn.id)
    options = asked_in(facts, model)
    session = facts[0].event.data.get("session") if facts else None
    if session is not None and all(fact.event.kind != "model_call.started" for fact in facts):
        options = await _as_its_session(programs, str(session), options, model)
    options["retry_of"] = placed.turn.id
    begun = await _begin(sessions, placed, label)
    return RerunStarted(begun, await runs.post(begun.label, messages, **options))


def asked_in(facts: Sequence[RunEvent], model: str | None) -> PostOptions:
    """Return the options with which to send a run's query again.

    The session's settings may have changed since, and the new session has none. So model, agent and
    parameters are those that the run resolved. Another model brings its own parameters.
    """
    if not facts:
        return PostOptions() if model is None else PostOptions(model=model)
    options: dict[str, Any] = {}
    started: Any = facts[0].event.data.get("options")
    if isinstance(started, Mapping):
        options = {name: started[name] for name in _KEPT if name in started}
    requests = [fact.event.data for fact in facts if fact.event.kind == "model_call.started"]
    recorded: dict[str, Any] = dict(requests[0]) if requests else {}
    pins: Mapping[str, Any] = recorded.get("versions", {})
    if "agent" in pins:
        options["agent"] = pins["agent"]["address"]
    if model is not None:
        options["model"] = model
    elif "model" in pins:
        options |= {"model": pins["model"]["address"], "params": recorded.get("params", {})}
        # The resolved parameters already include its overlay.
        options.pop("situation", None)
    return cast("PostOptions", options)


async def _as_its_session(
    programs: Registry, session: str, options: PostOptions, model: str | None
) -> PostOptions:
    """Return the options, completed from the session's settings if the caller may read them.

    Another model brings its own parameters.
    """
    program = await programs.find(session)
    if program is None:
        return options
    config: Mapping[str, Any] = program.version.config
    owner = await programs.find(config["owner"]) if config.get("owner") else None
    said: dict[str, Any] = {}
    if owner is not None and owner.kind == "agent":
        said["agent"] = owner.address
    said |= options
    if model is None:
        said.setdefault("model", config.get("default_model"))
        said.setdefault("situation", config.get("situation"))
        said["params"] = {**(config.get("params") or {}), **(options.get("params") or {})}
    return cast("PostOptions", {name: value for name, value in said.items() if value})


def query_of(turn: Turn) -> list[Message]:
    """Return a turn's query as messages to send again.

    Raises:
        InvalidOperation: A message has been erased.
    """
    query: list[Message] = []
    for message in turn.query:
        if isinstance(message, ErasedMessage):
            raise InvalidOperation("the query has been erased, so it cannot be sent again")
        role: Role = "system" if message.role == "system" else "user"
        query.append(Message(role, message.parts, message.source))
    return query


async def _begin(sessions: Sessions, thread_turn: ThreadTurn, label: str | None) -> Session:
    base = label or f"rerun-{thread_turn.turn.digest.removeprefix('sha256:')[:DIGITS]}"
    for tried in numbered_labels(base):
        try:
            if thread_turn.parent is None:
                return await sessions.create(tried, source=thread_turn.turn.id)
            return await sessions.fork(thread_turn.parent, tried, source=thread_turn.turn.id)
        except Conflict:
            if label is not None:
                raise
    raise InvalidOperation(f"too many sessions are named {base!r}")
