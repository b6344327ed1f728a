"""The passage of a long text where some words stand together."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.search.passages import PASSAGE_CHARS, find_window


def passage(text: str, weights: dict[str, float]) -> str:
    _, start = find_window(text, weights)
    return text[start : start + PASSAGE_CHARS]


def test_a_passage_is_where_the_rarest_words_stand() -> None:
    text = f"{'find a file. ' * 100} the bucket of billing {'find a file. ' * 100}"
    assert "bucket of billing" in passage(
        text, {"find": 0.1, "file": 0.1, "bucket": 2.0, "billing": 2.0}
    )


def test_letters_inside_of_a_word_are_no_beginning() -> None:
    text = f"{'import report ' * 100} listens on my_port {'support ' * 100}"
    assert "my_port" in passage(text, {"port": 1.0})
    assert "getPort" in passage(f"{'import ' * 100} getPort() {'x' * 900}", {"port": 1.0})
    assert find_window("import IMPORT", {"port": 1.0}) == (0.0, 0)


def test_a_passage_begins_before_its_first_word() -> None:
    text = f"{'x' * 900} we decided: the port is 8123"
    assert "we decided" in passage(text, {"port": 1.0})


def test_a_word_longer_than_a_passage_is_found() -> None:
    word = "x" * 2 * PASSAGE_CHARS
    assert find_window(f"a {word}", {word: 1.0, "a": 0.5}) == (1.0, 0)


@given(st.text(), st.dictionaries(st.text(max_size=3), st.floats(0, 9), max_size=3))
def test_a_passage_starts_in_its_text_and_weighs_no_more_than_all(
    text: str, weights: dict[str, float]
) -> None:
    score, start = find_window(text, weights)
    assert 0 <= score <= sum(weights.values()) + 1e-9
    assert 0 <= start <= max(0, len(text.lower()))
