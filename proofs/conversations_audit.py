"""Compares conversations with the model of a story, when all is quiet.

What an agent was told is read in its turns; who answered what, and who reads what, over the API.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import psycopg
from psycopg import sql

from proofs.conversations_model import (
    OWNERS,
    PEOPLE,
    RELAY,
    RELAYED,
    Talk,
    may_call,
)
from proofs.conversations_world import Told, World, insist
from turntree.core.ids import TurnId
from turntree.core.message import ErasedMessage
from turntree.integrity.fsck import fsck
from turntree.ledger.thread_store import ThreadStore

POSTS_MAX: Final = 500
TOLD: Final = re.compile(r"<system-reminder>post (\d+) by ")
RECALLED: Final = re.compile(r"<system-reminder>post (\d+), which you have been told of")


@dataclass(slots=True)
class Audit:
    """What differs from the model."""

    unanswered: list[str] = field(default_factory=list[str])
    unasked: list[str] = field(default_factory=list[str])
    undecided: list[str] = field(default_factory=list[str])
    posts: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])
    people: list[str] = field(default_factory=list[str])
    erased: list[str] = field(default_factory=list[str])
    findings: list[str] = field(default_factory=list[str])
    answered: int = 0
    decided: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class TurnView:
    """What an agent's turn says: which posts it was told of, and the turn before it."""

    parent: TurnId | None
    told: tuple[int, ...]
    recalled: tuple[int, ...]
    """Posts that it was told of before, and has to answer now: triage decided so meanwhile."""
    is_completed: bool


async def audit_all(world: World, told: Sequence[Told], *, finds: bool = True) -> Audit:
    """Compare every conversation with the model."""
    audit = Audit()
    turns: dict[str, TurnView] = {}
    for one in told:
        for talk in one.talks:
            await _audit_talk(world, audit, talk, turns)
    words = [
        each.word for one in told for talk in one.talks for each in talk.sayings if each.is_erased
    ]
    audit.erased += await find_words(world.database.conninfo, words)
    if finds:
        audit.findings = [
            f"{one.invariant} {one.sentence}: {one.subject}" for one in await fsck(world.database)
        ]
    return audit


async def _audit_talk(world: World, audit: Audit, talk: Talk, turns: dict[str, TurnView]) -> None:
    for person in PEOPLE:
        outcome, _ = await insist(
            world, partial(world.voices[person].list_posts, talk.name, limit=1)
        )
        if (outcome == "done") != talk.can_read(person):
            audit.people.append(f"{person} reads {talk.name}: {outcome}")
    voice = world.voices[talk.creator]
    if not talk.can_read(talk.creator):
        return  # A fork whose maker was removed from what it was forked from.
    posts = {one.seq: one for one in await voice.list_posts(talk.name, limit=POSTS_MAX)}
    present = {one.principal for one in await voice.list_participants(talk.name)}
    wanted = set(talk.present)
    if differs := (present ^ wanted) - {f"agent:{RELAYED}", "agent:triage"}:
        audit.people.append(
            f"{talk.name}: {sorted(differs)} in one of {sorted(present)} and {sorted(wanted)}"
        )
    if sorted(posts) != list(range(1, len(posts) + 1)):
        audit.posts.append(f"{talk.name}: posts {sorted(posts)}")
    said = talk.list_said()
    shown = [(one.seq, one.author, one.content) for one in posts.values()
             if one.author is not None and one.author.startswith("human:")]  # fmt: skip
    expected = [(one.seq, f"human:{one.author}", None if one.is_erased else one.text)
                for one in said]  # fmt: skip
    if sorted(shown) != sorted(expected) or [one.seq for one in said] != sorted(
        one.seq for one in said
    ):
        audit.posts.append(f"{talk.name}: shows {sorted(shown)} instead of {expected}")
    own = {seq: one for seq, one in posts.items() if seq > talk.forked_at}
    for one in posts.values():
        if one.turn is not None and str(one.turn) not in turns:
            turns[str(one.turn)] = await _view(world, str(one.turn))
    _audit_answers(audit, talk, posts, own, turns)


async def _view(world: World, turn: str) -> TurnView:
    placed = await ThreadStore(world.database).get_turn(TurnId(turn))
    texts = tuple(message.text for message in placed.turn.query)
    told = tuple(int(match[1]) for text in texts if (match := TOLD.match(text)))
    if any(isinstance(one, ErasedMessage) for one in placed.turn.query):
        # Which post stood there follows from those around it; the words are what counts.
        told = await _delivered(world, turn)
    recalled = tuple(int(match[1]) for text in texts if (match := RECALLED.match(text)))
    return TurnView(placed.parent, told, recalled, placed.turn.header.outcome == "completed")


async def _delivered(world: World, turn: str) -> tuple[int, ...]:
    rows = await world.database.fetch(
        b"SELECT d.seq FROM turntree.queued_messages q JOIN turntree.post_deliveries d"
        b" ON d.session_id = q.session_id AND d.message_seq = q.seq"
        b" WHERE q.run_id = %(turn)b::text::uuid ORDER BY q.seq", turn=turn,
    )  # fmt: skip
    return tuple(int(seq) for (seq,) in rows)


