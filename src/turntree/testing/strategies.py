"""Hypothesis strategies for everything that is sealed: messages, exchanges, turns, events.

Needs Hypothesis, which Turntree itself does not: install it separately. The values drawn are valid,
and awkward on purpose: characters that libraries sort or escape differently, numbers at the edge of
a double, parts of every kind.
"""

from dataclasses import replace
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from turntree.core.canonical import INTEGER_MAX, Json, digest_bytes
from turntree.core.compaction import Compaction, CompactionKind, CompactionTrigger
from turntree.core.event import KINDS, Event
from turntree.core.ids import RANDOM_BITS, Digest, EventId, Timestamp, TurnId, instant, uuid7
from turntree.core.message import (
    ROLES,
    SOURCES,
    TOOL_STATUSES,
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Part,
    Reasoning,
    Role,
    Source,
    Text,
    ToolResult,
    ToolStatus,
    ToolUse,
)
from turntree.core.principal import Principal, PrincipalKind
from turntree.core.turn import AgentRole, Header, Outcome, SealedTurn, seal

Exchange = tuple[tuple[Message, ...], tuple[Message, ...]]
"""A query and its reply."""

EARLIEST_MS = 0
LATEST_MS = 4_102_444_800_000
_SIGNS = 'aZ_~ \x00\x1f\x7f"\\/\n\r\té\u2028\ue000\ufb33\uffff\U00010000\U0001f600'
_COIN = st.booleans()
_FEW = st.integers(0, 2)
_SIZES = st.integers(0, 2**40)
_ROLES: SearchStrategy[Role] = st.sampled_from(ROLES)


@cache
def texts(*, min_size: int = 0, max_size: int = 8) -> SearchStrategy[str]:
    """Draw text with characters that libraries sort, escape or encode differently."""
    return st.one_of(
        st.text(_SIGNS, min_size=min_size, max_size=max_size),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=max_size),
    )


@cache
def json_values() -> SearchStrategy[Json]:
    """Draw values that have a canonical form, a few levels deep."""
    # Levels that are written out draw ten times faster than st.recursive does.
    level: SearchStrategy[Any] = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-INTEGER_MAX, INTEGER_MAX),
        st.floats(-INTEGER_MAX, INTEGER_MAX),
        texts(),
    )
    for _ in range(2):
        lists, objects = st.lists(level, max_size=2), st.dictionaries(texts(), level, max_size=3)
        level = st.one_of(level, lists, objects)
    return level


@cache
def json_objects() -> SearchStrategy[dict[str, Json]]:
    """Draw values that have members."""
    return st.dictionaries(texts(), json_values(), max_size=3)


@cache
def ids() -> SearchStrategy[str]:
    """Draw UUIDv7s."""
    bits = st.integers(0, (1 << RANDOM_BITS) - 1)
    return st.tuples(st.integers(EARLIEST_MS, LATEST_MS), bits).map(lambda drawn: uuid7(*drawn))


@cache
def digests() -> SearchStrategy[Digest]:
    """Draw arbitrary digests, from so few that two may be equal."""
    return st.integers(0, 255).map(lambda n: digest_bytes(bytes([n])))


@cache
def instants() -> SearchStrategy[Timestamp]:
    """Draw timestamps of this century and the end of the last."""
    return st.integers(EARLIEST_MS, LATEST_MS).map(instant)


@cache
def principals() -> SearchStrategy[Principal]:
    """Draw a principal, sometimes acting on behalf of others."""
    kinds, names = st.sampled_from(get_args(PrincipalKind)), texts(min_size=1)
    level: SearchStrategy[Principal] = st.builds(Principal, kinds, names)
    for _ in range(2):
        level = st.one_of(level, st.builds(Principal, kinds, names, level))
    return level


@cache
def words() -> SearchStrategy[Part]:
    """Draw parts that are neither tool calls nor tool results."""
    kinds = texts(min_size=1).map(lambda text: f"acme.{text}")
    opaque = st.tuples(json_objects(), kinds).map(
        lambda drawn: OpaquePart({**drawn[0], "kind": drawn[1]})
    )
    media = st.builds(
        Media,
        st.sampled_from(["image", "audio", "file"]),
        texts(min_size=1),
        url=st.none() | texts(),
        object=digests(),
        name=st.none() | texts(),
    )
    lifted = st.builds(ObjectRef, st.sampled_from(["text", "reasoning"]), digests(), _SIZES)
    spoken = st.one_of(st.builds(Text, texts()), st.builds(Reasoning, texts(), st.none() | texts()))
    return st.one_of(spoken, media, lifted, opaque)


def tool_uses(call_id: str) -> SearchStrategy[Part]:
    """Draw a tool call, inline or offloaded."""
    return _tool_uses().map(lambda part: replace(part, call_id=call_id))


@cache
def _tool_uses() -> SearchStrategy[ToolUse | ObjectRef]:
    tools, no_id = texts(min_size=1), st.just("")
    return st.one_of(
        st.builds(ToolUse, no_id, tools, json_values()),
        st.builds(ObjectRef, st.just("tool_use"), digests(), _SIZES, no_id, tools),
    )


def tool_results(call_id: str) -> SearchStrategy[Part]:
    """Draw a tool result, inline or offloaded."""
    return _tool_results().map(lambda part: replace(part, call_id=call_id))


