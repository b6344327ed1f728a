"""``/turns/{revision}/context``, ``permissions``, ``causes`` and ``raw``: what is behind a turn."""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from turntree.auth.audit import AuditGrant, PermissionCheck
from turntree.boot.open import imports_on
from turntree.core.message import ErasedMessage, Message
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Finding, verify
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.ledger.graph.causes import MESSAGE, Cause
from turntree.runs.model_context import ModelCallContext
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.parts import cut_text, one_line, whole_text
from turntree.server.reads.turn_documents import compaction_document
from turntree.server.route import ApiRoute
from turntree.wire.inspection import (
    CauseList,
    CauseStep,
    ContextCall,
    ContextDocument,
    ContextMessage,
    ContextTool,
    ContextTurn,
    PermissionList,
    PermissionUse,
    RawRecordText,
    RawTurn,
)

CONTEXT_TURNS_MAX: Final = 200
MESSAGE_CHARS_MAX: Final = 400
RECORDS_MAX: Final = 200
RAW_BYTES_MAX: Final = 1024 * 1024


@value
class InspectionQuery:
    """The turn that is asked about."""

    revision: str


async def read_context(context: ServerContext, asked: InspectionQuery) -> ContextDocument:
    """Return what the model saw for a turn, as far as that is recorded."""
    tree = context.tree
    turn = (await tree.resolve(asked.revision)).turn
    seen = await tree.contexts.read(turn)
    placed = seen.placed
    newest: Sequence[ThreadTurn] = ()
    total, summary = 0, None
    if placed.parent is not None:
        threads, depth = tree.revisions.threads, placed.depth - 1
        compaction = await threads.find_compaction(placed.parent)
        first = 1
        if compaction is not None:
            at, first_kept = compaction
            first = at if first_kept is None else first_kept
            (summary,) = await threads.list_range(placed.parent, low=at, high=at)
        total = depth - first + 1
        # Of a long thread only the newest turns are read: bodies cost most of a read.
        low = max(first, depth - CONTEXT_TURNS_MAX + 1)
        newest = await threads.list_range(placed.parent, low=low)
    calls = await tree.turns.list_calls([one.turn.id for one in newest])
    header = placed.turn.header
    return ContextDocument(
        turn=turn,
        model=header.model,
        absence=seen.absence,
        is_erased=seen.is_erased,
        calls=tuple(_call(call) for call in seen.calls),
        thread=tuple(
            ContextTurn(
                one.turn.id, one.depth, one_line(one.turn.title), one.turn.header.kind,
                sum((call.usage for call in calls[one.turn.id]), Usage()).total
                if one.turn.id in calls else None,
            )
            for one in newest
        ),
        thread_total=total,
        compaction=None if summary is None else compaction_document(summary.turn),
        manifest=header.manifest,
    )  # fmt: skip


def _call(call: ModelCallContext) -> ContextCall:
    prompt, used = call.prompt, call.taped.call
    return ContextCall(
        number=call.taped.number,
        system=tuple(cut_text(text)[0] for text in prompt.system),
        tools=tuple(
            ContextTool(tool.name, tool.description, tool.effects) for tool in prompt.tools
        ),
        thread_turns=prompt.thread_turns,
        turns_left_out=prompt.left_out,
        messages=tuple(
            ContextMessage(
                message.role, one_line(_words(message), MESSAGE_CHARS_MAX),
                is_own=place >= prompt.thread_messages,
            )
            for place, message in enumerate(prompt.messages)
        ),
        estimated_tokens=prompt.estimated_tokens,
        reported_tokens=None if used is None else used.usage.context,
        cached_tokens=None if used is None else used.usage.cached_input,
        digest=call.taped.input,
        is_same=call.is_same,
    )  # fmt: skip


def _words(message: Message | ErasedMessage) -> str:
    return " ".join(whole_text(part) for part in message.parts)


async def list_permissions(context: ServerContext, asked: InspectionQuery) -> PermissionList:
    """Return the permissions that a turn was granted, used and was denied."""
    tree = context.tree
    turn = (await tree.resolve(asked.revision)).turn
    facts = await tree.authority.list_of_turn(turn)
    grant = next((fact for fact in facts if isinstance(fact, AuditGrant)), None)
    return PermissionList(
        principal=None if grant is None else " for ".join(_chain(grant.who)),
        allowed=() if grant is None else grant.rights.allow,
        withheld=() if grant is None else grant.rights.deny,
        records=tuple(
            PermissionUse(
                fact.at, fact.right, " for ".join(_chain(fact.who)),
                "used" if fact.allowed else "denied", fact.reason,
            )
            for fact in facts
            if isinstance(fact, PermissionCheck)
        ),
    )  # fmt: skip


