"""The search grammar: what is typed, what it asks for, what is refused and why."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.errors import InvalidQuery
from turntree.core.ids import Timestamp
from turntree.search.query import OPERATORS, QUERY_CHARS_MAX, Query, parse_query

NOW = Timestamp("2026-11-15T09:30:00.000Z")


def parse(text: str) -> Query:
    return parse_query(text, NOW)


def test_query_ignores_common_words() -> None:
    assert [term.text for term in parse("why does the login drop it").terms] == ["login", "drop"]


def test_the_last_word_may_be_unfinished() -> None:
    assert [term.is_open for term in parse("login redi").terms] == [False, True]
    assert not parse("redi in:main").terms[0].is_open
    assert not parse("go").terms[0].is_open


def test_query_quotes_make_phrase_and_minus_excludes() -> None:
    query = parse('"keep the  signature" resolver -flaky -"not this"')
    assert query.phrases == ("keep the signature",)
    assert query.without == ("flaky", "not this")
    assert [term.text for term in query.terms] == ["resolver"]


def test_query_identifier_is_one_term() -> None:
    (term,) = parse("parseRevision").terms
    assert (term.whole, term.pieces) == ("parserevis", ("pars", "revis"))


def test_every_operator_can_be_asked() -> None:
    query = parse(
        "in:fix-* by:ana -by:bob model:opus tool:bash -tool:grep file:db/sql.py origin:codex "
        'before:yesterday after:"3 days ago" failed:no'
    )
    assert query.names == {
        "in": ("fix-*",), "by": ("ana",), "model": ("opus",), "tool": ("bash",),
        "file": ("db/sql.py",), "origin": ("codex",),
    }  # fmt: skip
    assert query.without_names == {"by": ("bob",), "tool": ("grep",)}
    assert (query.after, query.before) == ("2026-11-12T09:30:00.000Z", "2026-11-14T09:30:00.000Z")
    assert query.failed is False


def test_query_narrower_of_two_times_wins() -> None:
    query = parse("after:2026-01-01 after:2026-02-01 before:2026-05-01 before:2026-04-01")
    assert query.after == "2026-02-01T00:00:00.000Z"
    assert query.before == "2026-04-01T00:00:00.000Z"
    assert parse("-before:2026-02-01").after == "2026-02-01T00:00:00.000Z"


@pytest.mark.parametrize("text", ["archived:", "archived:yes", "-archived:no"])
def test_archived_operator_accepts_yes_or_no(text: str) -> None:
    assert parse(text).archived
    assert not parse("archived:no").archived
    assert not parse("words").archived
    assert parse(str(parse(text))).archived


@pytest.mark.parametrize("text", ["failed:", "failed:yes", "-failed:no", "failed:TRUE"])
def test_failed_operator_accepts_yes_or_no(text: str) -> None:
    assert parse(text).failed is True


@pytest.mark.parametrize("text", ["http://example.org/a", "std::vector", "Error: no", "a.py:12"])
def test_query_lone_colon_is_not_an_operator(text: str) -> None:
    assert parse(text).terms
    assert not parse(text).names


def test_an_unknown_operator_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(InvalidQuery, match="there is no operator who:") as caught:
        parse("who:ana")
    assert all(f"{name}:" in str(caught.value) for name in OPERATORS)
    assert '"who:ana"' in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("before:soon", "is not a time"),
        ("by:", "by: needs a value"),
        ("failed:perhaps", "yes or no"),
        ("-in:main", "cannot be asked"),
        ('"open', "never closed"),
        ("x" * (QUERY_CHARS_MAX + 1), "at most"),
    ],
)
def test_query_invalid_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidQuery, match=why):
        parse(text)


names = st.text(st.characters(categories=["Ll", "Lu", "Nd"]), min_size=1, max_size=12)
items = st.one_of(
    names,
    names.map(lambda word: f"-{word}"),
    st.lists(names, min_size=1, max_size=4).map(lambda words: f'"{" ".join(words)}"'),
    st.tuples(st.sampled_from(["in", "by", "model", "tool", "file", "origin"]), names).map(
        ":".join
    ),
    st.sampled_from(["after:2026-01-01", "before:now", "failed:no", "-by:bob", "tool:fs.*"]),
)


@given(st.lists(items, max_size=10).map(" ".join))
def test_query_text_parses_to_same_query(text: str) -> None:
    query = parse(text)
    again = parse(str(query))
    assert [term.text for term in again.terms] == [term.text for term in query.terms]
    assert (again.phrases, again.without) == (query.phrases, query.without)
    assert (again.names, again.without_names) == (query.names, query.without_names)
    assert (again.after, again.before, again.failed) == (query.after, query.before, query.failed)


@given(st.text(max_size=200))
def test_any_text_is_a_query_or_is_refused(text: str) -> None:
    with suppress(InvalidQuery):
        parse(text)