@cache
def _tool_results() -> SearchStrategy[ToolResult | ObjectRef]:
    statuses: SearchStrategy[ToolStatus] = st.sampled_from(TOOL_STATUSES)
    no_id, kind = st.just(""), st.just("tool_result")
    return st.one_of(
        st.builds(ToolResult, no_id, statuses, json_values()),
        st.builds(ObjectRef, kind, digests(), _SIZES, no_id, status=statuses),
    )


@st.composite
def messages(draw: DrawFn, role: Role | None = None) -> Message:
    """Draw a message that is complete by itself: no tool calls or results."""
    chosen = draw(_ROLES) if role is None else role
    return draw(dressed(chosen, tuple(draw(st.lists(words(), max_size=3)))))


@st.composite
def dressed(draw: DrawFn, role: Role, parts: tuple[Part, ...]) -> Message:
    """Draw a message of given parts, sometimes with optional members."""
    if draw(_COIN):
        return Message(role, parts)
    return Message(
        role,
        parts,
        source=None if role == "assistant" else draw(_MAYBE_SOURCES),
        at=draw(_MAYBE_INSTANTS),
        context=draw(_MAYBE_OBJECTS),
        meta=draw(_MAYBE_OBJECTS),
        nonce=draw(_MAYBE_TEXTS),
    )


@st.composite
def replies(draw: DrawFn, *, answer_all: bool = True) -> tuple[Message, ...]:
    """Draw a reply: rounds of calls and results, then a last text.

    Without ``answer_all`` some calls have no result, as if the agent had been interrupted.
    """
    reply: list[Message] = []
    for number in range(draw(_FEW)):
        calls = [f"{number}-{draw(texts())}-{n}" for n in range(1 + draw(_FEW))]
        uses = [draw(tool_uses(call)) for call in calls]
        said = draw(st.lists(words(), max_size=2))
        reply.append(draw(dressed("assistant", (*said, *uses))))
        answered = [call for call in draw(st.permutations(calls)) if answer_all or draw(_COIN)]
        results = [draw(tool_results(call)) for call in answered]
        middle = draw(st.integers(0, len(results)))
        pieces = [piece for piece in (results[:middle], results[middle:]) if piece]
        reply.extend(draw(dressed("tool", tuple(piece))) for piece in pieces)
    reply.append(draw(messages("assistant")))
    return tuple(reply)


@st.composite
def exchanges(draw: DrawFn) -> Exchange:
    """Draw the exchange of a completed turn."""
    senders: SearchStrategy[Role] = st.sampled_from(("user", "system"))
    roles = draw(st.lists(senders, min_size=1, max_size=3))
    return tuple([draw(messages(role)) for role in roles]), draw(replies())


@st.composite
def headers(draw: DrawFn, parent: Digest | None = None) -> Header:
    """Draw a header; with a parent, of a child turn."""
    started, sealed = sorted((draw(instants()), draw(instants())))
    header = Header(
        TurnId(draw(ids())),
        parent or draw(_MAYBE_DIGESTS),
        draw(principals()),
        started,
        sealed,
        outcome=draw(st.sampled_from(get_args(Outcome))),
        agent_role=draw(st.sampled_from(get_args(AgentRole))),
        model=draw(_MAYBE_TEXTS),
        provider=draw(_MAYBE_TEXTS),
        manifest=draw(_MAYBE_DIGESTS),
        retry_of=draw(_MAYBE_TURN_IDS),
        derived_from=tuple(draw(st.lists(digests(), max_size=2))),
    )
    if draw(_COIN):
        return header
    return replace(header, kind="compaction", compaction=draw(compactions()))


@cache
def compactions() -> SearchStrategy[Compaction]:
    """Draw the details of a compaction."""
    counts = st.none() | st.integers(0, 2**31 - 1)
    return st.builds(
        Compaction,
        ids().map(TurnId),
        _MAYBE_TURN_IDS,
        st.integers(0, 2**31 - 1),
        st.sampled_from(get_args(CompactionKind)),
        st.sampled_from(get_args(CompactionTrigger)),
        counts,
        counts,
        counts,
        counts,
    )


@st.composite
def turns(draw: DrawFn, parent: Digest | None = None) -> SealedTurn:
    """Draw a sealed turn; with a parent, a child of it."""
    return seal(draw(headers(parent)), *draw(exchanges()))


@st.composite
def events(draw: DrawFn) -> Event:
    """Draw events, of our kinds and of third parties'."""
    foreign = texts(min_size=1).map(lambda text: f"acme.{text}")
    moments = sorted({draw(instants()), draw(instants())})
    return Event(
        draw(ids()),
        draw(st.integers(0, 2**31 - 1)),
        draw(st.one_of(st.sampled_from(sorted(KINDS)), foreign)),
        draw(instants()),
        draw(json_objects()),
        parents=tuple(draw(st.lists(digests().map(EventId), max_size=3))),
        correlation_id=draw(_MAYBE_TEXTS),
        valid_from=moments[0] if draw(_COIN) else None,
        valid_to=moments[1] if len(moments) > 1 and draw(_COIN) else None,
    )


_MAYBE_TEXTS = st.none() | texts()
_MAYBE_INSTANTS = st.none() | instants()
_MAYBE_OBJECTS = st.none() | json_objects()
_MAYBE_DIGESTS = st.none() | digests()
_MAYBE_TURN_IDS = st.none() | ids().map(TurnId)
_MAYBE_SOURCES: SearchStrategy[Source | None] = st.none() | st.sampled_from(SOURCES)
