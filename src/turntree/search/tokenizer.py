"""Split text into lexemes, for the index and for queries.

A *lexeme* is a lower-case word without its English ending. An identifier gives several:
``parseRevision``, ``parse_revision`` and ``parse-revision`` all give ``parserevis``, ``pars`` and
``revis``. Both the index and the query use this module, so that the two cannot disagree.
PostgreSQL's own dictionaries are not used: they are made for prose.

Pure: knows characters, not turns, queries or an index.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from turntree.core.value import value

WORD_CHARS_MAX: Final = 40
# A long word with many digits is a digest or a key: each is unique, so it would only enlarge the
# index, and no person types one.
NOISE_CHARS_MIN: Final = 20
NOISE_DIGITS_MIN: Final = 5
ROOT_CHARS_MIN: Final = 3
BEGINNING_CHARS: Final = 4
# A history uses few distinct words, so almost every word is found here instead of being split
# again.
WORDS_REMEMBERED: Final = 1 << 16

_RUN: Final = re.compile(r"\w+(?:['’.\-]\w+)*")
_JOINT: Final = re.compile(r"[._\-]+")
_PIECE: Final = re.compile(r"[A-Z]+(?![^\W\d_A-Z])\d*|[A-Z]?[^\W\d_A-Z]+\d*|\d+")
_WITHOUT_SPACES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_INSIDE: Final = "_'’.-"
"""What a run of characters has in it besides letters and digits."""
_APOSTROPHE: Final = re.compile(r"['’].*")

COMMON: Final = frozenset((
    "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "cannot",
    "could", "did", "do", "does", "doing", "don", "down", "during", "each", "few", "for", "from",
    "further", "get", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his",
    "how", "if", "in", "into", "is", "it", "its", "itself", "just", "let", "like", "me", "more",
    "most", "my", "no", "nor", "not", "now", "of", "off", "ok", "on", "once", "only", "or", "other",
    "our", "ours", "out", "over", "own", "please", "same", "she", "should", "so", "some", "such",
    "than", "that", "the", "their", "theirs", "them", "then", "there", "these", "they", "this",
    "those", "through", "to", "too", "under", "until", "up", "us", "very", "was", "we", "were",
    "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with", "would", "yes",
    "yet", "you", "your", "yours",
))  # fmt: skip
"""Stop words, which say nothing about the subject of a text."""


@value
class Word:
    """A run of characters in a text: its position and its lexemes."""

    start: int
    end: int
    whole: str
    """The lexeme of the whole word; empty for a stop word."""
    pieces: tuple[str, ...] = ()
    """The lexemes of its pieces, if it has several."""

    @property
    def lexemes(self) -> tuple[str, ...]:
        """All lexemes under which it can be found."""
        return (*((self.whole,) if self.whole else ()), *self.pieces)


def words_of(text: str) -> Iterator[Word]:
    """Yield the words of a text that are not stop words, in order."""
    for run in _RUN.finditer(text):
        if _is_unspaced(run[0]):
            yield from _pairs(run[0], run.start())
            continue
        text_run = _APOSTROPHE.sub("", run[0])
        lexemes = _lexemes(text_run)
        if lexemes:
            yield Word(run.start(), run.start() + len(text_run), lexemes[0], lexemes[1:])


class WordFinder:
    """Finds the words with one of some lexemes, or with one of some prefixes, in many texts.

    A word is split once for all texts: they repeat most of their words.
    """

    def __init__(self, lexemes: frozenset[str], prefixes: tuple[str, ...] = ()) -> None:
        """Start without having seen a word."""
        self._lexemes = lexemes
        self._prefixes = prefixes
        self._letters = tuple({*map(begins_of, lexemes), *prefixes})
        self._known: dict[str, tuple[tuple[str, ...], int]] = {}
        self._beginning = _beginning_of(self._letters)

    def find(self, text: str) -> Iterator[Word]:
        """Yield the words of a text that match, in order."""
        known = self._known
        for run in self._runs(text):
            text_run = run[0]
            match = known.get(text_run)
            if match is None:
                match = self._match(text_run), len(_APOSTROPHE.sub("", text_run))
                known[text_run] = match
            lexemes, length = match
            if not lexemes:
                continue
            start = run.start()
            if _is_unspaced(text_run):
                pairs = _pairs(text_run, start)
                yield from (word for word in pairs if word.whole in self._lexemes)
            else:
                yield Word(start, start + length, lexemes[0], lexemes[1:])

    def _runs(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the runs of characters that may match, in order.

        Most do not, and to find where the others are takes less than half of looking at each.
        """
        lowered = text.lower()
        # A few letters become two in lower case, and the last sigma of a word becomes another one.
        if self._beginning is None or len(lowered) != len(text) or "Σ" in text:
            yield from _RUN.finditer(text)
            return
        search, end = self._beginning.search, 0
        while place := search(lowered, end):
            at = place.start()
            before = text[at - 1 : at]
            begins = at
            if before.isalnum() or before in _INSIDE:
                # The run began earlier, but not before a blank, nor before the end of the last one.
                blank = max(text.rfind(" ", end, at), text.rfind("\n", end, at))
                begins = max(end, blank + 1)
            run = next(run for run in _RUN.finditer(text, begins) if run.end() > at)
            end = run.end()
            yield run

    def _match(self, text_run: str) -> tuple[str, ...]:
        """Return the lexemes of a run of characters if it matches."""
        joined = _JOINT.sub("", text_run).lower()
        if not any(letters in joined for letters in self._letters):
            return ()  # Few words come further, and splitting them takes much longer.
        lexemes = tuple(lexemes_of(text_run))
        if not self._lexemes.isdisjoint(lexemes):
            return lexemes
        return lexemes if _begins(text_run, lexemes, self._prefixes) else ()


