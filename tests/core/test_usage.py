"""Usage: each token counted once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import canonical
from turntree.core.usage import ModelCall, Usage, from_json, to_json

counts = st.integers(0, 10**6)
usages = st.builds(Usage, counts, counts, counts, counts, counts)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
calls = st.builds(ModelCall, texts, usages, st.none() | texts, st.none() | texts)


@given(calls)
def test_a_call_reads_back(call: ModelCall) -> None:
    document = to_json(call)
    assert from_json(document) == call
    canonical(document)


def test_usage_zero_counts_are_omitted() -> None:
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
