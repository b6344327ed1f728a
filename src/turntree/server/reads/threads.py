"""``/threads`` and ``/turns``: a page of a thread, one turn, and the whole text of a part."""

from typing import Annotated, Final

import orjson
from annotated_types import Ge, Le

from turntree.core.errors import NotFound
from turntree.core.ids import TurnId
from turntree.core.message import Message, ObjectRef, part_from_json
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.parts import whole_text
from turntree.server.reads.turn_documents import read_document, read_documents
from turntree.server.route import ApiRoute
from turntree.wire.threads import ThreadPage, TurnDocument

TURNS_DEFAULT: Final = 40
TURNS_MAX: Final = 200


@value
class ThreadQuery:
    """Which turns of a thread: the newest ones, those before a depth, or those after one."""

    revision: str
    before: int | None = None
    after: int | None = None
    limit: Annotated[int, Ge(1), Le(TURNS_MAX)] = TURNS_DEFAULT


@value
class TurnQuery:
    """A turn, by any revision."""

    revision: str


@value
class PartQuery:
    """A part of a turn, by the number of its message and its own."""

    revision: str
    message: int
    part: int


async def read_thread(context: ServerContext, asked: ThreadQuery) -> ThreadPage:
    """Return a page of a thread."""
    tree = context.tree
    session = await tree.revisions.sessions.find(asked.revision)
    if session is not None and session.head is None:
        return ThreadPage(None, session.label, 0, (), None, None)
    resolved = await tree.resolve(asked.revision)
    head, threads = resolved.turn, tree.revisions.threads
    total = (await threads.get_turn(head)).depth
    if asked.after is not None:
        low = max(asked.after + 1, 1)
        high = low + asked.limit - 1
    else:
        high = total if asked.before is None else min(asked.before - 1, total)
        low = max(high - asked.limit + 1, 1)
    turns = await threads.list_range(head, low=low, high=min(high, total)) if low <= high else ()
    following: TurnId | None = None
    if turns and turns[-1].depth < total:
        following = await threads.find_at_depth(head, turns[-1].depth + 1)
    documents = await read_documents(context, turns, following)
    labels = await tree.revisions.sessions.list_labels_at([head])
    named = resolved.session.label if resolved.session is not None else None
    return ThreadPage(
        head=head,
        session=named or next(iter(labels.get(head, ())), None),
        turns_total=total,
        turns=documents,
        older=turns[0].depth if turns and turns[0].depth > 1 else None,
        newer=turns[-1].depth if turns and turns[-1].depth < total else None,
    )


async def read_turn(context: ServerContext, asked: TurnQuery) -> TurnDocument:
    """Return one turn."""
    return await read_document(context, asked.revision)


async def read_part(context: ServerContext, asked: PartQuery) -> str:
    """Return everything that one part says."""
    placed = await context.tree.turns.get(asked.revision)
    messages = placed.turn.messages
    if not 0 <= asked.message < len(messages):
        raise NotFound(f"the turn has no message {asked.message}")
    message = messages[asked.message]
    if not isinstance(message, Message) or not 0 <= asked.part < len(message.parts):
        raise NotFound(f"message {asked.message} has no part {asked.part}")
    part = message.parts[asked.part]
    if isinstance(part, ObjectRef):
        part = part_from_json(orjson.loads(await context.tree.ledger.get_object(part.object)))
    return whole_text(part)


ROUTES: Final = (
    ApiRoute(
        "GET", "/threads/{revision}", READ, read_thread, "A page of a thread, root first.",
        ThreadQuery, ThreadPage,
    ),
    ApiRoute("GET", "/turns/{revision}", READ, read_turn, "One turn.", TurnQuery, TurnDocument),
    ApiRoute(
        "GET", "/turns/{revision}/text/{message}/{part}", READ, read_part,
        "The whole text of one part of a message.", PartQuery, str, media="text/plain",
    ),
)  # fmt: skip
