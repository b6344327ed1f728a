"""Rank the candidates of an index: where words occur, which snippet to show, and the order.

An index holds bounded documents; here the texts themselves are read again, so that phrases,
excluded words and the order of the results do not depend on what the index left out. Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turntree.core.ids import TurnId
from turntree.core.value import value
from turntree.search.document import SearchPassage, Where
from turntree.search.query import Query, Term
from turntree.search.tokenizer import (
    Word,
    WordFinder,
    begins_of,
    lexemes_of,
    roots_begun,
    words_of,
)

RANK_OFFSET: Final = 60
"""Reciprocal rank fusion's constant: the higher, the less the first ranks dominate."""
WEIGHTS: Final[Mapping[Where, float]] = {
    "asked": 1.0, "file": 0.9, "answered": 0.8, "tool": 0.7, "output": 0.4,
}  # fmt: skip
PHRASE_WEIGHT: Final = 2.0
NEAR_WEIGHT: Final = 1.0
SCORE_DIGITS: Final = 9
"""Sums of the same numbers may differ in their last digits."""
LIKENESS_MIN: Final = 0.3
LIKENESS_SHARE: Final = 0.6
SNIPPET_CHARS: Final = 160
_LEAD_CHARS: Final = 40
_BLANKS: Final = re.compile(r"\s+")


@value
class Snippet:
    """A piece of a message, and the positions of the matched words."""

    where: Where
    message: int
    text: str
    marks: tuple[tuple[int, int], ...] = ()


@value
class MatchScore:
    """What a query matches in a turn."""

    matched: Mapping[str, tuple[Where, ...]]
    """Each word or phrase that was found, and in which kinds of text."""
    score: float
    """How well it matches, compared with other turns for the same query."""
    snippet: Snippet | None


@dataclass(slots=True)
class _PassageHits:
    """A passage with its matching words."""

    passage: SearchPassage
    hits: list[tuple[Word, str]]
    nearest: list[tuple[Word, str]]
    """Those that are close together."""
    value: float
    """How much they say together."""


