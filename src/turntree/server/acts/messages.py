"""Send messages, and cancel the runs that answer them.

A client that goes away cancels nothing: its message is in the inbox, and a worker answers it.
"""

from typing import Annotated, Final

from annotated_types import MaxLen, MinLen

from turntree.auth.members import require_action
from turntree.core.canonical import Json
from turntree.core.ids import TurnId
from turntree.core.value import value
from turntree.runs.service import PostOptions
from turntree.server.access.rights import CREATE, INVOKE
from turntree.server.acts.heads import check_head
from turntree.server.acts.session_moves import read_expected
from turntree.server.context import ServerContext
from turntree.server.idempotency import KEY_CHARS_MAX
from turntree.server.reads.answering import model_option
from turntree.server.reads.runs import read_run
from turntree.server.route import ApiRoute
from turntree.wire.runs import CanceledRun, QueuedRun

TEXT_CHARS_MAX: Final = 500_000


@value
class MessageAct:
    """A message to send."""

    to: Annotated[str, MinLen(1)]
    """A session, created if needed; any turn, which is forked; or an agent, ``@(atlas)``."""
    text: Annotated[str, MinLen(1), MaxLen(TEXT_CHARS_MAX)]
    idempotency_key: Annotated[str, MinLen(1), MaxLen(KEY_CHARS_MAX)]
    agent: str | None = None
    """The agent that answers; without one, the session decides."""
    model: str | None = None
    situation: str | None = None
    prompt: str | None = None
    """Instructions of this turn alone."""
    fold: bool = False
    """Whether it joins the message before it, if no run has started with that one."""
    expected_head: str | None = None
    """The turn that it must follow, with nothing in between."""
    if_match: str | None = None
    """The same, as a header."""


@value
class CancelAct:
    """A run to cancel."""

    run: str
    discard: bool = False
    """Whether the session's head stays where it was, even if a tool had been called."""


async def send_message(context: ServerContext, act: MessageAct) -> QueuedRun:
    """Queue a message, and return the run that answers it, at once.

    The key is kept with the message: after a restart of the server, and by another server of the
    same ledger, a repeated request finds the same run.

    Raises:
        HeadMoved: The session has another head than the client saw.
        Conflict: Another message comes before this one.
        NotFound: The target names nothing that the caller may read.
        PermissionDenied: The caller may not invoke the session or the agent, or begin a session.
        ProviderNotConfigured: No model of this user can answer, and there is no key for one.
    """
    tree, made = context.tree, None
    expected = read_expected(act.expected_head, act.if_match)
    route = await tree.runs.route(act.to, act.text, key=act.idempotency_key)
    is_repeated = await tree.runs.find_by_key(act.idempotency_key) is not None
    if route.session is None:
        # Sending to a new name begins a session, which is a right of its own.
        await require_action(tree.members.store, CREATE, tree.authority.own)
    elif expected is not None and not is_repeated:
        check_head(await tree.sessions.ledger.get(route.session), expected)
    if context.models is not None and not is_repeated:
        # Before anything is stored: without a model it would only become a failed turn.
        agent = await tree.runs.find_agent(route, named=act.agent)
        named = {"model": act.model, "situation": act.situation, "agent": agent}
        options: dict[str, Json] = {name: one for name, one in named.items() if one is not None}
        made = (await context.models.ensure(route, options)).made
    queued = await tree.runs.post(
        route,
        act.text,
        key=act.idempotency_key,
        expected_head=None if expected is None else TurnId(expected),
        **_options_of(act),
    )
    return QueuedRun(
        queued.run, queued.label or act.to, queued.agent, queued.repeated, queued.redacted,
        None if made is None else model_option(made.model, made.provider),
    )  # fmt: skip


async def cancel_run(context: ServerContext, act: CancelAct) -> CanceledRun:
    """Request the cancellation of a run, which may not have started yet.

    Raises:
        NotFound: There is no such run, or it is hidden.
    """
    run = read_run(act.run)
    await context.tree.runs.get(run)
    return CanceledRun(await context.tree.runs.cancel(run, discard=act.discard))


def _options_of(act: MessageAct) -> PostOptions:
    # The caller may be gone when the run fails.
    options = PostOptions(tells_failure=True)
    if act.fold:
        options["fold"] = True
    if act.agent is not None:
        options["agent"] = act.agent
    if act.model is not None:
        options["model"] = act.model
    if act.situation is not None:
        options["situation"] = act.situation
    if act.prompt is not None:
        options["prompt"] = act.prompt
    return options


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/runs", INVOKE, send_message, "Send a message.",
        MessageAct, QueuedRun, "write", headers=("idempotency_key", "if_match"),
    ),
    ApiRoute(
        "POST", "/runs/{run}/cancel", INVOKE, cancel_run, "Cancel a run.",
        CancelAct, CanceledRun, "write",
    ),
)  # fmt: skip
