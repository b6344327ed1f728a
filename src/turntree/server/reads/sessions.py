"""``/sessions``: all sessions as a list, the one that worked last first."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from annotated_types import Ge, Le

from turntree.boot.open import stats_on
from turntree.core.errors import InvalidOperation
from turntree.core.ids import SessionId, instant, unix_ms
from turntree.core.session import Session
from turntree.core.value import value
from turntree.ledger.session_store import SessionEnd
from turntree.ledger.shape import Skeleton, SkeletonSession
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.costs import price_spending
from turntree.server.reads.parts import one_line
from turntree.server.route import ApiRoute
from turntree.server.skeleton import read_skeleton
from turntree.stats.spending import CONTEXT_BANDS, SpendingTotal, group
from turntree.wire.sessions import SessionDocument, SessionPage, SessionSummary

SESSIONS_DEFAULT: Final = 50
SESSIONS_MAX: Final = 200
ACTIVITY_DAYS: Final = 14
MS_DIGITS_MAX: Final = 18
_DAY_MS: Final = 24 * 60 * 60 * 1000


@value
class SessionsQuery:
    """Which sessions."""

    limit: Annotated[int, Ge(1), Le(SESSIONS_MAX)] = SESSIONS_DEFAULT
    cursor: str | None = None
    project: str | None = None
    agent: str | None = None
    q: str | None = None
    """Words of the label, the title, the project or the folder."""
    archived: bool = False
    """Whether archived sessions are listed too."""
    figures: bool = True
    """Whether tokens and costs are counted, which reads every model call."""


@value
class SessionQuery:
    """A session, by its label or an alias."""

    session: str


async def list_sessions(context: ServerContext, asked: SessionsQuery) -> SessionPage:
    """Return a page of sessions."""
    skeleton = await read_skeleton(context.tree)
    last_ms = {segment.id: segment.last_ms for segment in skeleton.segments}

    def key(one: SkeletonSession) -> tuple[int, str]:
        return -last_ms.get(one.segment, one.began_ms), one.label

    chosen = sorted((one for one in skeleton.sessions if _is_wanted(one, skeleton, asked)), key=key)
    first = 0
    if asked.cursor is not None:
        # By key and not by number: a session that works meanwhile moves to the front of the list.
        first = bisect_right(chosen, _read_cursor(asked.cursor), key=key)
    page = chosen[first : first + asked.limit]
    following = None
    if first + asked.limit < len(chosen):
        moment, label = key(page[-1])
        following = f"{-moment}.{label}"
    return SessionPage(
        await _summaries(context, skeleton, page, has_figures=asked.figures), following
    )


async def get_session(context: ServerContext, asked: SessionQuery) -> SessionDocument:
    """Return one session.

    Raises:
        NotFound: No such session.
    """
    return session_document(await context.tree.sessions.get(asked.session))


def session_document(session: Session) -> SessionDocument:
    """Return a session as a document."""
    return SessionDocument(
        session.id, session.label, session.head, session.head_digest, session.depth,
        session.version, session.status, session.aliases, session.created_at, session.worked_at,
    )  # fmt: skip


def _read_cursor(cursor: str) -> tuple[int, str]:
    moment, dot, label = cursor.partition(".")
    if not dot or not moment.isascii() or not moment.isdigit() or len(moment) > MS_DIGITS_MAX:
        raise InvalidOperation(f"{cursor[:80]!r} is not a cursor")
    return -int(moment), label


def _is_wanted(one: SkeletonSession, skeleton: Skeleton, asked: SessionsQuery) -> bool:
    if one.archived and not asked.archived:
        return False
    project = _name(skeleton.projects, one.project)
    if asked.project is not None and project != asked.project:
        return False
    if asked.agent is not None and _name(skeleton.agents, one.agent) != asked.agent:
        return False
    if not asked.q:
        return True
    text = " ".join((one.label, one.title, project or "", one.folder or "")).lower()
    return all(word in text for word in asked.q.lower().split())


def _name(names: Sequence[str], index: int) -> str | None:
    return names[index] if 0 <= index < len(names) else None


async def _summaries(
    context: ServerContext,
    skeleton: Skeleton,
    page: Sequence[SkeletonSession],
    *,
    has_figures: bool,
) -> tuple[SessionSummary, ...]:
    if not page:
        return ()
    ids = [SessionId(one.id) for one in page]
    sessions = context.tree.revisions.sessions
    heads = await sessions.list_heads(ids)
    today = unix_ms(context.clock.now()) // _DAY_MS
    since = instant((today - ACTIVITY_DAYS + 1) * _DAY_MS)
    activity = {id: [0] * ACTIVITY_DAYS for id in ids}
    for id, day, turns in await sessions.count_by_day(ids, since):
        if 0 <= day < ACTIVITY_DAYS:
            activity[id][day] += turns
    totals: dict[str, SpendingTotal] = {}
    if has_figures:
        spent = await price_spending(
            await stats_on(context.database).list_spending(CONTEXT_BANDS, with_sessions=True)
        )
        totals = {label: total for (label,), total in group(spent, "session").items()}
    tags: dict[int, list[tuple[int, str]]] = {}
    for mark in skeleton.marks:
        if mark.kind == "tag" and mark.name is not None:
            tags.setdefault(mark.segment, []).append((mark.depth, mark.name))
    first_ms = {segment.id: segment.first_ms for segment in skeleton.segments}
    return tuple(
        _summary(one, skeleton, heads, activity, totals, tags, first_ms)
        for one in page
        if SessionId(one.id) in heads
    )


def _summary(
    one: SkeletonSession,
    skeleton: Skeleton,
    heads: Mapping[SessionId, SessionEnd],
    activity: Mapping[SessionId, Sequence[int]],
    totals: Mapping[str, SpendingTotal],
    tags: Mapping[int, Sequence[tuple[int, str]]],
    first_ms: Mapping[int, int],
) -> SessionSummary:
    id = SessionId(one.id)
    end, total = heads[id], totals.get(one.label, SpendingTotal())
    is_priced = total.calls > 0 and total.calls_unpriced == 0
    names = [name for depth, name in tags.get(one.segment, ()) if depth <= one.depth]
    return SessionSummary(
        id=one.id,
        label=one.label,
        title=one_line(one.title),
        head=end.head,
        turns=one.depth,
        agent=_name(skeleton.agents, one.agent) or "",
        model=end.model,
        project=_name(skeleton.projects, one.project),
        folder=one.folder,
        tool=one.tool,
        began_at=instant(first_ms.get(one.segment, one.began_ms)),
        last_at=end.worked_at,
        tokens=total.usage.total,
        cost=float(total.cost) if is_priced else None,
        archived=one.archived,
        spawned_by=end.spawned_by,
        tags=tuple(dict.fromkeys(names)),
        activity=tuple(activity[id]),
    )


ROUTES: Final = (
    ApiRoute(
        "GET", "/sessions", READ, list_sessions, "Sessions, the one that worked last first.",
        SessionsQuery, SessionPage,
    ),
    ApiRoute(
        "GET", "/sessions/{session}", READ, get_session, "One session: where it is.",
        SessionQuery, SessionDocument,
    ),
)  # fmt: skip
