"""``/runs/preview`` and ``/sessions/{session}/runs``: what the writer of a message wants to know.

Before it is sent: where it goes, and what answers it. After that: what waits before it, and whether
the last one failed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final

from annotated_types import MinLen

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, TurntreeError
from turntree.core.message import Message
from turntree.core.program import Program
from turntree.core.session import Session
from turntree.core.value import value
from turntree.programs.model_choice import Choice, without_provider
from turntree.routing.route import Route
from turntree.runs.request_resolver import RequestResolver
from turntree.server.access.rights import CREATE, INVOKE, READ
from turntree.server.context import ServerContext
from turntree.server.reads.parts import one_line
from turntree.server.reads.runs import run_document
from turntree.server.route import ApiRoute
from turntree.wire.runs import (
    FailedMessage,
    ModelOption,
    SendPreview,
    SessionRuns,
    UnfinishedRun,
)

MODELS_MAX: Final = 50
"""Models that are offered."""
TEXT_CHARS_MAX: Final = 2000
"""Of a longer message that waits only the beginning is sent."""
SAMPLE: Final = "the sample data is only to look at"


@value
class PreviewQuery:
    """Where a message would go, and what it names."""

    to: Annotated[str, MinLen(1)]
    """A session, created if needed; any turn, which is forked; or an agent, ``@(atlas)``."""
    model: str | None = None
    agent: str | None = None


@value
class SessionRunsQuery:
    """A session, by its label."""

    session: str


async def preview_message(context: ServerContext, asked: PreviewQuery) -> SendPreview:
    """Return what a message would lead to now; nothing is stored.

    Raises:
        NotFound: The target names nothing that the caller may read.
        InvalidRevision: The target is malformed.
    """
    tree = context.tree
    route = await tree.runs.route(asked.to, " ")
    is_new = route.session is None
    begins = await tree.router.name_session(route) if is_new else None
    models = [
        model_option(one)
        async for one in tree.programs.list_all(kind="model")
        if one.state != "deprecated"
    ]
    is_served = bool(await tree.runs.workers.list_workers())
    preview = SendPreview(
        session=None if is_new else route.label, begins=begins, at=route.head, agent=None,
        model=None, key=None, is_served=is_served, models=tuple(models[:MODELS_MAX]),
    )  # fmt: skip
    if not is_served:
        preview = replace(preview, next=_steps(context, Hint("worker.start")))
    if context.is_sample and not context.can_run:
        return replace(preview, problem=SAMPLE, next=())
    if (refusal := await _find_refusal(context, route)) is not None:
        return replace(preview, problem=refusal, next=_steps(context, Hint("member.list")))
    try:
        agent = await tree.runs.find_agent(route, named=asked.agent)
        options: dict[str, Json] = {"model": asked.model, "agent": agent}
        given = {name: one for name, one in options.items() if one is not None}
        preview = replace(preview, agent=agent)
        try:
            choice = await _choose(context, route, given)
        except InvalidOperation as error:
            key = None if context.models is None else context.models.find_key(error)
            if key is None:
                raise
            return replace(preview, key=key.name)
        return replace(preview, model=model_option(choice.model, choice.provider))
    except TurntreeError as error:
        return replace(preview, problem=str(error), next=_steps(context, error.hint))


async def list_session_runs(context: ServerContext, asked: SessionRunsQuery) -> SessionRuns:
    """Return the messages of a session that are not answered yet, and the last if it failed.

    Raises:
        NotFound: No such session.
    """
    runs = context.tree.runs
    session = await context.tree.sessions.get(asked.session)
    # In the order in which these come about: a run that is claimed meanwhile is in both.
    waiting = await runs.list_waiting(session.label)
    found = {
        one.run: UnfinishedRun(
            one.run, "parked" if one.status == "parked" else "open", one.started_at,
            one.is_canceled, reason=one.parked_reason or "",
        )
        for one in await runs.list_open(session.label)
    }  # fmt: skip
    for message in waiting:
        # Several messages may have been joined in one turn; the first says what it is about.
        found.setdefault(
            message.run,
            UnfinishedRun(
                message.run, "waiting", message.at, is_canceled=False,
                text=message.message.text[:TEXT_CHARS_MAX], by=message.by,
            ),
        )  # fmt: skip
    failed = None if found else await _find_failed(context, session)
    return SessionRuns(tuple(found.values()), failed)


async def _choose(context: ServerContext, route: Route, options: Mapping[str, Json]) -> Choice:
    if context.models is not None:
        return await context.models.check(route, options)
    tree = context.tree
    resolver = RequestResolver(tree.programs, tree.ledger, tree.revisions.threads)
    started: dict[str, Json] = {"by": str(tree.runs.by), "options": dict(options)}
    choice = await resolver.preview(route.session, route.head, started)
    if choice.provider is None:
        raise without_provider(choice.model.address)
    return choice


async def _find_refusal(context: ServerContext, route: Route) -> str | None:
    """Return why the caller may not send along a route, without recording a denial."""
    tree = context.tree
    wanted = INVOKE if route.session is not None else CREATE
    for right in dict.fromkeys((INVOKE, wanted)):
        decision = tree.authority.own.decide(right)
        if not decision.allowed:
            return f"{decision.right} is denied: {decision.reason}"
    if route.session is None:
        return None
    program = await tree.programs.find(route.session)
    by = str(tree.runs.by)
    if program is not None and not await tree.programs.allows(program, by, "invoke"):
        return f"{program.owner} lets {by} read {route.label}, and not send to it"
    return None


async def _find_failed(context: ServerContext, session: Session) -> FailedMessage | None:
    """Return the last message if it failed, and the session did not move since."""
    tree = context.tree
    failed = (await tree.runs.list_failed(session.label))[-1:]
    for one in failed:
        report = await tree.runs.get(one.run)
        if report.turn is None or session.head not in (report.turn.parent, report.turn.turn.id):
            return None
        document = run_document(context, report)
        query = [it for it in report.turn.turn.query if isinstance(it, Message)]
        text = "\n\n".join(it.opening for it in query)
        return FailedMessage(one.run, text[:TEXT_CHARS_MAX], document.reason, document.next)
    return None


def model_option(model: Program, provider: Program | None = None) -> ModelOption:
    """Return a model as a document."""
    named = provider.name if provider is not None else model.config.get("provider")
    return ModelOption(
        model.name,
        str(model.config.get("model_id") or model.name),
        None if named is None else one_line(str(named)),
        model.state,
    )


def _steps(context: ServerContext, hint: Hint | None) -> tuple[str, ...]:
    step = None if hint is None else context.command_for(hint)
    return () if step is None else (step,)


ROUTES: Final = (
    ApiRoute(
        "GET", "/runs/preview", READ, preview_message,
        "What a message would lead to, before it is sent.", PreviewQuery, SendPreview,
        refusals=(404,),
    ),
    ApiRoute(
        "GET", "/sessions/{session}/runs", READ, list_session_runs,
        "The messages of a session that are not answered yet.", SessionRunsQuery, SessionRuns,
    ),
)  # fmt: skip