def _chain(who: Principal | None) -> Iterator[str]:
    while who is not None:
        yield str(who)
        who = who.on_behalf_of


async def list_causes(context: ServerContext, asked: InspectionQuery) -> CauseList:
    """Return what led to a turn, step by step."""
    tree = context.tree
    turn = (await tree.resolve(asked.revision)).turn
    explained = await tree.causes.explain(turn)
    return CauseList(
        " for ".join(_chain(explained.placed.turn.header.by)),
        tuple(_steps(explained.causes, 1)),
        explained.bound is not None,
    )


def _steps(causes: Sequence[Cause], depth: int) -> Iterator[CauseStep]:
    for cause in causes:
        turn = cause.placed.turn if cause.placed is not None else None
        yield CauseStep(
            kind=cause.how,
            depth=depth,
            turn=None if turn is None else turn.id,
            session=cause.session,
            text=_cause_text(cause),
            at=cause.at or (None if turn is None else turn.header.sealed_at),
        )
        yield from _steps(cause.causes, depth + 1)


def _cause_text(cause: Cause) -> str:
    """Return a step as a sentence that ends in the title of its turn."""
    turn = cause.placed
    title = cause.node.id if turn is None else one_line(turn.turn.title)
    match cause.how:
        case "follows":
            return f"Follows: {title}"
        case "forked":
            return f"{cause.session} was forked from: {title}"
        case "spawned":
            return f"{cause.session} was spawned by {cause.tool or 'a tool call'} of: {title}"
        case "retries":
            return f"Tries again: {title}"
        case "derives":
            return f"Was derived from: {title}"
        case "started" if cause.event == MESSAGE:
            return f"Was started by a message of {cause.by}" if cause.by else "Began with a message"
        case "started":
            return f"Was started by the event {title}"
        case "summarizes":
            turns = "1 turn" if cause.turns == 1 else f"{cause.turns:,} turns"
            return f"Summarizes {turns}, up to: {title}"
        case _:
            assert_never(cause.how)


async def read_raw(context: ServerContext, asked: InspectionQuery) -> RawTurn:
    """Return the stored bytes of a turn, hashed again, and the records that it was made from."""
    tree = context.tree
    turn = (await tree.resolve(asked.revision)).turn
    placed = await tree.revisions.threads.get_turn(turn)
    stored = await tree.revisions.threads.find_stored(turn)
    assert stored is not None, "it was just read"
    digest, body = stored
    parent = None
    if placed.parent is not None:
        above = await tree.revisions.threads.find_stored(placed.parent)
        parent = None if above is None else above[0]
    finding = verify(body, digest, parent)
    data = body.encode()
    shown = data[:RAW_BYTES_MAX].decode(errors="ignore")
    records = await imports_on(context.database).read_records_of(turn)
    return RawTurn(
        turn=turn,
        digest=digest,
        parent_digest=parent,
        canonical=shown,
        bytes=len(data),
        is_cut=len(data) > RAW_BYTES_MAX,
        verified=finding != "broken",
        findings=_findings(finding),
        records=tuple(
            RawRecordText(
                f"{origin}: {record.file}",
                cut_text(record.data.decode("utf-8", "replace"))[0],
                len(record.data),
            )
            for origin, record in records[:RECORDS_MAX]
        ),
    )


def _findings(finding: Finding) -> tuple[str, ...]:
    match finding:
        case "whole":
            return ()
        case "erased":
            return ("Messages were erased on request. Everything else is as it was sealed.",)
        case "broken":
            return ("The stored bytes differ from those that were sealed.",)
        case _:
            assert_never(finding)


ROUTES: Final = (
    ApiRoute(
        "GET", "/turns/{revision}/context", READ, read_context, "What the model saw for a turn.",
        InspectionQuery, ContextDocument,
    ),
    ApiRoute(
        "GET", "/turns/{revision}/permissions", READ, list_permissions,
        "Permissions that a turn was granted, used or was denied.", InspectionQuery, PermissionList,
    ),
    ApiRoute(
        "GET", "/turns/{revision}/causes", READ, list_causes, "What led to a turn, step by step.",
        InspectionQuery, CauseList,
    ),
    ApiRoute(
        "GET", "/turns/{revision}/raw", READ, read_raw, "The bytes of a turn and their proof.",
        InspectionQuery, RawTurn,
    ),
)  # fmt: skip
