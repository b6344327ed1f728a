"""The search grammar: parse what a person typed into a query.

    query    = item*
    item     = ["-"] (phrase | operator | word)
    phrase   = '"' characters '"'
    operator = name ":" (phrase | characters without spaces)
    name     = in | by | model | tool | file | origin | before | after | failed | archived

Stop words (``the``, ``what``) are skipped. The last word may be incomplete. Knows how a query is
written, not how it is answered; the current time is an argument.
"""

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from turntree.core.errors import InvalidQuery
from turntree.core.ids import Timestamp
from turntree.core.time_phrases import EXAMPLES, find_moment
from turntree.core.value import value
from turntree.search.tokenizer import words_of

OPERATORS: Final[Mapping[str, str]] = {
    "in": "a session's label or alias; * stands for anything: in:fix-*",
    "by": "who took the turn: by:ana",
    "model": "a part of the model's name: model:opus",
    "tool": "a tool that was called: tool:bash",
    "file": "a file that was read or written, by its path or the end of it: file:db/sql.py",
    "origin": "where an imported session came from: origin:codex",
    "before": "the turn began before: before:yesterday, before:2026-11-15",
    "after": 'the turn began after: after:"3 days ago"',
    "failed": "whether the turn or one of its tools failed: failed:yes, failed:no",
    "archived": "archived turns, which are left out otherwise: archived:yes",
}
"""Each operator and its description."""
NAMES_TAKEN_AWAY: Final = ("by", "tool")
QUERY_CHARS_MAX: Final = 1_000
TERMS_MAX: Final = 32
# Two letters begin too many words of the index.
PREFIX_CHARS_MIN: Final = 3

_ITEM: Final = re.compile(
    r'(?P<minus>-?)(?:"(?P<phrase>[^"]*)"'
    r'|(?P<name>[a-z]{2,}):(?!//|:)(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s"]*))'
    r"|(?P<word>\S+))"
)
_TRUTHS: Final = {"": True, "yes": True, "true": True, "no": False, "false": False}


@value
class Term:
    """One word: its lexeme, or those of all its pieces."""

    text: str
    whole: str
    pieces: tuple[str, ...] = ()
    is_open: bool = False
    """Whether it may be the beginning of a word."""


@value
class Query:
    """A parsed query."""

    terms: tuple[Term, ...] = ()
    phrases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Words and phrases that must not occur."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The values of each operator except the times, ``failed`` and ``archived``."""
    without_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    after: Timestamp | None = None
    before: Timestamp | None = None
    failed: bool | None = None
    archived: bool = False
    """Whether archived turns are found, and only those."""
    said: str = field(default="", compare=False)
    """All words and phrases as typed, for semantic search."""

    @property
    def has_words(self) -> bool:
        """Whether it has words, and not only operators."""
        return bool(self.terms or self.phrases)

    def __str__(self) -> str:
        """Return the text that parses to an equal query."""
        names = [f'{name}:"{v}"' for name, values in self.names.items() for v in values]
        names += [f'-{name}:"{v}"' for name, values in self.without_names.items() for v in values]
        names += [f"after:{self.after}"] if self.after else []
        names += [f"before:{self.before}"] if self.before else []
        names += [] if self.failed is None else [f"failed:{'yes' if self.failed else 'no'}"]
        names += ["archived:yes"] if self.archived else []
        items = [*(f'-"{w}"' for w in self.without), *(f'"{p}"' for p in self.phrases)]
        return " ".join([*names, *items, *(term.text for term in self.terms)])


def parse_query(text: str, now: Timestamp) -> Query:
    """Return the query of a text.

    Raises:
        InvalidQuery: It has an unknown operator, or an operator's value cannot be parsed.
    """
    if len(text) > QUERY_CHARS_MAX:
        raise InvalidQuery(f"a query has at most {QUERY_CHARS_MAX} characters")
    if text.count('"') % 2:
        raise InvalidQuery('a quotation mark is never closed: "keep the signature"')
    query, said = Query(), list[str]()
    for item in _ITEM.finditer(text):
        query = _add(query, item, now)
        if item["name"] is None and not item["minus"]:
            said.append(item["phrase"] if item["phrase"] is not None else item["word"])
    query = replace(query, said=" ".join(" ".join(said).split()))
    if len(query.terms) > TERMS_MAX:
        query = replace(query, terms=query.terms[:TERMS_MAX])
    return _open_last(query, text)


