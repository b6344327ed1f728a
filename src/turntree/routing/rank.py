"""Ranks threads for a message, from the evidence of their turns. Pure.

A search ranks turns. A message belongs to a thread, and a thread spreads its subject over several
turns: the component in the first, the error number in the second. So the words of all matching
turns of a thread count, each word once, weighted by its rarity. Similarity is that of the most
similar turn and a little of the second: an average over all turns would be diluted by other
subjects in the thread.
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
"""Weight of a thread's second most similar turn."""
RARITY_POWER: Final = 2
"""Words outweigh similarity: a name that occurs in one thread identifies it."""


@value
class Evidence:
    """The evidence for one turn."""

    turn: TurnId
    words: Mapping[str, float] = field(default_factory=dict[str, float])
    """The words of the message that occur in it, and the rarity of each."""
    likeness: float = 0.0


@value
class ScoredThread:
    """A thread and its score."""

    thread: str
    turn: TurnId
    """Its best matching turn."""
    score: float
    words: float
    likeness: float
    matched: tuple[str, ...]


def terms_of(text: str) -> tuple[Term, ...]:
    """Return the significant words of a message, each once; operators are not parsed."""
    found: dict[str, Term] = {}
    for word in words_of(text):
        if word.whole or word.pieces:
            said = text[word.start : word.end]
            found.setdefault(word.whole or said, Term(said, word.whole, word.pieces))
    # For a long message keep the longest words, which tend to be the rarest.
    kept = sorted(found.values(), key=lambda term: -len(term.text))[:TERMS_MAX]
    return tuple(term for term in found.values() if term in kept)


def rank(
    evidence: Iterable[Evidence], threads: Mapping[TurnId, Sequence[str]]
) -> list[ScoredThread]:
    """Return threads, best first; ``threads`` maps a turn to the threads that hold it.

    Threads with equal scores keep their order.
    """
    by_thread: dict[str, list[Evidence]] = {}
    rarity: dict[str, float] = {}
    for one in evidence:
        held_by = threads.get(one.turn, ())
        # A hidden turn must not influence the scores of the others either.
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
    """Return the share of these words among all words found, weighted by rarity."""
    total = sum(value**RARITY_POWER for value in rarity.values())
    return sum(rarity[word] ** RARITY_POWER for word in words) / total if total else 0.0
