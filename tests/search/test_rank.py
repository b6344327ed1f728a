"""Judging what an index proposed."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import Timestamp, TurnId
from turntree.search.document import SearchPassage
from turntree.search.query import parse_query
from turntree.search.rank import Judge, MatchScore, merge, near_enough

NOW = Timestamp("2026-11-15T09:30:00.000Z")
PASSAGES = [
    SearchPassage("asked", "Why does login drop the query string?", 0),
    SearchPassage("tool", "fs.read src/login_redirect.py", 1),
    SearchPassage("output", "def redirect(path):", 2),
    SearchPassage("answered", "It redirects\n  with a bare path.\tKeep the public signature.", 3),
]


def found(
    query: str, passages: list[SearchPassage] = PASSAGES, rarity: dict[str, float] | None = None
) -> MatchScore | None:
    return Judge(parse_query(query, NOW), rarity).judge(passages)


def score(query: str, rarity: dict[str, float] | None, *passages: SearchPassage) -> float:
    match = found(query, list(passages), rarity)
    assert match is not None
    return match.score


def matched(query: str) -> dict[str, tuple[str, ...]]:
    judgement = found(query)
    assert judgement is not None
    return {said: tuple(where) for said, where in judgement.matched.items()}


def test_hit_lists_where_words_matched() -> None:
    assert matched("redirecting login") == {
        "redirecting": ("tool", "output", "answered"),
        "login": ("asked", "tool"),
    }


def test_search_prefix_matches_and_missing_word_is_not_listed() -> None:
    assert matched("absent signat") == {"signat": ("answered",)}


def test_search_begun_ending_lists_where_its_word_matched() -> None:
    assert matched("redirecti") == {"redirecti": ("tool", "output", "answered")}


def test_search_finds_identifier_by_its_pieces() -> None:
    assert matched("loginRedirect") == {"loginRedirect": ("tool",)}
    assert matched("query_string please") == {"query_string": ("asked",)}


def test_search_phrase_must_match_exactly() -> None:
    assert matched('"bare path. keep"') == {'"bare path. keep"': ("answered",)}
    assert found('"path bare"') is None


def test_search_excluded_words_do_not_match() -> None:
    assert found("login -signatures") is None
    assert found('login -"query string"') is None
    assert found("login -other") is not None


def test_a_snippet_marks_the_words_it_shows() -> None:
    judgement = found("drop query")
    assert judgement is not None
    assert judgement.snippet is not None
    text = judgement.snippet.text
    assert [text[a:b] for a, b in judgement.snippet.marks] == ["drop", "query"]


def test_rank_query_text_above_tool_output() -> None:
    asked, printed = SearchPassage("asked", "zebra", 0), SearchPassage("output", "zebra", 0)
    assert score("zebra", None, asked) > score("zebra", None, printed)


def test_rank_rare_words_above_common_ones() -> None:
    common = SearchPassage("answered", "find the files", 0)
    rare = SearchPassage("output", "bucket of coupons", 0)
    rarity = {"find": 0.2, "files": 0.2, "bucket": 3.0, "coupons": 2.0}
    query = "find bucket files coupons"
    assert score(query, rarity, rare) > score(query, rarity, common)
    assert score(query, None, common) > score(query, None, rare)


def test_rank_words_close_together_above_words_far_apart() -> None:
    near = SearchPassage("output", f"{'x ' * 300} the port of billing", 0)
    apart = SearchPassage("output", f"billing {'x ' * 300} the port", 0)
    assert score("billing port", None, near) > score("billing port", None, apart)


def test_rank_closeness_after_many_common_words() -> None:
    repeated = SearchPassage("output", f"{'find a file. ' * 60} bucket for billing", 0)
    rarity = {"find": 0.1, "file": 0.1, "bucket": 3.0, "billing": 2.0}
    match = found("find file bucket billing", [repeated], rarity)
    assert match is not None
    assert match.snippet is not None
    assert "bucket for billing" in match.snippet.text


texts = st.lists(
    st.one_of(st.sampled_from(["login", "drop", "redirects", "\n", "  ", "x" * 50]), st.text()),
    max_size=60,
).map(" ".join)


@given(texts, st.sampled_from(["login drop", "redirect", '"login drop"', "nothing"]))
def test_a_snippet_is_one_short_line_with_marks_inside(text: str, query: str) -> None:
    judgement = found(query, [SearchPassage("asked", text, 0)])
    if judgement is None or judgement.snippet is None:
        return
    snippet = judgement.snippet
    assert len(snippet.text) <= 165
    assert "\n" not in snippet.text
    last = 0
    for start, end in snippet.marks:
        assert last <= start < end <= len(snippet.text)
        last = end


ids = st.lists(st.sampled_from([TurnId(name) for name in "abcdef"]), unique=True)


@given(ids, ids)
def test_rank_merge_keeps_all_and_prefers_agreement(
    left: list[TurnId], right: list[TurnId]
) -> None:
    merged = merge(left, right)
    assert sorted(merged) == sorted({*left, *right})
    if left and right and left[0] == right[0]:
        assert merged[0] == left[0]


def test_search_ignores_distant_neighbors() -> None:
    a, b, c = (TurnId(name) for name in "abc")
    assert near_enough([(a, 0.2), (b, 0.1)]) == []
    assert near_enough([(a, 0.9), (b, 0.6), (c, 0.4)]) == [a, b]