class Judge:
    """Judges turns for one query."""

    def __init__(self, query: Query, rarity: Mapping[str, float] | None = None) -> None:
        """Take a query, and how rare each of its words is; without it all count the same."""
        self.query = query
        self._rarity = {
            term.text: 1.0 if rarity is None else rarity.get(term.text, 0.0) for term in query.terms
        }
        self._total = sum(self._rarity.values()) or 1.0
        self._keys = {lexeme for term in query.terms for lexeme in (term.whole, *term.pieces)}
        self._opened = [(term.text.lower(), term.whole) for term in query.terms if term.is_open]
        self._begun = {
            lexeme: whole for start, whole in self._opened for lexeme in roots_begun(start)
        }
        self._finder = WordFinder(
            frozenset(self._keys | self._begun.keys()), tuple(start for start, _ in self._opened)
        )
        self._bits = {lexeme: 1 << place for place, lexeme in enumerate(sorted(self._keys))}
        # The same few words come again and again, in the same few combinations.
        self._matches: dict[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = {}
        self._values: dict[int, float] = {}

    @property
    def weights(self) -> dict[str, float]:
        """How much each beginning of a word says about where the query is answered."""
        weights: dict[str, float] = {}
        for term in self.query.terms:
            weights[begins_of(term.whole)] = self._rarity[term.text]
            for piece in term.pieces:
                weights.setdefault(begins_of(piece), self._rarity[term.text] / len(term.pieces))
        # These decide whether a turn is found at all.
        for said in (*self.query.phrases, *self.query.without):
            weights.update((begins_of(lexeme), self._total) for lexeme in lexemes_of(said))
        return weights

    def judge(
        self, passages: Sequence[SearchPassage], snippet_chars: int = SNIPPET_CHARS
    ) -> MatchScore | None:
        """Return what the query matches in the texts of a turn, or None if it is excluded."""
        query = self.query
        # Case folding all texts is only worth it for phrases and excluded words.
        spelt = query.phrases or any(len(said.split()) > 1 for said in query.without)
        folded = [_fold(passage.text) if spelt else "" for passage in passages]
        if any(_stands(said, passages, folded) for said in query.without):
            return None
        matched: dict[str, dict[Where, None]] = {}
        for phrase in query.phrases:
            places: list[Where] = [
                p.where for p, text in zip(passages, folded, strict=True) if _fold(phrase) in text
            ]
            if not places:
                return None
            matched[f'"{phrase}"'] = dict.fromkeys(places)
        read = [self._read(passage) for passage in passages]
        for term in query.terms:
            if found_in := _places(term, read):
                matched[term.text] = found_in
        snippet = _snippet(query, read, snippet_chars)
        places_by_word = {said: tuple(places) for said, places in matched.items()}
        return MatchScore(places_by_word, self._score(places_by_word, read), snippet)

    def _score(
        self, matched: Mapping[str, tuple[Where, ...]], read: Sequence[_PassageHits]
    ) -> float:
        """Return a score: the rarer its words, and the more of them stand together, the higher."""
        held = sum(
            rarity * max(WEIGHTS[where] for where in matched[said])
            for said, rarity in self._rarity.items()
            if said in matched
        )
        near = max((passage.value for passage in read), default=0.0)
        phrases = PHRASE_WEIGHT * len(self.query.phrases)
        return round(phrases + (held + NEAR_WEIGHT * near) / self._total, SCORE_DIGITS)

    def _read(self, passage: SearchPassage) -> _PassageHits:
        text, known = passage.text, self._matches
        hits: list[tuple[Word, str]] = []
        for word in self._finder.find(text):
            key = text[word.start : word.end], word.whole, word.pieces
            matches = known.get(key)
            if matches is None:
                matches = known[key] = self._match(word, text)
            hits += [(word, lexeme) for lexeme in matches]
        return self._nearest(passage, hits)

    def _match(self, word: Word, text: str) -> tuple[str, ...]:
        """Return the lexemes of the query that a word matches."""
        matches = [lexeme for lexeme in word.lexemes if lexeme in self._keys]
        matches += [self._begun[lexeme] for lexeme in word.lexemes if lexeme in self._begun]
        # A completion of the last word counts as that word.
        matches += [whole for start, whole in self._opened if _begins(word, text, start)]
        return tuple(dict.fromkeys(matches))

    def _nearest(self, passage: SearchPassage, hits: list[tuple[Word, str]]) -> _PassageHits:
        """Find the hits that are close together and say the most."""
        if not hits:
            return _PassageHits(passage, hits, hits, 0.0)
        inside = dict.fromkeys(self._bits, 0)
        best, low, high, first, present = 0.0, 0, 0, 0, 0
        for index, (word, lexeme) in enumerate(hits):
            inside[lexeme] += 1
            present |= self._bits[lexeme]
            # A word that comes again is left behind: the rest stands closer together.
            while first < index:
                start, left = hits[first]
                if inside[left] == 1:
                    if word.end - start.start <= SNIPPET_CHARS:
                        break
                    present ^= self._bits[left]
                inside[left] -= 1
                first += 1
            value = self._values.get(present)
            if value is None:
                value = self._values[present] = self._value(inside)
            if value > best:
                best, low, high = value, first, index + 1
        return _PassageHits(passage, hits, hits[low:high], best)

    def _value(self, inside: Mapping[str, int]) -> float:
        """Return how much some lexemes say together."""
        return sum(self._rarity[term.text] * _share(term, inside) for term in self.query.terms)


def _share(term: Term, inside: Mapping[str, int]) -> float:
    """Return how much of a term is among some lexemes."""
    if inside[term.whole] or not term.pieces:
        return float(inside[term.whole] > 0)
    return sum(inside[piece] > 0 for piece in term.pieces) / len(term.pieces)


def merge(*rankings: Iterable[TurnId]) -> list[TurnId]:
    """Return several rankings merged into one, best first, by reciprocal rank fusion."""
    scores: dict[TurnId, float] = {}
    for ranking in rankings:
        for rank, turn in enumerate(ranking, start=1):
            scores[turn] = scores.get(turn, 0.0) + 1 / (RANK_OFFSET + rank)
    # A later id is a later turn; ids only break ties.
    return sorted(scores, key=lambda turn: (scores[turn], turn), reverse=True)


def near_enough(turns: Sequence[tuple[TurnId, float]]) -> list[TurnId]:
    """Return those of the nearest turns that are similar enough to the query.

    Some turn is always nearest: in a small tree every turn would match.
    """
    best = max((likeness for _, likeness in turns), default=0.0)
    least = max(LIKENESS_MIN, LIKENESS_SHARE * best)
    return [turn for turn, likeness in turns if likeness >= least]


def _fold(text: str) -> str:
    return " ".join(text.lower().split())


def _stands(said: str, passages: Sequence[SearchPassage], folded: Sequence[str]) -> bool:
    """Return whether words occur anywhere: one by its lexeme, several as they are written."""
    if len(said.split()) > 1:
        return any(_fold(said) in text for text in folded)
    roots = frozenset(word.whole for word in words_of(said))
    finder = WordFinder(roots)
    return any(any(finder.find(passage.text)) for passage in passages)


def _begins(word: Word, text: str, start: str) -> bool:
    text_part = text[word.start : word.end].lower()
    return text_part.startswith(start) or any(lexeme.startswith(start) for lexeme in word.lexemes)


def _places(term: Term, read: Sequence[_PassageHits]) -> dict[Where, None]:
    """Return where a term was found: all of it, or all its pieces somewhere."""
    wholly: dict[Where, None] = {}
    partly: dict[Where, None] = {}
    pieces: set[str] = set()
    for passage in read:
        for word, lexeme in passage.hits:
            if lexeme == term.whole or (term.pieces and set(term.pieces) <= set(word.lexemes)):
                wholly[passage.passage.where] = None
            elif lexeme in term.pieces:
                partly[passage.passage.where] = None
                pieces.add(lexeme)
    if wholly:
        return wholly
    return partly if term.pieces and pieces >= set(term.pieces) else {}


def _snippet(query: Query, read: Sequence[_PassageHits], chars: int) -> Snippet | None:
    for phrase in query.phrases:
        for passage in read:
            at = passage.passage.text.lower().find(phrase.lower())
            if at >= 0:
                return _cut(passage.passage, at, [(at, at + len(phrase))], chars)
    candidates = [passage for passage in read if passage.nearest]
    if not candidates:
        first = next((passage.passage for passage in read if passage.passage.text.strip()), None)
        return None if first is None else _cut(first, 0, [], chars)
    best = max(candidates, key=lambda each: (each.value, WEIGHTS[each.passage.where]))
    spans = list(dict.fromkeys((word.start, word.end) for word, _ in best.hits))
    return _cut(best.passage, best.nearest[0][0].start, spans, chars)


def _cut(passage: SearchPassage, at: int, spans: Sequence[tuple[int, int]], chars: int) -> Snippet:
    """Return about a line of a passage around a position, on one line, with adjusted marks."""
    text = passage.text
    start = 0 if len(text) <= chars else max(0, at - _LEAD_CHARS)
    while 0 < start < at and not text[start - 1].isspace():
        start += 1
    piece, marks = "", list[tuple[int, int]]()
    inside = [(a, b) for a, b in spans if start <= a and b <= start + chars]
    cursor = start
    for a, b in [*inside, (start + chars, 0)]:
        piece += _flat(text[cursor:a], after=piece)
        if b:
            marks.append((len(piece), len(piece) + len(_flat(text[a:b]))))
            piece += _flat(text[a:b])
            cursor = b
    head = "…" if start else ""
    tail = "…" if start + chars < len(text) else ""
    shifted = tuple((a + len(head), b + len(head)) for a, b in marks)
    return Snippet(passage.where, passage.message, head + piece.rstrip() + tail, shifted)


def _flat(text: str, *, after: str = "") -> str:
    """Return a text on one line, with runs of blanks merged."""
    flat = _BLANKS.sub(" ", text)
    return flat[1:] if (not after or after.endswith(" ")) and flat.startswith(" ") else flat
