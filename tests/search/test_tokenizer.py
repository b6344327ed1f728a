"""Words as people remember them: prose, names of code, paths and errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.search.tokenizer import (
    COMMON,
    WORD_CHARS_MAX,
    WordFinder,
    lexemes_of,
    root,
    roots_begun,
    words_of,
)


@pytest.mark.parametrize(
    "family",
    [
        "redirect redirects redirected redirecting",
        "library libraries",
        "create creates created creating creation",
        "migrate migrates migrated migrating migration migrations",
        "configure configured configuration configurations",
        "validate validated validation",
        "stop stops stopped stopping",
        "process processes processed processing",
        "setting settings",
        "format formats formatted formatting",
        "close closes closed closing",
        "lease leases leased",
    ],
)
def test_the_forms_of_a_word_share_a_root(family: str) -> None:
    assert len({root(word) for word in family.split()}) == 1


@pytest.mark.parametrize("words", ["status stat", "user use", "class clas", "string ring"])
def test_different_words_keep_different_roots(words: str) -> None:
    assert len({root(word) for word in words.split()}) == len(words.split())


@pytest.mark.parametrize(
    ("letters", "word"), [("redirecti", "redirect"), ("runni", "run"), ("migrati", "migrate")]
)
def test_begun_ending_leads_to_the_root_of_its_word(letters: str, word: str) -> None:
    assert root(word) in roots_begun(letters)


@pytest.mark.parametrize(("letters", "word"), [("password", "pass"), ("compass", "comp")])
def test_longer_word_is_not_a_begun_ending(letters: str, word: str) -> None:
    assert root(word) not in roots_begun(letters)


@pytest.mark.parametrize("said", ["parseRevision", "parse_revision", "parse-revision"])
def test_tokenizer_identifier_is_word_and_pieces(said: str) -> None:
    assert list(lexemes_of(said)) == ["parserevis", "pars", "revis"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("src/turntree/db/sql.py", {"src", "turntre", "db", "sql", "py"}),
        ("TypeError: 'NoneType' object", {"typeerror", "error", "nonetyp", "object"}),
        ("SQLSTATE TT001", {"sqlst", "tt001"}),
        ("HTTPServer", {"httpserver", "http", "server"}),
        ("don't stop", {"stop"}),
        ("東京都", {"東京", "京都"}),
    ],
)
def test_paths_errors_and_other_scripts_can_be_found(text: str, kept: set[str]) -> None:
    assert kept <= set(lexemes_of(text))


def test_lexemes_omit_common_words_and_digests() -> None:
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert list(lexemes_of(f"the what of {digest} a 1 {'x' * 80}")) == []


@given(st.text())
def test_any_text_gives_lexemes_that_an_index_can_hold(text: str) -> None:
    for lexeme in lexemes_of(text):
        assert 0 < len(lexeme) <= 2 * WORD_CHARS_MAX
        assert "=" not in lexeme
        assert "\x00" not in lexeme


@given(st.text())
def test_tokenizer_positions_match_text(text: str) -> None:
    words = list(words_of(text))
    assert [lexeme for word in words for lexeme in word.lexemes] == list(lexemes_of(text))
    for word in words:
        assert 0 <= word.start < word.end <= len(text)


@given(st.text(st.characters(codec="ascii"), min_size=1))
def test_a_word_in_capitals_is_the_same_word(text: str) -> None:
    for word in text.split():
        if word.isalpha() and word.islower() and word not in COMMON:
            assert list(lexemes_of(word)) == list(lexemes_of(word.upper()))


said = st.lists(
    st.one_of(
        st.sampled_from(["retries", "parse_revision", "RetryLater", "it's", "imported", "日本語"]),
        st.text(max_size=12),
    ),
    max_size=20,
)
joints = st.sampled_from([" ", "", ".", "-", ".-", "_", "(", "'", "\n", "Σ", "İ"])


@given(
    st.builds(str.join, joints, said),
    st.sampled_from(["retry", "parse-revision", "parserevision", "ported", "日本", "its"]),
)
def test_finder_finds_each_word_with_the_lexeme_and_no_other(text: str, asked: str) -> None:
    lexemes = frozenset(lexemes_of(asked))
    expected = [word for word in words_of(text) if not lexemes.isdisjoint(word.lexemes)]
    finder = WordFinder(lexemes)
    assert list(finder.find(text)) == expected
    assert list(finder.find(text)) == expected  # Words that it knows are found again.
