"""Usage: each token counted once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import canonical
from turntree.core.usage import ModelCall, Usage, from_json, to_json, total_of

counts = st.integers(0, 10**6)
usages = st.builds(Usage, counts, counts, counts, counts, counts)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
calls = st.builds(ModelCall, texts, usages, st.none() | texts, st.none() | texts)


@given(calls)
def test_a_call_reads_back(call: ModelCall) -> None:
    document = to_json(call)
    assert from_json(document) == call
    canonical(document)


def test_a_count_of_nothing_is_absent() -> None:
    document: dict[str, Any] = to_json(ModelCall("m", Usage(output=3)))
    assert document == {"model": "m", "usage": {"output": 3}}


def test_reasoning_is_inside_output_and_caches_are_beside_input() -> None:
    used = Usage(input=10, output=7, cached_input=100, cache_write=20, reasoning=5)
    assert used.total == 137
    assert used.context == 130


@given(usages, usages, usages)
def test_usage_adds_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Usage() == a
    assert (a + b).total == a.total + b.total


@given(st.lists(usages, max_size=5))
def test_calls_without_an_id_of_their_own_are_told_apart_by_their_place(
    used: list[Usage],
) -> None:
    recorded = [(f"turn/{n}", ModelCall("m", usage)) for n, usage in enumerate(used)]
    assert total_of(recorded) == sum(used, Usage())
    assert total_of(recorded * 2) == sum(used, Usage())


@given(usages, st.lists(st.text(max_size=3), min_size=1, max_size=5))
def test_one_call_recorded_at_many_places_costs_once(used: Usage, places: list[str]) -> None:
    call = ModelCall("m", used, call_id="msg_01")
    assert total_of((place, call) for place in places) == used


@given(st.dictionaries(texts, usages, max_size=5), st.integers(1, 3))
def test_distinct_calls_add_up_however_often_they_were_recorded(
    used: dict[str, Usage], copies: int
) -> None:
    recorded = [
        (f"{copy}/{id}", ModelCall("m", usage, call_id=id))
        for copy in range(copies)
        for id, usage in used.items()
    ]
    assert total_of(recorded) == sum(used.values(), Usage())


def test_the_id_of_a_call_cannot_be_mistaken_for_a_place() -> None:
    used = Usage(1)
    recorded = [("x", ModelCall("m", used)), ("y", ModelCall("m", used, call_id="x"))]
    assert total_of(recorded) == Usage(2)