def _audit_answers(
    audit: Audit,
    talk: Talk,
    posts: Mapping[int, Any],
    own: Mapping[int, Any],
    turns: Mapping[str, TurnView],
) -> None:
    """Look for the answer, or the refusal, of each mention, and for answers to none."""
    by_cause = Counter[int]()
    sayings = {one.seq: one for one in talk.sayings}
    asked = defaultdict[str, set[int]](set)
    """By agent, the posts that it has to answer."""
    allowed = defaultdict[str, set[int]](set)
    """The same, of those that it may answer."""
    for seq, post in sorted(own.items()):
        saying = sayings.get(seq)
        if saying is not None and talk.has_triage and saying.is_unaddressed:
            audit.decided += 1
            if post.decision is None or post.decision_pending:
                audit.undecided.append(f"{talk.name}: {seq}")
                continue
            # Who was removed before the decision was made is not asked, unless it came back before.
            calls = [one for one in post.decision.agents if f"agent:{one}" not in talk.removed_by]
            for one in post.decision.agents:
                allowed[one].add(seq)
        elif saying is not None:
            calls = [one for one in saying.calls if may_call(one, saying.author)]
            if post.decision is not None or post.decision_pending:
                audit.undecided.append(f"{talk.name}: {seq} needed no decision")
        elif post.author == "agent:bravo" and RELAY in (post.content or ""):
            calls = [RELAYED]
        else:
            continue
        for agent in calls:
            if post.hops >= talk.limit or (post.hops and by_cause[post.cause] >= talk.limit):
                audit.refused += 1
                if not any(
                    one.author is None and one.turn is None and one.cause == post.cause
                    and "did not answer: agents have taken" in (one.content or "")
                    for one in own.values() if one.seq > seq
                ):  # fmt: skip
                    audit.unanswered.append(
                        f"{talk.name}: nothing says why {agent} did not answer {seq}"
                    )
            else:
                by_cause[post.cause] += 1 if post.hops else 0
                asked[agent].add(seq)
    answers = defaultdict[str, list[Any]](list)
    for post in own.values():
        if post.turn is not None:
            answers[str(post.turn)].append(post)
    for turn, answered in answers.items():
        if len(answered) != 1:
            audit.unasked.append(f"{talk.name}: {len(answered)} posts for the turn {turn}")
    for agent, seqs in asked.items():
        for seq in sorted(seqs):
            # It may be told of a post again, when the turn that should have answered it failed.
            own_turns = [post for post in own.values()
                         if post.turn is not None and _is_by(post, agent)]  # fmt: skip
            taken = [post for post in own_turns if seq in turns[str(post.turn)].recalled]
            taken = taken or [post for post in own_turns if seq in turns[str(post.turn)].told]
            if not taken:
                audit.unanswered.append(f"{talk.name}: {agent} answered {seq} never")
                continue
            first = min(taken, key=lambda post: post.seq)
            audit.answered += first.author is not None
            audit.failed += first.author is None
            completed = [post for post in taken if turns[str(post.turn)].is_completed]
            if len(completed) > 1:
                audit.unanswered.append(
                    f"{talk.name}: {agent} answered {seq} {len(completed)} times"
                )
    for post in own.values():
        if post.turn is None:
            continue
        agent = next((one for one in OWNERS if _is_by(post, one)), "")
        view = turns[str(post.turn)]
        if not (asked[agent] | allowed[agent]).intersection((*view.told, *view.recalled)):
            audit.unasked.append(
                f"{talk.name}: {agent} answered in {post.seq}, told of {view.told}"
            )
        _audit_told(audit, talk, posts, turns, post, agent)


def _is_by(post: Any, agent: str) -> bool:
    """Whether a post is what came of a turn of an agent, or why nothing came of it."""
    if post.author is not None:
        return bool(post.author == f"agent:{agent}")
    return str(post.content or "").startswith(f"{agent} ")


def _audit_told(
    audit: Audit,
    talk: Talk,
    posts: Mapping[int, Any],
    turns: Mapping[str, TurnView],
    post: Any,
    agent: str,
) -> None:
    """See that an agent has every post up to the one that it answers, once and in order."""
    view = turns[str(post.turn)]
    if list(view.told) != sorted(set(view.told)):
        audit.told.append(f"{talk.name}: {agent} was told {view.told} for {post.seq}")
    if not view.is_completed:
        return
    thread = list[int]()
    at: TurnId | None = TurnId(str(post.turn))
    while at is not None and str(at) in turns:
        thread += turns[str(at)].told
        at = turns[str(at)].parent
    doubled = [seq for seq, times in Counter(thread).items() if times > 1]
    last = max(view.told, default=0)
    # What a turn was told that failed meanwhile comes with the next message.
    late = {seq for one in posts.values() if one.turn is not None and last < one.seq
            and not turns[str(one.turn)].is_completed and _is_by(one, agent)
            for seq in turns[str(one.turn)].told}  # fmt: skip
    missed = [seq for seq in range(1, last + 1) if seq not in thread and seq not in late
              and posts[seq].author != f"agent:{agent}"]  # fmt: skip
    if doubled or missed:
        audit.told.append(
            f"{talk.name}: {agent}, for {post.seq}, was told {doubled} twice and never {missed}"
        )


async def find_words(conninfo: str, words: Sequence[str]) -> list[str]:
    """Return where words are still stored, in any column of any table."""
    if not words:
        return []
    wanted = re.compile("|".join([*words, *[one.encode().hex() for one in words]]))
    found = list[str]()
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as owner:
        tables = await owner.execute(
            b"SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'turntree'::regnamespace"
            b" AND c.relkind = 'r' ORDER BY 1"
        )
        for (table,) in await tables.fetchall():
            query = sql.SQL("SELECT t::text FROM turntree.{} t").format(sql.Identifier(table))
            rows = await owner.execute(query)
            async for (row,) in rows:
                if match := wanted.search(row):
                    found.append(f"{table}: {match[0]} in {row[:200]}")
    return found
