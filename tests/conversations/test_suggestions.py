"""Whom the composer suggests after an ``@``."""

import random
from typing import Any

from turntree.conversations.suggestions import SUGGESTIONS_MAX, MentionCandidate, suggest
from turntree.core.ids import Timestamp


def person(id: str, name: str, **more: Any) -> MentionCandidate:
    return MentionCandidate("user", id, name, "available", **{"may_invoke": True, **more})


def agent(id: str, name: str, **more: Any) -> MentionCandidate:
    return MentionCandidate("agent", id, name, **{"state": "idle", "may_invoke": True, **more})


def names(typed: str, *candidates: MentionCandidate) -> list[str]:
    return [candidate.name for candidate in suggest(typed, candidates)]


def at(day: int) -> Timestamp:
    return Timestamp(f"2026-11-{day:02}T09:00:00.000Z")


def test_members_and_usable_agents_are_suggested() -> None:
    assert names(
        "",
        agent("a", "Gone", state="deleted"),
        agent("b", "Paused", state="paused"),
        agent("c", "Theirs", may_invoke=False),
        person("d", "Stranger", may_invoke=False),
        agent("e", "Busy", state="thinking"),
        person("f", "Ana"),
    ) == ["Ana", "Busy"]


def test_beginning_of_a_word_comes_before_a_part_of_one() -> None:
    assert names(
        "an",
        person("jo", "Jordan", is_present=True, used_at=at(9)),
        person("bo", "Bo Anders"),
        person("x", "Ana"),
        agent("an-1", "Helper"),
        person("y", "Bert"),
    ) == ["Ana", "Bo Anders", "Helper", "Jordan"]


def test_several_words_are_the_beginning_of_a_name() -> None:
    assert names("ana k", person("a", "Ana Kowalski"), person("b", "Ana Berg")) == ["Ana Kowalski"]


def test_case_and_accents_do_not_count() -> None:
    assert names("ANN", person("a", "Änne"), person("b", "Jo\u0301Änna")) == [
        "Änne",
        "Jo\u0301Änna",
    ]
    assert names("łó", person("a", "Łódź")) == ["Łódź"]
    assert names("strasse", person("a", "Straße")) == ["Straße"]


def test_present_ones_come_first_and_then_recent_ones() -> None:
    assert names(
        "a",
        person("a1", "Aa"),
        person("a2", "Ab", used_at=at(2)),
        person("a3", "Ac", used_at=at(3)),
        person("a4", "Ad", is_present=True),
        person("a5", "Ae", is_present=True, used_at=at(1)),
    ) == ["Ae", "Ad", "Ac", "Ab", "Aa"]


def test_order_does_not_depend_on_that_of_the_candidates() -> None:
    candidates = [
        kind(f"id{number}", name)
        for kind in (person, agent)
        for number in range(3)
        for name in ("Ana", "ana", "Äna")
    ]
    first = suggest("an", candidates, limit=99)
    for seed in range(5):
        random.Random(seed).shuffle(candidates)
        assert suggest("an", candidates, limit=99) == first
    assert suggest("an", candidates) == first[:SUGGESTIONS_MAX]


def test_signs_are_no_pattern_and_a_long_text_fits_none() -> None:
    assert names("[", person("a", "Ana [B]")) == ["Ana [B]"]
    assert names(".", person("a", "Ana")) == []
    assert names("a" * 300, person("a", "a" * 300)) == []
