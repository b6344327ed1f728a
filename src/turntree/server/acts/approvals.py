"""``/approvals``: what waits to be decided by a person, and their answers.

The database decides who may answer, once: a caller that acts for a person is not that person.
"""

from typing import Annotated, Any, Final

from annotated_types import Ge, Le, MaxLen, MinLen

from turntree.auth.member import APPROVE
from turntree.core.errors import NotFound
from turntree.core.ids import find_long_id
from turntree.core.value import value
from turntree.policy.approval import NOTE_CHARS_MAX, Approval
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.wire.approvals import ApprovalDocument, ApprovalPage, RejectedRequests

APPROVALS_DEFAULT: Final = 100
APPROVALS_MAX: Final = 1_000
ID_CHARS_MAX: Final = 64
Note = Annotated[str, MaxLen(NOTE_CHARS_MAX)]


@value
class ApprovalQuery:
    """Which requests: those that wait, or all."""

    everything: bool = False
    mine: bool = False
    """Whether those that the caller may not answer are left out."""
    session: str | None = None
    limit: Annotated[int, Ge(1), Le(APPROVALS_MAX)] = APPROVALS_DEFAULT
    after: Annotated[str, MaxLen(ID_CHARS_MAX)] | None = None


@value
class ApprovalId:
    """A request."""

    approval: Annotated[str, MaxLen(ID_CHARS_MAX)]


@value
class VerdictAct:
    """A request that is allowed as it is, or refused."""

    approval: Annotated[str, MaxLen(ID_CHARS_MAX)]
    note: Note | None = None
    """What the model reads with a refusal."""


@value
class EditAct:
    """A call that is allowed with other arguments."""

    approval: Annotated[str, MaxLen(ID_CHARS_MAX)]
    args: dict[str, Any]
    note: Note | None = None


@value
class AnswerAct:
    """The answer to a question."""

    approval: Annotated[str, MaxLen(ID_CHARS_MAX)]
    answer: Any
    note: Note | None = None


@value
class InsteadAct:
    """A session whose run waits, and is to end."""

    session: Annotated[str, MinLen(1)]
    note: Note | None = None


async def list_approvals(context: ServerContext, asked: ApprovalQuery) -> ApprovalPage:
    """Return requests that the caller may see."""
    approvals = context.tree.approvals
    read = approvals.list_all if asked.everything else approvals.list_waiting
    found = await read(
        session=asked.session,
        mine=asked.mine,
        after=None if asked.after is None else _read_id(asked.after),
        limit=asked.limit + 1,
    )
    page = found[: asked.limit]
    return ApprovalPage(
        tuple(_document(context, one) for one in page),
        await approvals.count_waiting(),
        page[-1].id if len(found) > asked.limit else None,
    )


async def get_approval(context: ServerContext, asked: ApprovalId) -> ApprovalDocument:
    """Return a request.

    Raises:
        NotFound: There is none of this id, or it is hidden.
    """
    return _document(context, await context.tree.approvals.get(_read_id(asked.approval)))


async def approve(context: ServerContext, act: VerdictAct) -> ApprovalDocument:
    """Allow a call with its arguments, once.

    Raises:
        NotFound: There is none of this id, or it is hidden.
        PermissionDenied: The caller is not a person who is asked.
    """
    done = await context.tree.approvals.approve(_read_id(act.approval), note=act.note)
    return _decided(context, done)


async def reject(context: ServerContext, act: VerdictAct) -> ApprovalDocument:
    """Refuse a call or a question.

    Raises:
        NotFound: There is none of this id, or it is hidden.
        PermissionDenied: The caller is not a person who is asked.
    """
    done = await context.tree.approvals.reject(_read_id(act.approval), note=act.note)
    return _decided(context, done)


async def edit(context: ServerContext, act: EditAct) -> ApprovalDocument:
    """Allow a call with other arguments, once.

    Raises:
        NotFound: There is none of this id, or it is hidden.
        PermissionDenied: The caller is not a person who is asked.
    """
    done = await context.tree.approvals.edit(_read_id(act.approval), act.args, note=act.note)
    return _decided(context, done)


async def answer(context: ServerContext, act: AnswerAct) -> ApprovalDocument:
    """Answer a question.

    Raises:
        NotFound: There is none of this id, or it is hidden.
        PermissionDenied: The caller is not a person who is asked.
    """
    done = await context.tree.approvals.answer(_read_id(act.approval), act.answer, note=act.note)
    return _decided(context, done)


async def reject_waiting(context: ServerContext, act: InsteadAct) -> RejectedRequests:
    """Reject what a session's run waits for, and end that run.

    Raises:
        PermissionDenied: The caller is not a person who is asked.
    """
    count = await context.tree.approvals.reject_waiting(act.session, note=act.note)
    return RejectedRequests(count)


def _read_id(text: str) -> str:
    id = find_long_id(text)
    if id is None:
        raise NotFound(f"there is no request {text[:80]!r}")
    return id


def _decided(context: ServerContext, done: Approval) -> ApprovalDocument:
    """Return a request that was decided just now, once its agent was told."""
    if context.tell_decided is not None:
        context.tell_decided(done)
    return _document(context, done)


def _document(context: ServerContext, one: Approval) -> ApprovalDocument:
    state = one.verdict_at(context.tree.approvals.world.now())
    principal = context.tree.authority.own.principal
    return ApprovalDocument(
        one.id, one.kind, state, one.tool, one.origin,
        None if one.args is None else dict(one.args), one.args_digest, one.reason,
        one.requested_by, one.answerers, state == "pending" and one.may_be_answered_by(principal),
        one.created_at, one.expires_at, one.run, one.session, one.label, one.call_id, one.folder,
        one.policy, one.line, None if one.question is None else dict(one.question), one.decided_by,
        one.decided_at, one.note, one.answer, one.allowed_digest, one.used_at,
    )  # fmt: skip


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "GET", "/approvals", READ, list_approvals, "What waits to be decided by a person.",
        ApprovalQuery, ApprovalPage,
    ),
    ApiRoute(
        "GET", "/approvals/{approval}", READ, get_approval, "A request, and its answer.",
        ApprovalId, ApprovalDocument,
    ),
    ApiRoute(
        "POST", "/approvals/{approval}/approve", APPROVE, approve, "Allow a call, once.",
        VerdictAct, ApprovalDocument, "write", refusals=(403,),
    ),
    ApiRoute(
        "POST", "/approvals/{approval}/reject", APPROVE, reject, "Refuse a call or a question.",
        VerdictAct, ApprovalDocument, "write", refusals=(403,),
    ),
    ApiRoute(
        "POST", "/approvals/{approval}/edit", APPROVE, edit,
        "Allow a call with other arguments, once.", EditAct, ApprovalDocument, "write",
        refusals=(403,),
    ),
    ApiRoute(
        "POST", "/approvals/{approval}/answer", APPROVE, answer, "Answer a question.",
        AnswerAct, ApprovalDocument, "write", refusals=(403,),
    ),
    ApiRoute(
        "POST", "/sessions/{session}/reject-waiting", APPROVE, reject_waiting,
        "Reject what a run waits for, and end it.", InsteadAct, RejectedRequests, "write",
        refusals=(403,),
    ),
)  # fmt: skip