def _beginning_of(letters: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return what finds the first of some letters in a text in lower case, with joints or without.

    Only a few of them: more take longer to compile than they save. None if any text will do.
    """
    if not all(letters):
        return None
    joint = f"{_JOINT.pattern[:-1]}*"
    begun = {each[:BEGINNING_CHARS] for each in letters}
    # Nothing has no letters.
    ways = [joint.join(map(re.escape, each)) for each in sorted(begun)] or [r"(?!)"]
    return re.compile("|".join(ways))


def _begins(text: str, lexemes: tuple[str, ...], prefixes: tuple[str, ...]) -> bool:
    if not prefixes or not lexemes:
        return False
    return text.lower().startswith(prefixes) or any(
        lexeme.startswith(prefixes) for lexeme in lexemes
    )


def lexemes_of(text: str) -> Iterator[str]:
    """Yield the lexemes of a text, in order, with repetitions."""
    for text_run in _RUN.findall(text):
        if _is_unspaced(text_run):
            yield from (word.whole for word in _pairs(text_run, 0))
        else:
            yield from _lexemes(
                _APOSTROPHE.sub("", text_run) if "'" in text_run or "’" in text_run else text_run
            )


def distinct_lexemes(text: str) -> Iterator[str]:
    """Yield the lexemes of a long text; each run of characters is split once."""
    for text_run in dict.fromkeys(_RUN.findall(text)):
        yield from lexemes_of(text_run)


def begins_of(lexeme: str) -> str:
    """Return letters with which every word of a lexeme begins: a root may end in another one."""
    return lexeme.removesuffix("i")


def _is_unspaced(text: str) -> bool:
    return not text.isascii() and _WITHOUT_SPACES.search(text) is not None


@lru_cache(maxsize=WORDS_REMEMBERED)
def _lexemes(text: str) -> tuple[str, ...]:
    """Return the lexeme of a run of characters, then those of its pieces. Cached: words repeat."""
    joined = _JOINT.sub("", text)
    if not _is_word(joined):
        return ()
    pieces = [piece for part in _JOINT.split(text) for piece in _PIECE.findall(part)]
    if len(pieces) < 2:  # noqa: PLR2004  (one piece is the whole)
        return (lexeme,) if (lexeme := _lexeme(joined)) else ()
    kept = dict.fromkeys(lexeme for piece in pieces if (lexeme := _lexeme(piece)))
    whole = root(joined.lower())
    return whole, *(piece for piece in kept if piece != whole)


def _pairs(text: str, start: int) -> Iterator[Word]:
    """Yield the pairs of characters of a text that is written without spaces."""
    if len(text) == 1:
        yield Word(start, start + 1, text)
    for index in range(len(text) - 1):
        yield Word(start + index, start + index + 2, text[index : index + 2].lower())


def _is_word(joined: str) -> bool:
    """Return whether a person could remember it; digests and keys are looked up by other means."""
    if not 1 < len(joined) <= WORD_CHARS_MAX:
        return False
    digits = sum(character.isdigit() for character in joined)
    return len(joined) < NOISE_CHARS_MIN or digits < NOISE_DIGITS_MIN


def _lexeme(piece: str) -> str:
    folded = piece.lower()
    return "" if len(folded) < 2 or folded in COMMON else root(folded)  # noqa: PLR2004


_ENDINGS: Final = (
    ("ies", "i", 2), ("sses", "ss", 2), ("ing", "", 3), ("ied", "i", 2), ("edly", "", 3),
    ("ed", "", 3), ("ly", "", 4), ("ss", "ss", 1), ("us", "us", 2), ("es", "", 3), ("s", "", 2),
)  # fmt: skip
_TAILS: Final = (("ation", 5), ("ion", 4), ("ate", 5), ("at", 5), ("e", 2))


def root(word: str) -> str:
    """Return an English word, in lower case, without its ending.

    Light on purpose: a root is only ever compared with other roots, and removing too much would
    mix up identifiers.
    """
    if not word.isascii() or not word.isalpha() or len(word) <= ROOT_CHARS_MIN:
        return word
    once = _without_ending(word)
    # A plural may hide another ending: "settings", "migrations". Only where nothing but the "s" was
    # removed: of "closes", a second pass would leave "clo", which "close" never becomes.
    again = _without_ending(once) if once == word[:-1] else once
    return _without_tail(again)


def roots_begun(letters: str) -> frozenset[str]:
    """Return the roots of the words that some letters become when their ending is completed.

    "redirecti" is longer than the root of "redirecting". Only endings that ``root`` removes count:
    "password" does not begin like "pass" for this purpose.
    """
    endings = (*(ending for ending, _, _ in _ENDINGS), *(tail for tail, _ in _TAILS))
    return frozenset(
        root(letters + ending[written:])
        for ending in endings
        for written in range(1, len(ending))
        if letters.endswith(ending[:written])
    )


def _without_ending(word: str) -> str:
    for ending, instead, left_min in _ENDINGS:
        if not word.endswith(ending):
            continue
        left = word[: -len(ending)]
        if len(left) < left_min or (ending in ("ing", "ed") and not set(left) & set("aeiouy")):
            return word
        doubled = ending in ("ing", "ed") and left[-1] == left[-2] and left[-1] not in "lsz"
        return left[:-1] if doubled else left + instead
    return word


def _without_tail(word: str) -> str:
    for tail, left_min in _TAILS:
        if word.endswith(tail) and len(word) - len(tail) >= left_min:
            word = word[: -len(tail)]
            break
    return word[:-1] + "i" if word.endswith("y") and len(word) > ROOT_CHARS_MIN else word
