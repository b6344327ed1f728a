"""Turns as documents, with what is known about them besides their messages.

Everything is read for a page of turns at once, so that a page costs the same number of queries
whether it has one turn or forty.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Final

from turntree.boot.open import imports_on, load_prices
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import ObjectRef
from turntree.core.message_context import files_of
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.usage import ModelCall, Usage
from turntree.core.value import value
from turntree.ledger.shape import agent_name
from turntree.ledger.thread_store import TurnBranch
from turntree.resources.service import in_thread
from turntree.server.context import ServerContext
from turntree.server.reads.parts import (
    TEXT_BYTES_MAX,
    PartObjects,
    message_document,
    one_line,
)
from turntree.stats.costs import find_cost
from turntree.stats.prices import GenaiPrices
from turntree.wire.threads import (
    BranchLink,
    CompactionDocument,
    FileUseDocument,
    TokenUse,
    TurnDocument,
    UseOfFile,
)

BRANCHES_MAX: Final = 20
"""Branches that are named at one turn."""
OBJECT_BYTES_READ: Final = 2 * TEXT_BYTES_MAX
"""A text takes at most twice as many bytes in its document, unless it is all escapes."""
_USES: Final[Mapping[str, UseOfFile]] = {"read": "read", "written": "written"}


@value
class PageDetails:
    """What is known about some turns besides themselves."""

    calls: Mapping[TurnId, Sequence[ModelCall]]
    costs: Mapping[TurnId, Decimal | None]
    labels: Mapping[TurnId, Sequence[str]]
    tags: Mapping[TurnId, Sequence[str]]
    reasons: Mapping[TurnId, str]
    askers: Mapping[TurnId, str]
    spawned: Mapping[tuple[TurnId, str], str]
    snapshots: frozenset[TurnId]
    branches: Mapping[TurnId, Sequence[BranchLink]]
    objects: PartObjects


@cache
def price_list() -> GenaiPrices:
    """Return the list prices, which take half a second to load."""
    return load_prices()


async def price_calls(
    calls: Mapping[TurnId, Sequence[ModelCall]], at: Mapping[TurnId, Timestamp]
) -> dict[TurnId, list[Decimal | None]]:
    """Return the cost of each call, None where it is unknown."""
    if not calls:
        return {}
    prices = await in_thread(price_list)
    return {
        turn: [find_cost(call, at[turn], prices) for call in made] for turn, made in calls.items()
    }


def sum_known(costs: Sequence[Decimal | None]) -> Decimal | None:
    """Return a sum, or None if a part of it is unknown or there is none."""
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if known and len(known) == len(costs) else None


def asker_of(turn: Turn, askers: Mapping[TurnId, str]) -> str:
    """Return the person who asked for a turn; empty if that is not known."""
    person = turn.header.by.person
    return askers.get(turn.id, "") if person is None else person.id


async def read_documents(
    context: ServerContext, turns: Sequence[ThreadTurn], next_turn: TurnId | None = None
) -> tuple[TurnDocument, ...]:
    """Return turns as documents; ``next_turn`` follows the last one and is not a branch of it."""
    if not turns:
        return ()
    details = await _read_details(context, turns, next_turn)
    return tuple(_document(placed, details) for placed in turns)


async def _read_details(
    context: ServerContext, turns: Sequence[ThreadTurn], next_turn: TurnId | None
) -> PageDetails:
    tree = context.tree
    ids = [placed.turn.id for placed in turns]
    sessions = tree.revisions.sessions
    calls = await tree.turns.list_calls(ids)
    started = {placed.turn.id: placed.turn.header.started_at for placed in turns}
    prices = await price_calls(calls, started)
    tags: dict[TurnId, list[str]] = {}
    for turn, tag in await tree.turns.marks.list_tags():
        tags.setdefault(turn, []).append(tag)
    failed = [placed.turn.id for placed in turns if placed.turn.header.outcome == "failed"]
    imported = [placed.turn.id for placed in turns if not asker_of(placed.turn, {})]
    known = [*ids, *([] if next_turn is None else [next_turn])]
    branches = await tree.revisions.threads.list_branches(ids, known, limit=BRANCHES_MAX)
    lifted = {
        part.object
        for placed in turns
        for message in placed.turn.messages
        for part in message.parts
        if isinstance(part, ObjectRef)
    }
    objects = (
        await tree.ledger.list_objects(sorted(lifted), bytes_max=OBJECT_BYTES_READ)
        if lifted
        else {}
    )
    return PageDetails(
        calls=calls,
        costs={turn: sum_known(costs) for turn, costs in prices.items()},
        labels=await sessions.list_labels_at(ids),
        tags=tags,
        reasons=await tree.runs.list_reasons(failed) if failed else {},
        askers=await imports_on(context.database).list_importers(imported) if imported else {},
        spawned=await sessions.list_spawned_labels(ids),
        snapshots=frozenset(one.pin.turn for one in await tree.resources.pins.list_pins(ids)),
        branches=await _name_branches(context, branches),
        objects=PartObjects(objects),
    )


async def _name_branches(
    context: ServerContext, branches: Sequence[TurnBranch]
) -> dict[TurnId, list[BranchLink]]:
    if not branches:
        return {}
    read = await context.tree.revisions.threads.list_turns([branch.turn for branch in branches])
    titles = {placed.turn.id: one_line(placed.turn.title) for placed in read}
    links: dict[TurnId, list[BranchLink]] = {}
    for branch in branches:
        link = BranchLink(branch.turn, branch.label, titles.get(branch.turn, ""))
        links.setdefault(branch.leaves, []).append(link)
    return links


def _document(placed: ThreadTurn, details: PageDetails) -> TurnDocument:
    turn, header = placed.turn, placed.turn.header
    spawned = {call: label for (of, call), label in details.spawned.items() if of == turn.id}
    messages = tuple(
        message_document(message, number, details.objects, spawned)
        for number, message in enumerate(turn.messages)
    )
    calls = details.calls.get(turn.id, ())
    used = sum((call.usage for call in calls), Usage())
    cost = details.costs.get(turn.id)
    return TurnDocument(
        id=turn.id,
        digest=turn.digest,
        parent=placed.parent,
        depth=placed.depth,
        kind=header.kind,
        outcome=header.outcome,
        reason=details.reasons.get(turn.id),
        by=asker_of(turn, details.askers) or header.by.id,
        agent=agent_name(str(header.by)),
        model=header.model,
        provider=header.provider,
        started_at=header.started_at,
        sealed_at=header.sealed_at,
        title=one_line(turn.title),
        query=messages[: turn.query_count],
        reply=messages[turn.query_count :],
        tokens=used.total if calls else None,
        usage=token_use(used) if calls else None,
        cost=None if cost is None else float(cost),
        files=_files_of(turn),
        has_snapshot=turn.id in details.snapshots,
        compaction=compaction_document(turn),
        sessions=tuple(details.labels.get(turn.id, ())),
        tags=tuple(details.tags.get(turn.id, ())),
        branches=tuple(details.branches.get(turn.id, ())),
        is_cut=any(part.is_cut for message in messages for part in message.parts),
    )


def token_use(used: Usage) -> TokenUse:
    """Return tokens as a document."""
    return TokenUse(
        used.input, used.cached_input, used.cache_write, used.output, used.reasoning, used.total
    )


def compaction_document(turn: Turn) -> CompactionDocument | None:
    """Return what a compaction summarized; None if the turn is not one."""
    details = turn.header.compaction
    if details is None:
        return None
    return CompactionDocument(
        details.summarized_through,
        details.first_kept,
        details.turns_summarized,
        details.trigger,
        details.tokens_before,
        details.tokens_after,
    )


def _files_of(turn: Turn) -> tuple[FileUseDocument, ...]:
    uses: dict[str, UseOfFile] = {}
    for message in turn.messages:
        for file in files_of(message):
            use = _USES.get(file.kind)
            # A file that was read and then written is one that was written.
            if use is not None and uses.get(file.path) != "written":
                uses[file.path] = use
    return tuple(FileUseDocument(path, use) for path, use in uses.items())
