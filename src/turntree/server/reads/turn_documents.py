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
from turntree.ledger.revisions import find_exact_id
from turntree.ledger.shape import agent_name
from turntree.ledger.thread_store import TurnProfile
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

    profiles: Mapping[TurnId, TurnProfile]
    costs: Mapping[TurnId, Decimal | None]
    reasons: Mapping[TurnId, str]
    askers: Mapping[TurnId, str]
    titles: Mapping[TurnId, str]
    """Those of the turns that follow."""
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
    # Once they are loaded, a thread would cost more than the prices.
    is_loaded = price_list.cache_info().currsize > 0
    prices = price_list() if is_loaded else await in_thread(price_list)
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
    ids = [placed.turn.id for placed in turns]
    known = [*ids, *([] if next_turn is None else [next_turn])]
    profiles = await context.tree.turns.index.list_profiles(ids, known, branches_max=BRANCHES_MAX)
    return await _documents(context, turns, profiles)


async def read_document(context: ServerContext, revision: str) -> TurnDocument:
    """Return the turn that a revision names as a document.

    Raises:
        NotFound: It names nothing.
    """
    turns = context.tree.turns
    if (id := find_exact_id(revision)) is not None:
        # Most clients name a turn like this: then one statement finds it with all that is known.
        found = await turns.index.find_with_profile(id, branches_max=BRANCHES_MAX)
        if found is not None:
            placed, profile = found
            (document,) = await _documents(context, [placed], {id: profile})
            return document
    (document,) = await read_documents(context, [await turns.get(revision)])
    return document


async def _documents(
    context: ServerContext,
    turns: Sequence[ThreadTurn],
    profiles: Mapping[TurnId, TurnProfile],
) -> tuple[TurnDocument, ...]:
    tree = context.tree
    calls = {turn: profile.calls for turn, profile in profiles.items() if profile.calls}
    started = {placed.turn.id: placed.turn.header.started_at for placed in turns}
    prices = await price_calls(calls, started)
    failed = [placed.turn.id for placed in turns if placed.turn.header.outcome == "failed"]
    imported = [placed.turn.id for placed in turns if not asker_of(placed.turn, {})]
    following = [branch.turn for profile in profiles.values() for branch in profile.branches]
    lifted = {
        part.object
        for placed in turns
        for message in placed.turn.messages
        for part in message.parts
        if isinstance(part, ObjectRef)
    }
    details = PageDetails(
        profiles=profiles,
        costs={turn: sum_known(costs) for turn, costs in prices.items()},
        reasons=await tree.runs.list_reasons(failed) if failed else {},
        askers=await imports_on(context.database).list_importers(imported) if imported else {},
        titles=await _read_titles(context, following) if following else {},
        objects=PartObjects(
            await tree.ledger.list_objects(sorted(lifted), bytes_max=OBJECT_BYTES_READ)
            if lifted
            else {}
        ),
    )
    return tuple(_document(placed, details) for placed in turns)


async def _read_titles(context: ServerContext, turns: Sequence[TurnId]) -> dict[TurnId, str]:
    read = await context.tree.revisions.threads.list_turns(turns)
    return {placed.turn.id: one_line(placed.turn.title) for placed in read}


def _document(placed: ThreadTurn, details: PageDetails) -> TurnDocument:
    turn, header = placed.turn, placed.turn.header
    # It was hidden after it was read: then nothing more is known of it.
    profile = details.profiles.get(turn.id) or TurnProfile(turn.id)
    messages = tuple(
        message_document(message, number, details.objects, profile.spawned)
        for number, message in enumerate(turn.messages)
    )
    calls = profile.calls
    used = sum((call.usage for call in calls), Usage()) if calls else None
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
        tokens=None if used is None else used.total,
        usage=None if used is None else token_use(used),
        cost=None if cost is None else float(cost),
        files=_files_of(turn),
        has_snapshot=profile.has_snapshot,
        compaction=compaction_document(turn),
        sessions=profile.labels,
        tags=profile.tags,
        branches=tuple(
            BranchLink(branch.turn, branch.label, details.titles.get(branch.turn, ""))
            for branch in profile.branches
        ),
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
