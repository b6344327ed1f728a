"""Times as people say them."""

import pytest

from turntree.core.ids import Timestamp
from turntree.core.time_phrases import find_moment

NOW = Timestamp("2026-11-15T09:30:00.000Z")


@pytest.mark.parametrize(
    ("words", "moment"),
    [
        ("3 days ago", "2026-11-12T09:30:00.000Z"),
        ("3d", "2026-11-12T09:30:00.000Z"),
        ("2h ago", "2026-11-15T07:30:00.000Z"),
        ("last week", "2026-11-08T09:30:00.000Z"),
        ("an hour ago", "2026-11-15T08:30:00.000Z"),
        ("2 mo", "2026-09-16T09:30:00.000Z"),
        ("2026-11", "2026-11-01T00:00:00.000Z"),
        ("2026-11-03", "2026-11-03T00:00:00.000Z"),
        ("2026-11-03 10:00", "2026-11-03T10:00:00.000Z"),
        ("2026-11-03t10:00+02:00", "2026-11-03T08:00:00.000Z"),
    ],
)
def test_time_phrase_is_parsed(words: str, moment: str) -> None:
    assert find_moment(words, NOW) == moment


@pytest.mark.parametrize("words", ["", "soon", "ago", "3 ago", "2026-13", "99999999 years ago"])
def test_time_phrase_unknown_words_are_refused(words: str) -> None:
    assert find_moment(words, NOW) is None
