"""Which thread a message belongs to: evidence of its turns, added up thread by thread. Pure.

A search ranks turns; a message belongs to a thread, and a thread says what it is about in several
turns: the thing in the first, the error's number in the second. So the words of a thread are
those of all its turns that were found, each counted once by how rare it is, while its meaning is
that of its most similar turn and a little of the next: an average over all would be watered down by
whatever else was talked about.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from turntree.core.ids import TurnId
from turntree.core.value import value
from turntree.search.query import TERMS_MAX, Term
from turntree.search.tokenizer import words_of

WORDS_WEIGHT: Final = 0.31
LIKENESS_WEIGHT: Final = 0.575
SECOND_WEIGHT: Final = 0.115
"""How much a thread's second most similar turn counts."""
RARITY_POWER: Final = 2
"""A name that stands in one thread tells more than any number of words that stand in many."""


@value
class Evidence:
    """What speaks for a turn."""

    turn: TurnId
    words: Mapping[str, float] = field(default_factory=dict[str, float])
    """The words of the message that it holds, and how rare each is."""
    likeness: float = 0.0


@value
class ScoredThread:
    """A thread and what speaks for it."""

    thread: str
    turn: TurnId
    """Its turn that fits best."""
    score: float
    words: float
    likeness: float
    matched: tuple[str, ...]


def terms_of(text: str) -> tuple[Term, ...]:
    """Return the words of a message that say something, each once. It has no operators."""
    found: dict[str, Term] = {}
    for word in words_of(text):
        if word.whole or word.pieces:
            said = text[word.start : word.end]
            found.setdefault(word.whole or said, Term(said, word.whole, word.pieces))
    # Of a long message the longest words are kept: they are the rarest.
    kept = sorted(found.values(), key=lambda term: -len(term.text))[:TERMS_MAX]
    return tuple(term for term in found.values() if term in kept)


def rank(
    evidence: Iterable[Evidence], threads: Mapping[TurnId, Sequence[str]]
) -> list[ScoredThread]:
    """Return threads, the one that fits best first; ``threads`` says which hold each turn.

    Threads that fit alike keep the order in which they are given.
    """
    by_thread: dict[str, list[Evidence]] = {}
    rarity: dict[str, float] = {}
    for one in evidence:
        held_by = threads.get(one.turn, ())
        # What nobody may see must not show in the scores of the others either.
        rarity.update(one.words if held_by else {})
        for thread in held_by:
            by_thread.setdefault(thread, []).append(one)
    scored = [_score(thread, held, rarity) for thread, held in by_thread.items()]
    return sorted(scored, key=lambda one: -one.score)


def _score(thread: str, held: Sequence[Evidence], rarity: Mapping[str, float]) -> ScoredThread:
    matched = dict.fromkeys(word for one in held for word in one.words)
    words = _share(matched, rarity)
    first, second = sorted((0.0, 0.0, *(one.likeness for one in held)), reverse=True)[:2]
    best = max(
        held,
        key=lambda one: (
            WORDS_WEIGHT * _share(one.words, rarity) + LIKENESS_WEIGHT * one.likeness,
            one.turn,
        ),
    )
    score = WORDS_WEIGHT * words + LIKENESS_WEIGHT * first + SECOND_WEIGHT * second
    return ScoredThread(thread, best.turn, score, words, first, tuple(matched))


def _share(words: Iterable[str], rarity: Mapping[str, float]) -> float:
    """Return how much some words are of all that were found anywhere, rare ones counting more."""
    total = sum(value**RARITY_POWER for value in rarity.values())
    return sum(rarity[word] ** RARITY_POWER for word in words) / total if total else 0.0
