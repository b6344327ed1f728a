"""``/sealed``: turns as they were sealed, for clients that check the digests themselves.

The documents of ``/threads`` are made for a page: long texts are cut there, and nothing can be
hashed again. What is here is exact, so that another program can show a turn as this one does.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from annotated_types import Ge, Le

from turntree.boot.open import imports_on
from turntree.core.errors import InvalidOperation
from turntree.core.ids import SessionId, TurnId, find_long_id
from turntree.core.message import ObjectRef, line_of
from turntree.core.thread import ThreadTurn, newest_first
from turntree.core.usage import Usage
from turntree.core.usage import to_json as call_to_json
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.turn_documents import asker_of, token_use
from turntree.server.route import ApiRoute
from turntree.wire.sealed import SealedList, SealedThread, SealedTurnDocument, SealedView

TURNS_DEFAULT: Final = 40
TURNS_MAX: Final = 200
BYTES_MAX: Final = 8_000_000
"""A page ends before the turn that would make it larger; it has at least one."""
NEAR_MAX: Final = 20
"""Children and sessions that are listed at one turn."""


@value
class SealedThreadQuery:
    """Which turns of a thread: the newest ones, or those before a depth."""

    revision: str
    before: int | None = None
    limit: Annotated[int, Ge(1), Le(TURNS_MAX)] = TURNS_DEFAULT


@value
class SealedTurnsQuery:
    """Which turns."""

    turns: str = ""
    """Ids, separated by commas."""


@value
class SealedTurnQuery:
    """A turn, by any revision."""

    revision: str


async def read_sealed_thread(context: ServerContext, asked: SealedThreadQuery) -> SealedThread:
    """Return turns of a thread, the newest first.

    The newest page of a session has the turns that failed beside its thread, which no head leads
    to: the sender of the message looks for them there.
    """
    tree = context.tree
    session = await tree.revisions.sessions.find(asked.revision)
    head = session.head if session else (await tree.resolve(asked.revision)).turn
    threads = tree.revisions.threads
    thread: Sequence[ThreadTurn] = ()
    total = 0
    if head is not None:
        total = (await threads.get_turn(head)).depth
        high = total if asked.before is None else min(asked.before - 1, total)
        if high > 0:
            low = max(high - asked.limit + 1, 1)
            thread = await threads.list_range(head, low=low, high=high)
    beside: list[ThreadTurn] = []
    if session is not None and asked.before is None:
        failed = await tree.runs.list_failed(session.label)
        beside = [await threads.get_turn(TurnId(one.run)) for one in failed[-asked.limit :]]
    turns = {placed.turn.id: placed for placed in (*thread, *beside)}
    page = await _documents(context, newest_first(turns.values())[: asked.limit], BYTES_MAX)
    of_thread = {placed.turn.id: placed.depth for placed in thread}
    depths = [of_thread[TurnId(one.id)] for one in page if one.id in of_thread]
    lowest = min(depths, default=total + 1 if thread else None)
    return SealedThread(
        head,
        None if session is None else session.label,
        page,
        lowest if lowest is not None and lowest > 1 else None,
    )


async def list_sealed(context: ServerContext, asked: SealedTurnsQuery) -> SealedList:
    """Return turns by their ids; one that is hidden or does not exist is left out."""
    names = [name for name in asked.turns.split(",") if name]
    ids = [TurnId(name) for name in names if find_long_id(name) == name]
    if len(ids) != len(names) or len(ids) > TURNS_MAX:
        raise InvalidOperation(f"turns are up to {TURNS_MAX} ids, separated by commas")
    turns = await context.tree.revisions.threads.list_turns(ids) if ids else ()
    return SealedList(await _documents(context, turns, BYTES_MAX))


async def read_sealed_turn(context: ServerContext, asked: SealedTurnQuery) -> SealedView:
    """Return a turn with its neighbours."""
    tree = context.tree
    threads, sessions = tree.revisions.threads, tree.revisions.sessions
    placed = await tree.turns.get(asked.revision)
    id = placed.turn.id
    children = await tree.turns.list_children(id)
    near = [id, *([] if placed.parent is None else [placed.parent]), *children[:NEAR_MAX]]
    documents = {
        one.id: one for one in await _documents(context, await threads.list_turns(near), None)
    }
    holding = await threads.list_sessions_holding(id)
    used, _ = await tree.threads.usage(id)
    calls = (await tree.turns.list_calls([id])).get(id, [])

    async def name_all(ids: Sequence[SessionId]) -> tuple[str, ...]:
        return tuple([(await sessions.get(one)).label for one in ids])

    return SealedView(
        turn=documents[id],
        parent=None if placed.parent is None else documents[placed.parent],
        children=tuple(documents[one] for one in children[:NEAR_MAX] if one in documents),
        children_total=len(children),
        held_by=await name_all(holding[:NEAR_MAX]),
        held_by_total=len(holding),
        thread_tokens=used.total,
        calls=tuple(call_to_json(call) for call in calls),
        spawned=await name_all(await sessions.list_spawned(id)),
    )


async def _documents(
    context: ServerContext, turns: Sequence[ThreadTurn], bytes_max: int | None
) -> tuple[SealedTurnDocument, ...]:
    """Return documents of turns in their order, as many as a page may have."""
    if not turns:
        return ()
    tree = context.tree
    ids = [placed.turn.id for placed in turns]
    stored = {one.turn: one for one in await tree.revisions.threads.list_stored(ids)}
    wholes = dict(zip(ids, await tree.turns.restore(turns), strict=True))
    calls = await tree.turns.list_calls(ids)
    failed = [placed.turn.id for placed in turns if placed.turn.header.outcome == "failed"]
    imported = [placed.turn.id for placed in turns if not asker_of(placed.turn, {})]
    reasons = await tree.runs.list_reasons(failed) if failed else {}
    askers = await imports_on(context.database).list_importers(imported) if imported else {}
    digits = await tree.turns.list_unique_lengths([placed.turn.digest for placed in turns])
    labels = await tree.revisions.sessions.list_labels_at(ids)
    tags: dict[TurnId, list[str]] = {}
    for turn, tag in await tree.turns.marks.list_tags():
        tags.setdefault(turn, []).append(tag)
    documents: list[SealedTurnDocument] = []
    size = 0
    for placed in turns:
        id = placed.turn.id
        whole = _write_whole(placed, wholes[id])
        body = stored[id].body
        size += len(body) + len(whole or "")
        if documents and bytes_max is not None and size > bytes_max:
            break
        made = calls.get(id, ())
        documents.append(
            SealedTurnDocument(
                id, placed.turn.digest, placed.parent, placed.depth, body, whole,
                digits[placed.turn.digest], askers.get(id), reasons.get(id),
                token_use(sum((call.usage for call in made), Usage())) if made else None,
                tuple(labels.get(id, ())), tuple(tags.get(id, ())),
            )
        )  # fmt: skip
    return tuple(documents)


def _write_whole(placed: ThreadTurn, restored: ThreadTurn) -> str | None:
    parts = [part for message in placed.turn.messages for part in message.parts]
    if not any(isinstance(part, ObjectRef) for part in parts):
        return None
    return "\n".join(line_of(message).decode() for message in restored.turn.messages)


ROUTES: Final = (
    ApiRoute(
        "GET", "/threads/{revision}/sealed", READ, read_sealed_thread,
        "Turns of a thread as they were sealed, the newest first.",
        SealedThreadQuery, SealedThread,
    ),
    ApiRoute(
        "GET", "/turns/{revision}/sealed", READ, read_sealed_turn,
        "One turn as it was sealed, with its neighbours.", SealedTurnQuery, SealedView,
    ),
    ApiRoute(
        "GET", "/sealed", READ, list_sealed, "Turns as they were sealed, by their ids.",
        SealedTurnsQuery, SealedList,
    ),
)  # fmt: skip