def _add(query: Query, item: re.Match[str], now: Timestamp) -> Query:
    is_minus = bool(item["minus"])
    if item["phrase"] is not None:
        phrase = " ".join(item["phrase"].split())
        if not phrase:
            return query
        return _take_away(query, phrase) if is_minus else _add_phrase(query, phrase)
    if item["name"] is not None and (item["name"] in OPERATORS or _has_value(item)):
        return _add_operator(query, item["name"], _value(item), is_minus=is_minus, now=now)
    text = item["word"] or f"{item['name']}:"
    if is_minus and any(words_of(text)):
        return _take_away(query, text.strip('.,;:!?()"'))
    terms = (Term(text[word.start : word.end], word.whole, word.pieces) for word in words_of(text))
    return replace(query, terms=tuple(dict.fromkeys((*query.terms, *terms))))


def _add_phrase(query: Query, phrase: str) -> Query:
    return replace(query, phrases=tuple(dict.fromkeys((*query.phrases, phrase))))


def _take_away(query: Query, text: str) -> Query:
    return replace(query, without=tuple(dict.fromkeys((*query.without, text))))


def _has_value(item: re.Match[str]) -> bool:
    return bool(item["value"]) or item["quoted"] is not None


def _value(item: re.Match[str]) -> str:
    return " ".join((item["quoted"] if item["quoted"] is not None else item["value"]).split())


def _add_operator(query: Query, name: str, value: str, *, is_minus: bool, now: Timestamp) -> Query:
    if name not in OPERATORS:
        known = ", ".join(f"{operator}:" for operator in OPERATORS)
        raise InvalidQuery(
            f"there is no operator {name}:; the operators are {known}\n"
            f'words with a colon stand in quotes: "{name}:{value}"'
        )
    if name in ("failed", "archived"):
        if value.lower() not in _TRUTHS:
            raise InvalidQuery(f"{name}: is followed by yes or no, not by {value!r}")
        truth = _TRUTHS[value.lower()] != is_minus
        return replace(query, failed=truth) if name == "failed" else replace(query, archived=truth)
    if not value:
        raise InvalidQuery(f"{name}: needs a value: {OPERATORS[name]}")
    if name in ("before", "after"):
        return _add_time(query, name, value, is_minus=is_minus, now=now)
    if is_minus and name not in NAMES_TAKEN_AWAY:
        allowed = " and ".join(f"-{each}:" for each in NAMES_TAKEN_AWAY)
        raise InvalidQuery(f"-{name}: cannot be asked; only {allowed} can")
    old = query.without_names if is_minus else query.names
    new = {**old, name: tuple(dict.fromkeys((*old.get(name, ()), value)))}
    return replace(query, without_names=new) if is_minus else replace(query, names=new)


def _add_time(query: Query, name: str, value: str, *, is_minus: bool, now: Timestamp) -> Query:
    timestamp = find_moment(value, now)
    if timestamp is None:
        raise InvalidQuery(f"{value!r} is not a time; say {EXAMPLES}")
    # What is not before a timestamp is after it.
    if (name == "after") != is_minus:
        return replace(query, after=max(query.after or timestamp, timestamp))
    return replace(query, before=min(query.before or timestamp, timestamp))


def _open_last(query: Query, text: str) -> Query:
    """Mark the last word as incomplete, if the query ends with a word."""
    if not query.terms or not text.rstrip().endswith(query.terms[-1].text):
        return query
    last = query.terms[-1]
    if len(last.text) < PREFIX_CHARS_MIN:
        return query
    return replace(query, terms=(*query.terms[:-1], replace(last, is_open=True)))
