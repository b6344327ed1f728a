"""Rank the candidates of an index: where words occur, which snippet to show, and the order.

An index holds bounded documents; here the texts themselves are read again, so that phrases,
excluded words and the order of the results do not depend on what the index left out. Pure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turntree.core.ids import TurnId
from turntree.core.value import value
from turntree.search.document import SearchPassage, Where
from turntree.search.query import Query, Term
from turntree.search.tokenizer import Word, find_words, roots_begun, words_of

RANK_OFFSET: Final = 60
"""Reciprocal rank fusion's constant: the higher, the less the first ranks dominate."""
WEIGHTS: Final[Mapping[Where, float]] = {
    "asked": 1.0, "file": 0.9, "answered": 0.8, "tool": 0.7, "output": 0.4,
}  # fmt: skip
PHRASE_WEIGHT: Final = 2.0
NEAR_WEIGHT: Final = 0.5
LIKENESS_MIN: Final = 0.3
LIKENESS_SHARE: Final = 0.6
SNIPPET_CHARS: Final = 160
# Comparing hits pairwise is quadratic, and the snippet shows only one place.
HITS_COMPARED_MAX: Final = 40
_LEAD_CHARS: Final = 40


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
    closeness: float
    """How much phrases, and words close together, add to the score."""
    snippet: Snippet | None


@dataclass(slots=True)
class _PassageHits:
    """A passage with its matching words."""

    passage: SearchPassage
    hits: list[tuple[Word, str]]


def judge(
    query: Query, passages: Sequence[SearchPassage], snippet_chars: int = SNIPPET_CHARS
) -> MatchScore | None:
    """Return what a query matches in the texts of a turn, or None if the turn is excluded."""
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
    read = [_read(query, passage) for passage in passages]
    for term in query.terms:
        if found_in := _places(term, read):
            matched[term.text] = found_in
    places_by_word = {said: tuple(places) for said, places in matched.items()}
    snippet = _snippet(query, read, snippet_chars)
    return MatchScore(places_by_word, _closeness(query, read), snippet)


def score_all(matches: Sequence[MatchScore]) -> list[float]:
    """Return the score of each candidate: the fewer of them contain a word, the more it counts."""
    counts = Counter(said for match in matches for said in match.matched)
    rarity = {said: math.log(1 + len(matches) / count) for said, count in counts.items()}
    total = sum(rarity.values()) or 1.0
    return [
        match.closeness
        + sum(
            rarity[said] * max(WEIGHTS[where] for where in places)
            for said, places in match.matched.items()
        )
        / total
        for match in matches
    ]


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
    return any(any(find_words(passage.text, roots)) for passage in passages)


def _read(query: Query, passage: SearchPassage) -> _PassageHits:
    keys = {lexeme for term in query.terms for lexeme in (term.whole, *term.pieces)}
    opened = [(term.text.lower(), term.whole) for term in query.terms if term.is_open]
    begun = {lexeme: whole for start, whole in opened for lexeme in roots_begun(start)}
    hits: list[tuple[Word, str]] = []
    prefixes = tuple(start for start, _ in opened)
    for word in find_words(passage.text, frozenset(keys | begun.keys()), prefixes):
        matches = [lexeme for lexeme in word.lexemes if lexeme in keys]
        matches += [begun[lexeme] for lexeme in word.lexemes if lexeme in begun]
        # A completion of the last word counts as that word.
        matches += [whole for start, whole in opened if _begins(word, passage.text, start)]
        hits += [(word, lexeme) for lexeme in dict.fromkeys(matches)]
    return _PassageHits(passage, hits)


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


def _closeness(query: Query, read: Sequence[_PassageHits]) -> float:
    items = len(query.terms) + len(query.phrases)
    if not items:
        return 0.0
    near = max((len({lexeme for _, lexeme in _window(passage)}) for passage in read), default=0)
    return PHRASE_WEIGHT * len(query.phrases) + NEAR_WEIGHT * near / items


def _window(read: _PassageHits) -> list[tuple[Word, str]]:
    """Return the hits that are close together, where most different terms occur."""
    best: list[tuple[Word, str]] = []
    for index, (first, _) in enumerate(read.hits[:HITS_COMPARED_MAX]):
        near = [
            hit
            for hit in read.hits[index : index + HITS_COMPARED_MAX]
            if hit[0].end - first.start <= SNIPPET_CHARS
        ]
        if len({lexeme for _, lexeme in near}) > len({lexeme for _, lexeme in best}):
            best = near
    return best


def _snippet(query: Query, read: Sequence[_PassageHits], chars: int) -> Snippet | None:
    for phrase in query.phrases:
        for passage in read:
            at = passage.passage.text.lower().find(phrase.lower())
            if at >= 0:
                return _cut(passage.passage, at, [(at, at + len(phrase))], chars)
    ranked = [(passage, _window(passage)) for passage in read]
    candidates = [(passage, hits) for passage, hits in ranked if hits]
    if not candidates:
        first = next((passage.passage for passage in read if passage.passage.text.strip()), None)
        return None if first is None else _cut(first, 0, [], chars)
    passage, hits = max(
        candidates,
        key=lambda pair: (len({x for _, x in pair[1]}), WEIGHTS[pair[0].passage.where]),
    )
    spans = list(dict.fromkeys((word.start, word.end) for word, _ in passage.hits))
    return _cut(passage.passage, hits[0][0].start, spans, chars)


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
    flat = "".join(" " if character.isspace() else character for character in text)
    while "  " in flat:
        flat = flat.replace("  ", " ")
    return flat[1:] if (not after or after.endswith(" ")) and flat.startswith(" ") else flat
